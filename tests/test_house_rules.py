"""Functions stay short and take few parameters; where one does not, its docstring says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import treeproof

SOURCE = Path(treeproof.__file__).parent
KERNELS = SOURCE / "_kernels"

MAX_LINES, MAX_PARAMETERS = 60, 8
MAX_KERNEL_LINES, MAX_KERNEL_PARAMETERS = 80, 15
REASONS = ("One parameter per", "Long because")
"""How a docstring begins its reason."""


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
    """Every function of a file with its qualified name, and whether it belongs to an estimator."""

    def visit(node: ast.AST, name: str, estimator: bool) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                bases = {ast.unparse(base).split(".")[-1] for base in child.bases}
                of_sklearn = bool(bases & {"BaseEstimator", "ClassifierMixin", "RobustClassifier"})
                yield from visit(child, f"{name}{child.name}.", of_sklearn)
            elif isinstance(child, ast.FunctionDef):
                yield name + child.name, child, estimator
                yield from visit(child, f"{name}{child.name}.", False)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), "", False)


def is_named_tuple(expression: ast.expr, function: ast.FunctionDef, classes: set[str]) -> bool:
    """Whether a kernel returns a named tuple, alone or in a tuple, or something that was one."""
    if isinstance(expression, ast.Tuple):
        return any(is_named_tuple(each, function, classes) for each in expression.elts)
    if isinstance(expression, ast.Name):
        return any(
            isinstance(each, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == expression.id for target in each.targets)
            and is_named_tuple(each.value, function, classes)
            for each in ast.walk(function)
            if isinstance(each, ast.Assign) and not isinstance(each.value, ast.Name)
        )
    return isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name) and expression.func.id in classes


def test_entries_return_no_named_tuples() -> None:
    """numba crashes if Ctrl-C arrives while it makes one."""
    files = [ast.parse(path.read_text(encoding="utf-8")) for path in KERNELS.rglob("*.py")]
    classes = {
        each.name
        for file in files
        for each in ast.walk(file)
        if isinstance(each, ast.ClassDef) and any(ast.unparse(base) == "NamedTuple" for base in each.bases)
    }
    entries = [
        each
        for file in files
        for each in ast.walk(file)
        if isinstance(each, ast.FunctionDef) and {ast.unparse(one) for one in each.decorator_list} & {"entry", "door"}
    ]
    assert len(entries) > 15
    assert len(classes) > 15
    for function in entries:
        for each in ast.walk(function):
            if isinstance(each, ast.Return) and each.value is not None:
                assert not is_named_tuple(each.value, function, classes), f"{function.name} returns a named tuple"


def parameters(function: ast.FunctionDef) -> int:
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len([one for one in given if one.arg not in ("self", "cls")])


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_functions_are_short_or_say_why_not(path: Path) -> None:
    is_kernel = KERNELS in path.parents
    max_lines = MAX_KERNEL_LINES if is_kernel else MAX_LINES
    max_parameters = MAX_KERNEL_PARAMETERS if is_kernel else MAX_PARAMETERS
    for name, function, estimator in functions(path):
        docstring = ast.get_docstring(function) or ""
        lines = (function.end_lineno or 0) - function.lineno + 1
        # What a function promises is not what makes it long.
        lines -= docstring.count("\n") + 1 if docstring else 0
        long_ones = lines > max_lines and "Long because" not in docstring
        many = parameters(function) > max_parameters and (is_kernel or "One parameter per" not in docstring)
        assert not long_ones, f"{name} has {lines} lines; cut it, or say 'Long because …' in its docstring"
        if not (estimator and function.name == "__init__"):
            assert not many, f"{name} takes {parameters(function)} parameters; group them, or say 'One parameter per …'"
