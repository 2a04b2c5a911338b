"""Small models of real libraries on few values a column, and all of their rows: what explanations are held against.

Columns are whole numbers from 0 to 3, or four words, and nothing of a model lies outside of them: every test tells some
of these values apart, and none tells 0 from what is below it, or 3 from what is above. Labels come from the library's
own `predict`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

VALUES = (0.0, 1.0, 2.0, 3.0)
WORDS = ("car", "home", "radio", "trip")


@dataclass(frozen=True, eq=False)
class Enumerated:
    """A fitted model and every row that it can be asked about; rows are tuples of places in `values`."""

    model: Any
    values: tuple[tuple[Any, ...], ...]
    as_table: Callable[[Sequence[tuple[Any, ...]]], Any]

    @cached_property
    def places(self) -> np.ndarray:
        """All rows, as places of their values."""
        return np.array(list(itertools.product(*(range(len(each)) for each in self.values))))

    def some(self, n: int) -> np.ndarray:
        """A few rows, as places of their values."""
        return np.random.default_rng(0).choice(self.places, n, replace=False)

    def table(self, places: np.ndarray) -> Any:
        """Rows as the library takes them."""
        return self.as_table([tuple(self.values[f][at] for f, at in enumerate(row)) for row in places.tolist()])

    @cached_property
    def labels(self) -> np.ndarray:
        """The library's own labels of all rows."""
        return np.asarray(self.model.predict(self.table(self.places))).reshape(len(self.places))

    def label_of(self, x: np.ndarray) -> Any:
        """Of one row of places."""
        return self.labels[(self.places == x).all(axis=1)][0]

    def flips(self, x: np.ndarray, allowed: Callable[[np.ndarray], bool] = lambda moved: True) -> set[frozenset[int]]:
        """What changes in rows with another label, of changes that are allowed: a mask of columns says which."""
        other = self.places[self.labels != self.label_of(x)]
        found = np.unique(other != x, axis=0)
        return {frozenset(np.flatnonzero(moved).tolist()) for moved in found if allowed(moved)}


def subsets(n: int) -> Iterator[frozenset[int]]:
    """All sets of columns, smaller ones first."""
    for size in range(n + 1):
        yield from map(frozenset, itertools.combinations(range(n), size))


def fewest_that_hit(flips: set[frozenset[int]], n: int) -> int:
    """The size of the smallest set that has a column of each."""
    return next(len(some) for some in subsets(n) if all(some & moved for moved in flips))


def _numbers(seed: int, n_columns: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.integers(0, 4, (300, n_columns)).astype(float)
    weights = random.uniform(0.6, 1.0, n_columns) * random.choice([-1.0, 1.0], n_columns)
    score = (X * weights).sum(axis=1) + 0.3 * X[:, 0] * X[:, 1]
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def of_numbers(model: Any, seed: int, n_columns: int = 5, n_classes: int = 2) -> Enumerated:
    """A model on columns of numbers."""
    X, y = _numbers(seed, n_columns, n_classes)
    return Enumerated(model.fit(X, y), (VALUES,) * n_columns, lambda rows: np.array(rows, dtype=float))


def of_words(model: Any, seed: int) -> Enumerated:
    """A model on a data frame with two columns of words and three of numbers."""
    X, y = _numbers(seed, 5, 2)
    names = ["purpose", "status", "age", "income", "months"]

    def as_table(rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
        frame = pd.DataFrame(list(rows), columns=names)
        return frame.astype(dict.fromkeys(names[:2], pd.CategoricalDtype(WORDS)))

    words = [[WORDS[int(value)] for value in X[:, f]] for f in range(2)]
    table = as_table(list(zip(*words, *X[:, 2:].T.tolist(), strict=True)))
    return Enumerated(model.fit(table, y), (WORDS, WORDS, VALUES, VALUES, VALUES), as_table)


def every_library() -> dict[str, Callable[[], Enumerated]]:
    """A small model of each library, made when it is asked for."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from xgboost import XGBClassifier

    light = {"n_estimators": 12, "num_leaves": 6, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
    hist = HistGradientBoostingClassifier(
        max_iter=12, max_leaf_nodes=6, min_samples_leaf=5, categorical_features="from_dtype", random_state=0
    )
    return {
        "xgboost": lambda: of_numbers(XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1), 1),
        "xgboost of three classes": lambda: of_numbers(XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1), 2, 5, 3),
        "lightgbm": lambda: of_numbers(LGBMClassifier(**light), 3),
        "lightgbm of words": lambda: of_words(LGBMClassifier(**light), 4),
        "scikit-learn forest": lambda: of_numbers(RandomForestClassifier(9, max_depth=4, random_state=0), 5, 5, 3),
        "scikit-learn of words": lambda: of_words(hist, 6),
        "catboost": lambda: of_numbers(
            CatBoostClassifier(iterations=12, depth=3, verbose=0, allow_writing_files=False, thread_count=1), 7
        ),
    }
