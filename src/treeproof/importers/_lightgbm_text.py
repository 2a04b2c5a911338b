"""LightGBM's text files, taken apart as LightGBM takes them apart; what it would read otherwise is refused.

LightGBM looks for a tree where `tree_sizes` says, stops reading it at an empty line, ends lines at a lone carriage
return and at a zero byte, and takes the digits that a number begins with. A file that LightGBM 2.3 to 4 wrote has
nothing of the kind in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.files import parse_json
from treeproof.numbers.doubles import FloatArray

_FLAG = "average_output"
_HEADER = (
    "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective", "feature_names",
    "monotone_constraints", "feature_infos", "tree_sizes",
)  # fmt: skip
# Files of LightGBM 2.2 and later say "end of trees"; in older ones the importances come next.
_ENDS = ("end of trees", "feature importances:", "feature_importances:")
_PANDAS = "pandas_categorical:"
_DECLARED = re.compile(r"\[categorical_feature: ([0-9]{1,9}(?:,[0-9]{1,9})*)\]")
_LINEAR = "[linear_tree: "

_WHOLE = "-?[0-9]{1,18}"
FLOAT = r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|inf|nan)"
_WHOLES, _FLOATS = (re.compile(f"(?:{number}(?: {number})*)?") for number in (_WHOLE, FLOAT))
_PLAIN = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,15}))?(?:[eE]([-+]?)([0-9]{1,2}))?")


class Section(dict[str, str]):
    """The `key=value` lines of the header or of one tree; asking for a missing line raises InvalidInput."""

    def __missing__(self, key: str) -> str:
        raise InvalidInput(f"a line '{key}=…' is missing")


@dataclass
class TextFile:
    """The parts of a text file that decide what it predicts."""

    header: Section = field(default_factory=Section)
    average_output: bool = False
    trees: list[Section] = field(default_factory=list)
    category_lists: list[list[Any]] = field(default_factory=list)
    """The values of each category column of the data frame that the model was trained on."""
    declared: tuple[int, ...] | None = None
    """The columns that the parameter `categorical_feature` names."""


def read(text: str) -> TextFile:
    """The header and the trees of a file, or InvalidInput."""
    for character, name in (("\r", "a carriage return (Windows line ends?)"), ("\0", "a zero byte")):
        if character in text:
            raise InvalidInput(f"it holds {name}, where LightGBM ends a line; save it again with LightGBM")
    # Not splitlines(), which would also split at characters that a feature name may hold.
    lines = text.split("\n")
    if lines[0] != "tree":
        raise InvalidInput("it does not start with the line 'tree'")
    end = next((at for at, line in enumerate(lines) if line in _ENDS), None)
    if end is None:
        raise InvalidInput("the line 'end of trees' is missing; the file is cut short")
    first = next((at for at, line in enumerate(lines[:end]) if line.startswith("Tree=")), end)
    file = TextFile()
    _read_header(file, lines[1:first])
    sizes = _read_trees(file, lines[first:end])
    if "tree_sizes" in file.header:
        said = wholes(file.header["tree_sizes"], "tree_sizes", len(sizes)).tolist()
        # No tree follows the last one; old files have an empty line more there.
        if said[:-1] != sizes[:-1]:
            raise InvalidInput("tree_sizes does not say how many bytes each tree has; LightGBM would look elsewhere")
    _read_tail(file, lines[end + 1 :])
    return file


def _read_header(file: TextFile, lines: Sequence[str]) -> None:
    for line in lines:
        key, equals, value = line.partition("=")
        if line == _FLAG and not file.average_output:
            file.average_output = True
        elif equals and key in file.header:
            raise InvalidInput(f"{key!r} occurs twice in one section")
        elif equals and key in _HEADER:
            # LightGBM cuts a line at each "=", and puts only the names of features together again.
            if "=" in value and (key != "feature_names" or value.strip("=") != value):
                raise InvalidInput(f"the line {line[:40]!r} has a second '='")
            file.header[key] = value
        elif line:
            raise InvalidInput(f"the header has a line {line[:40]!r}, which LightGBM does not write")


def _read_trees(file: TextFile, lines: Sequence[str]) -> list[int]:
    """Adds the trees to the file; returns their sizes in bytes."""
    sizes: list[int] = []
    for at, line in enumerate(lines):
        where = f"tree {len(file.trees) - 1}: "
        key, equals, value = line.partition("=")
        if key == "Tree" and equals:
            if value != str(len(file.trees)):
                raise InvalidInput(f"expected tree {len(file.trees)}, got 'Tree={value}'")
            file.trees.append(Section())
            sizes.append(0)
        elif line:
            if not (equals and line.isascii()):
                raise InvalidInput(f"{where}the line {line[:40]!r} is not one of a key, '=' and numbers")
            if key in file.trees[-1]:
                raise InvalidInput(f"{key!r} occurs twice in one section")
            if not lines[at - 1]:
                raise InvalidInput(f"{where}the line {line[:40]!r} stands behind an empty line, which ends a tree")
            file.trees[-1][key] = value
        sizes[-1] += len(line) + 1
    return sizes


def _read_tail(file: TextFile, lines: Sequence[str]) -> None:
    """Reads what is said of categories behind the trees; refuses settings that would change what is predicted."""
    lines = [line.strip() for line in lines]
    if any(line.startswith(_LINEAR) and line != _LINEAR + "0]" for line in lines):
        raise UnsupportedModel("linear_tree: leaves that hold a linear model are not supported")
    for match in filter(None, map(_DECLARED.fullmatch, lines)):
        file.declared = tuple(int(f) for f in match[1].split(","))
    pandas = [at for at, line in enumerate(lines) if line.startswith(_PANDAS)]
    if not pandas:
        return
    # LightGBM looks at the last two lines, of which the last may be empty.
    if len(pandas) > 1 or any(lines[pandas[0] + 1 :]) or len(lines) > pandas[0] + 3:
        raise InvalidInput(f"{_PANDAS} must be the last line; LightGBM looks for it nowhere else")
    lists = parse_json(lines[pandas[0]][len(_PANDAS) :].encode(), constants=True)
    if lists is not None:
        file.category_lists = _category_lists(lists)


def _category_lists(lists: Any) -> list[list[Any]]:
    if not isinstance(lists, list) or not all(isinstance(values, list) for values in lists):
        raise InvalidInput(f"{_PANDAS} must be a list of lists")
    for values in lists:
        for value in values:
            if not isinstance(value, (str, int, float)) or value != value:
                raise InvalidInput(f"{_PANDAS} {value!r} is no category")
        if len(set(values)) != len(values):
            raise InvalidInput(f"{_PANDAS} a list has a value twice: {values!r}")
    return lists


def whole(text: str, name: str, least: int) -> int:
    """A whole number of at most nine digits."""
    if not (re.fullmatch("[0-9]{1,9}", text) and int(text) >= least):
        raise InvalidInput(f"{name} must be a whole number of at least {least}, got {text[:40]!r}")
    return int(text)


def wholes(text: str, name: str, count: int | None = None) -> npt.NDArray[np.int64]:
    """Whole numbers with one blank between them."""
    return _numbers(text, name, count, _WHOLES, int)


def floats(text: str, name: str, count: int | None = None) -> FloatArray:
    """Numbers with one blank between them, each as the double nearest to it."""
    values = _numbers(text, name, count, _FLOATS, float)
    if np.isinf(values).sum() != text.count("inf"):
        raise InvalidInput(f"{name} has a number that is too large for a double")
    return values


def _numbers(text: str, name: str, count: int | None, form: re.Pattern[str], kind: type) -> npt.NDArray[Any]:
    if not form.fullmatch(text):
        wrong = next((word for word in text.split(" ") if not word or not form.fullmatch(word)), text)
        raise InvalidInput(f"{name}: {wrong[:40]!r} is not a number as LightGBM writes it")
    words = text.split(" ") if text else []
    if count is not None and len(words) != count:
        raise InvalidInput(f"{name} has {len(words)} entries, expected {count}")
    return np.array([kind(word) for word in words], dtype=np.int64 if kind is int else np.float64)


def imprecise(text: str, name: str) -> float:
    """A positive number as LightGBM reads the settings of an objective: digit after digit, rounding on the way."""
    match = _PLAIN.fullmatch(text)
    exponent = int(match[4] or 0) if match else math.inf
    if match is None or exponent > 22:  # up to 10**22 powers of ten are doubles
        raise InvalidInput(f"{name} must be a positive number of few digits, got {text[:40]!r}")
    digits = match[2] or ""
    value = float(match[1]) + (float(digits) / 10.0 ** len(digits) if digits else 0.0)
    return value / 10.0**exponent if match[3] == "-" else value * 10.0**exponent


def check_fields(tree: Section, where: str, needed: Collection[str], optional: Collection[str]) -> None:
    """Refuses a tree that lacks a line, or has one that LightGBM does not write."""
    for key in needed:
        tree[key]
    for key in tree:
        if key not in needed and key not in optional:
            raise InvalidInput(f"{where}it has a line '{key[:40]}=…', which LightGBM does not write")
