"""Decisions at other cuts than the library's own: thresholds on exact probabilities, calibrators, votes, names."""

from __future__ import annotations

import itertools
import math
import warnings
from random import Random
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.fuzz.answers import each
from tests.support.fuzz.tally import Difference, Part, Tally, ensure
from tests.support.fuzz.tally import told as telling

LIBRARIES = ("tree", "forest", "gradient", "histogram", "ada", "xgboost", "lightgbm", "catboost")
DECISIONS = ("threshold", "fixed", "tuned", "sigmoid", "isotonic", "hard", "with_classes", "one against rest")
CELLS = (*itertools.product(DECISIONS, LIBRARIES), ("soft vote", "any"), ("hard vote", "any"), ("isolation", "any"))
NO_CELL = {("hard", name) for name in LIBRARIES[2:]} | {
    ("one against rest", name) for name in ("xgboost", "catboost", "ada")
}
NAMES: tuple[tuple[Any, ...], ...] = (
    ("no", "yes"), (0, 1), ("1", "1.0"), ("1e2", "100"), (False, True), (2.0, 3.0), ("a", "a "), (-1, 1), ("None",
    "none"), ("x", ""),
)  # fmt: skip
"""Names that are two."""

ALIKE: tuple[tuple[Any, ...], ...] = (
    (1, "1"), (math.nan, None), ("a", "a"), (1, 1.0), (True, 1), (0, False), ("1", 1.0), (math.nan, math.nan), (None,
    "None"), (1, None),
)  # fmt: skip
"""Names that no array or file keeps apart, or that are no names."""


def model_of(library: str, random: Random, classes: int = 2) -> Any:
    """A small model of a library."""
    seed = random.randrange(1000)
    trees = random.choice([1, 3, 10])
    if library == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=trees, max_depth=3, n_jobs=1)
    if library == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=trees, min_child_samples=1, n_jobs=1, verbose=-1)
    if library == "catboost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(iterations=trees, depth=3, thread_count=1, verbose=0, allow_writing_files=False)
    return {
        "tree": lambda: DecisionTreeClassifier(max_depth=random.choice([1, 3, 5]), random_state=seed),
        "forest": lambda: RandomForestClassifier(trees, max_depth=4, random_state=seed),
        "gradient": lambda: GradientBoostingClassifier(n_estimators=trees, random_state=seed),
        "histogram": lambda: HistGradientBoostingClassifier(max_iter=trees, min_samples_leaf=1),
        "ada": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=trees, random_state=seed),
    }[library]()


def data(random: Random, classes: int = 2) -> tuple[Any, Any, Any]:
    """Rows and labels to fit on, and rows to ask about: ties are as frequent as ties can be."""
    rng = np.random.default_rng(random.randrange(2**32))
    X = rng.integers(0, 5, (90, 3)).astype(float) if random.random() < 0.5 else rng.normal(size=(90, 3))
    y = (X[:, 0] > np.median(X[:, 0])).astype(int) ^ (rng.random(90) < 0.25)
    if classes > 2:
        y = (y + (X[:, 1] > np.median(X[:, 1]))) % classes
    more = np.concatenate(
        [X, X + rng.normal(size=X.shape) * 0.1, rng.normal(size=(120, 3)) * 3, rng.integers(0, 5, (60, 3))]
    )
    return X, y, more


def check(random: Random, number: int, tally: Tally) -> None:
    """One decision of one library."""
    cells = [cell for cell in CELLS if cell not in NO_CELL]
    decision, library = cells[number % len(cells)]
    with telling(f"{decision} × {library}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if decision == "with_classes":
            n = named(random, library, tally)
        else:
            n = decided(random, decision, library, tally)
        tally.count(decision, library, n)


def decided(random: Random, decision: str, library: str, tally: Tally) -> int:
    """The labels of a wrapper, or of a threshold, on many rows."""
    several = (
        decision in ("soft vote", "hard vote", "hard", "one against rest")
        and library in ("any", "tree", "forest")
        and random.random() < 0.4
    )
    classes = 3 if several else 2
    X, y, rows = data(random, classes)
    if decision == "isolation":
        # With a contamination, the score of one of the rows, or a number between two, is the cut.
        some = X[: random.choice([11, 21, 90])]
        model: Any = IsolationForest(
            n_estimators=random.choice([2, 8]),
            random_state=random.randrange(99),
            contamination=random.choice(["auto", 0.1, 0.2, 0.5]),
        ).fit(some)
        return same_labels(tp.from_model(model), model.predict, rows, repr(model))
    if decision == "hard":
        model = model_of(library, random).fit(X, y)
        return same_labels(tp.from_model(model, voting="hard"), lambda some: votes_of(model, some), rows, repr(model))
    if decision in ("soft vote", "hard vote"):
        members = [
            model_of("tree" if decision == "hard vote" else random.choice(["tree", "forest"]), random)
            for _ in range(random.randint(2, 4))
        ]
        weights = random.choice([None, [random.choice([1, 2, 0.1, 0.3]) for _ in members]])
        model = VotingClassifier(
            [(str(k), m) for k, m in enumerate(members)], voting=decision.split()[0], weights=weights
        ).fit(X, y)
        return same_labels(tp.from_model(model), model.predict, rows, repr(model))
    if decision == "one against rest":
        model = OneVsRestClassifier(model_of(library, random)).fit(X, y)
        return same_labels(tp.from_model(model), model.predict, rows, repr(model))
    base = model_of(library, random).fit(X, y)
    if decision in ("sigmoid", "isotonic"):
        model = CalibratedClassifierCV(FrozenEstimator(base), method=decision).fit(
            rows[:150], (rows[:150, 0] > 0).astype(int)
        )
        return same_labels_or_refusal(model, model.predict, rows, tally)
    if decision == "tuned":
        model = TunedThresholdClassifierCV(base, cv="prefit", refit=False, thresholds=9).fit(X, y)
        return same_labels_or_refusal(model, model.predict, rows, tally)
    if decision == "fixed" and random.random() < 0.4:  # a calibrator that rises or falls
        labels = (rows[:150, 0] > 0) ^ (random.random() < 0.5)
        base = CalibratedClassifierCV(FrozenEstimator(base), method="sigmoid").fit(rows[:150], labels.astype(int))
    # A probability that some row has exactly, or the number beside it.
    own = float(random.choice(base.predict_proba(rows)[:, 1].tolist()))
    threshold = random.choice(
        [own, own, math.nextafter(own, 0), math.nextafter(own, 1), 0.5, 0.0, 1.0, random.random()]
    )
    if decision == "fixed":
        pos_label = random.choice([None, 0, 1])
        model = FixedThresholdClassifier(
            FrozenEstimator(base), threshold=threshold, pos_label=pos_label, response_method="predict_proba"
        ).fit(X, y)
        return same_labels_or_refusal(model, model.predict, rows, tally)
    try:
        ensemble = tp.from_model(base, threshold=threshold)
    except (tp.InvalidInput, tp.UnsupportedModel) as error:
        tally.refuse("threshold", " ".join(str(error).split()[-6:]))
        return 0
    wrapped = FixedThresholdClassifier(FrozenEstimator(base), threshold=threshold, response_method="predict_proba").fit(
        X, y
    )
    return same_labels(ensemble, wrapped.predict, rows, f"{base!r} at {threshold!r}")


def votes_of(model: Any, rows: Any) -> Any:
    """The label that most trees give, the lowest of several; a tie within a tree goes to its lowest class."""
    trees = getattr(model, "estimators_", [model])
    counts = np.zeros((len(rows), len(model.classes_)))
    for tree in trees:
        counts[np.arange(len(rows)), tree.predict_proba(rows).argmax(axis=1)] += 1
    return model.classes_[counts.argmax(axis=1)]


def same_labels_or_refusal(model: Any, predict: Any, rows: Any, tally: Tally) -> int:
    try:
        ensemble = tp.from_model(model)
    except (tp.InvalidInput, tp.UnsupportedModel) as error:
        tally.refuse(type(model).__name__, " ".join(str(error).split()[-6:]))
        return 0
    return same_labels(ensemble, predict, rows, repr(model))


def same_labels(ensemble: tp.Ensemble, predict: Any, rows: Any, what: str) -> int:
    """All labels are those of the library."""
    ours, theirs = each(ensemble.predict, rows, ours=True), each(predict, rows, ours=False)
    for row, a, b in zip(rows.tolist(), ours, theirs, strict=True):
        ensure(a == b, f"{what}: row {row}: {a!r} here, {b!r} there")
    return len(rows)


def named(random: Random, library: str, tally: Tally) -> int:
    """Other names for classes: one to one, or refused."""
    X, y, rows = data(random)
    base = model_of(library, random).fit(X, y)
    ensemble = tp.from_model(base)
    names = random.choice(NAMES)
    renamed = ensemble.with_classes(names)
    found = each(renamed.predict, rows, ours=True)
    theirs = each(base.predict, rows, ours=False)
    for row, a, b in zip(rows.tolist(), found, theirs, strict=True):
        ensure(a == names[int(b)] and type(a) is type(names[int(b)]), f"row {row}: {a!r}, not {names[int(b)]!r}")
    label_arrays(renamed, rows[:5], [names[int(b)] for b in theirs[:5]])
    bad = random.choice(ALIKE)
    try:
        taken = ensemble.with_classes(bad)
    except tp.InvalidInput:
        tally.refuse("with_classes", "alike")
    else:
        raise Difference(f"takes the names {bad!r} and makes {taken.classes.tolist()!r} of them")
    return len(rows)


def label_arrays(ensemble: tp.Ensemble, rows: Any, labels: list[Any]) -> None:
    """True labels in several containers are these labels: every row is right."""
    objects = np.empty(len(labels), dtype=object)
    objects[:] = labels
    for given in (labels, np.array(labels), objects):
        result = tp.verify(ensemble, rows, given, tp.Attacker((0, 0)), n_jobs=1)
        ensure(bool(result.correct.all()), f"labels {given!r} are read as {result.y.tolist()!r}")


PART = Part("decisions", tuple(cell for cell in CELLS if cell not in NO_CELL), check)
