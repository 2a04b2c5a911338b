"""What to protect: the cheapest columns, with a proof, and what a greedy choice would cost.

    python -m benchmarks.protect [--only german] [--seconds 60]

Each case is a model, test rows and an attacker; the goal is a share of rows between what holds as it is and what the
model is right about. "greedy" protects one column after another, each the one that makes most rows hold. Seconds are
by the clock, of one thread, when compiled code is loaded. Cases with costs have a price per column.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp
from benchmarks.cases import breast_cancer, digits
from benchmarks.deployed import DATA, Table, adult, german_credit


@dataclass(frozen=True)
class Case:
    """What `protect` is asked."""

    name: str
    make: Callable[[], dict[str, Any]]
    share: float
    """Where the goal is between the share that holds as it is (0) and the accuracy (1)."""


def deployed(load: Callable[[], Table], rows: int, attacker: tp.Attacker | None = None, **more: Any) -> dict[str, Any]:
    """Gradient boosting on text and numbers as they are."""
    table = load()
    text = list(table.X.select_dtypes(exclude="number"))
    X = table.X.astype(dict.fromkeys(text, "category"))
    train = np.arange(len(X)) < len(X) * 3 // 4
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=50, random_state=0)
    model.fit(X[train], table.y[train])
    whose = table.attacker if attacker is None else attacker
    return {"model": model, "X": X[~train][:rows], "y": table.y[~train][:rows], "attacker": whose, **more}


def plain(load: Callable[[], tuple[np.ndarray, np.ndarray]], model: Any, rows: int, **more: Any) -> dict[str, Any]:
    """A model of numbers."""
    X, y = load()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=7)
    return {"model": model.fit(X_train, y_train), "X": X_test[:rows], "y": y_test[:rows], **more}


def xreason(name: str, attacker: tp.Attacker) -> dict[str, Any]:
    """A model of XReason's and its rows, with the model's own labels."""
    folder = DATA.parent / "models" / "xreason"
    model = tp.load_model(folder / f"{name}.json")
    X = np.array(json.loads((folder / f"{name}.rows.json").read_text())["rows"], dtype=float)
    return {"model": model, "X": X, "y": model.predict(X), "attacker": attacker}


def forest(n: int, depth: int) -> RandomForestClassifier:
    return RandomForestClassifier(n, max_depth=depth, random_state=7)


def by_place(load: Callable[[], tuple[np.ndarray, np.ndarray]]) -> dict[int, int]:
    """A price per column."""
    return {f: 1 + f * 7 % 5 for f in range(load()[0].shape[1])}


def cases() -> list[Case]:
    """All of them."""
    linf = tp.Attacker.linf
    every_text = tp.Attacker(tp.ANY, budget=2)
    return [
        Case("german, two texts and a number", lambda: deployed(german_credit, 250), 0.5),
        Case("german, any two columns", lambda: deployed(german_credit, 250, every_text), 0.5),
        Case("adult, two texts and a number", lambda: deployed(adult, 500), 0.5),
        Case("adult, any two columns", lambda: deployed(adult, 250, every_text), 0.5),
        Case("cancer, 100 x 6, within 0.1", lambda: plain(breast_cancer, forest(100, 6), 171, attacker=linf(0.1)), 0.5),
        Case("cancer, 100 x 6, within 0.1", lambda: plain(breast_cancer, forest(100, 6), 171, attacker=linf(0.1)), 1.0),
        Case(
            "cancer, with costs",
            lambda: plain(
                breast_cancer, forest(100, 6), 171, attacker=linf(0.1), costs=by_place(breast_cancer)
            ),
            0.75,
        ),
        Case(
            "cancer, resilient within 0.01",
            lambda: plain(breast_cancer, forest(50, 6), 171, attacker=linf(0.1), epsilon=0.01),
            0.75,
        ),
        Case("spambase of XReason, any column", lambda: xreason("spambase", tp.Attacker.l0(1)), 0.9),
        Case("spambase of XReason, any two columns", lambda: xreason("spambase", tp.Attacker.l0(2)), 0.5),
        Case("texture of XReason, any column", lambda: xreason("texture", tp.Attacker.l0(1)), 0.75),
        Case(
            "digits, 50 extra trees, within 0.1",
            lambda: plain(digits, ExtraTreesClassifier(50, max_depth=8, random_state=7), 150, attacker=linf(0.1)),
            0.5,
        ),
    ]  # fmt: skip


def run(case: Case, seconds: float) -> None:
    asked = case.make()
    words = {key: value for key, value in asked.items() if key != "costs"}
    now = tp.protect(**words, to=0.0)
    before = now.share.lower
    goal = round(before + case.share * (now.accuracy - before) - 0.0005, 3)
    began = time.perf_counter()
    found = tp.protect(**asked, to=goal, max_seconds=seconds, n_jobs=1)
    took = time.perf_counter() - began
    costs = asked.get("costs") or {}
    greedy = sum(costs.get(name, 1) for name in found.curve[-1].columns)
    of = f"{before:.3f} to {goal:.3f} of {now.accuracy:.3f}"
    least = "" if found.exact else f" (at least {found.least:g})"
    print(f"{case.name:36} {found.rows:>5} {of:>24} {greedy:>7g} {found.cost:>6g}{least} {took:>8.2f} s", flush=True)
    print("    " + " ".join(found.in_words()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--seconds", type=float, default=60.0, help="for a case")
    options = parser.parse_args()
    print(f"{'case':36} {'rows':>5} {'share':>24} {'greedy':>7} {'least':>6}")
    for case in cases():
        if options.only in case.name:
            run(case, options.seconds)


if __name__ == "__main__":
    main()
