"""The layers of ARCHITECTURE.md: a module imports only from modules above it, and only kernels use numba."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import treeproof

SOURCE = Path(treeproof.__file__).parent

# Top to bottom; a folder is one layer.
LAYERS = [
    "errors",
    "files",
    "markup",
    "_kernels",
    "intervals",
    "grid",
    "ensemble",
    "per_feature",
    "moves",
    "threat",
    "fine_grid",
    "verdicts",
    "importers",
    "inputs",
    "tables",
    "check",
    "local",
    "workers",
    "symbolic",
    "partition",
    "map_file",
    "stability_map",
    "witnesses",
    "verify",
    "hunt",
    "radii",
    "guard",
    "training",
    "datasets",
    "slices",
    "plots",
    "report",
    "experiments",
    "commands",
    "cli",
]
# The package itself and its entry point hand out names of every layer.
DOORS = ("__init__", "__main__")

MODULES = sorted(SOURCE.rglob("*.py"))


def layer_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def name_of(path: Path) -> str:
    parts = ("treeproof", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


def imported_by(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_import_only_from_layers_above(path: Path) -> None:
    module = name_of(path)
    layer = layer_of(module)
    if layer in DOORS:
        return
    assert layer in LAYERS, f"{module} is in no layer; add it to ARCHITECTURE.md and to this list"
    for name in imported_by(path):
        if not name.startswith("treeproof.") or layer_of(name) == layer:
            continue
        if layer in ("commands", "cli"):  # use public names, `import treeproof as tp`
            continue
        assert layer_of(name) in LAYERS, f"{module} imports {name}: no such layer"
        assert LAYERS.index(layer_of(name)) < LAYERS.index(layer), f"{module} imports {name} from a layer below"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_numba_is_used_by_kernels_only(path: Path) -> None:
    uses = {name for name in imported_by(path) if name.split(".")[0] == "numba"}
    assert not uses or layer_of(name_of(path)) == "_kernels"


def test_the_written_architecture_lists_the_same_layers() -> None:
    text = Path(__file__).parent.parent.joinpath("ARCHITECTURE.md").read_text(encoding="utf-8")
    block = text.split("<!-- layers -->")[1]
    written = [
        line.split()[0].removesuffix(".py").removesuffix("/") for line in block.splitlines() if line.startswith("  ")
    ]
    present = [layer for layer in LAYERS if (SOURCE / layer).exists() or (SOURCE / f"{layer}.py").exists()]
    assert written == present
