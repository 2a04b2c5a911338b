"""The command line: parses, calls the public API, prints."""

from __future__ import annotations

import time

import click

from treeproof import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="treeproof")
def main() -> None:
    """How secure is a tree-based classifier really? Exact answers, with evidence."""


@main.command()
def demo() -> None:
    """Import a forest trained on scikit-learn's breast cancer data and show that it is the same model."""
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

    rng = np.random.default_rng(7)
    many = X_test[rng.integers(len(X_test), size=100_000)] * rng.normal(1, 0.05, size=(100_000, X.shape[1]))
    start = time.perf_counter()
    ensemble.predict(many)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    clf.predict(many)
    theirs = time.perf_counter() - start
    click.echo(f"speed      {len(many) / ours:,.0f} rows/s, {theirs / ours:.1f} times scikit-learn's on one thread")
