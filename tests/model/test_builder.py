"""Every malformed tree is refused with one line that names it."""

from __future__ import annotations

import numpy as np
import pytest

import treeproof as tp
from treeproof.importers import EnsembleBuilder
from treeproof.model.columns import Column
from treeproof.model.score_rule import Decision, ScoreRule


def stump() -> dict:
    return {
        "feature": [0, -1, -1],
        "threshold": [2.5, 0.0, 0.0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "scores": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
    }


def builder(**options: object) -> EnsembleBuilder:
    return EnsembleBuilder(**({"n_features": 2, "classes": [0, 1]} | options))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": [np.nan, 0, 0]}, "tree 0, node 0: threshold nan is not a finite number"),
        ({"threshold": [np.inf, 0, 0]}, "threshold inf is not a finite number"),
        ({"feature": [2, -1, -1]}, "feature 2 is out of range; the model has features 0 to 1"),
        ({"feature": [0.5, -1, -1]}, "0.5 is not a whole number"),
        ({"feature": ["a", -1, -1]}, "not numbers"),
        ({"left": [3, -1, -1]}, "left child 3 is out of range; children are nodes 1 to 2"),
        ({"right": [-1, -1, -1]}, "right child -1 is out of range"),
        ({"left": [0, -1, -1]}, "left child 0 is out of range"),
        ({"left": [2, -1, -1]}, "node 2 has two parents"),
        ({"threshold": [2.5, 0]}, "threshold has 2 entries, feature has 3"),
        ({"nan_left": [True]}, "nan_left has 1 entries, feature has 3"),
        ({"scores": [[0.0, 0.0], [np.nan, 0.0], [0.0, 1.0]]}, "leaf scores: nan is not a finite number"),
        ({"scores": [[0.0], [1.0], [0.0]]}, "leaves have 1 scores, expected 2"),
        ({"scores": [0.0, 1.0, 0.0]}, r"scores must be \(n_nodes, n_scores\)"),
        ({"scores": [[0.0, 0.0], [1.0, 0.0]]}, "scores has 2 entries"),
        ({"feature": [], "threshold": [], "left": [], "right": [], "scores": np.empty((0, 2))}, "tree 0 has no nodes"),
        ({"feature": [-1, -1, -1]}, "node 1 is an orphan"),
    ],
)
def test_malformed_trees_are_refused(change: dict, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        builder().add_tree(**(stump() | change))


def test_a_cycle_beside_the_tree_is_refused() -> None:
    with pytest.raises(tp.InvalidInput, match="node 3 is part of a cycle that the root does not reach"):
        builder().add_tree(
            feature=[0, -1, -1, 0, 0, -1, -1],
            threshold=[0.0] * 7,
            left=[1, -1, -1, 4, 3, -1, -1],
            right=[2, -1, -1, 5, 6, -1, -1],
            scores=np.zeros((7, 2)),
        )


def test_a_cycle_through_the_root_is_refused() -> None:
    with pytest.raises(tp.InvalidInput, match="left child 0 is out of range"):
        builder().add_tree(
            feature=[0, 0, -1], threshold=[0.0] * 3, left=[1, 0, -1], right=[2, 2, -1], scores=np.zeros((3, 2))
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 0}, "n_features must be a whole number of at least 1, got 0"),
        ({"n_features": 2.5}, "n_features must be a whole number"),
        ({"classes": []}, "classes must be a list of labels"),
        ({"classes": [1, 1]}, "class labels must be distinct"),
        ({"classes": [0, 1, 2], "rule": ScoreRule(decision=Decision.CUT)}, "one score decides between 2 classes"),
        ({"base": [0.0]}, "1 base scores, expected 2"),
        ({"base": [np.inf, 0.0]}, "base scores: inf is not a finite number"),
        ({"base": [0.1, 0.0], "rule": ScoreRule(precision="float32")}, "0.1.* is not a float32 number"),
        ({"rule": ScoreRule(divisor=0)}, "the score rule's divisor is 0; it must be finite and above 0"),
        ({"rule": ScoreRule(divisor=-2.0)}, "divisor is -2.0"),
        ({"rule": ScoreRule(cut=np.nan)}, "cut is nan"),
        ({"classes": [0.5, np.nan]}, "class labels must be finite"),
        ({"feature_names": ["a"]}, "names 1 features but takes 2"),
        ({"feature_names": ["a", "a"]}, "two features are named 'a'"),
        ({"value_limit": 0}, "feature 0 takes no values: its range is 0.0 to 0.0"),
        ({"value_limit": np.inf}, "feature 0 takes no values: its range is -inf to inf"),
        (
            {"columns": [Column(None, 0.0, 1.0), Column(None, 3.0, 2.0)]},
            "feature 1 takes no values: its range is 3.0 to 2.0",
        ),
    ],
)
def test_malformed_models_are_refused(options: dict, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        builder(**options)


def test_an_empty_ensemble_is_refused() -> None:
    with pytest.raises(tp.InvalidInput, match="the model has no trees"):
        builder().build()


def test_arrays_are_frozen_and_siblings_adjacent() -> None:
    made = builder()
    made.add_tree(  # children in an order that the builder has to change
        feature=[0, -1, 1, -1, -1],
        threshold=[2.5, 0, -0.0, 0, 0],
        left=[2, -1, 4, -1, -1],
        right=[1, -1, 3, -1, -1],
        scores=np.eye(2)[[0, 0, 0, 1, 0]],
    )
    ensemble = made.build()
    inner = ensemble.feature >= 0
    assert (ensemble.right[inner] == ensemble.left[inner] + 1).all()
    assert ensemble.predict([[2.5, 0.0], [2.5, 5e-324], [2.6, 1.0]]).tolist() == [0, 1, 0]
    for name in ("feature", "threshold", "left", "right", "leaf_scores", "classes"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(ensemble, name)[0] = 0


def test_a_tree_may_add_to_one_score() -> None:
    builder = EnsembleBuilder(n_features=1, classes=["a", "b", "c"])
    shape = {"feature": [0, -1, -1], "threshold": [0.5, 0.0, 0.0], "left": [1, -1, -1], "right": [2, -1, -1]}
    builder.add_tree(**shape, scores=[9.0, -2.0, 3.0], score=1)
    assert builder.build().scores([[0.0], [1.0]]).tolist() == [[0.0, -2.0, 0.0], [0.0, 3.0, 0.0]]
    with pytest.raises(tp.InvalidInput, match="tree 1: score 3 is none of 0 to 2"):
        builder.add_tree(**shape, scores=[0.0, 1.0, 2.0], score=3)
    with pytest.raises(tp.InvalidInput, match="scores must be"):
        builder.add_tree(**shape, scores=[0.0, 1.0, 2.0])
