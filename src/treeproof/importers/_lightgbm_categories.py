"""Which columns of a LightGBM model are categories, and with which values.

LightGBM codes the category columns of a data frame itself. A file lists their values at its end, one list per column
in their order, without names. Three things in it tell the columns: the parameter `categorical_feature`, splits on sets,
and what `feature_infos` says was found in training: codes, a range of numbers, or nothing. Ordered categories are coded
too, but split like numbers, so they look like a column of whole numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._lightgbm_text import FLOAT
from treeproof.model.columns import Category, some_of

_CODES = re.compile("-?[0-9]{1,9}(?::-?[0-9]{1,9})*")
_RANGE = re.compile(rf"\[({FLOAT}):({FLOAT})\]")


@dataclass(frozen=True)
class Found:
    """What training found in a column."""

    codes: tuple[int, ...] = ()
    """Of a column of categories."""
    span: tuple[float, float] | None = None
    """Of a column of numbers; None, too, where there was nothing to split."""

    def fits(self, n_values: int) -> bool:
        """Whether this can be a column of the codes 0 to n_values - 1, and missing ones."""
        if self.span is not None:
            return self.span[0] >= 0 and self.span[1] <= n_values - 1 and all(end.is_integer() for end in self.span)
        return all(code < n_values for code in self.codes)


def found_in(info: str) -> Found:
    """What an entry of `feature_infos` says."""
    if info == "none":
        return Found()
    if _CODES.fullmatch(info):
        # -1 stands for missing values and rare categories.
        return Found(codes=tuple(sorted({int(code) for code in info.split(":")} - {-1})))
    match = _RANGE.fullmatch(info)
    if match is None:
        raise InvalidInput(f"feature_infos: {info[:40]!r} is neither a range nor a list of categories")
    return Found(span=(float(match[1]), float(match[2])))


def categories_of(
    found: Sequence[Found],
    by_set: Mapping[int, Sequence[int]],
    lists: Sequence[Sequence[Any]],
    declared: Sequence[int] | None,
    names: Sequence[str],
) -> dict[int, Category]:
    """The category columns. `by_set` has the codes in splits on sets, `lists` the values that a file lists."""
    on_codes = {f: {*one.codes, *by_set.get(f, ())} for f, one in enumerate(found) if one.codes or f in by_set}
    categories = {
        f: Category(tuple(float(code) for code in sorted(codes)), coded=False, unseen=True, dtype="float64")
        for f, codes in on_codes.items()
    }
    chosen = set(on_codes)
    if declared is not None and all(f < len(found) and found[f].span is None for f in declared):
        chosen |= set(declared)
    for f, values in zip(_places(found, lists, chosen, names), lists, strict=True):
        categories[f] = Category(tuple(values), coded=True, unseen=True, dtype="category")
    return categories


def _places(
    found: Sequence[Found], lists: Sequence[Sequence[Any]], chosen: set[int], names: Sequence[str]
) -> list[int]:
    """The column of each list.

    Columns that are split by category have a list each, unless there are fewer lists than such columns or they do not
    fit: then the user named columns of codes as well. What then is left open is refused.
    """
    for needed in (chosen, set[int]()):
        ways = _ways(found, lists, needed)
        if ways[0][0]:
            return _only_way(ways, found, lists, needed, names)
    raise InvalidInput(f"pandas_categorical has {len(lists)} lists, which do not fit the model's columns")


def _ways(found: Sequence[Found], lists: Sequence[Sequence[Any]], needed: set[int]) -> list[list[int]]:
    """[i][f]: in how many ways lists i, i + 1, … can be given to columns f, f + 1, … in order; 2 for all above."""
    ways = [[0] * (len(found) + 1) for _ in range(len(lists) + 1)]
    ways[len(lists)][len(found)] = 1
    for f in reversed(range(len(found))):
        for i in range(len(lists) + 1):
            skipped = 0 if f in needed else ways[i][f + 1]
            taken = ways[i + 1][f + 1] if i < len(lists) and found[f].fits(len(lists[i])) else 0
            ways[i][f] = min(2, skipped + taken)
    return ways


def _only_way(
    ways: list[list[int]],
    found: Sequence[Found],
    lists: Sequence[Sequence[Any]],
    needed: set[int],
    names: Sequence[str],
) -> list[int]:
    places: list[int] = []
    for i, values in enumerate(lists):
        f = places[-1] + 1 if places else 0
        possible: list[int] = []
        while f < len(found) and ways[i][f] and len(possible) < 2:
            if found[f].fits(len(values)) and ways[i + 1][f + 1]:
                possible.append(f)
            if f in needed:
                break
            f += 1
        if len(possible) > 1:
            raise UnsupportedModel(
                f"the model does not say which column has the categories {some_of(values)}: it may be "
                f"{names[possible[0]]!r} or {names[possible[1]]!r}; train it on categories that are not ordered "
                "(cat.as_unordered()), or on numbers in their place"
            )
        places += possible
    return places
