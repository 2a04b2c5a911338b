"""`treeproof demo`: everything at once, without arguments, on data that comes with scikit-learn."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treeproof.cli import screen
from treeproof.cli.outputs import Outputs
from treeproof.files import write_whole
from treeproof.results.markup import change
from treeproof.results.sentences import RESILIENT, ROBUST
from treeproof.results.verdicts import short
from treeproof.run import clock

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from treeproof import Attacker, Verification


@dataclass(frozen=True, eq=False)
class Setting:
    """The data, split in two, and what the attacker and noise may do to it."""

    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.int64]
    X_test: npt.NDArray[np.float64]
    y_test: npt.NDArray[np.int64]
    names: list[str]
    spread: npt.NDArray[np.float64]
    attacker: Attacker
    epsilon: list[float]

    @classmethod
    def load(cls) -> Setting:
        """scikit-learn's breast cancer data; attacks move features by a quarter of their spread, neighbours by 5 %."""
        from sklearn.datasets import load_breast_cancer
        from sklearn.model_selection import train_test_split

        import treeproof as tp

        data = load_breast_cancer()
        X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.5, random_state=7)
        spread = X.std(axis=0)
        names = [str(name) for name in data.feature_names]
        attacker = tp.Attacker.linf((0.25 * spread).tolist())
        return cls(X, y, X_test, y_test, names, spread, attacker, (0.05 * spread).tolist())


@click.command()
@click.option("--out", default="treeproof-demo.html", show_default=True, metavar="FILE", help="Where the report goes.")
def demo(out: str) -> None:
    """Verify a forest trained on scikit-learn's breast cancer data: is it as secure as it is accurate?"""
    from sklearn.ensemble import RandomForestClassifier

    import treeproof as tp

    began = clock.now()
    outputs = Outputs({"--out": out}, {}, {"--out": (".html", ".htm")})
    setting = Setting.load()
    forest = RandomForestClassifier(100, max_depth=8, random_state=7).fit(setting.X, setting.y)
    screen.say("A random forest of 100 trees tells malignant tumours (0) from benign ones (1) by 30 measurements.")
    screen.say("An attacker, or noise, may move each measurement by a quarter of its spread. Which diagnoses hold?")
    screen.announce_compilation()
    # Meanwhile, another core compiles and runs what follows.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as other:
        later = other.submit(_robust, setting), other.submit(_map, setting)
        result = _verified(forest, setting)
        screen.say(_measures("the forest", result))
        screen.say(_example(forest, result, setting))
        robust, mapped = (job.result() for job in later)
    screen.say("Boosted trees, trained against that attacker:")
    screen.say(_measures("boosted", _verified(robust, setting)))
    screen.say(mapped)
    page = tp.report_html(
        forest, result, title="Breast cancer, 100 trees", feature_names=setting.names, max_seconds=8, n_jobs=-1
    )
    screen.say(f"The whole story, with pictures: {Path(out).resolve()}")
    outputs.save(out, lambda file: write_whole(file, page))
    outputs.finish()
    screen.say(f"({clock.now() - began:.0f} s)")


def _verified(model: Any, setting: Setting) -> Verification:
    import treeproof as tp

    for rows in (slice(1), slice(None)):  # the page says what verifying takes, without compiling
        asked = setting.X_test[rows], setting.y_test[rows], setting.attacker
        result = tp.verify(model, *asked, epsilon=setting.epsilon, n_jobs=-1)
    return result


def _measures(name: str, result: Verification) -> str:
    assert result.resilience is not None
    return (
        f"  {name:12} accurate {result.accuracy:.3f} ≥ robust {short(result.robustness)} ≥ resilient "
        f"{short(result.resilience)}   (robust: right, {ROBUST[2:]}; resilient: {RESILIENT[2:]} within 5 %)"
    )


def _example(forest: Any, result: Verification, setting: Setting) -> str:
    """A diagnosis that an attack changes, in words, with the forest's own answers."""
    row = int(result.is_broken.argmax())
    witness = result.witness(row)
    assert witness is not None, "no row is broken"
    moved = witness.moved
    f = max(moved, key=lambda f: abs(moved[f][1] - moved[f][0]) / setting.spread[int(f)])
    before, after = forest.predict([witness.neighbour])[0], forest.predict([witness.attacked])[0]
    return (
        f"For example, row {row}: move {len(moved)} of its measurements ({setting.names[int(f)]} {change(*moved[f])} "
        f"is the largest move), and the forest says {after} instead of {before}."
    )


def _robust(setting: Setting) -> Any:
    import treeproof as tp

    model = tp.RobustBoostingClassifier(setting.attacker, epsilon=setting.epsilon, random_state=7)
    return model.fit(setting.X, setting.y)


def _map(setting: Setting) -> str:
    from sklearn.ensemble import RandomForestClassifier

    import treeproof as tp

    small = RandomForestClassifier(5, max_depth=2, random_state=7).fit(setting.X, setting.y)
    one_feature = tp.Attacker([(-0.25 * s, 0.25 * s) for s in setting.spread.tolist()], budget=1)
    smap = tp.StabilityMap.build(small, one_feature, n_jobs=1)
    share = smap.shares(setting.X_test)[tp.Status.STABLE]
    return (
        f"For a small forest (5 trees), the whole space is mapped, not only these rows: {smap.n_boxes} boxes. "
        f"{share:.0%} of the test rows lie where moving any one measurement by a quarter does not change "
        "the answer."
    )
