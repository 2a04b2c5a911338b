"""Rows in, labels out: what is refused, and what the score rule does to ties."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.score_rule import Decision, ScoreRule

FRAME = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "income": [5.0, 1.0, 7.0, 2.0]})
MODEL = DecisionTreeClassifier().fit(FRAME, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [[1.0]],
            r"X has shape \(1, 1\), but the model takes rows of 2 features; pass an array of shape \(n_rows, 2\)",
        ),
        ([1.0, 2.0], r"X has shape \(2,\)"),
        ([["a", 1.0]], "row 0, column 'age': 'a' is not a number"),
        ([[1.0, 2.0], [1.0]], "X must contain only numbers"),
        (
            [[0.0, 0.0], [0.0, 1e39]],
            "row 1, column 'income': 1e\\+39 is outside the range that the model accepts, -3.4",
        ),
        ([[10**400, 0.0]], "row 0, column 'age': 1000"),
        (np.array([[1j, 0.0]]), "complex numbers have no order"),
        ([[np.inf, 0.0]], "row 0, column 'age': inf is outside"),
        (FRAME[["income", "age"]], r"not in the model's order; use X\[\['age', 'income'\]\]"),
        (FRAME.rename(columns={"age": "Age"}), "X has no column 'age'"),
        (
            FRAME.assign(age=pd.Categorical(["a", "b", "a", "b"])),
            "column 'age' is categorical, but the model takes numbers there",
        ),
        (FRAME.assign(extra=1.0), "X has a column 'extra' that the model was not trained with"),
    ],
)
def test_bad_rows_are_refused_by_row_and_column(rows: object, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        tp.from_model(MODEL).predict(rows)


def test_nan_is_refused_where_the_model_does_not_accept_it() -> None:
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    builder.add_tree(feature=[LEAF], threshold=[0], left=[LEAF], right=[LEAF], scores=[[0, 1]])
    with pytest.raises(tp.InvalidInput, match="row 1, column 0 is NaN, but the model does not accept missing values"):
        builder.build().predict([[0.0], [np.nan]])


def test_frames_and_empty_batches_predict() -> None:
    ensemble = tp.from_model(MODEL)
    assert (ensemble.predict(FRAME) == MODEL.predict(FRAME)).all()
    assert ensemble.predict(np.empty((0, 2))).shape == (0,)


@pytest.mark.parametrize("labels", [[[0, 1]], 3, None, [[0], [1, 2]]])
def test_labels_are_a_list(labels: object) -> None:
    with pytest.raises(tp.InvalidInput, match="labels must be a list with one label per row"):
        tp.from_model(MODEL).class_index(labels)


@pytest.mark.parametrize("feature", [1.5, True, None])
def test_features_are_given_by_name_or_index(feature: object) -> None:
    with pytest.raises(tp.InvalidInput, match="features are given by name or index"):
        tp.from_model(MODEL).feature_index(feature)


def test_unknown_labels_are_named() -> None:
    ensemble = tp.from_model(MODEL)
    assert ensemble.class_index([1, 0]).tolist() == [1, 0]
    with pytest.raises(tp.InvalidInput, match=r"row 1: the model does not know the label 7; it predicts \[0, 1\]"):
        ensemble.class_index([0, 7])


def constant(scores: list[list[float]], **rule: object) -> tp.Ensemble:
    """Single-leaf trees: the label is decided by the score rule alone."""
    settings = ScoreRule(**rule)
    n_classes = 2 if settings.decision == Decision.CUT else len(scores[0])
    builder = EnsembleBuilder(n_features=1, classes=range(n_classes), rule=settings)
    for row in scores:
        builder.add_tree(feature=[LEAF], threshold=[0], left=[LEAF], right=[LEAF], scores=[row])
    return builder.build()


def label(ensemble: tp.Ensemble) -> int:
    return int(ensemble.predict([[0.0]])[0])


def test_ties_go_to_the_lowest_class() -> None:
    assert label(constant([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])) == 0
    assert label(constant([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])) == 1


def test_a_division_that_rounds_a_lead_away_makes_a_tie() -> None:
    behind = next(a for a in np.linspace(1.9, 2.0, 1000) if a / 3 == np.nextafter(a, 2.0) / 3)
    ahead = float(np.nextafter(behind, 2.0))
    assert label(constant([[behind, ahead]])) == 1
    assert label(constant([[behind, ahead]], divisor=3)) == 0


def test_a_softmax_that_rounds_a_lead_away_makes_a_tie() -> None:
    tiny = 2.0**-26
    assert label(constant([[0.0, tiny]], precision="float32")) == 1
    assert label(constant([[0.0, tiny]], precision="float32", decision=Decision.SOFTMAX)) == 0
    assert label(constant([[0.0, 2.0**-20]], precision="float32", decision=Decision.SOFTMAX)) == 1


def test_saturated_sigmoids_tie() -> None:
    assert label(constant([[40.0, 50.0]], decision=Decision.SIGMOID)) == 0
    assert label(constant([[4.0, 5.0]], decision=Decision.SIGMOID)) == 1


def test_single_precision_sums_round_after_every_tree() -> None:
    steps = [[1.0]] + [[2.0**-24]] * 4
    assert constant(steps, precision="float32", decision=Decision.CUT).scores([[0.0]])[0, 0] == 1.0
    assert constant(steps, decision=Decision.CUT).scores([[0.0]])[0, 0] > 1.0


def test_a_cut_is_strict() -> None:
    assert label(constant([[0.5]], decision=Decision.CUT, cut=0.5)) == 0
    assert label(constant([[0.5]], decision=Decision.CUT, cut=float(np.nextafter(0.5, 0)))) == 1


def test_depths_and_sizes() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    forest = RandomForestClassifier(7, random_state=0).fit(X, X[:, 0] > X[:, 1])
    ensemble = tp.from_model(forest)
    assert ensemble.depths.tolist() == [tree.get_depth() for tree in forest.estimators_]
    assert ensemble.n_nodes == sum(tree.tree_.node_count for tree in forest.estimators_)
    assert "7 trees" in repr(ensemble)


def test_a_copy_of_another_process_is_of_the_same_types() -> None:
    """Kernels are compiled per type, and a frozen array is a type of its own."""
    here = tp.from_model(MODEL)
    here.predict(FRAME)
    there = pickle.loads(pickle.dumps(here))
    for name in ("feature", "threshold", "left", "right", "nan_left", "leaf", "roots", "leaf_scores", "base"):
        before, after = getattr(here, name), getattr(there, name)
        assert not before.flags.writeable and not after.flags.writeable
        np.testing.assert_array_equal(before, after)
    assert "grid" not in vars(there)
    assert there.predict(FRAME).tolist() == here.predict(FRAME).tolist()


def test_classes_get_other_names() -> None:
    clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    ensemble = tp.from_model(clf).with_classes(["no", "yes"])
    assert ensemble.predict([[0.2], [0.7]]).tolist() == ["no", "yes"] and ensemble.source is None
    for wrong in (["no"], ["no", "no"], "no"):
        with pytest.raises(tp.InvalidInput, match=r"must name the model's 2 classes \(0, 1\), each once") as caught:
            tp.from_model(clf).with_classes(wrong)
        assert caught.value.argument == "classes"


@pytest.mark.parametrize(
    "alike",
    [
        [1, "1"], [True, "True"], [True, 1], [False, 0.0], [1, 1.0], [0, False], [np.True_, 2], ["1", np.int64(2)],
        [np.nan, None], [None, "None"], [np.nan, "nan"], ["no", None], [np.nan, 1.0], [2**53, 2.0**53],
        [2**63 + 1, -1], [["no"], ["yes"]], {"no", "yes"}, {"no": 0, "yes": 1}, 2, None,
    ],
)  # fmt: skip
def test_classes_that_look_alike_are_refused_wherever_they_are_named(alike: Any, tmp_path: Path) -> None:
    """By hand, in a file that is loaded with names, and by whoever builds a model; sets have no order to go by."""
    model = tp.from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
    with pytest.raises(tp.InvalidInput) as caught:
        model.with_classes(alike)
    assert caught.value.argument == "classes"
    with pytest.raises(tp.InvalidInput):
        EnsembleBuilder(n_features=1, classes=alike)
    tp.save_model(model, tmp_path / "model.json")
    if alike is not None:
        with pytest.raises(tp.InvalidInput):
            tp.load_model(tmp_path / "model.json", classes=alike)


@pytest.mark.parametrize("names", [["1.1", "1.10"], [0.5, 1], (True, False), np.array([3, 4]), ["01", "1"]], ids=repr)
def test_classes_that_differ_are_kept_as_they_are_named(names: Any) -> None:
    model = tp.from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])).with_classes(names)
    assert model.predict([[0.2], [0.7]]).tolist() == list(names)


def test_copies_keep_what_was_computed_from_the_trees() -> None:
    ensemble = tp.from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
    named = ensemble.named(("age",))
    assert named.feature_names == ("age",) and named.named(("other",)) is named
    computed = ensemble.compiled, ensemble.fingerprint, ensemble.grid
    copy = ensemble.without_source()
    assert copy.source is None and (copy.compiled, copy.fingerprint, copy.grid) == computed
    assert ensemble.named(("a", "b")) is ensemble and ensemble.named(None) is ensemble


def test_nothing_keeps_a_model_alive_after_its_last_user() -> None:
    clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    ensemble = tp.from_model(clf)
    tp.verify(ensemble, [[0.2]], [0], tp.Attacker.linf(0.1))
    gone = weakref.ref(ensemble)
    del ensemble
    gc.collect()
    assert gone() is None
