"""The rooms of ARCHITECTURE.md: a room imports only from rooms above it, and only kernels use numba."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import treeproof

SOURCE = Path(treeproof.__file__).parent

# Top to bottom; a folder is one room.
ROOMS = [
    "visible",
    "errors",
    "files",
    "_kernels",
    "numbers",
    "model",
    "tables",
    "importers",
    "threat",
    "results",
    "run",
    "check",
    "verification",
    "explanations",
    "maps",
    "symbolic",
    "guard",
    "training",
    "present",
    "paper",
    "cli",
]
# The package itself and its entry point hand out names of every room.
DOORS = ("__init__", "__main__")
# Rooms that use treeproof as its users do, by public names; the others know each other by their files.
GUESTS = ("paper", "cli")
# Kernels are grouped like their callers; a group uses what stands beside the groups, and these other groups.
KERNEL_GROUPS = {"search": (), "explanations": ("search",), "maps": (), "symbolic": (), "training": ("search",)}

MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = ("treeproof", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imported_by(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own_imports(path: Path) -> list[str]:
    return sorted(name for name in imported_by(path) if name.split(".")[0] == "treeproof")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_rooms_import_only_from_rooms_above(path: Path) -> None:
    module = name_of(path)
    room = room_of(module)
    if room in DOORS:
        return
    assert room in ROOMS, f"{module} is in no room; add it to ARCHITECTURE.md and to this list"
    for name in own_imports(path):
        other = room_of(name)
        if name == "treeproof.__version__" or other == room:
            continue
        if name == "treeproof" or (other in treeproof.__all__ and other not in ROOMS):
            assert room in GUESTS, f"{module} imports {name} through the front door; name the file it lives in"
            continue
        assert other in ROOMS, f"{module} imports {name}: no such room"
        assert ROOMS.index(other) < ROOMS.index(room), f"{module} imports {name} from a room below"


@pytest.mark.parametrize("path", sorted((SOURCE / "_kernels").rglob("*.py")), ids=name_of)
def test_kernels_are_grouped_like_their_callers(path: Path) -> None:
    def group_of(module: str) -> str:
        parts = module.split(".")
        return parts[2] if len(parts) > 3 and parts[2] in KERNEL_GROUPS else ""

    group = group_of(name_of(path) + ".")
    allowed = ("", group, *KERNEL_GROUPS.get(group, ()))
    for name in own_imports(path):
        assert name.startswith("treeproof._kernels."), f"{name_of(path)} imports {name}: kernels know kernels only"
        assert group_of(name) in allowed, f"{name_of(path)} imports {name} of another group"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_numba_is_used_by_kernels_only(path: Path) -> None:
    uses = {name for name in imported_by(path) if name.split(".")[0] == "numba"}
    assert not uses or room_of(name_of(path)) == "_kernels"


def test_independent_checks_import_no_engine_and_no_kernel() -> None:
    engines = {"_kernels", "verification", "explanations", "maps", "symbolic", "guard", "training"}
    for path in (SOURCE / "check").rglob("*.py"):
        assert not engines & {room_of(name) for name in own_imports(path)}, name_of(path)


def test_every_room_says_what_it_is_for() -> None:
    for folder in (path.parent for path in SOURCE.rglob("*.py")):
        init = folder / "__init__.py"
        assert init.exists() and ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))), folder


def test_the_written_architecture_lists_the_same_rooms() -> None:
    text = Path(__file__).parent.parent.joinpath("ARCHITECTURE.md").read_text(encoding="utf-8")
    block = text.split("<!-- rooms -->")[1]
    lines = [line for line in block.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    assert [line.split()[0].removesuffix(".py").removesuffix("/") for line in lines] == ROOMS
    present = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert present - set(DOORS) == set(ROOMS)


def test_tests_stand_in_the_rooms_of_what_they_test() -> None:
    tests = Path(__file__).parent
    rooms = {path.name for path in tests.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms - {"support"} <= set(ROOMS)


def test_no_test_file_imports_another() -> None:
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        others = [name for name in imported_by(path) if name.startswith("tests.") and ".test_" in name]
        assert not others, f"{path.name} imports {others}; move what is shared to tests/support"
