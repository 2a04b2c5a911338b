"""The checker needs nothing but Python: no numpy, and nothing of treeproof that is not in its own folder."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import treeproof.check

FOLDER = Path(treeproof.check.__file__).parent
WITH_OBJECTS = {"objects", "proofs"}
"""What takes models and attackers in memory, and so the rest of treeproof."""
PLAIN = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in WITH_OBJECTS)


def test_the_checker_loads_nothing_but_python() -> None:
    modules = ", ".join(f"treeproof.check.{name}" for name in PLAIN if name != "__init__")
    code = f"""
import sys
before = set(sys.modules)
import treeproof.check, {modules}
loaded = set(sys.modules) - before
ours = {{name for name in loaded if name.split(".")[0] == "treeproof"}}
assert all(name == "treeproof" or name.startswith("treeproof.check") for name in ours), ours
others = {{name.split(".")[0] for name in loaded}} - sys.stdlib_module_names - {{"treeproof"}}
assert not others, others
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", PLAIN)
def test_no_import_is_hidden_in_a_function(name: str) -> None:
    for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            is_own = module.startswith("treeproof.check") or [alias.name for alias in node.names] == ["__version__"]
            assert is_own or module.split(".")[0] in sys.stdlib_module_names, f"{name} imports {module}"
