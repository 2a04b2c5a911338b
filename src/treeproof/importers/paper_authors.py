"""The JSON in which the paper's authors keep forests: `[n_features, labels, trees]`.

A tree is five lists, one entry per node: feature + 1 (0 marks a leaf), threshold, left child + 1,
right child + 1, and the label that a leaf votes for. A row goes left where `x <= threshold`; every
tree has one vote, and a tie goes to the label named first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.files import parse_json
from treeproof.importers._refusals import WrongVoting, check_size
from treeproof.importers.registry import Voting
from treeproof.model.builder import EnsembleBuilder
from treeproof.model.ensemble import Ensemble


def load_bytes(data: bytes, *, voting: Voting | None) -> Ensemble:
    """The hard-voting ensemble of such a file."""
    if voting == "soft":
        raise WrongVoting("its leaves hold labels, not probabilities: voting is always 'hard'")
    content = parse_json(data)
    if len(content) != 3:
        raise InvalidInput(f"expected [n_features, labels, trees], got a list of {len(content)} entries")
    n_features, labels, trees = content
    kinds = {type(label) for label in labels}
    if kinds not in ({int}, {float}, {int, float}, {str}):
        raise InvalidInput(f"the labels must be numbers or strings, got {labels}")
    builder = EnsembleBuilder(n_features=n_features, classes=labels, origin="paper authors' JSON")
    check_size(sum(len(tree[-1]) for tree in trees if tree), len(labels))
    for number, tree in enumerate(trees):
        _add_tree(builder, tree, labels, number)
    return builder.build()


def _add_tree(builder: EnsembleBuilder, tree: Any, labels: list[Any], number: int) -> None:
    if len(tree) != 5:
        raise InvalidInput(f"tree {number} has {len(tree)} lists; expected feature, threshold, left, right, prediction")
    feature, threshold, left, right, prediction = tree
    for values, kinds in ((feature, (int,)), (threshold, (int, float)), (left, (int,)), (right, (int,))):
        for value in values:
            if type(value) not in kinds:
                raise InvalidInput(f"tree {number}: {value!r} stands where a number is expected")
    position = {label: k for k, label in enumerate(labels)}
    votes = np.zeros((len(prediction), len(labels)))
    for node, (f, label) in enumerate(zip(feature, prediction, strict=True)):
        if f == 0:
            if isinstance(label, bool) or label not in position:
                raise InvalidInput(f"tree {number}, node {node}: leaf label {label!r} is not among {labels}")
            votes[node, position[label]] = 1.0
        elif f < 0:
            raise InvalidInput(f"tree {number}, node {node}: feature number {f}; features count from 1, 0 marks a leaf")
    builder.add_tree(
        feature=np.asarray(feature) - 1,
        threshold=threshold,
        left=np.asarray(left) - 1,
        right=np.asarray(right) - 1,
        scores=votes,
    )
