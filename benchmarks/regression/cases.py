"""The cases: every engine and every path with some weight. No limit depends on the clock, and no library trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import treeproof as tp
from benchmarks.regression import counting
from benchmarks.regression.counting import Ask, boosted, forest, from_file, through_library
from benchmarks.regression.counts import Counts
from benchmarks.regression.models import (
    Data,
    cancer,
    coarse,
    crowded_cube,
    cube,
    digits,
    gappy_cube,
    small_gappy_cube,
    wine,
)

Attacker = tp.Attacker


@dataclass(frozen=True)
class Case:
    """One line of the table; `run` takes a number of threads. Where the module `needs` is missing, it is skipped."""

    name: str
    run: Callable[[int], Counts]
    needs: str = ""


# What a case uses is looked up when it runs: another commit may lack it, and can still run the others.


def verify(model: Ask, n: int | None, attacker: Any, **near: Any) -> Callable[[int], Counts]:
    return lambda jobs: counting.verified(model(), n, attacker, jobs, **near)


def radius(what: str, model: Ask, n: int, attacker: Any) -> Callable[[int], Counts]:
    return lambda jobs: counting.radii(getattr(tp, f"{what}_radius"), model(), n, attacker, jobs)


def build_map(model: Ask, attacker: Any, workers: int | None = None, **limits: Any) -> Callable[[int], Counts]:
    return lambda jobs: counting.mapped(model(), attacker, workers or jobs, **limits)


def analyze(model: Ask, attacker: Any, until: int | None = None, **settings: Any) -> Callable[[int], Counts]:
    return lambda jobs: counting.analyzed(model(), attacker, jobs, until, **settings)


def train(kind: str, data: Callable[[], Data], attacker: Any, **settings: Any) -> Callable[[int], Counts]:
    return lambda jobs: counting.trained(getattr(tp, f"Robust{kind}Classifier")(attacker, **settings), data(), jobs)


CANCER = partial(forest, cancer, 50, 6)
LARGER = partial(forest, cancer, 150, 8)
VOTES = partial(forest, cancer, 15, 4, hard=True)
DIGITS = partial(forest, digits, 40, 8)
WINE = partial(forest, wine, 25, 5, hard=True)
LARGE_TREES = partial(forest, crowded_cube, 30, 14)
COARSE = partial(forest, coarse, 15, 5)
SMALL = partial(forest, cube, 13, 3, hard=True)
SMALLER = partial(forest, cube, 9, 3, hard=True)
MEDIUM = partial(forest, cube, 21, 3, hard=True)
BOOSTED = partial(boosted, cancer, 40, 5, "cut")
SINGLE = partial(boosted, cancer, 40, 5, "cut", "float32")
SIGMOID = partial(boosted, wine, 30, 5, "sigmoid")
SOFTMAX = partial(boosted, wine, 30, 5, "softmax", "float32")
SOFTMAX_DIGITS = partial(boosted, digits, 20, 5, "softmax")
MISSING = partial(boosted, gappy_cube, 30, 5, "cut")

LEFT = Attacker((-0.1, 0.0), budget=1)
PAIRS = Attacker((-0.1, 0.1), budget=2)
FAR_PAIRS = Attacker((-0.3, 0.3), budget=2)
PRICED = Attacker(
    {0: (-0.2, 0.2), 1: (-0.1, 0.3), 2: (-0.3, 0.0), 7: (-0.3, 0.3), 20: (0.0, 0.5), 22: (-0.5, 0.5)},
    costs={1: 2, 20: 3},
    budget=3,
    domain=(0.0, 1.0),
)
AWAY = Attacker([(0.02, 0.1)] * 3 + [(-0.08, -0.01)] + [(-0.02, 0.02)] * 4, budget=3)
NARROW = Attacker([(4.0, 4.5), (3.0, 3.5), (-6.5, -6.0), (-9.0, -4.0)])
"""Some of its intervals hold one move from a double to another, and some none, where doubles lie 2 apart."""

FOREST = {"max_depth": 6, "max_features": "sqrt", "random_state": 7}

CASES = [
    Case("verify: L∞, soft vote", verify(CANCER, None, Attacker.linf(0.05), epsilon=0.01)),
    Case("verify: L∞, hard rows", verify(LARGER, 60, Attacker.linf(0.15))),
    Case("verify: L∞, large trees", verify(LARGE_TREES, 600, Attacker.linf(0.1))),
    Case("verify: L∞, 10 classes", verify(DIGITS, 200, Attacker.linf(0.0626))),
    Case("verify: L∞, hard vote, 3 classes", verify(WINE, None, Attacker.linf(0.05), epsilon=0.02)),
    Case("verify: one-sided, hard vote, three ε", verify(VOTES, None, LEFT, epsilons=[0.02, 0.01, 0.03])),
    Case("verify: budget 2, 10 classes", verify(DIGITS, 15, Attacker((-1.0, 1.0), budget=2))),
    Case("verify: budget 3", verify(CANCER, 40, Attacker((-0.3, 0.3), budget=3), epsilon=0.01)),
    Case("verify: costs, ε by feature", verify(CANCER, None, PRICED, epsilon={0: 0.05, 7: 0.02, 12: 0.1})),
    Case("verify: L0 of 2", verify(CANCER, 100, Attacker.l0(2))),
    Case("verify: L0 of 3", verify(CANCER, 40, Attacker.l0(3))),
    Case("verify: L1 ball", verify(CANCER, 60, Attacker.lp(1, 0.1))),
    Case("verify: L2 ball", verify(CANCER, 40, Attacker.lp(2, 0.1))),
    Case("verify: L2 ball, large trees, ε", verify(LARGE_TREES, 300, Attacker.lp(2, 0.1), epsilon=0.01)),
    Case("verify: boosted, cut", verify(BOOSTED, 200, FAR_PAIRS)),
    Case("verify: boosted, cut, float32", verify(SINGLE, None, Attacker.linf(0.05), epsilon=0.01)),
    Case("verify: boosted, sigmoid", verify(SIGMOID, None, FAR_PAIRS, epsilon=0.01)),
    Case("verify: boosted, softmax, float32", verify(SOFTMAX, None, Attacker.l0(2))),
    Case("verify: boosted, softmax, 10 classes", verify(SOFTMAX_DIGITS, 30, FAR_PAIRS)),
    Case("verify: missing values", verify(MISSING, None, Attacker.linf(0.05), epsilon=0.01)),
    Case("verify: missing values, budget 2", verify(MISSING, None, FAR_PAIRS)),
    Case("verify: intervals without 0", verify(LARGE_TREES, 300, AWAY, epsilons=[0.01, 0.05])),
    Case("verify: intervals between doubles", verify(COARSE, 60, NARROW, epsilon=6.0)),
    Case("verify: XGBoost object", partial(through_library, "xgboost"), needs="xgboost"),
    Case("verify: LightGBM object", partial(through_library, "lightgbm"), needs="lightgbm"),
    Case("radius: robustness, L∞", radius("robustness", CANCER, 40, Attacker.linf(1.0))),
    Case("radius: robustness, budget 2", radius("robustness", SMALL, 200, Attacker((-1.0, 1.0), budget=2))),
    Case("radius: robustness, L1", radius("robustness", SMALL, 30, Attacker.lp(1, 1.0))),
    Case("radius: robustness, L2", radius("robustness", SMALL, 30, Attacker.lp(2, 1.0))),
    Case("radius: resilience, L∞", radius("resilience", CANCER, 30, Attacker.linf(0.02))),
    Case("radius: resilience, budget 2", radius("resilience", SMALL, 150, PAIRS)),
    # Maps that take more than one task, or end early, are cut by tasks that depend on the number of workers.
    Case("map: one-sided", build_map(SMALL, LEFT)),
    Case("map: two workers", build_map(MEDIUM, LEFT, workers=2)),
    Case("map: budget 2", build_map(SMALLER, PAIRS, workers=1)),
    Case("map: stopped, largest first", build_map(SMALL, PAIRS, workers=1, max_boxes=5000)),
    Case("map: stopped, most rows first", build_map(SMALL, PAIRS, workers=1, max_boxes=5000, order=cube().X[:100])),
    Case("map: boosted, L∞", build_map(partial(boosted, cube, 5, 3, "cut"), Attacker.linf(0.05), workers=1)),
    Case("analyze: complete", analyze(SMALL, LEFT)),
    Case("analyze: stopped", analyze(MEDIUM, LEFT, 100)),
    Case("analyze: budget 2, tracked", analyze(SMALL, PAIRS, 30, track=True)),
    Case("analyze: missing values", analyze(partial(boosted, small_gappy_cube, 15, 3, "cut"), LEFT, 60, missing=True)),
    Case("train: tree, treant", train("Tree", crowded_cube, Attacker.linf(0.03), max_depth=8)),
    Case("train: tree, groot", train("Tree", crowded_cube, PAIRS, max_depth=8, criterion="groot")),
    Case(
        "train: forest, treant, ε",
        train("Forest", cancer, PAIRS, epsilon=0.01, n_estimators=20, criterion="treant", **FOREST),
    ),
    Case(
        "train: forest, groot, 10 classes",
        train("Forest", digits, Attacker.linf(0.05), criterion="groot", n_estimators=5, **FOREST),
    ),
    Case("train: boosting, budget 2", train("Boosting", cancer, PAIRS, n_estimators=20, random_state=0)),
    Case(
        "train: stumps, ε",
        train("Boosting", crowded_cube, LEFT, epsilon=0.01, n_estimators=40, max_depth=1, random_state=0),
    ),
    Case("guard: online", lambda jobs: counting.guarded(LARGER(), Attacker.linf(0.07), "online", jobs)),
    Case("guard: map", lambda jobs: counting.guarded(SMALL(), LEFT, "map", jobs)),
    Case("check: verification", lambda _: counting.checked(CANCER(), 60, Attacker.linf(0.03))),
    Case("check: map", lambda _: counting.checked_map(SMALL(), LEFT, 300)),
    Case("import: own format", lambda _: counting.imported(DIGITS().text, ".json", digits())),
    Case("import: XGBoost file", lambda _: from_file("xgboost")),
    Case("import: LightGBM file", lambda _: from_file("lightgbm")),
    Case("predict: soft vote", lambda _: counting.predicted(LARGER(), 200)),
    Case("predict: missing values", lambda _: counting.predicted(MISSING(), 200)),
]
