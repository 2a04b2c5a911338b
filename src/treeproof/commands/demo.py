"""`treeproof demo`: everything on data that comes with scikit-learn, without arguments."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treeproof.commands import screen

if TYPE_CHECKING:
    from treeproof import Attacker, Verification


@click.command()
@click.option("--out", default="treeproof-demo.html", show_default=True, metavar="FILE", help="Where the report goes.")
def demo(out: str) -> None:
    """Verify a forest trained on scikit-learn's breast cancer data: is it as secure as it is accurate?"""
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    import treeproof as tp

    began = time.perf_counter()
    data = load_breast_cancer(as_frame=False)
    names = [str(name) for name in data.feature_names]
    X_train, X_test, y_train, y_test = train_test_split(data.data, data.target, test_size=0.2, random_state=7)
    forest = RandomForestClassifier(100, max_depth=8, random_state=7).fit(X_train, y_train)
    spread = X_train.std(axis=0)
    attacker = tp.Attacker.linf((0.05 * spread).tolist())
    epsilon = (0.02 * spread).tolist()
    screen.say("A random forest of 100 trees tells malignant tumours (0) from benign ones (1), by 30 measurements.")
    screen.say("An attacker, or noise, may move every measurement by 5 % of its spread. Which diagnoses still hold?")
    screen.announce_compilation()
    result = tp.verify(forest, X_test, y_test, attacker, epsilon=epsilon, n_jobs=-1)
    _measures("the forest", result)
    row = next(i for i in range(len(result)) if result.has_witness[i] and result.correct[i])
    witness = result.witness(row)
    assert witness is not None
    moved = witness.moved
    f = max(moved, key=lambda f: abs(moved[f][1] - moved[f][0]) / spread[f])
    before, after = forest.predict([witness.neighbour])[0], forest.predict([witness.attacked])[0]
    screen.say(
        f"For example row {row}: move {len(moved)} measurements a little ({names[f]} {screen.number(moved[f][0])} → "
        f"{screen.number(moved[f][1])} is the largest move), and the forest says {after} instead of {before}."
    )
    _robust(tp, X_train, y_train, X_test, y_test, attacker, epsilon)
    _map(tp, X_train, y_train, X_test, np.asarray(spread))
    path = tp.write_report(
        out, forest, X_test, y_test, attacker, result, title="Breast cancer, 100 trees", feature_names=names,
        max_seconds=10, n_jobs=-1,
    )  # fmt: skip
    screen.say(f"The whole story, with pictures: {Path(path).resolve()}")
    screen.say(f"({time.perf_counter() - began:.0f} s)")


def _measures(name: str, result: Verification) -> None:
    from treeproof import Bounds

    resilience = result.resilience or Bounds(0, 0)
    screen.say(
        f"  {name:12} accurate {result.accuracy:.3f} ≥ robust {screen.measure(result.robustness)} ≥ resilient "
        f"{screen.measure(resilience)}   (robust: no attack turns it wrong; resilient: nor anything within 2 % of it)"
    )


def _robust(tp: Any, X: Any, y: Any, X_test: Any, y_test: Any, attacker: Attacker, epsilon: Any) -> None:
    robust = tp.RobustForestClassifier(attacker, n_estimators=15, max_depth=5, random_state=7, n_jobs=-1).fit(X, y)
    screen.say("Trained against this attacker instead (15 trees):")
    _measures("robust", tp.verify(robust, X_test, y_test, attacker, epsilon=epsilon, n_jobs=-1))


def _map(tp: Any, X: Any, y: Any, X_test: Any, spread: Any) -> None:
    from sklearn.ensemble import RandomForestClassifier

    small = RandomForestClassifier(5, max_depth=3, random_state=7).fit(X, y)
    one_feature = tp.Attacker([(-0.05 * s, 0.05 * s) for s in spread.tolist()], budget=1)
    smap = tp.StabilityMap.build(small, one_feature, order=X, max_seconds=5, n_jobs=-1)
    shares = smap.shares(X_test)
    screen.say(
        f"Of a small forest (5 trees) the whole space is mapped, not only these rows: {smap.n_boxes} boxes, "
        f"{'all decided' if smap.complete else 'some left open after 5 s'}; {shares[tp.Status.STABLE]:.0%} of the test "
        "rows lie where no single measurement, moved by 5 %, changes the answer."
    )
