"""Forests of GROOT's own package, trained in an environment of its own and read as exact models.

    python3 -m venv groot && groot/bin/pip install groot-trees
    groot/bin/pip install "numpy<2" "scikit-learn<1.6" "numba<0.61" "pandas<2.3" "scipy<1.14" "matplotlib<3.10"
    groot/bin/python benchmarks/groot_peer.py rows.npz forests.json

The last line is what `forests_of` runs. With NumPy 2 the package cannot be imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SIZES = ({"n_estimators": 50, "max_depth": 4}, {"n_estimators": 50, "max_depth": 6})


def train(rows: str, forests: str) -> None:
    """Trains with GROOT, inside its environment."""
    from groot.model import GrootRandomForestClassifier

    given = np.load(rows)
    X, y = given["X"], given["y"]
    found = []
    for settings in SIZES:
        model = GrootRandomForestClassifier(
            attack_model=[float(given["size"])] * X.shape[1], random_state=int(given["seed"]), compile=False, **settings
        ).fit(X, y)
        trees = [tree.root_.to_json() for tree in model.estimators_]
        found.append({"settings": settings, "trees": trees, "labels": model.predict(X).tolist()})
    Path(forests).write_text(json.dumps(found, default=float))


def forests_of(python: str, X: np.ndarray, y: np.ndarray, size: float, seed: int) -> list[tuple[dict[str, Any], Any]]:
    """The settings and exact models of forests that GROOT trains; each predicts as GROOT does for training rows."""
    with tempfile.TemporaryDirectory() as folder:
        rows, forests = f"{folder}/rows.npz", f"{folder}/forests.json"
        np.savez(rows, X=X, y=y, size=size, seed=seed)
        subprocess.run([python, __file__, rows, forests], check=True, capture_output=True)
        found = json.loads(Path(forests).read_text())
    models = []
    for one in found:
        ensemble = read(one["trees"], X.shape[1])
        assert (ensemble.predict(X) == np.array(one["labels"])).all()
        models.append((one["settings"], ensemble))
    return models


def read(trees: list[dict[str, Any]], n_features: int) -> Any:
    """GROOT's trees, whose shares of the classes are added up; equal shares are class 0."""
    from treeproof.model.builder import EnsembleBuilder

    builder = EnsembleBuilder(n_features=n_features, classes=[0, 1])
    for tree in trees:
        nodes = [tree]
        left, right = [], []
        for node in nodes:  # grows while it is walked
            left.append(len(nodes) if "feature" in node else -1)
            right.append(len(nodes) + 1 if "feature" in node else -1)
            nodes += [node["left_child"], node["right_child"]] if "feature" in node else []
        builder.add_tree(
            feature=[node.get("feature", -1) for node in nodes],
            threshold=[node.get("threshold", 0.0) for node in nodes],
            left=left,
            right=right,
            scores=[node.get("value", [0.0, 0.0]) for node in nodes],
        )
    return builder.build()


if __name__ == "__main__":
    train(*sys.argv[1:])
