"""`treeproof train`: a model trained against the attacker, as a model file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from treeproof.cli import screen
from treeproof.cli.attackers import AttackerChoice, say_attacker
from treeproof.cli.options import Source, jobs_option, option, ranges, takes
from treeproof.cli.outputs import Outputs
from treeproof.errors import InvalidInput
from treeproof.results.markup import at_least, at_most, percent
from treeproof.results.sentences import NO_CLASSIFIER, PROVED_BY_TRAINING

MOST_BOUNDED = 20_000
"""Rows of which a ceiling is found in seconds."""


@dataclass(frozen=True)
class TrainOptions:
    """What is trained, and where it goes."""

    out: str = option(required=True, metavar="FILE", help="Where the model goes, in treeproof's own JSON.")
    kind: str = option(type=click.Choice(["boosting", "forest"]), default="boosting", show_default=True)
    trees: int = option(type=click.IntRange(max=1_000_000), default=100, show_default=True, help="The number of trees.")
    depth: int = option(type=int, default=4, show_default=True, help="The largest depth of a tree.")
    criterion: str | None = option(type=click.Choice(["treant", "groot"]), help="How trees of a forest are split.")
    epsilon: float | None = option(type=float, metavar="E", help="Train for resilience in neighbourhoods of this size.")
    seed: int = option(type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
    jobs: int = jobs_option()


@click.command()
@takes(Source, AttackerChoice, TrainOptions)
def train(source: Source, choice: AttackerChoice, asked: TrainOptions) -> None:
    """Train robust boosted trees, or a robust forest, on the labelled rows of DATA.

    \b
    treeproof train train.csv --label y --delta 0.05 --out robust.json
    treeproof verify robust.json test.csv --label y --delta 0.05
    """
    import treeproof as tp

    choice.refuse_relations("train")
    outputs = Outputs({"--out": asked.out}, {"DATA": source.file, **choice.files}, {"--out": (".json",)})
    table = source.table()
    y = table.labels(source.label)
    X, names = table.features((source.label, *source.dropped))
    if choice.ranges is not None:
        raise InvalidInput("train uses the ranges of its own data; leave --ranges out")
    attacker = choice.by_position(names, X, y)
    around = (
        None if asked.epsilon is None else (asked.epsilon * ranges(X)).tolist() if choice.relative else asked.epsilon
    )
    if asked.criterion is not None and asked.kind != "forest":
        raise InvalidInput("--criterion is for forests; add --kind forest")
    more: dict[str, Any] = {} if asked.criterion is None else {"criterion": asked.criterion}
    make = tp.RobustForestClassifier if asked.kind == "forest" else tp.RobustBoostingClassifier
    model = make(
        attacker,
        n_estimators=asked.trees,
        max_depth=asked.depth,
        epsilon=around,
        random_state=asked.seed,
        n_jobs=asked.jobs,
        progress=True,
        **more,
    ).fit(X, y)
    ensemble = tp.from_model(model).named(names if table.named else None)
    screen.say(f"model      {ensemble}")
    say_attacker(attacker, ensemble, choice)
    screen.say(f"accuracy   {float((model.predict(X) == y).mean()):.3f} on the rows it was trained on")
    if asked.kind == "boosting":
        proved = "resilient" if asked.epsilon is not None else "robust"
        screen.say(f"{proved:10s} {PROVED_BY_TRAINING.format(share=at_least(model.proved_robust_))}")
    _say_ceiling(X, y, attacker, around)
    outputs.save(asked.out, lambda file: tp.save_model(ensemble, file))
    outputs.finish()


def _say_ceiling(X: Any, y: Any, attacker: Any, epsilon: Any) -> None:
    """Says how robust any classifier could be on these rows, or on as many of them as take seconds."""
    import treeproof as tp

    some = slice(None, None, -(-len(y) // MOST_BOUNDED))
    ceiling = tp.ceiling(X[some], y[some], attacker, epsilon)
    which = "them" if ceiling.n_rows == len(y) else f"{ceiling.n_rows:,} of them"
    most = f"{percent(float(at_most(ceiling.accuracy)))} of {which}"
    screen.say(f"ceiling    {NO_CLASSIFIER.format(holds=ceiling.holds, most=most)}")
