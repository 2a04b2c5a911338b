"""The exact model: trees as frozen flat arrays that predict what the source library predicts."""

from __future__ import annotations

import dataclasses
import difflib
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.columns import (
    Category,
    Cells,
    CodedRows,
    Column,
    as_frame,
    in_own_values,
    renamed,
    some_of,
)
from treeproof.model.fields_only import FieldsOnly
from treeproof.model.grid import Grid, frozen
from treeproof.model.score_rule import ScoreRule
from treeproof.numbers.doubles import FloatArray
from treeproof.visible import visible

_IN_TURN = threading.RLock()
"""Which warnings are shown is a setting of the whole process: threads that change it for a while take turns."""


_DTYPES = {
    **dict.fromkeys(("feature", "left", "more_start", "roots"), np.int32),
    **dict.fromkeys(("threshold", "more"), np.float64),
}


class _WalkArrays(NamedTuple):
    """The node arrays in the form that kernels walk: a leaf is its own left child, with threshold +inf.

    `more_start` is empty where every test is a threshold.
    """

    feature: npt.NDArray[np.uint32]
    threshold: FloatArray
    left: npt.NDArray[np.uint32]
    nan_left: npt.NDArray[np.bool_]
    leaf: npt.NDArray[np.uint32]
    roots: npt.NDArray[np.uint32]
    depths: npt.NDArray[np.int32]
    more_start: npt.NDArray[np.int32]
    more: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(FieldsOnly):
    """An additive tree ensemble that predicts bit for bit what its source model predicts.

    At node i a row goes left iff `x[feature[i]] <= threshold[i]` (a NaN iff `nan_left[i]`). Some tests have more cuts,
    `more[more_start[i]:more_start[i + 1]]`, above the threshold and rising; the side changes at each of them. Leaves
    have `feature == -1`, and a row of `leaf_scores` each, in order. A right child directly follows its left sibling.
    Made by `from_model`, `load_model` or `importers.EnsembleBuilder`, which check all of this.
    """

    feature: npt.NDArray[np.int32]
    threshold: FloatArray
    left: npt.NDArray[np.int32]
    nan_left: npt.NDArray[np.bool_]
    more_start: npt.NDArray[np.int32]
    more: FloatArray
    roots: npt.NDArray[np.int32]
    leaf_scores: npt.NDArray[Any]
    base: npt.NDArray[Any]
    rule: ScoreRule
    classes: npt.NDArray[Any]
    columns: tuple[Column, ...]
    """What rows hold, column by column; either all have names or none."""
    blanks_underscored: bool = False
    """Whether the library put an underscore for each space in the names of columns."""
    takes_frames: bool = False
    """Whether rows come back as data frames, as the source model takes them."""
    takes_arrays: bool = True
    """Whether it takes arrays, too; a ColumnTransformer that was told names finds no columns there."""
    origin: str = "treeproof"
    """Where the model comes from, for display: library and class."""
    source: Any = field(default=None)
    """Predicts labels as the library does, if available: the ground truth that witnesses are replayed on."""
    decided: tuple[int, str] | None = None
    """Where a cut was chosen: the index of a class, and in words where it is the label."""
    responses: Any = None
    """The library's own functions of the score, such as probabilities, if they are known; files do not keep them."""

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                own = self.rule.precision if name in ("leaf_scores", "base") else _DTYPES.get(name)
                object.__setattr__(self, name, frozen(value, own))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # pickle forgets that arrays are frozen

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.roots)

    @property
    def n_nodes(self) -> int:
        """The number of nodes of all trees together, leaves included."""
        return len(self.feature)

    @property
    def n_classes(self) -> int:
        """The number of labels that the model can predict."""
        return len(self.classes)

    @property
    def n_scores(self) -> int:
        """The number of scores: 1 where one score decides between two classes, else one per class."""
        return int(self.leaf_scores.shape[1])

    @property
    def decision_text(self) -> str:
        """The cut in words, as in "label 'bad' where its probability is at least 0.2"; "" for the library's own."""
        if self.decided is None:
            return ""
        index, where = self.decided
        return f"label {self.classes.tolist()[index]!r} {where}"

    @cached_property
    def right(self) -> npt.NDArray[np.int32]:
        """The right child of each node, -1 for a leaf."""
        return frozen(np.where(self.feature >= 0, self.left + 1, -1), np.int32)

    @cached_property
    def leaf(self) -> npt.NDArray[np.int32]:
        """The number of each leaf, -1 for other nodes."""
        return frozen(np.where(self.feature >= 0, -1, np.cumsum(self.feature < 0) - 1), np.int32)

    @cached_property
    def depths(self) -> npt.NDArray[np.int32]:
        """The longest path of each tree, in edges."""
        level = np.zeros(self.n_nodes, dtype=np.int32)
        frontier = self.roots
        depth = 0
        while len(frontier):
            level[frontier] = depth
            inner = frontier[self.feature[frontier] >= 0]
            frontier = np.concatenate((self.left[inner], self.right[inner]))
            depth += 1
        return np.maximum.reduceat(level, self.roots)

    @cached_property
    def grid(self) -> Grid:
        """The integer cells that this model's thresholds cut each feature into."""
        inner = self.feature >= 0
        return Grid.from_thresholds(
            np.concatenate((self.feature[inner], self.feature[self.more_node])),
            np.concatenate((self.threshold[inner], self.more)),
            self.n_features,
        )

    @property
    def more_node(self) -> npt.NDArray[np.int64]:
        """The node of each of `more`."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.more_start))

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @cached_property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns, if they have any."""
        names = tuple(column.name for column in self.columns if column.name is not None)
        return names or None

    @cached_property
    def value_low(self) -> FloatArray:
        """The least number of each column that the model accepts."""
        return frozen(np.array([column.low for column in self.columns]) + 0.0, np.float64)

    @cached_property
    def value_high(self) -> FloatArray:
        """The largest."""
        return frozen(np.array([column.high for column in self.columns]) + 0.0, np.float64)

    @cached_property
    def may_be_missing(self) -> npt.NDArray[np.bool_]:
        """Which columns may be missing."""
        return frozen(np.array([column.missing for column in self.columns]), np.bool_)

    @cached_property
    def categories(self) -> tuple[tuple[int, Category], ...]:
        """The columns that are categories."""
        return tuple((f, column.category) for f, column in enumerate(self.columns) if column.category is not None)

    @property
    def leaf_shares(self) -> npt.NDArray[np.float64]:
        """What each leaf adds to the scores before they are divided, but for rounding."""
        shares = self.leaf_scores.astype(np.float64)
        ends = np.append(self.roots, self.n_nodes)
        start = 0
        for member in self.rule.members:
            nodes = slice(ends[start], ends[start + member.n_trees])
            shares[self.leaf[nodes][self.feature[nodes] < 0]] *= member.weight / member.divisor
            start += member.n_trees
        return shares

    @cached_property
    def _walk(self) -> _WalkArrays:
        inner = self.feature >= 0
        return _WalkArrays(
            np.where(inner, self.feature, 0).astype(np.uint32),
            np.where(inner, self.threshold, np.inf),
            np.where(inner, self.left, np.arange(self.n_nodes)).astype(np.uint32),
            np.where(inner, self.nan_left, True),
            np.where(inner, 0, self.leaf).astype(np.uint32),
            self.roots.astype(np.uint32),
            self.depths,
            self.more_start.copy() if len(self.more) else np.zeros(0, dtype=np.int32),
            self.more.copy(),
        )

    @cached_property
    def compiled(self) -> tuple[Any, Any]:
        """The model as kernels work on it: integer cells, scores in whole units; and how to score exactly."""
        from treeproof.model.compiled import compile_ensemble

        return compile_ensemble(self)

    @cached_property
    def compiled_to_forbid(self) -> tuple[Any, Any]:
        """The same with two more leaves, for trees that are added: one gives nothing, and one is forbidden."""
        from treeproof.model.compiled import compile_ensemble

        return compile_ensemble(self, forbids=True)

    @cached_property
    def fingerprint(self) -> bytes:
        """32 bytes that differ between models that predict differently; names and origin do not count."""
        from treeproof.model.fingerprint import fingerprint_of

        return fingerprint_of(self)

    def source_labels(self, X: FloatArray, given: Any = None) -> npt.NDArray[Any]:
        """What the source model itself predicts, or this ensemble if there is no source.

        `given` are the rows as the user has them, if they hold values of categories.
        """
        if self.source is None:
            return self.classes[self.predict_index(X)]
        from joblib import parallel_config

        # A library that uses joblib itself must not send its trees to the cluster, which may be gone after Ctrl-C, and
        # must add their scores in the order of the trees, which threads do not keep.
        with _IN_TURN, warnings.catch_warnings(), parallel_config(backend="sequential"):
            # Models trained on a data frame warn when they are given an array.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            # Checks of rows and scalers may overflow on the largest numbers that the model accepts.
            warnings.filterwarnings("ignore", category=RuntimeWarning, message="(overflow|invalid value) encountered")
            return np.asarray(self.source.predict(self.as_given(X) if given is None else given)).reshape(-1)

    def as_given(self, rows: FloatArray) -> Any:
        """Rows in the form that the source model takes, with the user's own values: a data frame or an array."""
        if self.takes_frames:
            return as_frame(rows, self.feature_names or range(self.n_features), self.categories)
        return in_own_values(rows, self.categories)

    def without_source(self) -> Ensemble:
        """The same model without the library's own object, to keep or to send elsewhere."""
        return self._with(source=None, responses=None)

    def with_arrays(self, taken: bool) -> Ensemble:
        """The same model of which it is said whether arrays are taken."""
        return self._with(takes_arrays=taken)

    def with_classes(self, classes: Sequence[Any]) -> Ensemble:
        """The same model with other names for its classes, and without the library's own object."""
        from treeproof.model.builder import as_classes

        try:
            given = as_classes([classes] if isinstance(classes, str) else classes)
            if len(given) == self.n_classes:
                return dataclasses.replace(self, classes=given, source=None)
            why = ""
        except (InvalidInput, TypeError) as error:
            why = f": {error}"
        raise InvalidInput(
            f"classes {classes!r} must name the model's {self.n_classes} classes "
            f"({', '.join(map(str, self.classes.tolist()))}), each once, in that order{why}",
            argument="classes",
        )

    def named_after(self, X: Any) -> Ensemble:
        """The same model with a data frame's column names, if it has none of its own; columns match by position."""
        names = getattr(X, "columns", None)
        return self if names is None or not all(isinstance(name, str) for name in names) else self.named(names)

    def named(self, names: Sequence[str] | None) -> Ensemble:
        """The same model with these names for its features, if it has none of its own and there is one for each."""
        if names is None or self.feature_names is not None or len(names) != self.n_features:
            return self
        return self._with(columns=renamed(self.columns, names))

    def _with(self, **changes: Any) -> Ensemble:
        """A copy with changes that do not affect what was computed from the trees."""
        copy = dataclasses.replace(self, **changes)
        for name in ("right", "leaf", "depths", "grid", "_walk", "compiled", "fingerprint"):
            if name in self.__dict__:
                copy.__dict__[name] = self.__dict__[name]
        return copy

    def __sklearn_clone__(self) -> Ensemble:
        return self  # never changes, and has nothing to unlearn

    def scores(self, X: npt.ArrayLike, *, coded: bool = False) -> npt.NDArray[Any]:
        """The scores of each row that the decision compares, in the library's own precision; X as in `check_rows`."""
        return self._scores(self.check_rows(X, coded=coded))

    def predict_index(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The index in `classes` of the class predicted for each row; arrays of numbers hold codes of categories."""
        return self.class_of_doubles(self.check_rows(X, coded=True))

    def class_of_doubles(self, rows: FloatArray) -> npt.NDArray[np.int64]:
        """The same for any rows of doubles, even between the codes of a category, where no table has any."""
        from treeproof._kernels.walk import decide_rows

        scores = self._scores(np.ascontiguousarray(rows))
        out = np.empty(len(scores), dtype=np.int64)
        decide_rows(scores, int(self.rule.decision), self.rule.cut, self.rule.steepness, out)
        return out

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The label of each row, bit for bit the one that the source model predicts for an array of doubles.

        Other types are converted to float64 first; a library may treat them differently: LightGBM narrows whole
        numbers to float32.
        """
        return self.classes[self.class_of_doubles(self.check_rows(X))]

    def check_rows(self, X: npt.ArrayLike, *, coded: bool = False) -> FloatArray:
        """X as a C-ordered (n, n_features) array of doubles, or InvalidInput naming row and column.

        An array of numbers holds the values of categories, as for the source model, and their codes if it is `coded`,
        one of CodedRows, or for a library that takes codes; see `treeproof.model.columns`.
        """
        self._refuse_no_rows(X)
        self._check_frame(X)
        coded = coded or isinstance(X, CodedRows)
        if not (coded or self.takes_arrays or hasattr(X, "columns")):
            raise InvalidInput(
                f"the model finds columns by their names; pass a data frame with {some_of(self.feature_names or ())}",
                argument="X",
            )
        try:
            rows = self._as_doubles(X, coded)
        except InvalidInput:
            raise
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise InvalidInput(f"X must contain only numbers: {error}") from None
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise InvalidInput(
                f"X has shape {rows.shape}, but the model takes rows of {self.n_features} features; "
                f"pass an array of shape (n_rows, {self.n_features})"
            )
        # One cheap pass that nearly every array survives, before any search for the culprit.
        if rows.size and not ((rows >= self.value_low) & (rows <= self.value_high)).all():
            self._refuse_values(rows)
        for f in [f for f, category in self.categories if category.coded]:
            for row in np.flatnonzero(rows[:, f] % 1 > 0)[:1].tolist():
                raise InvalidInput(
                    f"row {row}, column {self.feature_name(f)}: {rows[row, f]} is no code of a category; "
                    "codes are whole numbers"
                )
        return rows

    def _refuse_no_rows(self, X: Any) -> None:
        """Refuses what is no table of values at all, by name."""
        if hasattr(X, "toarray"):
            raise InvalidInput("X is a sparse matrix; pass X.toarray()", argument="X")
        if X is None or isinstance(X, (str, bytes, Mapping)):
            way_out = "; pandas.DataFrame(X) makes one of columns" if isinstance(X, Mapping) else ""
            raise InvalidInput(
                f"X must be a data frame or an array of shape (n_rows, {self.n_features}), got {X!r:.60}{way_out}",
                argument="X",
            )

    def _check_frame(self, X: Any) -> None:
        names = getattr(X, "columns", None)
        if names is None:
            return
        for name, times in Counter(names).most_common(1):
            if times > 1:
                raise InvalidInput(f"X has two columns {name!r}; drop one")
        if self.feature_names is not None:
            self._check_columns([str(name) for name in names])
        if len(names) != self.n_features:
            raise InvalidInput(f"X has {len(names)} columns, but the model takes {self.n_features}")
        types = list(map(str, getattr(X, "dtypes", ())))
        if types and all(dtype.startswith("Sparse") for dtype in types) and X.isna().to_numpy().any():
            # scikit-learn makes a sparse matrix of it, in which its trees do not see what is missing.
            raise InvalidInput("X is sparse and has missing values; pass X.sparse.to_dense()", argument="X")
        for column, name, dtype in zip(self.columns, names, types, strict=False):
            own = column.category
            # Libraries that take numbers take the codes of a frame's own categories, whatever their values are.
            if dtype == "category" and (own is None or not (own.coded or self.takes_frames)):
                way_out = f"; pass codes as in training, X[{name!r}].cat.codes" if own else ""
                raise InvalidInput(f"column {name!r} is categorical, but the model takes numbers there{way_out}")

    @cached_property
    def _are_doubles(self) -> bool:
        """Whether all that the model asks of a value is the double that it is."""
        return not any(column.category or column.refused for column in self.columns)

    def _as_doubles(self, X: Any, coded: bool) -> FloatArray:
        """X as numbers, column by column unless all are numbers of NumPy anyway."""
        is_frame, types = hasattr(X, "columns"), getattr(X, "dtypes", ())
        if is_frame and not (self._are_doubles and all(isinstance(dtype, np.dtype) for dtype in types)):
            has_places = hasattr(X, "iloc")
            return self._by_column([X.iloc[:, f] if has_places else X[name] for f, name in enumerate(X.columns)])
        given, dtype = np.asarray(X), None
        if given.dtype.kind == "c":
            raise TypeError("complex numbers have no order")
        if given.dtype.kind in "fiub" and (coded or self._are_doubles):
            return np.ascontiguousarray(given, dtype=np.float64)
        by_text = any(category.by_text for _, category in self.categories)
        if not (is_frame or hasattr(X, "dtype")) and (by_text or given.dtype.kind not in "fiub"):
            # Of text and numbers NumPy would make text, and of whole numbers and fractions doubles.
            given, dtype = np.asarray(X, dtype=object), given.dtype
        if given.ndim != 2 or given.shape[1] != self.n_features:
            raise InvalidInput(
                f"X has shape {given.shape}, but the model takes rows of {self.n_features} values; "
                f"pass a data frame, or an array of shape (n_rows, {self.n_features})"
            )
        return self._by_column(given.T, dtype)

    def _by_column(self, columns: Iterable[Any], dtype: Any = None) -> FloatArray:
        cells = [Cells(values, self.feature_name(f), dtype) for f, values in enumerate(columns)]
        made = [column.doubles(own) for column, own in zip(self.columns, cells, strict=True)]
        return np.ascontiguousarray(np.column_stack(made), dtype=np.float64)

    def _check_columns(self, columns: list[str]) -> None:
        expected = list(self.feature_names or ())
        spelled = [self.own_spelling(name) for name in columns]
        if expected in (columns, spelled):
            return
        missing = [name for name in expected if name not in columns and name not in spelled]
        if missing:
            raise InvalidInput(f"X has no column {missing[0]!r}, which the model was trained with")
        extra = [name for name in columns if name not in expected and self.own_spelling(name) not in expected]
        if extra:
            raise InvalidInput(f"X has a column {extra[0]!r} that the model was not trained with; drop it")
        raise InvalidInput(f"the columns of X are not in the model's order; use X[{expected!r}]")

    def _refuse_values(self, rows: FloatArray) -> None:
        nan = np.isnan(rows)
        outside = ~nan & ~((rows >= self.value_low) & (rows <= self.value_high))
        for row, column in np.argwhere(outside)[:1].tolist():
            raise InvalidInput(
                f"row {row}, column {self.feature_name(column)}: {rows[row, column]} is outside the range that the "
                f"model accepts, {self.value_low[column]:.6g} to {self.value_high[column]:.6g}"
            )
        for row, column in np.argwhere(nan & ~self.may_be_missing)[:1].tolist():
            raise InvalidInput(
                f"row {row}, column {self.feature_name(column)} is NaN, but the model does not accept missing values; "
                "impute it first"
            )

    def feature_name(self, index: int) -> str:
        """The feature's name in quotes, or its index where the model has no names."""
        return repr(self.feature_names[index]) if self.feature_names is not None else str(index)

    def feature_index(self, feature: int | str) -> int:
        """The index of a feature given by index or name, or InvalidInput."""
        if isinstance(feature, str):
            if self.feature_names is None:
                raise InvalidInput(f"the model has no feature names; give an index instead of {feature!r}")
            name = self.own_spelling(feature)
            if name in self.feature_names:
                return self.feature_names.index(name)
            longer = [each for each in self.feature_names if each.startswith(name)]
            near = difflib.get_close_matches(name, self.feature_names, n=3) or longer[:3]
            hint = "; attackers may name a one-hot group if relations name it" if len(longer) > 1 else ""
            raise InvalidInput(
                f"the model has no feature {feature!r}; it has {some_of(self.feature_names, near)}{hint}"
            )
        if isinstance(feature, bool) or not isinstance(feature, (int, np.integer)):
            raise InvalidInput(f"features are given by name or index, got {feature!r}")
        if not 0 <= feature < self.n_features:
            raise InvalidInput(f"feature {feature} is out of range; the model has features 0 to {self.n_features - 1}")
        return int(feature)

    def own_spelling(self, name: str) -> str:
        """The name as the model spells it."""
        return name.replace(" ", "_") if self.blanks_underscored else name

    def class_index(self, labels: npt.ArrayLike | Sequence[Any]) -> npt.NDArray[np.int64]:
        """The index of each label in `classes`, or InvalidInput naming the first unknown one."""
        try:
            values = np.asarray(labels)
        except ValueError as error:
            raise InvalidInput(f"labels must be a list with one label per row: {error}") from None
        if values.ndim != 1:
            raise InvalidInput(f"labels must be a list with one label per row, got shape {values.shape}")
        positions = {label: i for i, label in enumerate(self.classes.tolist())}
        out = np.empty(len(values), dtype=np.int64)
        for row, label in enumerate(values.tolist()):
            index = positions.get(label)
            if index is None:
                raise InvalidInput(
                    f"row {row}: the model does not know the label {label!r}; it predicts {list(positions)}"
                )
            out[row] = index
        return out

    def _scores(self, rows: FloatArray) -> npt.NDArray[Any]:
        rule = self.rule
        if not rule.members:
            return self._sums(rows, slice(None), rule.divisor)
        total, start = np.zeros((len(rows), self.n_scores)), 0
        for member in rule.members:
            trees = slice(start, start + member.n_trees)
            total += self._sums(rows, trees, member.divisor) * member.weight
            start = trees.stop
        return total / rule.divisor

    def _sums(self, rows: FloatArray, trees: slice, divisor: float) -> npt.NDArray[Any]:
        """The scores that some of the trees add up to, divided."""
        from treeproof._kernels.walk import score_rows

        walk = self._walk
        out = np.empty((len(rows), self.n_scores), dtype=self.leaf_scores.dtype)
        has_nan = bool(self.may_be_missing.any() and np.isnan(rows).any())
        if trees != slice(None):
            walk = walk._replace(roots=walk.roots[trees], depths=walk.depths[trees])
        score_rows(rows, tuple(walk), self.leaf_scores, self.base, self.rule.base_last, divisor, has_nan, out)
        return out

    def __repr__(self) -> str:
        return (
            f"Ensemble({visible(self.origin)}: {self.n_trees} trees, {self.n_nodes} nodes, {self.n_features} features, "
            f"{self.n_classes} classes{f'; {visible(self.decision_text)}' if self.decided else ''})"
        )


def labels_for(ensemble: Ensemble, y: npt.ArrayLike, n_rows: int) -> npt.NDArray[np.int64]:
    """The index of each row's label in `classes`; there must be one for each of so many rows."""
    labels = ensemble.class_index(y)
    if len(labels) != n_rows:
        raise InvalidInput(f"X has {n_rows} rows and y has {len(labels)} labels; give one label per row")
    return labels
