"""Tables with categories as training takes them: codes, and what they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.columns import Category, Cells, Column, check_names_differ, is_missing

MOST_VALUES = 4096
"""How many values a category may have: each has a price for each."""


def coded_frame(X: Any) -> tuple[Any, dict[int, Category]]:
    """A data frame with codes in place of categories, and these by their position; anything else stays as it is.

    Columns of text, truth values and categories are categories, as in the libraries that know them.
    """
    if not (hasattr(X, "dtypes") and hasattr(X, "iloc") and hasattr(X, "columns")):
        return X, {}
    check_names_differ([str(name) for name in X.columns])
    kinds = [str(dtype) for dtype in X.dtypes]
    categories = {f: _category(X.iloc[:, f], kind) for f, kind in enumerate(kinds) if _is_category(X.dtypes.iloc[f])}
    for f, category in categories.items():
        if len(category.values) > MOST_VALUES:
            raise InvalidInput(
                f"column {X.columns[f]!r} has {len(category.values)} values; training takes at most {MOST_VALUES}, so "
                "merge rare ones or leave the column out"
            )
    if not categories:
        return X, {}
    coded = X.copy()
    for f, name in enumerate(X.columns):
        column = X.iloc[:, f]
        coded.isetitem(f, Column(category=categories.get(f)).doubles(Cells(column, str(name))))
    return coded, categories


def _is_category(dtype: Any) -> bool:
    """Whether a column of pandas holds categories: anything but numbers."""
    return not (getattr(dtype, "kind", "O") in "iuf" and getattr(dtype, "_is_numeric", True)) or str(dtype) == "bool"


def _category(column: Any, kind: str) -> Category:
    """The category of a column, by the values that it has."""
    if kind in ("bool", "boolean"):
        # There is no third truth value that could be seen later.
        return Category((False, True), dtype=kind)
    if kind == "category":
        values = column.cat.categories.tolist()
    else:
        try:
            present = {value for value in column.tolist() if not is_missing(value)}
            values = sorted(present, key=lambda value: (str(type(value)), value))
        except TypeError as error:
            raise InvalidInput(f"column {column.name!r} holds something that is no category: {error}") from None
    return Category(tuple(v.item() if isinstance(v, np.generic) else v for v in values), unseen=True, dtype=kind)
