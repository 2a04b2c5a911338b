"""XGBoost: what is refused and why, damaged files, and the numbers that decide near ties."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.zoo.case import data
from treeproof.importers import _ubjson
from treeproof.importers.xgboost import load_bytes, logistic_cut

xgb = pytest.importorskip("xgboost")

SMALL = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1}

# Files since 3.1 hold one base score per class and the categories of the data frame; older libraries cannot read them.
needs_3_1 = pytest.mark.skipif(
    tuple(map(int, xgb.__version__.split(".")[:2])) < (3, 1), reason="XGBoost before 3.1 reads these files otherwise"
)


def small(n_classes: int = 2, **settings: Any) -> Any:
    X, y = data(n_classes)
    return xgb.XGBClassifier(**{**SMALL, **settings}).fit(X, y)


def document_of(model: Any) -> dict[str, Any]:
    return json.loads(model.get_booster().save_raw("json"))


def load(document: Any) -> tp.Ensemble:
    return load_bytes(json.dumps(document).encode(), voting=None)


def booster_of(document: Any) -> Any:
    booster = xgb.Booster({"nthread": 1})
    booster.load_model(bytearray(json.dumps(document).encode()))
    return booster


def crafted(leaves: np.ndarray, objective: str, base_score: str = "0E0") -> dict[str, Any]:
    """A model of one feature: row x = i gets the scores leaves[i], one tree per score (a chain of splits)."""
    leaves = np.asarray(leaves, dtype=np.float32)
    n, k = leaves.shape
    trees = []
    for score in range(k):
        inner, size = n - 1, 2 * n - 1
        # Node 2i splits i from the rest; its left child 2i+1 is leaf i; the last node is the last leaf.
        children = {2 * i: (2 * i + 1, 2 * i + 2) for i in range(inner)}
        values = [0.0] * size
        for i in range(inner):
            values[2 * i], values[2 * i + 1] = i + 0.5, float(leaves[i, score])
        values[-1] = float(leaves[-1, score])
        parents = [2147483647] + [0] * (size - 1)
        for node, pair in children.items():
            for child in pair:
                parents[child] = node
        trees.append({
            "base_weights": [0.0] * size, "categories": [], "categories_nodes": [], "categories_segments": [],
            "categories_sizes": [], "default_left": [0] * size, "id": score,
            "left_children": [children.get(i, (-1, -1))[0] for i in range(size)],
            "right_children": [children.get(i, (-1, -1))[1] for i in range(size)],
            "loss_changes": [0.0] * size, "parents": parents, "split_conditions": values,
            "split_indices": [0] * size, "split_type": [0] * size, "sum_hessian": [1.0] * size,
            "tree_param": {"num_deleted": "0", "num_feature": "1", "num_nodes": str(size), "size_leaf_vector": "1"},
        })  # fmt: skip
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(k)},
        "iteration_indptr": [0, k], "tree_info": list(range(k)), "trees": trees,
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
    }  # fmt: skip
    kind = {"name": objective}
    kind |= (
        {"softmax_multiclass_param": {"num_class": str(k)}} if k > 1 else {"reg_loss_param": {"scale_pos_weight": "1"}}
    )
    learner = {
        "attributes": {}, "feature_names": [], "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"}, "objective": kind,
        "learner_model_param": {"base_score": base_score, "boost_from_average": "1", "num_feature": "1",
                                "num_class": str(k if k > 1 else 0), "num_target": "1"},
    }  # fmt: skip
    return {"learner": learner, "version": [3, 2, 0]}


# ---- the numbers that decide ------------------------------------------------------------------------------


def test_logistic_cut_is_where_xgboost_itself_changes_its_mind() -> None:
    cut = np.float32(logistic_cut())
    assert 0 < cut < 1e-6
    bits = np.arange(-3000, 3000, dtype=np.int32) + cut.view(np.int32)
    margins = bits.view(np.float32)
    booster = booster_of(crafted(np.zeros((2, 1)), "binary:logistic", "5E-1"))
    probability = booster.inplace_predict(np.zeros((len(margins), 1)), base_margin=margins)
    assert ((probability > 0.5) == (margins > cut)).all()


def test_binary_labels_around_the_cut_equal_xgboosts() -> None:
    bits = np.arange(-64, 64, dtype=np.int32) + np.float32(logistic_cut()).view(np.int32)
    leaves = np.concatenate((bits.view(np.float32), -bits.view(np.float32), [0.0]))[:, None]
    document = crafted(leaves, "binary:logistic", "5E-1")
    X = np.arange(len(leaves), dtype=float)[:, None]
    classifier = xgb.XGBClassifier(n_jobs=1)
    classifier.load_model(bytearray(json.dumps(document).encode()))
    expected = classifier.predict(X)
    assert 0 < expected.sum() < len(X)
    np.testing.assert_array_equal(load(document).predict(X), expected)


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_classes_a_few_roundings_apart_equal_xgboosts(objective: str, spread: float) -> None:
    rng = np.random.default_rng(0)
    middle = (rng.normal(size=(700, 1)) * spread).astype(np.float32)
    leaves = (middle.view(np.int32) + rng.integers(-3, 4, size=(700, 3), dtype=np.int32)).view(np.float32)
    document = crafted(leaves, objective)
    X = np.arange(700, dtype=float)[:, None]
    predicted = booster_of(document).predict(xgb.DMatrix(X))
    expected = predicted.argmax(axis=1) if predicted.ndim == 2 else predicted.astype(int)
    if predicted.ndim == 2:
        assert (expected != leaves.argmax(axis=1)).any(), "no tie of probabilities is tested"
    np.testing.assert_array_equal(load(document).predict(X), expected)


@needs_3_1
def test_base_score_becomes_the_margin_xgboost_starts_from() -> None:
    rng = np.random.default_rng(0)
    for value in [0.0, 1.0, 1e-7, 1e-6, 0.9999995, 0.3, 0.5, *rng.random(60)]:
        document = crafted(np.zeros((2, 1)), "binary:logistic", str(np.float32(value)))
        expected = booster_of(document).predict(xgb.DMatrix(np.zeros((1, 1))), output_margin=True)
        assert load(document).scores([[0.0]])[0, 0] == expected[0], value


@pytest.mark.parametrize("text", ["3E-1", pytest.param("[3E-1]", marks=needs_3_1), "0.3"])
@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "binary:hinge"])
def test_every_spelling_of_a_base_score_is_read(objective: str, text: str) -> None:
    document = crafted(np.array([[-0.2], [0.4]]), objective, text)
    expected = booster_of(document).predict(xgb.DMatrix(np.array([[0.0], [1.0]])), output_margin=True)
    np.testing.assert_array_equal(load(document).scores([[0.0], [1.0]])[:, 0], expected)


def test_one_base_score_serves_all_classes() -> None:
    document = crafted(np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]), "multi:softprob", "2.5E-1")
    X = np.array([[0.0], [1.0]])
    expected = booster_of(document).predict(xgb.DMatrix(X), output_margin=True)
    np.testing.assert_array_equal(load(document).scores(X), expected)


def test_categories_are_whole_numbers_of_a_float32_and_the_rest_goes_left() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, size=(900, 1)).astype(float)
    y = np.isin(codes[:, 0], [0, 1, 5, 6, 7, 31, 32, 39]).astype(int)
    codes[rng.random(900) < 0.1] = np.nan
    model = xgb.XGBClassifier(
        **SMALL, feature_types=["c"], enable_categorical=True, max_cat_to_onehot=1, learning_rate=1.0
    ).fit(codes, 1 - y)
    edges = np.arange(-2.0, 66.0)
    beside = np.concatenate(
        (edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), edges - 1e-9, edges + 0.5)
    )
    tiny = np.array([-0.0, -1e-46, -1e-45, -1e-40, 1e-46, 2.0**24 - 1, 2.0**24, 2.0**31, 1e20, -1e20, np.nan])
    X = np.concatenate((beside, tiny))[:, None]
    np.testing.assert_array_equal(tp.from_model(model).scores(X)[:, 0], model.predict(X, output_margin=True))
    sets = [set(t["categories"]) for t in document_of(model)["learner"]["gradient_booster"]["model"]["trees"]]
    assert any(0 in chosen for chosen in sets), "category 0 is not tested"


def test_a_category_split_of_xgboost_2_has_nan_for_a_threshold() -> None:
    codes = np.random.default_rng(0).integers(0, 6, size=(300, 1)).astype(float)
    matrix = xgb.DMatrix(codes, np.isin(codes[:, 0], [0, 2, 5]), feature_types=["c"], enable_categorical=True)
    booster = xgb.train({"objective": "binary:logistic", "max_depth": 1, "nthread": 1}, matrix, 1)
    document = json.loads(booster.save_raw("json"))
    document["learner"]["gradient_booster"]["model"]["trees"][0]["split_conditions"][0] = float("nan")
    np.testing.assert_array_equal(load(document).scores(codes)[:, 0], booster.predict(matrix, output_margin=True))


def test_dart_of_booster_and_of_wrapper_round_differently_and_both_are_matched() -> None:
    model = small(booster="dart", rate_drop=0.5, base_score=0.3, n_estimators=20)
    X, _ = data(2)
    wrapper, booster = tp.from_model(model).scores(X)[:, 0], tp.from_model(model.get_booster()).scores(X)[:, 0]
    assert (wrapper != booster).any(), "the two ways to add up are not told apart by this model"
    np.testing.assert_array_equal(wrapper, model.predict(X, output_margin=True))
    np.testing.assert_array_equal(booster, model.get_booster().predict(xgb.DMatrix(X), output_margin=True))


# ---- early stopping ---------------------------------------------------------------------------------------


def test_early_stopping_cuts_wrapper_and_file_but_not_a_booster(tmp_path: Path) -> None:
    X, y = data(3)
    model = xgb.XGBClassifier(n_estimators=40, max_depth=3, n_jobs=1, early_stopping_rounds=3, num_parallel_tree=2)
    model.fit(X, y, eval_set=[(X[::2], y[::2][::-1])], verbose=False)
    rounds = model.get_booster().num_boosted_rounds()
    assert model.best_iteration + 1 < rounds
    model.save_model(tmp_path / "m.ubj")
    assert tp.from_model(model).n_trees == 6 * (model.best_iteration + 1)
    assert tp.load_model(tmp_path / "m.ubj").n_trees == 6 * (model.best_iteration + 1)
    assert tp.from_model(model.get_booster()).n_trees == 6 * rounds
    reloaded = xgb.XGBClassifier(n_jobs=1)
    reloaded.load_model(tmp_path / "m.ubj")
    np.testing.assert_array_equal(tp.load_model(tmp_path / "m.ubj").scores(X), reloaded.predict(X, output_margin=True))


def test_a_file_of_xgboost_1_is_read_without_the_newer_entries() -> None:
    model = small(3, num_parallel_tree=2, base_score=0.0)
    document = document_of(model)
    forest = document["learner"]["gradient_booster"]["model"]
    for newer in ("iteration_indptr", "cats"):
        forest.pop(newer, None)
    for tree in forest["trees"]:
        for newer in ("split_type", "categories", "categories_nodes", "categories_segments", "categories_sizes"):
            del tree[newer]
        tree["default_left"] = [bool(flag) for flag in tree["default_left"]]
    document["learner"]["learner_model_param"]["base_score"] = "0E0"
    del document["learner"]["learner_model_param"]["num_target"]
    document["learner"]["attributes"] = {"best_iteration": "2"}
    X, _ = data(3)
    ensemble = load(document)
    assert ensemble.n_trees == 18
    np.testing.assert_array_equal(ensemble.scores(X), model.predict(X, output_margin=True, iteration_range=(0, 3)))


def test_files_are_read_without_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bytes(small().get_booster().save_raw("ubj"))
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert load_bytes(raw, voting=None).n_trees == 6


def test_feature_names_come_along_in_objects_and_files(tmp_path: Path) -> None:
    X, y = data(2)
    booster = xgb.train(
        {"objective": "binary:logistic", "nthread": 1}, xgb.DMatrix(X, y, feature_names=list("abcde")), 2
    )
    booster.save_model(tmp_path / "m.json")
    assert tp.from_model(booster).feature_names == tuple("abcde")
    assert tp.load_model(tmp_path / "m.json").feature_names == tuple("abcde")
    assert tp.from_model(small()).feature_names is None


# ---- refusals ---------------------------------------------------------------------------------------------


def _train(X: np.ndarray, y: np.ndarray, **params: Any) -> Any:
    return xgb.train({"nthread": 1, **params}, xgb.DMatrix(X, y), 2)


X2, Y2 = data(2)
REFUSED = {
    "gblinear": (lambda: small(booster="gblinear"), "booster 'gblinear'"),
    "regressor": (lambda: xgb.XGBRegressor(**SMALL).fit(X2, Y2), "XGBRegressor is not a classifier"),
    "ranker": (lambda: xgb.XGBRanker(**SMALL).fit(X2, Y2, qid=np.arange(240) // 24), "XGBRanker is not a classifier"),
    "forest regressor": (lambda: xgb.XGBRFRegressor(**SMALL).fit(X2, Y2), "XGBRFRegressor is not a classifier"),
    "matrix": (lambda: xgb.DMatrix(X2), "DMatrix is not a classifier"),
    "regression": (lambda: _train(X2, Y2, objective="reg:squarederror"), "objective 'reg:squarederror'"),
    "logistic regression": (lambda: _train(X2, Y2, objective="reg:logistic"), "objective 'reg:logistic'"),
    "poisson": (lambda: _train(X2, Y2, objective="count:poisson"), "objective 'count:poisson'"),
    "survival": (lambda: _train(X2, Y2 + 1, objective="survival:cox"), "objective 'survival:cox'"),
    "missing": (lambda: small(missing=-1.0), r"missing=-1\.0"),
    "two columns": (lambda: small(objective="multi:softprob", num_class=2), "two columns instead of labels"),
    "several labels": (
        lambda: xgb.XGBClassifier(**SMALL).fit(X2, np.column_stack((Y2, 1 - Y2))), "num_target=2",
    ),
    "vector leaves": (
        lambda: xgb.XGBClassifier(**SMALL, multi_strategy="multi_output_tree", tree_method="hist").fit(*data(3)),
        "multi_output_tree",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_anything_but_a_plain_tree_classifier_is_refused_by_name(name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(tp.UnsupportedModel, match=reason):
        tp.from_model(make())


def test_voting_is_refused() -> None:
    with pytest.raises(tp.InvalidInput, match="voting='hard' is for forests"):
        tp.from_model(small(), voting="hard")
    with pytest.raises(tp.InvalidInput, match="voting='soft' is for forests"):
        load_bytes(b"{}", voting="soft")


def test_untrained_models_are_refused() -> None:
    with pytest.raises(tp.InvalidInput, match="not trained"):
        tp.from_model(xgb.XGBClassifier())
    with pytest.raises(tp.InvalidInput, match="train it first"):
        tp.from_model(xgb.Booster())


# ---- damaged files ----------------------------------------------------------------------------------------


def _damage(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    *parents, last = path.split("/")
    place: Any = document
    for step in parents:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(last) if isinstance(place, list) else last] = value
    return document


GOOD = document_of(small(3))
GOOD["learner"]["learner_model_param"]["base_score"] = "[5E-1,5E-1,5E-1]"  # one for all before 3.1
L, M = "learner/", "learner/gradient_booster/model/"
DAMAGED = [
    ("learner", [], "learner must be an object, got list"),
    (L + "gradient_booster", 3, "'gradient_booster' is of the wrong type"),
    (L + "learner_model_param/num_class", "2000000000", "num_class is 2000000000, but the objective says 3"),
    (L + "learner_model_param/num_class", "-1", "num_class must be a whole number"),
    (L + "learner_model_param/num_class", "1", "num_class=1"),
    (L + "learner_model_param/num_class", "4", "num_class is 4, but the objective says 3"),
    (L + "learner_model_param/num_class", 3, "as a string; got 3"),
    (L + "learner_model_param/num_feature", "0", "num_feature"),
    (L + "learner_model_param/num_feature", "99999999999", "num_feature"),
    (L + "learner_model_param/base_score", "[NaN,0,0]", "base_score must be a number or a list"),
    (L + "learner_model_param/base_score", "[1E39,0,0]", "base_score: 1e\\+39 is not a finite"),
    (L + "learner_model_param/base_score", '["a",0,0]', "base_score must be a number or a list"),
    (L + "attributes/best_iteration", "6", "best_iteration is 6, but the model has only 6 boosting rounds"),
    (L + "attributes/best_iteration", "-1", "best_iteration must be a whole number"),
    (L + "attributes/best_iteration", "²", "best_iteration must be a whole number"),
    (L + "feature_names", ["a"], "names 1 features but takes 5"),
    (L + "feature_names", [1, 2, 3, 4, 5], "list of strings"),
    (M + "tree_info/0", 3, "tree_info names score 3"),
    (M + "tree_info/0", -1, "tree_info names score -1"),
    (M + "tree_info/0", 0.5, "tree_info must be a list of whole numbers"),
    (M + "tree_info", [0], "tree_info has 1 entries"),
    (M + "gbtree_model_param/num_trees", "17", "num_trees is 17"),
    (M + "trees", [], "0 trees and 3 scores"),
    (M + "trees/0", None, "trees must be a list of objects"),
    (M + "trees/0/left_children/0", 99, "left child 99 is out of range"),
    (M + "trees/0/left_children/0", 0, "left child 0 is out of range"),
    (M + "trees/0/left_children/0", 2**70, "left_children"),
    (M + "trees/0/right_children/0", 1, "two parents"),
    (M + "trees/0/split_indices/0", 5, "feature 5 is out of range"),
    (M + "trees/0/split_indices/0", -1, "split index is negative"),
    (M + "trees/0/split_conditions/0", float("nan"), "nan is not a finite"),
    (M + "trees/0/split_conditions/0", float("inf"), "inf is not a finite"),
    (M + "trees/0/split_conditions/0", "1", "split_conditions must be a list of numbers"),
    (M + "trees/0/split_conditions", [], "list of numbers|different lengths"),
    (M + "trees/0/default_left", [0], "different lengths"),
    (M + "trees/0/tree_param/num_nodes", "3", "base_weights has .* entries for 3 nodes"),
    (M + "trees/0/tree_param/num_deleted", "1", "num_deleted is 1"),
    (M + "trees/0/default_left/0", 2, "default_left must hold 0 or 1"),
    (M + "trees/0/split_type/0", 2, "split_type must hold"),
    (M + "trees/0/split_type/0", 1, "categories_nodes does not list"),
    # What XGBoost reads otherwise than it is written, or ignores.
    ("version", [4, 0, 0], "written by XGBoost 4"),
    ("version", "3.2.0", "version must be three whole numbers"),
    ("learner2", {}, "the file has a field 'learner2'"),
    (L + "learner_train_param", {}, "learner has a field 'learner_train_param'"),
    (L + "attributes/best_iteration", 2, "attributes: best_iteration must be a string"),
    (L + "attributes/best_iteration", "1_0", "best_iteration must be a whole number"),
    (L + "attributes/best_iteration", " 1", "best_iteration must be a whole number"),
    (L + "attributes/scikit_learn", '{"_estimator_type": "regressor"}', "another estimator than a classifier"),
    (L + "feature_types", ["q"], "feature_types has 1 entries for 5 features"),
    (L + "objective/reg_loss_param", {}, "objective has a field 'reg_loss_param'"),
    (L + "objective/softmax_multiclass_param/num_class", "2", "num_class is 3, but the objective says 2"),
    (L + "learner_model_param/base_score", 0.5, "base_score must be a number or a list of numbers, as a string"),
    (L + "learner_model_param/base_score", "[0.5,0.06664444130,0.5]", "base_score 0.06664444130 has more"),
    (L + "learner_model_param/base_score", "0.5x", "base_score must be a number or a list"),
    (L + "learner_model_param/base_score", "0. 5", "base_score must be a number or a list"),
    (L + "learner_model_param/base_score", "(1,2,3)", "base_score must be a number or a list"),
    (L + "learner_model_param/num_feature", "5 ", "num_feature must be a whole number"),
    (L + "learner_model_param/num_feature", "+5", "num_feature must be a whole number"),
    (L + "gradient_booster/weight_drop", [1.0] * 18, "gradient_booster has a field 'weight_drop'"),
    (M + "weight_drop", [1.0] * 18, "model has a field 'weight_drop'"),
    (M + "gbtree_model_param", {}, "gbtree_model_param has no 'num_trees'"),
    (M + "gbtree_model_param/num_trees", 18, "num_trees must be a whole number"),
    (M + "tree_info", [0] * 18, "tree_info names 1 of 3 scores"),
    (M + "tree_info/0", True, "tree_info must be a list of whole numbers"),
    (M + "iteration_indptr", [3, 18], "iteration_indptr must rise from 0"),
    (M + "iteration_indptr", [0, 9, 3, 18], "iteration_indptr must rise from 0"),
    (M + "cats", {"enc": [], "feature_segments": [], "sorted_idx": [1]}, "sorted_idx does not put"),
    (M + "trees/0/id", 1, "tree 0: its id is 1; the trees must be in the order of their ids"),
    (M + "trees/0/id", 2**64, "tree 0: its id is 18446744073709551616"),
    (M + "trees/0/extra", [], "tree 0 has a field 'extra'"),
    (M + "trees/0/sum_hessian", [], "sum_hessian has 0 entries"),
    (M + "trees/0/tree_param/num_nodes", 15, "num_nodes must be a whole number"),
    (M + "trees/0/left_children/0", 2**32 + 1, "left child 4294967297 is out of range"),
    (M + "trees/0/left_children/0", True, "left_children must be a list of whole numbers"),
    (M + "trees/0/split_indices/0", 2**32, "feature 4294967296 is out of range"),
    (M + "trees/0/split_conditions/0", 1, "a list of numbers with a point or an exponent"),
    (M + "trees/0/split_conditions/0", 3.00000011920928955078125, "half way between two float32 numbers"),
    (M + "trees/0/split_conditions/0", -(2.0**-150), "half way between two float32 numbers"),
    (M + "trees/0/split_type/0", False, "split_type must be a list of whole numbers"),
    (M + "trees/0/parents/0", 1, "parents must name a node for each but the first"),
    (M + "trees/0/parents/1", 1, "parents contradicts the children of node 0"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), DAMAGED)
def test_a_damaged_file_ends_in_one_clear_refusal(path: str, value: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "damaged.json"
    file.write_text(json.dumps(_damage(path, value), ensure_ascii=False))
    with pytest.raises((tp.InvalidInput, tp.UnsupportedModel), match=message):
        tp.load_model(file)


def test_the_id_of_a_tree_decides_its_place() -> None:
    document = copy.deepcopy(GOOD)
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    trees[0], trees[1] = trees[1], trees[0]
    np.testing.assert_array_equal(
        booster_of(document).predict(xgb.DMatrix(X2)), booster_of(GOOD).predict(xgb.DMatrix(X2))
    )
    with pytest.raises(tp.InvalidInput, match="tree 0: its id is 1"):
        load(document)
    trees[0], trees[1] = trees[1], trees[0]
    document["learner"]["attributes"]["best_iteration"] = "0"
    trees[-1]["id"] = 0
    with pytest.raises(tp.InvalidInput, match="tree 17: its id is 0"):
        load(document)


@pytest.mark.parametrize(
    "text", ["3.000000119209289550781250000000000000001", "3.00000011920928955078125", "2.999999880790710449218749999"]
)
def test_a_decimal_is_rounded_once_or_refused(text: str) -> None:
    document = json.dumps(crafted(np.array([[-0.75], [0.5]]), "binary:logitraw")).replace("-0.75", text)
    booster = xgb.Booster({"nthread": 1})
    booster.load_model(bytearray(document.encode()))
    expected = booster.predict(xgb.DMatrix(np.zeros((1, 1))), output_margin=True)[0]
    try:
        assert load_bytes(document.encode(), voting=None).scores([[0.0]])[0, 0] == expected
    except tp.InvalidInput as error:
        assert "half way" in str(error)


def test_escapes_are_left_as_xgboost_leaves_them() -> None:
    document = copy.deepcopy(GOOD)
    document["learner"]["feature_names"] = ["é", "b", "c", "d", "\\u00e8"]
    text = json.dumps(document)
    booster = booster_of(document)
    assert load_bytes(text.encode(), voting=None).feature_names == tuple(booster.feature_names)
    assert booster.feature_names[0] == "\\u00e9"
    with pytest.raises(tp.InvalidInput, match="has no 'trees'"):
        load_bytes(json.dumps(GOOD).replace('"trees"', '"tr\\u0065es"').encode(), voting=None)


def test_a_file_of_two_softprob_classes_has_no_labels_in_xgbclassifier() -> None:
    with pytest.raises(tp.UnsupportedModel, match="two columns instead of labels"):
        load(crafted(np.array([[0.1, 0.2], [0.3, 0.2]]), "multi:softprob"))


def test_without_iteration_indptr_the_trees_must_be_whole_rounds() -> None:
    document = copy.deepcopy(GOOD)
    model = document["learner"]["gradient_booster"]["model"]
    del model["iteration_indptr"]
    assert load(document).n_trees == 18
    model["gbtree_model_param"]["num_parallel_tree"] = "4"
    with pytest.raises(tp.InvalidInput, match="18 trees are no whole rounds of 4 for each of 3 scores"):
        load(document)


def test_a_node_is_deleted_only_with_both_of_its_marks() -> None:
    document = document_of(small(n_estimators=1, max_depth=4, gamma=8.0, tree_method="exact"))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    deleted = tree["split_indices"].index(2**31 - 1)
    assert load(document).n_trees == 1
    tree["default_left"][deleted] = 0
    with pytest.raises(tp.InvalidInput, match="num_deleted is"):
        load(document)


def test_dart_is_a_gbtree_with_weights() -> None:
    document = document_of(small(booster="dart", rate_drop=0.5))
    booster = document["learner"]["gradient_booster"]
    booster["gbtree"]["name"] = "dart"
    with pytest.raises(tp.InvalidInput, match="must be a gbtree, not 'dart'"):
        load(document)
    booster["gbtree"]["name"] = "gbtree"
    booster["weight_drop"].append(1.0)
    with pytest.raises(tp.InvalidInput, match="weight_drop has 7 entries for 6 trees"):
        load(document)


@pytest.mark.parametrize(
    ("name", "dtype"), [("split_conditions", "f8"), ("left_children", "i8"), ("parents", "i2"), ("default_left", "i4")]
)
def test_a_typed_array_of_another_type_is_refused(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bytes(small().get_booster().save_raw("ubj"))
    document = _ubjson.parse(raw)
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    tree[name] = tree[name].astype(dtype)
    monkeypatch.setattr(_ubjson, "parse", lambda data: document)
    with pytest.raises(tp.InvalidInput, match=f"{name} must be a list"):
        load_bytes(raw, voting=None)


def test_a_huge_class_count_is_refused_before_anything_is_allocated() -> None:
    document = _damage(L + "learner_model_param/num_class", "2000000000")
    document["learner"]["learner_model_param"]["base_score"] = "0E0"
    document["learner"]["objective"]["softmax_multiclass_param"]["num_class"] = "2000000000"
    with pytest.raises(tp.InvalidInput, match="num_class is 2000000000; at most"):
        load(document)
    document["learner"]["learner_model_param"]["num_class"] = "1000000"
    document["learner"]["objective"]["softmax_multiclass_param"]["num_class"] = "1000000"
    with pytest.raises(tp.InvalidInput, match="18 trees and 1000000 scores"):
        load(document)


def test_a_file_with_vector_leaves_is_refused() -> None:
    with pytest.raises(tp.UnsupportedModel, match="multi_output_tree"):
        load(_damage(M + "trees/0/tree_param/size_leaf_vector", "3"))


@pytest.mark.parametrize(
    ("field", "value"),
    [("categories", [4, 3, 1]), ("categories", [1, 1, 3]), ("categories", [1, 3, 4, 5]), ("categories_segments", [1]),
     ("categories", [-1, 3, 4]), ("categories", [1, 3, 2**24]), ("categories_sizes", [9]), ("categories_sizes", [0]),
     ("categories_segments", [-1]), ("categories_nodes", [1]), ("categories_nodes", [0, 0])],
)  # fmt: skip
def test_damaged_category_sets_are_refused(field: str, value: list[int], tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 6, size=(300, 1)).astype(float)
    matrix = xgb.DMatrix(codes, np.isin(codes[:, 0], [0, 2, 5]), feature_types=["c"], enable_categorical=True)
    booster = xgb.train({"objective": "binary:logistic", "max_depth": 1, "nthread": 1}, matrix, 1)
    document = json.loads(booster.save_raw("json"))
    assert load(document).n_trees == 1
    document["learner"]["gradient_booster"]["model"]["trees"][0][field] = value
    (tmp_path / "m.json").write_text(json.dumps(document))
    with pytest.raises(tp.InvalidInput):
        tp.load_model(tmp_path / "m.json")


def test_a_leaf_that_pruning_left_a_set_of_categories_is_read() -> None:
    codes = np.random.default_rng(0).integers(0, 6, size=(300, 1)).astype(float)
    matrix = xgb.DMatrix(codes, np.isin(codes[:, 0], [0, 2, 5]), feature_types=["c"], enable_categorical=True)
    booster = xgb.train({"objective": "binary:logistic", "max_depth": 1, "nthread": 1}, matrix, 1)
    document = json.loads(booster.save_raw("json"))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_type"][2] = 1
    tree["categories_nodes"].append(2)
    tree["categories_segments"].append(len(tree["categories"]))
    tree["categories_sizes"].append(1)
    tree["categories"].append(3)
    expected = booster_of(document).predict(matrix, output_margin=True)
    np.testing.assert_array_equal(load(document).scores(codes)[:, 0], expected)
    tree["categories_nodes"] = tree["categories_nodes"][::-1]
    with pytest.raises(tp.InvalidInput, match="in their order"):
        load(document)


def test_cut_and_flipped_files_are_read_or_refused_and_nothing_else(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = tmp_path / "model"
    for form in ("json", "ubj"):
        raw = bytes(small(3, n_estimators=2).get_booster().save_raw(form))
        for trial in range(250):
            damaged = bytearray(raw)
            if trial % 3 == 0:
                damaged = damaged[: rng.integers(1, len(raw))]
            else:
                for at in rng.integers(0, len(raw), size=trial % 3 * 2):
                    damaged[at] = rng.integers(256)
            file.write_bytes(bytes(damaged))
            try:
                ensemble = tp.load_model(file)
            except (tp.InvalidInput, tp.UnsupportedModel):
                continue
            assert ensemble.predict(np.zeros((1, ensemble.n_features))).shape == (1,)


def test_right_children_that_versions_find_elsewhere_are_refused() -> None:
    """Node 0 has the children 1 and 4, in preorder; XGBoost before 3 would go right to node 2."""
    document = crafted(np.array([[0.1], [0.2], [0.3]]), "binary:logistic")
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    assert tree["left_children"] == [1, -1, 3, -1, -1] and tree["right_children"] == [2, -1, 4, -1, -1]
    load(document)
    order = [2, 3, 4, 0, 1]  # a root with an inner left child: nodes 0 (root), 1 (inner), 2, 3 (its leaves), 4
    tree["left_children"], tree["right_children"] = [1, 2, -1, -1, -1], [4, 3, -1, -1, -1]
    tree["parents"] = [2147483647, 0, 1, 1, 0]
    tree["split_conditions"] = [tree["split_conditions"][node] for node in order]
    with pytest.raises(tp.InvalidInput, match="tree 0: the right child of node 0 does not follow its left child"):
        load(document)
