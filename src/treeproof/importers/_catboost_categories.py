"""Category columns of CatBoost models: which values go right at each test.

CatBoost keeps hashes of categories, not their texts. A one-hot test asks for one hash. A CTR is a number for each hash,
made of counts in training, and compared with borders as float32; a value that training did not see has counts of 0.
Both depend on one column only, so that each test is a set of the column's values. The texts of these come from the
user, and none that the model knows may be left out: all other texts then go where unseen values go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.files import parse_json
from treeproof.importers._catboost_hash import hash_of, key_of
from treeproof.importers._json_fields import fields_of, number_of, numbers_of, whole_of
from treeproof.importers._refusals import WrongCategories
from treeproof.model.columns import Category, is_missing, text_of
from treeproof.model.pieces import Pieces

Float32Array = npt.NDArray[np.float32]

_NO_KEY = 2**64 - 1  # of an empty place in CatBoost's tables
_CTR_FIELDS = (
    "borders", "ctr_type", "elements", "identifier", "prior_denomerator", "prior_numerator", "scale", "shift",
    "target_border_idx",
)  # fmt: skip
_TABLE_FIELDS = ("counter_denominator", "hash_map", "hash_stride")
_KINDS = ("Borders", "Buckets", "BinarizedTargetMeanValue", "Counter")


class Split(NamedTuple):
    """A test of the model, and how a tree writes it down beside its number."""

    feature: int
    border: float
    """Of a number: above it goes right."""
    pieces: Pieces | None
    """Of a category."""
    stated: dict[str, Any]


class CategoryColumns(NamedTuple):
    """The category columns of a model, by the position in a row, and the tests on them in the order of the file."""

    categories: dict[int, Category]
    splits: list[Split]


# How a tree writes a test down, and which of the values go right; the last entry is a value that training did not see.
_Answer = tuple[dict[str, Any], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class _OneHot:
    """Tests that ask for one value."""

    column: int
    """Its number among the category columns."""
    hashes: list[int]

    @property
    def keys(self) -> set[int]:
        return {key_of(hashed) for hashed in self.hashes}

    def answers(self, hashes: Sequence[int]) -> list[_Answer]:
        own = np.array(hashes, dtype=np.int64)
        return [
            (
                {"split_type": "OneHotFeature", "cat_feature_index": self.column, "value": hashed},
                np.append(own == hashed, False),
            )
            for hashed in self.hashes
        ]


@dataclass(frozen=True)
class _Ctr:
    """Tests that compare a number that stands for the value, made of counts in training."""

    column: int
    kind: str
    borders: list[float]
    target: int
    """Which class, or border between classes, the counts are about."""
    prior: tuple[np.float32, np.float32]
    """What is added to the count and to the total."""
    shift: np.float32
    scale: np.float32
    denominator: int
    table: Mapping[int, Sequence[float]]

    @property
    def keys(self) -> set[int]:
        return set(self.table)

    def answers(self, hashes: Sequence[int]) -> list[_Answer]:
        entries = [self.table.get(key_of(hashed)) for hashed in hashes]
        good, total = np.array([self._counts(entry) for entry in (*entries, None)], dtype=np.float32).T
        value = ((good + self.prior[0]) / (total + self.prior[1]) + self.shift) * self.scale
        return [
            (
                {"split_type": "OnlineCtr", "border": border, "ctr_target_border_idx": self.target},
                value > np.float32(border),
            )
            for border in self.borders
        ]

    def _counts(self, entry: Sequence[float] | None) -> tuple[float, float]:
        """How often the wanted class occurred with the value, and how often any."""
        if self.kind == "Counter":
            return (entry[0] if entry else 0), self.denominator
        if entry is None:
            return 0, 0
        if self.kind == "BinarizedTargetMeanValue":
            return entry[0], entry[1]
        wanted = entry[self.target + 1 :] if self.kind == "Borders" else entry[self.target : self.target + 1]
        return sum(wanted), sum(entry)


def category_columns(
    info: Mapping[str, Any], tables: Mapping[str, Any], categories: Any, names: Mapping[int, str] | None
) -> CategoryColumns:
    """From `features_info`, `ctr_data`, and the values that the user gives: by column, or in a data frame.

    `names` are those of all columns by position, if they have any.
    """
    columns = info.get("categorical_features") or []
    sources: list[_OneHot | _Ctr] = [_one_hot(column, number) for number, column in enumerate(columns)]
    sources += [_ctr(entry, tables, info) for entry in info.get("ctrs") or ()]
    positions = [column["flat_feature_index"] for column in columns]
    _refuse_others(categories, positions, names)
    found = {}
    splits: list[list[Split]] = [[] for _ in sources]
    for number, position in enumerate(positions):
        own = {place: source for place, source in enumerate(sources) if source.column == number}
        known = set().union(*(source.keys for source in own.values()))
        values = _listed(categories, position, names, known)
        answers = {place: source.answers([hash_of(text) for text in values]) for place, source in own.items()}
        order = _order([right[:-1] for each in answers.values() for _, right in each], len(values))
        given = list(values.values())
        found[position] = Category(tuple(given[i] for i in order), unseen=True, by_text=True, numbers="values")
        ranks = np.append(order, len(given))
        for place, each in answers.items():
            splits[place] = [Split(position, 0.0, Pieces.of_codes(~right[ranks]), stated) for stated, right in each]
    return CategoryColumns(found, [split for each in splits for split in each])


def _order(rights: Sequence[npt.NDArray[np.bool_]], n_values: int) -> npt.NDArray[np.intp]:
    """Values that few tests send right first, and those side by side that none tells apart: so tests have few cuts."""
    if not rights:
        return np.arange(n_values)
    _, pattern = np.unique(np.packbits(rights, axis=0), axis=1, return_inverse=True)
    return np.lexsort((pattern.reshape(-1), np.sum(rights, axis=0)))


def _listed(categories: Any, position: int, names: Mapping[int, str] | None, known: set[int]) -> dict[str, Any]:
    """The user's values of a column by their texts; refused unless all that the model knows are there."""
    name = position if names is None else names[position]
    column: Any = ()
    spelled = [str(column) for column in getattr(categories, "columns", ())]  # CatBoost makes text of numbers
    if categories is not None and names is None and hasattr(categories, "iloc"):
        column = categories.iloc[:, position]
    elif name in spelled and hasattr(categories, "iloc"):
        column = categories.iloc[:, spelled.index(str(name))]
    elif categories is not None and name in categories:
        column = categories[name]
    elif known:
        raise WrongCategories(
            f"categories are needed for column {name!r}: CatBoost keeps hashes of its values, not the values",
            argument="categories",
            way_out="pass the training data, from_model(model, categories=X_train), or a dict with the values of each "
            "such column",
        )
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise WrongCategories(f"categories[{name!r}] must be a list of values, got {column!r}", argument="categories")
    values: dict[str, Any] = {}
    for value in column.unique().tolist() if hasattr(column, "unique") else column:
        if is_missing(value):
            continue  # CatBoost takes none in a category column
        text = text_of(value) if isinstance(value, (str, int, np.integer, np.bool_)) else None
        if text is None:
            raise WrongCategories(
                f"categories[{name!r}] has {value!r}, but CatBoost takes text and whole numbers as categories",
                argument="categories",
            )
        values.setdefault(text, value)
    lost = known - {key_of(hash_of(text)) for text in values}
    if lost:
        raise WrongCategories(
            f"categories[{name!r}] lacks {len(lost)} of the {len(known)} values that the model knows",
            argument="categories",
            way_out="give all that are in the training data, as they were in training",
        )
    return values


def _refuse_others(categories: Any, positions: Sequence[int], names: Mapping[int, str] | None) -> None:
    """Refuses values for what is no category column; a data frame may have other columns."""
    if categories is None or hasattr(categories, "columns"):
        return
    if not isinstance(categories, Mapping):
        raise WrongCategories(
            f"categories must be a data frame or a dict of lists, got {type(categories).__name__}",
            argument="categories",
        )
    own = [position if names is None else names[position] for position in positions]
    for name in categories:
        if name not in own:
            raise WrongCategories(
                f"categories names {name!r}, which is no category column of the model; it has {own!r}",
                argument="categories",
            )


def _one_hot(column: Mapping[str, Any], number: int) -> _OneHot:
    hashes = numbers_of(column.get("values", []), f"a value of category column {number}")
    if not all(type(hashed) is int and -(2**31) <= hashed < 2**31 for hashed in hashes):
        raise InvalidInput(f"the values of category column {number} are not whole numbers of 32 bits")
    return _OneHot(number, hashes)


def _ctr(entry: Mapping[str, Any], tables: Mapping[str, Any], info: Mapping[str, Any]) -> _Ctr:
    fields_of(entry, "a CTR", _CTR_FIELDS)
    column = _one_column(entry["elements"], info)
    kind = entry["ctr_type"]
    if kind not in _KINDS:
        raise UnsupportedModel(f"the model has CTRs of type {kind!r}; treeproof reads {', '.join(_KINDS)}")
    if parse_json(entry["identifier"]) != {"identifier": entry["elements"], "type": kind}:
        raise InvalidInput(f"the identifier {entry['identifier']!r} of a CTR contradicts its other fields")
    if entry["identifier"] not in tables:
        raise UnsupportedModel(
            "the model lacks the tables of its CTRs; train it without final_ctr_computation_mode='Skip'"
        )
    table = fields_of(tables[entry["identifier"]], "a table of CTRs", _TABLE_FIELDS)
    counts, n_counts = _counts(table, kind)
    target = whole_of(entry["target_border_idx"], "target_border_idx")
    if target >= {"Borders": n_counts - 1, "Buckets": n_counts}.get(kind, 1):
        raise InvalidInput(f"target_border_idx is {target}, but a table of CTRs has {n_counts} counts per value")
    numerator, denominator, shift, scale = (
        _single(entry[name], name) for name in ("prior_numerator", "prior_denomerator", "shift", "scale")
    )
    if denominator <= 0:
        raise InvalidInput(f"prior_denomerator must be above 0, got {entry['prior_denomerator']!r}")
    borders = numbers_of(entry["borders"], "a border of a CTR")
    narrow = np.array([_single(border, "a border of a CTR") for border in borders])
    if (narrow[1:] <= narrow[:-1]).any():
        raise InvalidInput("the borders of a CTR are not in rising order")
    total = whole_of(table["counter_denominator"], "counter_denominator")
    return _Ctr(column, kind, borders, target, (numerator, denominator), shift, scale, total, counts)


def _one_column(elements: Any, info: Mapping[str, Any]) -> int:
    """The number of the one category column that a CTR is about."""
    if not isinstance(elements, list) or not elements:
        raise InvalidInput(f"a CTR has the elements {elements!r}; it needs one or more")
    for element in elements:
        plain = isinstance(element, dict) and element.get("combination_element") == "cat_feature_value"
        if not plain or len(elements) > 1:
            parts = dict.fromkeys(_named(element, info) for element in elements)
            raise UnsupportedModel(
                f"the model combines columns in one CTR ({', '.join(parts)}), which treeproof does not read; "
                "train it with max_ctr_complexity=1"
            )
    fields_of(elements[0], "an element of a CTR", ("cat_feature_index", "combination_element"))
    column = whole_of(elements[0]["cat_feature_index"], "cat_feature_index")
    if column >= len(info["categorical_features"]):
        raise InvalidInput(f"a CTR is about category column {column}, which the model does not have")
    return column


def _named(element: Any, info: Mapping[str, Any]) -> str:
    for index, kind in (("cat_feature_index", "categorical_features"), ("float_feature_index", "float_features")):
        if index in element:
            return repr(info[kind][element[index]].get("feature_id") or element[index])
    return repr(element)


def _counts(table: Mapping[str, Any], kind: str) -> tuple[dict[int, Sequence[float]], int]:
    """The counts for each key, and how many there are for one."""
    stride = whole_of(table["hash_stride"], "hash_stride")
    flat = table["hash_map"]
    least = 2 if kind == "Counter" else 3
    exact = kind in ("Counter", "BinarizedTargetMeanValue")
    if stride < least or (exact and stride != least) or not isinstance(flat, list) or len(flat) % stride:
        raise InvalidInput(f"hash_stride {stride} does not fit a table of {kind} CTRs")
    counts: dict[int, Sequence[float]] = {}
    for start in range(0, len(flat), stride):
        key, own = flat[start], numbers_of(flat[start + 1 : start + stride], "a count of a CTR")
        if not isinstance(key, str) or not key.isdecimal() or not 0 <= int(key) <= _NO_KEY or int(key) in counts:
            raise InvalidInput(f"a table of CTRs has the key {key!r}; keys are whole numbers of 64 bits, each once")
        if min(own) < 0 or (kind != "BinarizedTargetMeanValue" and not all(type(count) is int for count in own)):
            raise InvalidInput(f"a table of CTRs has the counts {own!r}")
        if int(key) != _NO_KEY:
            counts[int(key)] = own
    return counts, stride - 1


def _single(value: Any, what: str) -> np.float32:
    with np.errstate(over="ignore"):
        narrow: np.float32 = np.float32(number_of(value, what))
    if not np.isfinite(narrow):
        raise InvalidInput(f"{what} must be a finite float32 number, got {value!r}")
    return narrow
