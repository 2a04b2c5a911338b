"""Steps before a model, taken apart: each value that they pass on is a slot with one column of the user behind it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import UnsupportedModel
from treeproof.importers._refusals import check_methods
from treeproof.importers.pipelines.steps import Kind, categories_of, is_nan, kind_of
from treeproof.model.columns import UNSEEN
from treeproof.numbers.doubles import last_double_rounding_to

Values = npt.NDArray[Any]

_UNKNOWN = 0.123456789
"""A number that no encoder has as a category, or hardly any."""


class Matrix(NamedTuple):
    """What one step passes to the next: slots, and the type that all have in an array (None in a data frame)."""

    slots: tuple[int, ...]
    dtype: np.dtype[Any] | None
    sparse: str = ""
    """The format of a sparse matrix, "csr" or "csc"."""

    def take(self, columns: Sequence[int]) -> Matrix:
        """Some of its columns."""
        return self._replace(slots=tuple(self.slots[column] for column in columns))


@dataclass
class Slot:
    """One column between two steps."""

    origin: int
    """The user's column that it depends on."""
    leaf: Leaf | None = None
    """The step that it comes from; none for a column of the user."""
    parent: int = -1
    """The slot that the step made it from."""
    kept: bool = True
    """Whether it holds the user's own values, but for missing ones."""
    rounds: bool = False
    """Whether rounding may have made it fall where it should rise."""
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(float))
    base: Any = 1.0
    """A value that the steps before it make."""
    coded: bool = False
    """Whether it holds values of a category, and no numbers."""
    sparse: bool = False
    """Whether it comes from a sparse matrix; a zero that such a matrix stores is negative here."""


@dataclass
class Leaf:
    """A step that computes: its input and output slots, and what it takes."""

    step: Any
    kind: Kind
    given: Matrix
    sources: npt.NDArray[np.intp]
    made: tuple[int, ...] = ()
    bases: list[Any] = field(default_factory=list)
    """For each input, a value that the step takes."""
    takes: list[frozenset[str]] = field(default_factory=list)
    """For each input, which of "nan", "none", "unseen", "inf" and "huge" the step takes."""

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.step).__name__

    def refuses(self, column: int, values: Values) -> npt.NDArray[np.bool_]:
        """Which values of an input the step refuses."""
        takes = self.takes[column]
        if values.dtype == object:
            taken = categories_of(self.step, column) if self.kind.encodes else None
            return np.array([_sort_of(value, taken) not in takes for value in values], dtype=bool)
        refused = np.isnan(values) if "nan" not in takes else np.zeros(len(values), dtype=bool)
        if "inf" not in takes:
            refused |= np.isinf(values)
        if "huge" not in takes:
            refused |= np.abs(values) > last_double_rounding_to(np.finfo(np.float32).max)
        if getattr(self.step, "method", None) == "box-cox":
            refused |= values <= 0
        if getattr(self.step, "standardize", False):
            refused |= self._overflows(column, np.where(refused, self.bases[column], values))
        if self.kind.encodes:
            # What it was fitted with it takes, however large.
            known = np.isin(values, categories_of(self.step, column))
            refused &= ~known
            refused |= ~np.isnan(values) & ~known & ("unseen" not in takes)
        return refused

    def _overflows(self, column: int, values: Values) -> npt.NDArray[np.bool_]:
        """Where PowerTransformer's own scaler refuses the powers, which are infinite."""
        plain = copy(self.step)
        plain.standardize = False
        rows = np.tile(np.array(self.bases, dtype=np.float64), (len(values), 1))
        rows[:, column] = values
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.isinf(np.asarray(plain.transform(rows), dtype=np.float64)[:, column])


def _sort_of(value: Any, known: Sequence[Any] | None) -> str:
    if value is None:
        return "none"
    if is_nan(value):
        return "nan"
    return "unseen" if (value == UNSEEN if known is None else value not in known) else "known"


class Plan:
    """The steps before a model, ready to be run on columns of values.

    Without `bases` only the ways through the steps are known, which is enough to find out what the user's columns are.
    """

    def __init__(self, steps: Sequence[Any], n: int, *, frame: bool, bases: Sequence[Any] | None = None) -> None:
        """`bases` has a value of each of the n columns: None for numbers, and one of its values for a category."""
        self._settled = bases is not None
        self.slots = [Slot(f) for f in range(n)]
        for slot, base in zip(self.slots, bases or (), strict=False):
            if base is not None:
                slot.base, slot.dtype, slot.coded = base, np.dtype(object), True
        self.leaves: list[Leaf] = []
        self.made = Matrix(tuple(range(n)), None if frame else np.result_type(*(slot.dtype for slot in self.slots)))
        for step in steps:
            self.made = self._through(step, self.made)

    def _through(self, step: Any, given: Matrix) -> Matrix:
        from sklearn.compose import ColumnTransformer
        from sklearn.frozen import FrozenEstimator
        from sklearn.pipeline import FeatureUnion, Pipeline

        if step is None or (isinstance(step, str) and step == "passthrough"):
            return given
        if isinstance(step, str) and step == "drop":
            return given.take([])
        check_methods(step)
        if isinstance(step, FrozenEstimator):
            return self._through(step.estimator, given)
        if type(step) is Pipeline:
            for _, part in step.steps:
                given = self._through(part, given)
            return given
        if type(step) is ColumnTransformer:
            return self._through_columns(step, given)
        if type(step) is FeatureUnion:
            if step.transformer_weights:
                raise UnsupportedModel("the pipeline has a FeatureUnion with transformer_weights; leave them out")
            parts = [self._through(part, given) for _, part in step.transformer_list]
            return self._side_by_side(parts, sparse="csr" if any(part.sparse for part in parts) else "")
        return self._through_leaf(step, given)

    def leaves_behind(self, number: int) -> Iterator[Leaf]:
        """The steps that a slot comes from, the last one first."""
        slot = self.slots[number]
        while slot.leaf is not None:
            yield slot.leaf
            slot = self.slots[slot.parent]

    @cached_property
    def made_of(self) -> list[list[tuple[int, int]]]:
        """For each column of the user, the (column, slot) pairs that the model gets for it."""
        pairs: list[list[tuple[int, int]]] = [[] for slot in self.slots if slot.leaf is None]
        for column, slot in enumerate(self.made.slots):
            pairs[self.slots[slot].origin].append((column, slot))
        return pairs

    def _through_columns(self, step: Any, given: Matrix) -> Matrix:
        places = []
        for name, part, _ in step.transformers_:
            columns = step._transformer_to_input_indices[name]
            if len(columns) and not (isinstance(part, str) and part == "drop"):
                places.append((step.output_indices_[name], self._through(part, given.take(columns))))
        places.sort(key=lambda place: (place[0].start, place[0].stop))
        for place, part in places:
            if place.stop - place.start != len(part.slots):
                raise UnsupportedModel(
                    f"the pipeline's ColumnTransformer has {place.stop - place.start} columns where its parts make "
                    f"{len(part.slots)}; fit it again with this version of scikit-learn"
                )
        return self._side_by_side([part for _, part in places], sparse="csr" if step.sparse_output_ else "")

    def _side_by_side(self, parts: Sequence[Matrix], *, sparse: str) -> Matrix:
        slots = tuple(slot for part in parts for slot in part.slots)
        if not sparse and parts and all(part.dtype is None for part in parts):
            return Matrix(slots, None)
        dtypes = [self.slots[slot].dtype for slot in slots]
        dtypes += [part.dtype for part in parts if part.dtype is not None]
        dtype = np.result_type(*dtypes) if dtypes else np.dtype(float)
        return Matrix(slots, np.dtype(float) if sparse and dtype.kind == "O" else dtype, sparse)

    def _through_leaf(self, step: Any, given: Matrix) -> Matrix:
        kind = kind_of(step)
        leaf = Leaf(step, kind, given, kind.sources(step))
        n_values = len(leaf.sources) - (
            0 if getattr(step, "indicator_", None) is None else len(step.indicator_.features_)
        )
        for number, source in enumerate(leaf.sources):
            parent = given.slots[source]
            before = self.slots[parent]
            kept = before.kept and kind.keeps and number < n_values
            rounds = before.rounds or kind.rounds
            self.slots.append(Slot(before.origin, leaf, parent, kept, rounds, coded=before.coded and kept))
        leaf.made = tuple(range(len(self.slots) - len(leaf.sources), len(self.slots)))
        self.leaves.append(leaf)
        if not self._settled:
            return Matrix(leaf.made, None)
        return self._settle(leaf)

    def _settle(self, leaf: Leaf) -> Matrix:
        """Finds out what a step takes, and which type its output has."""
        for column, slot in enumerate(leaf.given.slots):
            base = self.slots[slot].base
            if leaf.kind.encodes:
                known = categories_of(leaf.step, column)
                base = base if base in known or not known else known[0]
            elif getattr(leaf.step, "method", None) == "box-cox":
                base = base if base > 0 else 1.0
            leaf.bases.append(base)
        leaf.takes = [frozenset(("known", "inf", "nan", "none", "unseen", "huge"))] * len(leaf.bases)
        out = self._call(leaf, [np.array([base, base], dtype=object) for base in leaf.bases], 2)
        if len(leaf.made) != out.shape[1]:
            raise UnsupportedModel(
                f"the pipeline's {leaf.name} makes {out.shape[1]} columns, and not {len(leaf.made)} as it should; "
                "fit it again with this version of scikit-learn"
            )
        for number, made in zip(leaf.made, columns_of(out), strict=True):
            self.slots[number].dtype = made.dtype
            self.slots[number].base = made.tolist()[0]
            self.slots[number].sparse = hasattr(out, "tocsr")
        leaf.takes = self._find_taken(leaf)
        if hasattr(out, "iloc"):
            return Matrix(leaf.made, None)
        return Matrix(leaf.made, np.dtype(out.dtype), getattr(out, "format", ""))

    def _find_taken(self, leaf: Leaf) -> list[frozenset[str]]:
        """Tries values of each sort on every input at once, and where a step tells its columns apart, on each."""
        takes: list[set[str]] = [{"known"} for _ in leaf.bases]
        text = [self.slots[slot].coded for slot in leaf.given.slots]
        every = range(len(leaf.bases))
        # Powers of large numbers are looked at one by one; a step that takes float32 refuses what is too large for it.
        powers = hasattr(leaf.step, "standardize")
        unseen = [UNSEEN if text[column] else _UNKNOWN for column in every]
        for sort, probes in (
            ("nan", [np.nan for _ in every]),
            ("none", [None if text[column] else np.nan for column in every]),
            ("unseen", unseen),
            ("inf", [base if text[column] else np.inf for column, base in enumerate(leaf.bases)]),
            ("huge", [base if text[column] or powers else 1e39 for column, base in enumerate(leaf.bases)]),
        ):
            if self._tries(leaf, probes):
                taken: Sequence[int] = every
            elif leaf.kind.by_column and sort in ("nan", "none", "unseen"):
                alone = [[*leaf.bases[:column], probes[column], *leaf.bases[column + 1 :]] for column in every]
                taken = [column for column in every if self._tries(leaf, alone[column])]
            else:
                taken = ()
            for column in taken:
                takes[column].add(sort)
        return [frozenset(sorts) for sorts in takes]

    def _tries(self, leaf: Leaf, values: Sequence[Any]) -> bool:
        try:
            self._call(leaf, [np.array([value, value], dtype=object) for value in values], 2)
        except UnsupportedModel:
            return False
        return True

    def _call(self, leaf: Leaf, columns: Sequence[Values], n: int) -> Any:
        """The step's own `transform` of these columns, in the container and type that the pipeline gives it."""
        given = leaf.given
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return leaf.step.transform(self._assembled(leaf, given, columns, n))
            except (ValueError, TypeError, ArithmeticError) as error:
                first = (str(error).splitlines() or [""])[0]
                raise UnsupportedModel(f"the pipeline's {leaf.name} refuses its input: {first}") from None

    def _assembled(self, leaf: Leaf, given: Matrix, columns: Sequence[Values], n: int) -> Any:
        if given.dtype is None:
            import pandas as pd

            typed = [_as(column, self.slots[slot].dtype) for column, slot in zip(columns, given.slots, strict=True)]
            # Left alone, pandas 3 makes a type of its own of objects that are text, in which None is NaN.
            frame = pd.DataFrame(
                {i: pd.Series(one, dtype=object) if one.dtype.kind == "O" else one for i, one in enumerate(typed)}
            )
            names = getattr(leaf.step, "feature_names_in_", None)
            if names is not None:
                frame.columns = names
            return frame
        matrix = np.empty((n, len(columns)), dtype=given.dtype)
        for column, values in enumerate(columns):
            matrix[:, column] = values
        if given.sparse:
            from scipy.sparse import csr_matrix

            stored = matrix != 0
            for column, slot in enumerate(given.slots):
                if self.slots[slot].sparse:
                    stored[:, column] |= np.signbit(matrix[:, column])
            rows, places = np.nonzero(stored)
            return csr_matrix((matrix[stored] + 0.0, (rows, places)), shape=matrix.shape).asformat(given.sparse)
        return matrix

    def run(self, inputs: Mapping[int, Values], n_leaves: int | None = None) -> Run:
        """The values of all slots that depend on these columns of the user, each given the same number of values.

        `n_leaves` stops after so many steps.
        """
        n = len(next(iter(inputs.values())))
        run = Run([None] * len(self.slots), {f: np.zeros(n, dtype=bool) for f in inputs})
        for f, values in inputs.items():
            run.values[f] = values
        for leaf in self.leaves[:n_leaves]:
            given = [run.values[slot] for slot in leaf.given.slots]
            if all(values is None for values in given):
                continue
            columns = []
            for column, (slot, own) in enumerate(zip(leaf.given.slots, given, strict=True)):
                base = leaf.bases[column]
                if own is None:
                    own = np.full(n, base, dtype=self.slots[slot].dtype)
                else:
                    refused = run.refused[self.slots[slot].origin]
                    refused |= leaf.refuses(column, own)
                    if refused.any():
                        own = own.copy()
                        own[refused] = base
                columns.append(own)
            made = columns_of(self._call(leaf, columns, n))
            for number, source, values in zip(leaf.made, leaf.sources, made, strict=True):
                if given[source] is not None:
                    run.values[number] = values if self.slots[number].coded else values.astype(np.float64)
        return run


class Run(NamedTuple):
    """What a plan made of some columns."""

    values: list[Values | None]
    """Of each slot; None where it depends on none of the columns."""
    refused: dict[int, npt.NDArray[np.bool_]]
    """Which values of each column a step refuses; what slots hold for them means nothing."""


def columns_of(matrix: Any) -> Iterator[Values]:
    """The columns of what a step returned."""
    if hasattr(matrix, "iloc"):
        for number in range(matrix.shape[1]):
            column = matrix.iloc[:, number]
            yield column.to_numpy(object) if str(column.dtype) == "category" else column.to_numpy()
        return
    dense = np.asarray(_dense(matrix))
    for number in range(dense.shape[1]):
        yield dense[:, number]


def _dense(matrix: Any) -> Any:
    """A matrix as it is, or a sparse one as an array in which the zeros that it stores are negative."""
    if not hasattr(matrix, "tocsr"):
        return matrix
    entries = matrix.tocoo()
    dense = np.zeros(matrix.shape, dtype=matrix.dtype)
    dense[entries.row, entries.col] = np.where(entries.data == 0, -0.0, entries.data)
    return dense


def _as(values: Values, dtype: np.dtype[Any]) -> Values:
    """Values as a column of a data frame has them; missing ones and unseen ones need not fit its type."""
    try:
        return values.astype(dtype) if values.dtype != dtype else values
    except (TypeError, ValueError):
        return values
