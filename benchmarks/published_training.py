"""Robust training by the protocol of Andriushchenko and Hein, and on random splits beside other training.

    TREEPROOF_DATA=folder python -m benchmarks.training --published [--data diabetes] [--groot python]

Rows in file order, the first 80 % train, features scaled by the minimum and maximum of the training rows; after that,
random 80/20 splits. The rows of cod-rna come sorted by class, so there all splits are random. Settings are chosen on
training rows only: in five-fold cross-validation, or for cod-rna on a fifth of them, the setting with the fewest rows
that are not robust, exactly, is found; among those that are not worse by more than a standard error, the one with the
fewest wrong rows is taken. Plain boosting is chosen by wrong rows alone. Errors are on all test rows, and exact.
"""

from __future__ import annotations

import csv
import lzma
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t as student
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import ParameterGrid, StratifiedKFold, StratifiedShuffleSplit

import treeproof as tp
from benchmarks.chen import ChenBoosting
from benchmarks.groot_peer import forests_of

Settings = dict[str, Any]
Grid = Mapping[str, list[Any]]


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on, scaled by the former."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, order: np.ndarray) -> Split:
        """The first 80 % of an order of the rows, and the rest."""
        n = int(0.8 * len(X))
        train, test = X[order[:n]], X[order[n:]]
        low, width = train.min(axis=0), np.ptp(train, axis=0)
        width = np.where(width > 0, width, 1.0)
        return cls((train - low) / width, y[order[:n]], (test - low) / width, y[order[n:]])


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    """With its id column, without rows that have missing values."""
    lines = (folder() / "breast-cancer-wisconsin.data").read_text().split()
    values = np.array([line.split(",") for line in lines if "?" not in line], dtype=float)
    return values[:, :-1], (values[:, -1] == 4).astype(int)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    with (folder() / "diabetes.csv").open() as file:
        rows = [row for row in csv.reader(file) if row and row[0].replace(".", "").isdigit()]
    values = np.array(rows, dtype=float)
    return values[:, :-1], values[:, -1].astype(int)


def cod_rna() -> tuple[np.ndarray, np.ndarray]:
    with lzma.open(folder() / "cod-rna.libsvm.xz", "rt") as file:
        lines = [line.replace(":", " ").split() for line in file]
    values = np.array([line[:1] + line[2::2] for line in lines if line], dtype=float)
    return values[:, 1:], (values[:, 0] > 0).astype(int)


def folder() -> Path:
    return Path(os.environ["TREEPROOF_DATA"])


@dataclass(frozen=True)
class Kind:
    """A way of training: the model for an attack's size, a seed and settings, and the settings to choose from."""

    make: Callable[[float, int, Settings], Any]
    grid: Grid
    large: Grid
    """For cod-rna."""
    by_robustness: bool = True


def robust_boosting(size: float, seed: int, settings: Settings) -> tp.RobustBoostingClassifier:
    fixed = {"subsample": 0.5, "random_state": seed, "n_jobs": 1}
    return tp.RobustBoostingClassifier(tp.Attacker.linf(size), **fixed, **settings)


def robust_forest(size: float, seed: int, settings: Settings) -> tp.RobustForestClassifier:
    return tp.RobustForestClassifier(tp.Attacker.linf(size), random_state=seed, n_jobs=1, **settings)


def chen(size: float, seed: int, settings: Settings) -> ChenBoosting:
    return ChenBoosting(size, random_state=seed, **settings)


def plain(_: float, seed: int, settings: Settings) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(early_stopping=False, random_state=seed, **settings)


SMALL = {
    "learning_rate": [0.1],
    "loss": ["bounded", "logistic"],
    "min_weight_fraction_leaf": [0.02],
    "smoothing": [0.01, 0.05],
}
LARGE = {"learning_rate": [0.3], "smoothing": [0.001]}
KINDS = {
    "robust boosting": Kind(
        robust_boosting,
        {**SMALL, "max_depth": [1, 2, 4], "n_estimators": [50, 200]},
        {**LARGE, "max_depth": [8], "n_estimators": [100, 200]},
    ),
    "robust stumps": Kind(
        robust_boosting,
        {**SMALL, "max_depth": [1], "n_estimators": [50, 200]},
        {**LARGE, "max_depth": [1], "n_estimators": [300]},
    ),
    "robust forest": Kind(
        robust_forest,
        {"criterion": ["treant", "groot"], "max_depth": [2, 4, 6], "n_estimators": [50]},
        {"criterion": ["groot"], "max_depth": [8], "n_estimators": [20]},
    ),
    "Chen-style trees": Kind(
        chen,
        {"max_depth": [2, 4, 8], "n_estimators": [5, 10, 20, 50]},
        {"max_depth": [2, 4, 8], "n_estimators": [10, 20]},
    ),
    "Chen-style stumps": Kind(
        chen,
        {"max_depth": [1], "n_estimators": [5, 10, 20, 50, 100]},
        {"max_depth": [1], "n_estimators": [20, 50, 100]},
    ),
    "plain boosting": Kind(
        plain,
        {"max_depth": [2, 4, 8], "max_iter": [50, 100]},
        {"max_depth": [8], "max_iter": [100]},
        by_robustness=False,
    ),
}


@dataclass(frozen=True)
class Data:
    """A data set, the size of attacks, and what was published: wrong and not robust, in percent."""

    load: Callable[[], tuple[np.ndarray, np.ndarray]]
    size: float
    published: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    is_large: bool = False


DATA = {
    "breast-cancer": Data(
        breast_cancer,
        0.3,
        {"robust trees": (0.7, 6.6), "robust stumps": (5.1, 10.9), "Chen": (0.7, 13.1), "plain": (0.7, 81.0)},
    ),
    "diabetes": Data(
        diabetes,
        0.05,
        {
            "robust trees": (27.3, 35.7),
            "robust stumps": (27.3, 31.8),
            "Chen": (22.1, 40.3),
            "Chen's stumps": (23.4, 30.5),
            "plain": (22.7, 55.2),
        },
    ),
    "cod-rna": Data(
        cod_rna,
        0.025,
        {"robust trees": (6.9, 21.3), "robust stumps": (11.2, 22.6), "Chen": (10.2, 24.2), "plain": (3.4, 37.6)},
        is_large=True,
    ),
}


def lost(model: Any, X: np.ndarray, y: np.ndarray, size: float) -> np.ndarray:
    """(n, 2): which rows are wrong, and which are not robust."""
    if size == 0:
        return np.repeat((model.predict(X) != y)[:, None], 2, axis=1)
    exact = getattr(model, "ensemble_", model)
    result = tp.verify(exact, X, y, tp.Attacker.linf(size), n_jobs=1)
    assert result.robustness.exact
    return np.column_stack((model.predict(X) != y, result.robustness_outcomes != tp.Outcome.PROVED))


def chosen(kind: Kind, X: np.ndarray, y: np.ndarray, data: Data, seed: int, known: dict[str, np.ndarray]) -> Settings:
    """The settings with the fewest wrong rows, of those that are nearly as robust as the best, on held-out rows.

    `known` keeps what is lost, for other kinds with some of the same settings.
    """
    splitter = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed) if data.is_large else None
    folds = list((splitter or StratifiedKFold(5, shuffle=True, random_state=seed)).split(X, y))
    settings = list(ParameterGrid(kind.large if data.is_large else kind.grid))
    if len(settings) == 1:
        return settings[0]
    size = data.size if kind.by_robustness else 0.0
    keys = [f"{kind.make.__name__} {one}" for one in settings]
    for key, one in zip(keys, settings, strict=True):
        if key not in known:
            known[key] = held_out(kind, X, y, size, seed, folds, one)
    return settings[nearly_best(np.array([known[key] for key in keys]))]


def held_out(
    kind: Kind, X: np.ndarray, y: np.ndarray, size: float, seed: int, folds: list[Any], settings: Settings
) -> np.ndarray:
    """What is lost of the held-out rows of all folds."""
    return np.concatenate(
        [lost(kind.make(size, seed, settings).fit(X[train], y[train]), X[held], y[held], size) for train, held in folds]
    )


def nearly_best(found: np.ndarray) -> int:
    """found (n_settings, n_rows, 2): of settings within a standard error of the most robust, that with fewest wrong."""
    wrong, broken = found.sum(axis=1).T
    best = int(np.lexsort((wrong, broken))[0])
    more = found[:, :, 1].astype(int) - found[best, :, 1]
    near = more.sum(axis=1) <= more.std(axis=1) * np.sqrt(more.shape[1])
    near[best] = True
    return int(np.lexsort((broken, wrong, ~near))[0])


def trained(name: str, order_seed: int | None, seed: int, groot: str | None) -> dict[str, Any]:
    """Wrong and not robust test rows of every way of training on a split, in percent, and the settings chosen."""
    data = DATA[name]
    X, y = data.load()
    order = np.arange(len(X)) if order_seed is None else np.random.default_rng(order_seed).permutation(len(X))
    split = Split.of(X, y, order)
    found: dict[str, Any] = {}
    known: dict[str, np.ndarray] = {}
    for title, kind in KINDS.items():
        settings = chosen(kind, split.X_train, split.y_train, data, seed, known)
        model = kind.make(data.size, seed, settings).fit(split.X_train, split.y_train)
        found[title] = (lost(model, split.X_test, split.y_test, data.size).sum(axis=0), settings)
    if groot is not None and not data.is_large:
        for settings, forest in forests_of(groot, split.X_train, split.y_train, data.size, seed):
            title = f"GROOT {settings['n_estimators']}×{settings['max_depth']}"
            found[title] = (lost(forest, split.X_test, split.y_test, data.size).sum(axis=0), settings)
    return found


def ceilings(name: str, order_seed: int | None) -> str:
    """How robust any classifier can be on the rows of a split."""
    data = DATA[name]
    X, y = data.load()
    order = np.arange(len(X)) if order_seed is None else np.random.default_rng(order_seed).permutation(len(X))
    split, attacker = Split.of(X, y, order), tp.Attacker.linf(data.size)
    parts = {"training": (split.X_train, split.y_train), "test": (split.X_test, split.y_test)}
    found = {part: tp.ceiling(*rows, attacker) for part, rows in parts.items()}
    texts = [
        f"{round((1 - one.accuracy) * one.n_rows)} of {one.n_rows:,} {part} rows ({100 * (1 - one.accuracy):.1f} %)"
        for part, one in found.items()
    ]
    return f"No classifier has fewer rows that are not robust than {texts[0]} and {texts[1]}."


def table(
    title: str, found: list[dict[str, Any]], n_rows: int, published: Mapping[str, tuple[float, float]]
) -> Iterator[str]:
    """Means, lowest and highest of every way of training, and by how much the first has fewer."""
    yield f"\n{title}\n"
    yield "| training | wrong | not robust | wrong, % | not robust, % | robust boosting has fewer, points (95 %) |"
    yield "|---|---|---|---|---|---|"
    first = np.array([one["robust boosting"][0] for one in found])
    for kind in found[0]:
        errors = np.array([one[kind][0] for one in found])
        cells = [f"{v.mean():.1f} ({v.min()} to {v.max()})" for v in errors.T]
        cells += [f"{100 * v.mean() / n_rows:.1f}" for v in errors.T]
        gains = [interval(v) for v in 100 * (errors - first).T / n_rows]
        yield f"| {kind} | {' | '.join(cells)} | {' and '.join(gains) if kind != 'robust boosting' else ''} |"
    for who, shares in published.items():
        yield f"| published: {who} | | | {shares[0]} | {shares[1]} | |"


def interval(gain: np.ndarray) -> str:
    """The mean and the 95 % interval of Student's t."""
    if len(gain) < 2:
        return f"{gain.mean():.1f}"
    half = student.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) / np.sqrt(len(gain))
    return f"{gain.mean():.1f} ± {half:.1f}"


def run(names: list[str], n_seeds: int, n_splits: int, groot: str | None, say: Callable[[str], None]) -> None:
    """All of it, line by line."""
    for name in names:
        data = DATA[name]
        n_rows = len(data.load()[1])
        n_test = n_rows - int(0.8 * n_rows)
        own, random = [(None, seed) for seed in range(n_seeds)], [(seed, seed) for seed in range(n_splits)]
        tables = {f"{n_splits} random splits": random}
        if not data.is_large:
            tables = {f"the protocol's split, {n_seeds} seeds": own, **tables}
        for number, (title, jobs) in enumerate(tables.items()):
            found = Parallel(n_jobs=2)(delayed(trained)(name, *job, groot) for job in jobs)
            title = f"{name}, L∞ {data.size}, {n_test:,} test rows, {title}"
            for line in table(title, found, n_test, {} if number else data.published):
                say(line)
            say("\n" + ceilings(name, jobs[0][0]) + ("" if jobs[0][0] is None else " (First split.)"))
            for kind in found[0]:
                taken = Counter(str(one[kind][1]) for one in found)
                say(f"  {kind}: " + "; ".join(f"{count} × {settings}" for settings, count in taken.most_common()))
