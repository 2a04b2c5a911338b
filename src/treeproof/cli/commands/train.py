"""`treeproof train`: a model trained against the attacker, as a model file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from treeproof.cli import screen
from treeproof.cli.attackers import AttackerChoice, attacker_options, say_attacker
from treeproof.cli.options import (
    Source,
    data_options,
    jobs_option,
    max_bytes_option,
    ranges,
)
from treeproof.cli.outputs import Outputs
from treeproof.errors import InvalidInput
from treeproof.results.markup import at_least, at_most, percent
from treeproof.results.sentences import NO_CLASSIFIER, PROVED_BY_TRAINING

MOST_BOUNDED = 20_000
"""Rows of which a ceiling is found in seconds."""


@click.command()
@data_options
@max_bytes_option
@attacker_options
@click.option("--out", required=True, metavar="FILE", help="Where the model goes, in treeproof's own JSON.")
@click.option("--kind", type=click.Choice(["boosting", "forest"]), default="boosting", show_default=True)
@click.option(
    "--trees", type=click.IntRange(max=1_000_000), default=100, show_default=True, help="The number of trees."
)
@click.option("--depth", type=int, default=4, show_default=True, help="The largest depth of a tree.")
@click.option("--criterion", type=click.Choice(["treant", "groot"]), help="How trees of a forest are split.")
@click.option("--epsilon", type=float, metavar="E", help="Train for resilience in neighbourhoods of this size.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@jobs_option
def train(
    data: str,
    label: str,
    drop: str,
    separator: str | None,
    decimal: str,
    max_bytes: int,
    out: str,
    kind: str,
    trees: int,
    depth: int,
    criterion: str | None,
    epsilon: float | None,
    seed: int,
    jobs: int,
    **attack: Any,
) -> None:
    """Train robust boosted trees, or a robust forest, on the labelled rows of DATA.

    \b
    treeproof train train.csv --label y --delta 0.05 --out robust.json
    treeproof verify robust.json test.csv --label y --delta 0.05
    \f
    One parameter per option.
    """
    import treeproof as tp

    choice = AttackerChoice(**attack)
    choice.refuse_relations("train")
    outputs = Outputs({"--out": out}, {"DATA": data, **choice.files}, {"--out": (".json",)})
    source = Source(data, label, drop, separator, decimal, max_bytes)
    table = source.table()
    y = table.labels(label)
    X, names = table.features((label, *source.dropped))
    if choice.ranges is not None:
        raise InvalidInput("train uses the ranges of its own data; leave --ranges out")
    attacker = choice.by_position(names, X, y)
    around = None if epsilon is None else (epsilon * ranges(X)).tolist() if choice.relative else epsilon
    if criterion is not None and kind != "forest":
        raise InvalidInput("--criterion is for forests; add --kind forest")
    more: dict[str, Any] = {} if criterion is None else {"criterion": criterion}
    make = tp.RobustForestClassifier if kind == "forest" else tp.RobustBoostingClassifier
    model = make(
        attacker,
        n_estimators=trees,
        max_depth=depth,
        epsilon=around,
        random_state=seed,
        n_jobs=jobs,
        progress=True,
        **more,
    ).fit(X, y)
    ensemble = replace(tp.from_model(model), feature_names=tuple(names) if table.named else None)
    screen.say(f"model      {ensemble}")
    say_attacker(attacker, ensemble, choice)
    screen.say(f"accuracy   {float((model.predict(X) == y).mean()):.3f} on the rows it was trained on")
    if kind == "boosting":
        proved = "resilient" if epsilon is not None else "robust"
        screen.say(f"{proved:10s} {PROVED_BY_TRAINING.format(share=at_least(model.proved_robust_))}")
    _say_ceiling(X, y, attacker, around)
    outputs.save(out, lambda file: tp.save_model(ensemble, file))
    outputs.finish()


def _say_ceiling(X: Any, y: Any, attacker: Any, epsilon: Any) -> None:
    """Says how robust any classifier could be on these rows, or on as many of them as take seconds."""
    import treeproof as tp

    some = slice(None, None, -(-len(y) // MOST_BOUNDED))
    ceiling = tp.ceiling(X[some], y[some], attacker, epsilon)
    which = "them" if ceiling.n_rows == len(y) else f"{ceiling.n_rows:,} of them"
    most = f"{percent(float(at_most(ceiling.accuracy)))} of {which}"
    screen.say(f"ceiling    {NO_CLASSIFIER.format(holds=ceiling.holds, most=most)}")
