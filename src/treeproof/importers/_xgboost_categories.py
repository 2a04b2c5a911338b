"""Category columns of XGBoost models: the sets that trees test, and the values that the model stores for them.

A category is a whole number, its code; a set of codes goes right, everything else left. Since version 3.1, XGBoost
stores the values of a data frame's category columns and finds the codes by itself; a value that it does not have is an
error. Other models are given codes, and do not say how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._exact_thresholds import float32_below_threshold
from treeproof.importers._json_fields import fields_of
from treeproof.importers._xgboost_fields import CATEGORY_FIELDS, flags, wholes
from treeproof.model.builder import LEAF
from treeproof.model.columns import Category
from treeproof.model.pieces import Pieces

CategorySets = dict[int, npt.NDArray[np.int64]]
"""By node, the codes that go right, in rising order."""

_MAX_CATEGORY = 2**24  # from here on float32 cannot tell whole numbers apart
_ASCII = 128

# XGBoost's numbers for types of arrays, as far as it can save them; others of its whole numbers it cannot.
_INDEX_TYPES = {9: "int8", 10: "uint8", 11: "int16", 13: "int32", 15: "int64"}


def category_columns(
    model: dict[str, Any], types: Sequence[str], n_features: int, sets: Sequence[tuple[Any, CategorySets]]
) -> dict[int, Category]:
    """From the trees' part of a file, the types of the features, and each tree with its sets."""
    categories = _stored(model, n_features)
    for f, codes in _coded_by_user(types, sets).items():
        if f not in categories and f < n_features:
            categories[f] = Category(_with_another(codes), coded=False, unseen=True, dtype="float64")
    return categories


def set_pieces(columns: Mapping[int, Category], feature: int, codes: npt.NDArray[np.int64], where: str) -> Pieces:
    """The test that sends these codes right."""
    category = columns.get(feature)
    if category is None or not category.coded:
        return _on_number_line(codes)
    n_codes = len(category.values)
    if codes[-1] >= n_codes:
        raise InvalidInput(f"{where}a node tests category {codes[-1]} of feature {feature}, which has {n_codes}")
    return Pieces.of_codes(~np.isin(np.arange(n_codes), codes))


def category_sets(tree: dict[str, Any], where: str) -> CategorySets:
    """The nodes that send a set of codes to the right."""
    if "split_type" not in tree:
        return {}
    inner = wholes(tree["left_children"], where + "left_children") != LEAF
    by_category = flags(tree["split_type"], where + "split_type", booleans=False)
    if len(by_category) != len(inner):
        raise InvalidInput(f"{where}split_type has {len(by_category)} entries for {len(inner)} nodes")
    categories, nodes, starts, sizes = (
        wholes(tree[name], where + name, ("int32", "int64")) for name in CATEGORY_FIELDS[1:]
    )
    # XGBoost walks through the nodes and takes the next set at the next node that is listed.
    if nodes.tolist() != np.flatnonzero(by_category).tolist():
        raise InvalidInput(f"{where}categories_nodes does not list the nodes of split_type 1, in their order")
    ends = np.cumsum(sizes)
    if len({len(nodes), len(starts), len(sizes)}) != 1 or (sizes < 1).any() or (starts != ends - sizes).any():
        raise InvalidInput(
            f"{where}categories_segments and categories_sizes do not cut categories into one set per node"
        )
    if len(categories) != int(sizes.sum()):
        raise InvalidInput(f"{where}categories has {len(categories)} entries, categories_sizes says {int(sizes.sum())}")
    sets = {}
    for node, start, end in zip(nodes.tolist(), starts.tolist(), ends.tolist(), strict=True):
        codes = categories[start:end]
        if codes[0] < 0 or codes[-1] >= _MAX_CATEGORY or (codes[1:] <= codes[:-1]).any():
            raise InvalidInput(
                f"{where}the categories of a node must be from 0 to {_MAX_CATEGORY - 1}, in rising order"
            )
        # What pruning made a leaf may still carry its set.
        if inner[node]:
            sets[node] = codes
    return sets


def _on_number_line(codes: npt.NDArray[np.int64]) -> Pieces:
    """Right iff float32(x), with its fraction cut off, is in the set; negative and unknown numbers go left."""
    first = np.concatenate(([True], codes[1:] > codes[:-1] + 1))  # of codes that follow one another
    last = np.concatenate((first[1:], [True]))
    ends = float32_below_threshold(np.column_stack((codes[first], codes[last] + 1)))
    return Pieces(tuple(ends.reshape(-1).tolist()), (True, *(False, True) * len(ends)))


def _coded_by_user(types: Sequence[str], sets: Sequence[tuple[Any, CategorySets]]) -> dict[int, set[int]]:
    """The features whose type or tests say that they are categories, with the codes that tests name.

    None of them is tested like a number, which only an edited file would do: such a column stays one of numbers.
    """
    named: dict[int, set[int]] = {f: set() for f, kind in enumerate(types) if kind == "c"}
    numbers: set[int] = set()
    for tree, own in sets:
        features = wholes(tree["split_indices"], "split_indices", ("int32", "int64"))
        plain = wholes(tree["left_children"], "left_children") != LEAF
        if len(features) != len(plain):
            continue  # refused where the tree is read
        for node, codes in own.items():
            named.setdefault(int(features[node]), set()).update(codes.tolist())
        plain[list(own)] = False
        numbers.update(np.unique(features[plain]).tolist())
    return {f: codes for f, codes in named.items() if f not in numbers}


def _with_another(codes: set[int]) -> tuple[int, ...]:
    """The codes, and the lowest that no test names: it stands for all such codes, since they go the same way."""
    other = next(code for code in range(len(codes) + 1) if code not in codes)
    return tuple(sorted(codes | {other}))


def _stored(model: dict[str, Any], n_features: int) -> dict[int, Category]:
    """The columns whose values the model stores, in the order of their codes."""
    empty: dict[str, Any] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    cats = fields_of(model.get("cats", empty), "cats", tuple(empty))
    segments = wholes(cats["feature_segments"], "feature_segments").tolist()
    order = wholes(cats["sorted_idx"], "sorted_idx").tolist()
    if not isinstance(cats["enc"], list) or len(cats["enc"]) not in (0, n_features):
        raise InvalidInput(f"cats: enc must have an entry for each of the {n_features} features, or none")
    columns = [
        _texts(entry, f) if "offsets" in entry else _whole_numbers(entry, f) for f, entry in enumerate(cats["enc"])
    ]
    if segments != ([0, *accumulate(len(column.values) for column in columns)] if columns else []):
        raise InvalidInput("cats: feature_segments does not say how many categories each feature has")
    # XGBoost looks values up by halving, in this order.
    if order != [
        code for column in columns for code in sorted(range(len(column.values)), key=column.values.__getitem__)
    ]:
        raise InvalidInput("cats: sorted_idx does not put the categories of each feature in order")
    return {f: column for f, column in enumerate(columns) if column.values}


def _texts(entry: Any, feature: int) -> Category:
    where = f"cats: feature {feature}: "
    fields_of(entry, where + "an entry of enc", ("offsets", "values"))
    ends = wholes(entry["offsets"], where + "offsets")
    letters = wholes(entry["values"], where + "values", ("int8",))
    if ((letters < 0) | (letters >= _ASCII)).any():
        # Offsets count characters where they should count bytes, for a pandas frame in training as in prediction.
        raise UnsupportedModel(
            f"feature {feature} has categories with other letters than ASCII, which XGBoost stores wrongly and mixes "
            "up; spell them with ASCII letters, or train on codes"
        )
    if not len(ends) and not len(letters):
        return Category(())
    if len(ends) < 2 or ends[0] != 0 or ends[-1] != len(letters) or (ends[1:] < ends[:-1]).any():
        raise InvalidInput(f"{where}offsets must rise from 0 to the {len(letters)} letters")
    text = bytes(letters.astype(np.uint8)).decode("ascii")
    values = tuple(text[start:end] for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
    return Category(values, dtype="category")


def _whole_numbers(entry: Any, feature: int) -> Category:
    where = f"cats: feature {feature}: "
    fields_of(entry, where + "an entry of enc", ("type", "values"))
    kind = _INDEX_TYPES.get(entry["type"]) if type(entry["type"]) is int else None
    if kind is None:
        raise UnsupportedModel(f"{where}categories of type {entry['type']!r} are neither text nor whole numbers")
    values = wholes(entry["values"], where + "values", (kind,))
    info = np.iinfo(kind)
    if ((values < info.min) | (values > info.max)).any():
        raise InvalidInput(f"{where}a category is no {kind}")
    # XGBoost refuses a data frame whose categories are of another type of whole numbers.
    return Category(tuple(values.tolist()), dtype=f"category of {kind}")
