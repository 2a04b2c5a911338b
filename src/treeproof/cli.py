"""The command line: parses, calls the public API, prints."""

from __future__ import annotations

import time

import click

from treeproof import __version__
from treeproof.commands.reproduce import reproduce


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="treeproof")
def main() -> None:
    """How secure is a tree-based classifier really? Exact answers, with evidence."""


main.add_command(reproduce)


@main.command()
def demo() -> None:
    """Verify a forest trained on scikit-learn's breast cancer data: is it as secure as it is accurate?"""
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    import treeproof as tp

    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=7)
    clf = RandomForestClassifier(100, max_depth=8, random_state=7).fit(X_train, y_train)
    ensemble = tp.from_model(clf)
    click.echo(f"model      {ensemble}")
    click.echo(f"accuracy   {np.mean(ensemble.predict(X_test) == y_test):.3f} on {len(X_test)} test rows")

    rows = []
    for feature in range(ensemble.n_features):
        cuts = ensemble.grid.cuts_of(feature)
        values = np.concatenate((cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)))
        block = X_test[np.arange(len(values)) % len(X_test)].copy()
        block[:, feature] = values
        rows.append(block)
    edge = np.concatenate(rows)
    differences = int(np.sum(ensemble.predict(edge) != clf.predict(edge)))
    click.echo(
        f"exactness  {differences} of {len(edge)} predictions differ from scikit-learn's, with one feature put on each "
        "threshold and one double beside it"
    )

    spread = X_train.std(axis=0)
    click.echo("verifying  first use compiles the search, which takes about half a minute; later runs start at once")
    start = time.perf_counter()
    attacker = tp.Attacker.linf(0.05 * spread)
    result = tp.verify(clf, X_test, y_test, attacker, epsilon=0.02 * spread)
    click.echo(
        f"robust     {float(result.robustness):.3f} stay correct if every feature may be nudged by 5 % of its spread"
    )
    click.echo(f"resilient  {float(result.resilience or 0):.3f} also do everywhere within 2 % around them")
    click.echo(f"time       {time.perf_counter() - start:.2f} s")
    row, witness = next((i, v.witness) for i, v in enumerate(result.verdicts) if v.witness is not None)
    moved = ", ".join(f"feature {f} {a:.6g} → {b:.6g}" for f, (a, b) in list(witness.moved.items())[:3])
    before, after = clf.predict([witness.neighbour])[0], clf.predict([witness.attacked])[0]
    click.echo(f"witness    row {row}: {moved} … turns label {before} into {after}, says the forest itself")
