"""LightGBM: what is refused and why, damaged files, and the numbers that decide near ties."""

from __future__ import annotations

import itertools
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from tests.support.zoo.case import data
from treeproof.importers._lightgbm_text import imprecise
from treeproof.importers.lightgbm import ZERO, load_bytes, sigmoid_cut

lgb = pytest.importorskip("lightgbm")

SMALL = {"n_estimators": 5, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
X2, Y2 = data(2)


def small(n_classes: int = 2, **settings: Any) -> Any:
    return lgb.LGBMClassifier(**{**SMALL, **settings}).fit(*data(n_classes))


def load(text: str) -> tp.Ensemble:
    return load_bytes(text.encode(), voting=None)


def numbers(values: Any) -> str:
    return " ".join(repr(float(value)) for value in values)


def crafted(leaves: np.ndarray, objective: str) -> str:
    """A model of one feature: row x = i gets the scores leaves[i], one tree per score (a chain of splits)."""
    n, k = leaves.shape
    trees = [tree_text(score, np.arange(n - 1) + 0.5, [10] * (n - 1), leaves[:, score]) for score in range(k)]
    return file_text(trees, objective, k)


def tree_text(
    number: int, thresholds: Any, kinds: list[int], leaves: Any, features: Any = None, extra: str = ""
) -> str:
    """A chain: split i sends left to leaf i and right to split i + 1."""
    inner = len(kinds)
    features = [0] * inner if features is None else features
    left = " ".join(str(-1 - i) for i in range(inner))
    right = " ".join(str(i + 1) if i + 1 < inner else str(-1 - inner) for i in range(inner))
    return (
        f"Tree={number}\nnum_leaves={inner + 1}\nnum_cat={extra.count(' ')}\n"
        f"split_feature={' '.join(map(str, features))}\nsplit_gain={numbers(np.ones(inner))}\n"
        f"threshold={numbers(thresholds)}\ndecision_type={' '.join(map(str, kinds))}\nleft_child={left}\n"
        f"right_child={right}\nleaf_value={numbers(leaves)}\nleaf_weight={numbers(np.ones(inner + 1))}\n"
        f"leaf_count={' '.join(['1'] * (inner + 1))}\ninternal_value={numbers(np.ones(inner))}\n"
        f"internal_weight={numbers(np.ones(inner))}\ninternal_count={' '.join(['1'] * inner)}\n"
        f"{extra}is_linear=0\nshrinkage=1\n\n\n"
    )


def file_text(trees: list[str], objective: str, n_scores: int = 1, n_features: int = 1) -> str:
    names = " ".join(f"Column_{i}" for i in range(n_features))
    infos = " ".join(["[-10:10000]"] * n_features)
    return (
        f"tree\nversion=v4\nnum_class={n_scores}\nnum_tree_per_iteration={n_scores}\nlabel_index=0\n"
        f"max_feature_idx={n_features - 1}\nobjective={objective}\nfeature_names={names}\nfeature_infos={infos}\n"
        f"tree_sizes={' '.join(str(len(tree)) for tree in trees)}\n\n{''.join(trees)}end of trees\n\n"
        "feature_importances:\n\nparameters:\nend of parameters\n\npandas_categorical:null\n"
    )


def resized(text: str) -> str:
    """The file with the sizes that its trees have."""
    end = next(place for place in (text.find("end of trees"), len(text)) if place >= 0)
    starts = [match.start() for match in re.finditer("^Tree=", text[:end], re.MULTILINE)]
    sizes = " ".join(str(stop - start) for start, stop in itertools.pairwise([*starts, end]))
    return re.sub("^tree_sizes=.*$", f"tree_sizes={sizes}", text, count=1, flags=re.MULTILINE)


# ---- the numbers that decide ------------------------------------------------------------------------------


@pytest.mark.parametrize("steepness", [1.0, 0.37, 2.5, 1e-5])
def test_sigmoid_cut_is_where_lightgbm_itself_changes_its_mind(steepness: float) -> None:
    cut = sigmoid_cut(steepness)
    around = (np.arange(-200, 200) + np.float64(cut).view(np.int64)).view(np.float64)
    text = crafted(np.concatenate((around, -around, [0.0]))[:, None], f"binary sigmoid:{steepness!r}")
    X = np.arange(2 * len(around) + 1, dtype=float)[:, None]
    booster = lgb.Booster(model_str=text)
    probability = booster.predict(X)
    np.testing.assert_array_equal(booster.predict(X, raw_score=True)[: len(around)], around)
    np.testing.assert_array_equal(probability[: len(around)] > 0.5, around > cut)
    np.testing.assert_array_equal(load(text).predict(X), np.column_stack((1 - probability, probability)).argmax(axis=1))


@pytest.mark.parametrize("objective", ["multiclass num_class:3", "multiclassova num_class:3 sigmoid:1.3"])
@pytest.mark.parametrize("spread", [1.0, 6.0])
def test_classes_a_few_roundings_apart_equal_lightgbms(objective: str, spread: float) -> None:
    rng = np.random.default_rng(0)
    middle = rng.normal(size=(700, 1)) * spread
    leaves = (middle.view(np.int64) + rng.integers(-3, 4, size=(700, 3))).view(np.float64)
    text = crafted(leaves, objective)
    X = np.arange(700, dtype=float)[:, None]
    expected = lgb.Booster(model_str=text).predict(X).argmax(axis=1)
    assert (expected != leaves.argmax(axis=1)).any(), "no tie of probabilities is tested"
    np.testing.assert_array_equal(load(text).predict(X), expected)


def _around_zero() -> np.ndarray:
    edges = np.array([0.0, -0.0, 5e-324, ZERO, ZERO / 2, 2 * ZERO, 1e-35, 1e-36, 1e-30, 1.0, 2.0, 1e300])
    edges = np.concatenate((edges, -edges))
    beside = np.concatenate((edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)))
    return np.concatenate((beside, [np.nan]))


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("default_left", [0, 1])
@pytest.mark.parametrize(
    "threshold",
    [0.0, -0.0, 5e-324, ZERO / 2, ZERO, 2 * ZERO, 1.0, -5e-324, -ZERO / 2, -ZERO, -2 * ZERO, -1.0, np.inf,
     float(np.nextafter(ZERO, 1)), float(np.nextafter(ZERO, 0)), float(np.nextafter(-ZERO, -1))],
)  # fmt: skip
def test_tiny_numbers_are_zero_and_missing_goes_where_lightgbm_sends_it(
    threshold: float, default_left: int, missing: int
) -> None:
    kind = 4 * missing + 2 * default_left
    text = file_text([tree_text(0, [threshold, 2.0], [kind, kind], [1.0, 2.0, 3.0])], "binary sigmoid:1")
    X = _around_zero()[:, None]
    expected = lgb.Booster(model_str=text).predict(X, raw_score=True)
    np.testing.assert_array_equal(load(text).scores(X)[:, 0], expected)


@pytest.mark.parametrize("seed", range(6))
def test_zero_as_missing_in_deep_trees_equals_lightgbm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inner = 12
    kinds = (rng.choice([4, 6, 8, 10, 0], size=inner)).tolist()
    tree = tree_text(
        0, rng.normal(size=inner).round(1), kinds, rng.normal(size=inner + 1), rng.integers(0, 2, size=inner)
    )
    text = file_text([tree], "binary sigmoid:1", n_features=2)
    values = np.concatenate((_around_zero(), rng.normal(size=40).round(1)))
    X = np.array(np.meshgrid(values, values)).reshape(2, -1).T
    np.testing.assert_array_equal(load(text).scores(X)[:, 0], lgb.Booster(model_str=text).predict(X, raw_score=True))


def test_categories_are_whole_parts_and_the_rest_goes_right() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, size=(900, 1)).astype(float)
    y = np.isin(codes[:, 0], [0, 1, 5, 6, 7, 31, 32, 39]).astype(int)
    codes[rng.random(900) < 0.1] = np.nan
    model = lgb.LGBMClassifier(**SMALL, min_data_per_group=1, cat_smooth=0, max_cat_to_onehot=1)
    model.fit(codes, y, categorical_feature=[0])
    edges = np.arange(-2.0, 70.0)
    beside = np.concatenate((edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), edges + 0.5))
    X = np.concatenate((beside, _around_zero(), [2.0**31, 2.0**32 + 2, 1e20, -1e20]))[:, None]
    np.testing.assert_array_equal(tp.from_model(model).scores(X)[:, 0], model.predict(X, raw_score=True))


def test_a_tree_that_never_split_is_a_constant() -> None:
    model = lgb.LGBMClassifier(n_estimators=3, min_child_samples=500, verbose=-1, n_jobs=1).fit(X2, (X2[:, 0] > -1))
    ensemble = tp.from_model(model)
    np.testing.assert_array_equal(ensemble.scores(X2)[:, 0], model.predict(X2, raw_score=True))
    np.testing.assert_array_equal(ensemble.predict(X2), model.predict(X2))


@pytest.mark.parametrize("keep", [True, False])
def test_early_stopping_cuts_object_and_file(tmp_path: Path, keep: bool) -> None:
    train = lgb.Dataset(X2, Y2)
    noisy = np.where(np.random.default_rng(0).random(240) < 0.3, 1 - Y2, Y2)
    booster = lgb.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1, "learning_rate": 0.3},
        train, 60, valid_sets=[lgb.Dataset(X2, noisy, reference=train)], keep_training_booster=keep,
        callbacks=[lgb.early_stopping(5, verbose=False)],
    )  # fmt: skip
    # Without keep_training_booster LightGBM itself throws the trees behind the best iteration away.
    assert (1 < booster.best_iteration < booster.current_iteration()) or not keep
    booster.save_model(tmp_path / "m.txt")
    for ensemble in (tp.from_model(booster), tp.load_model(tmp_path / "m.txt")):
        assert ensemble.n_trees == booster.best_iteration
        np.testing.assert_array_equal(ensemble.scores(X2)[:, 0], booster.predict(X2, raw_score=True))


def test_files_are_read_without_lightgbm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert load(GOOD).n_trees == 15


def test_labels_and_feature_names() -> None:
    ensemble = tp.from_model(lgb.LGBMClassifier(**SMALL).fit(X2, np.where(Y2 == 1, "yes", "no")))
    assert ensemble.classes.tolist() == ["no", "yes"]
    assert ensemble.feature_names is None
    booster = lgb.train({"objective": "binary", "verbose": -1}, lgb.Dataset(X2, Y2, feature_name=list("abcde")), 2)
    assert tp.from_model(booster).feature_names == tuple("abcde")
    assert tp.from_model(booster).classes.tolist() == [0, 1]


# ---- refusals ---------------------------------------------------------------------------------------------


def _train(y: np.ndarray = Y2, **params: Any) -> Any:
    return lgb.train({"verbose": -1, "num_threads": 1, **params}, lgb.Dataset(X2, y), 2)


def _own_objective(y: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return score - y, np.ones_like(score)


REFUSED = {
    "regressor": (lambda: lgb.LGBMRegressor(**SMALL).fit(X2, Y2), "LGBMRegressor is not a classifier"),
    "ranker": (lambda: lgb.LGBMRanker(**SMALL).fit(X2, Y2, group=[240]), "LGBMRanker is not a classifier"),
    "data set": (lambda: lgb.Dataset(X2, Y2), "Dataset is not a classifier"),
    "regression": (lambda: _train(objective="regression"), "objective 'regression'"),
    "cross entropy": (lambda: _train(objective="cross_entropy"), "objective 'cross_entropy'"),
    "classifier with cross entropy": (lambda: small(objective="cross_entropy"), "objective 'cross_entropy'"),
    "poisson": (lambda: _train(objective="poisson"), "objective 'poisson'"),
    "own objective": (lambda: small(objective=_own_objective), "with a custom objective"),
    "own objective of a booster": (
        lambda: _train(objective=lambda score, train: _own_objective(train.get_label(), score)), "objective 'none'",
    ),
    "linear trees": (lambda: small(linear_tree=True), "linear_tree"),
    "early stop in prediction": (lambda: small(pred_early_stop=True), "pred_early_stop=True"),
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
        load_bytes(b"tree\n", voting="soft")


def test_untrained_models_are_refused() -> None:
    with pytest.raises(tp.InvalidInput, match="not trained"):
        tp.from_model(lgb.LGBMClassifier())
    with pytest.raises(tp.InvalidInput, match="has no trees"):
        tp.from_model(lgb.Booster({"objective": "binary", "verbose": -1}, lgb.Dataset(X2, Y2)))


def test_sets_of_categories_copy_no_nodes() -> None:
    inner = 8
    sets = "cat_boundaries=0 1\ncat_threshold=2863311530\n"
    tree = tree_text(0, [0.0] * inner, [1] * inner, range(inner + 1), range(inner), extra=sets)
    model = load(file_text([tree], "binary sigmoid:1", n_features=inner))
    assert model.n_nodes == 2 * inner + 1


# ---- damaged files ----------------------------------------------------------------------------------------

GOOD = small(3).booster_.model_to_string()
ONE = crafted(np.array([[0.5], [-0.5], [1.5]]), "binary sigmoid:1")
SETS = tree_text(0, [0.0], [1], [1.0, 2.0], extra="cat_boundaries=0 1\ncat_threshold=6\n")
CATEGORY = file_text([SETS], "binary sigmoid:1")
ZEROS = file_text([tree_text(0, [0.5], [4], [1.0, 2.0])], "binary sigmoid:1")  # zeros count as missing

DAMAGED = [
    (ZEROS, "threshold=0.5", "threshold=nan", "threshold nan is not a finite number"),
    (GOOD, "end of trees", "end of tre", "the line 'end of tre' is not one of a key"),
    (GOOD, "num_class=3\n", "num_class=4\n", "num_class is 4, but the objective says 3"),
    (GOOD, "num_class=3\n", "num_class=x\n", "num_class must be a whole number"),
    (GOOD, "num_class=3\n", "", "a line 'num_class=…' is missing"),
    (ONE, "leaf_value=0.5", "leaf_value=1_0", "'1_0' is not a number as LightGBM writes it"),
    (ONE, "decision_type", "decision_tipe", "a line 'decision_type=…' is missing"),
    (ONE, "split_feature=0", "split_feature=0.5", "split_feature: '0.5' is not a number"),
    (GOOD, "num_tree_per_iteration=3", "num_tree_per_iteration=0", "num_tree_per_iteration must be"),
    (GOOD, "num_tree_per_iteration=3", "num_tree_per_iteration=7", "15 trees cannot be shared equally among 7"),
    (GOOD, "num_tree_per_iteration=3", "num_tree_per_iteration=5", "5 trees per iteration and num_class=3"),
    (GOOD, "max_feature_idx=4", "max_feature_idx=5", "names 5 features"),
    (GOOD, "max_feature_idx=4", "max_feature_idx=99999999999", "max_feature_idx must be"),
    (GOOD, "Tree=2\n", "Tree=3\n", "expected tree 2"),
    (GOOD, "Tree=0\n", "Tree=0\nnum_leaves=1\n", "'num_leaves' occurs twice"),
    (ONE, "sigmoid:1", "sigmoid:0", "sigmoid must be above 0"),
    (ONE, "sigmoid:1", "sigmoid:nan", "sigmoid must be a positive number"),
    (ONE, "num_leaves=3", "num_leaves=999999999", "UNSUPPORTED scores are supported"),
    (ONE, "num_leaves=3", "num_leaves=4", "leaf_weight has 3 entries, expected 4"),
    (ONE, "leaf_value=0.5", "leaf_value=nan", "nan is not a finite number"),
    (ONE, "leaf_value=0.5", "leaf_value=abc", "leaf_value: 'abc' is not a number"),
    (ONE, "threshold=0.5", "threshold=nan", "threshold nan is not a finite number"),
    (ONE, "threshold=0.5", "threshold=-inf", "threshold -inf is not a finite number"),
    (ONE, "split_feature=0", "split_feature=1", "feature 1 is out of range"),
    (ONE, "split_feature=0", "split_feature=-1", "a split feature is negative"),
    (ONE, "decision_type=10", "decision_type=14", "decision_type 14 is unknown"),
    (ONE, "decision_type=10", "decision_type=-2", "decision_type -2 is unknown"),
    (ONE, "left_child=-1", "left_child=-9", "left child 10 is out of range"),
    (ONE, "left_child=-1", "left_child=0", "left child 0 is out of range"),
    (ONE, "left_child=-1", "left_child=-2", "two parents"),
    (ONE, "left_child=-1", "left_child=99999999999999999999", "left_child: '99999999999999999999' is not a number"),
    (CATEGORY, "threshold=0.0", "threshold=1.0", "category set 1.0 is out of range"),
    (CATEGORY, "threshold=0.0", "threshold=0.5", "category set 0.5 is out of range"),
    (CATEGORY, "threshold=0.0", "threshold=nan", "category set nan is out of range"),
    (CATEGORY, "cat_boundaries=0 1", "cat_boundaries=0 9", "must rise from 0 to the 1 words"),
    (CATEGORY, "cat_boundaries=0 1", "cat_boundaries=-1 1", "must rise from 0 to the 1 words"),
    (CATEGORY, "cat_threshold=6", "cat_threshold=-6", "32-bit words"),
    (CATEGORY, "left_child=-1", "left_child=0", "tree 0, node 0: left child 0 is out of range"),
    # What LightGBM reads otherwise than it is written, or ignores.
    (CATEGORY, "num_cat=1", "num_cat=0", "line 'cat_boundaries=…', which LightGBM does not write"),
    (CATEGORY, "num_cat=1", "num_cat=2", "cat_boundaries has 2 entries, expected 3"),
    (CATEGORY, "decision_type=1", "decision_type=2", "num_cat is 1, but no splits are on categories"),
    (ONE, "decision_type=10", "decision_type=11", "num_cat is 0, but some splits are on categories"),
    (ONE, "decision_type=10", "decision_type=266", "decision_type 266 is unknown"),
    (ONE, "decision_type=10 10", "decision_type=10", "decision_type has 1 entries, expected 2"),
    (ONE, "decision_type=10 10", "decision_type=10  10", "decision_type: '' is not a number"),
    (ONE, "left_child=-1", "left_child=4294967295", "left child 4294967295 is out of range"),
    (ONE, "threshold=0.5", "threshold=0.5x", "threshold: '0.5x' is not a number"),
    (ONE, "threshold=0.5", "threshold=0x1", "threshold: '0x1' is not a number"),
    (ONE, "threshold=0.5", "threshold=+5", "threshold: '.5' is not a number"),
    (ONE, "threshold=0.5", "threshold=infinity", "threshold: 'infinity' is not a number"),
    (ONE, "threshold=0.5", "threshold=\t0.5", "t0.5' is not a number"),
    (ONE, "threshold=0.5", "threshold=1e400", "threshold has a number that is too large for a double"),
    (ONE, "leaf_value=0.5", "leaf_value=1e400", "leaf_value has a number that is too large for a double"),
    (ONE, "leaf_weight=1.0", "leaf_weight=x", "leaf_weight: 'x' is not a number"),
    (ONE, "shrinkage=1", "shrinkage=1\nextra=1", "it has a line 'extra=…'"),
    (ONE, "shrinkage=1\n\n", "shrinkage=1\n\nnum_cat=0\n", "'num_cat' occurs twice"),
    (ONE, "shrinkage=1\n", "\nshrinkage=1\n", "'shrinkage=1' stands behind an empty line"),
    (ONE, "leaf_value=0.5", "leaf_value=\u0661", "is not one of a key, '=' and numbers"),
    (ONE, "label_index=0\n", "label_index=0\naverage_output=1\n", "line 'average_output=1', which LightGBM does not"),
    (ONE, "label_index=0\n", "label_index=0\naverage_output \n", "line 'average_output '"),
    (ONE, "label_index=0\n", "label_index=x\n", "label_index: 'x' is not a number"),
    (ONE, "label_index=0\n", "label_index=0\nlabel_index=0\n", "'label_index' occurs twice"),
    (ONE, "label_index=0\n", "label_index=0\nnum_trees=1\n", "line 'num_trees=1', which LightGBM does not write"),
    (ONE, "label_index=0\n", "label_index=0\nmonotone_constraints=1 0\n", "monotone_constraints has 2 entries"),
    (ONE, "version=v4", "version==v4", "has a second '='"),
    (ONE, "feature_names=", "feature_names==", "has a second '='"),
    (ONE, "feature_infos=", "feature_infos=none ", "feature_infos has 2 entries"),
    (ONE, "sigmoid:1", "sigmoid:1 sigmoid:2", "objective binary must have sigmoid, got"),
    (ONE, "sigmoid:1", "sigmoid:1 is_unbalance:1", "objective binary must have sigmoid, got"),
    (ONE, "sigmoid:1", " sigmoid:1", "objective binary must have sigmoid, got"),
    (ONE, "sigmoid:1", "sigmoid:1:2", "sigmoid must be a positive number"),
    (ONE, "sigmoid:1", "sigmoid:1e23", "sigmoid must be a positive number"),
    (ONE, "parameters:\n", "parameters:\n[linear_tree: 1]\n", "UNSUPPORTED linear_tree"),
    (ONE, "pandas_categorical:null", "pandas_categorical:null\nx", "must be the last line"),
    (ONE, "pandas_categorical:null", "pandas_categorical:[]\npandas_categorical:null", "must be the last line"),
    (ONE, "pandas_categorical:null\n", "pandas_categorical:null\n\n\n", "must be the last line"),
    (ONE, "pandas_categorical:null", 'pandas_categorical:[["a"]]', "has 1 lists, which do not fit the model's columns"),
    (ONE, "pandas_categorical:null", "pandas_categorical:[1]", "must be a list of lists"),
    (ONE, "pandas_categorical:null", "pandas_categorical:[[null]]", "None is no category"),
    (ONE, "pandas_categorical:null", "pandas_categorical:[[NaN]]", "nan is no category"),
    (ONE, "pandas_categorical:null", 'pandas_categorical:[["a", "a"]]', "a list has a value twice"),
    (ONE, "pandas_categorical:null", "pandas_categorical:[[", "JSONDecodeError"),
    (ONE, "feature_infos=[-10:10000]", "feature_infos=[-10:1000", "is neither a range nor a list of categories"),
]


@pytest.mark.parametrize(("text", "old", "new", "message"), DAMAGED)
def test_a_damaged_file_ends_in_one_clear_refusal(text: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in text
    file = tmp_path / "damaged.txt"
    file.write_text(resized(text.replace(old, new, 1)))
    kind = tp.UnsupportedModel if message.startswith("UNSUPPORTED") else tp.InvalidInput
    with pytest.raises(kind, match=message.removeprefix("UNSUPPORTED ")):
        tp.load_model(file)


def test_tree_sizes_say_where_lightgbm_looks_for_a_tree() -> None:
    trees = [tree_text(0, [0.5], [10], [1.0, 2.0]), tree_text(1, [0.5], [10], [8.0, 16.0])]
    text = file_text(trees, "binary sigmoid:1")
    twice = text.replace(f"tree_sizes={len(trees[0])} ", "tree_sizes=0 ")
    assert lgb.Booster(model_str=twice).predict([[0.0]], raw_score=True) == [2.0], "the first tree, twice"
    assert load(text).scores([[0.0]])[0, 0] == 9.0
    for wrong in (twice, text.replace(" 2.0", " 2.00"), text.replace("tree_sizes=", "tree_sizes=7 ")):
        with pytest.raises(tp.InvalidInput, match="tree_sizes does not say|tree_sizes has 3 entries, expected 2"):
            load(wrong)
    assert load(re.sub("tree_sizes=.*\n", "", text)).scores([[0.0]])[0, 0] == 9.0
    old = text.replace("end of trees\n", "\nfeature importances:\n")
    assert load(old).scores([[0.0]])[0, 0] == lgb.Booster(model_str=old).predict([[0.0]], raw_score=True)[0]


def test_without_sets_of_categories_lightgbm_tests_numbers() -> None:
    text = resized(re.sub("cat_.*\n", "", CATEGORY.replace("num_cat=1", "num_cat=0")))
    assert lgb.Booster(model_str=text).predict([[-5.0], [1.0]], raw_score=True).tolist() == [1.0, 2.0]
    with pytest.raises(tp.InvalidInput, match="num_cat is 0, but some splits are on categories"):
        load(text)


@pytest.mark.parametrize("sigmoid", ["1.37", "0.1", "3.3", "12.3456", "1e-05", "2.5e+03", "7.7e-7", "123456.789"])
def test_the_sigmoid_of_a_file_is_as_imprecise_as_lightgbm_reads_it(sigmoid: str) -> None:
    steepness = imprecise(sigmoid, "sigmoid")
    scores = np.random.default_rng(0).normal(size=400) / steepness
    text = crafted(scores[:, None], f"binary sigmoid:{sigmoid}")
    probability = lgb.Booster(model_str=text).predict(np.arange(400.0)[:, None])
    np.testing.assert_array_equal(probability, [1.0 / (1.0 + math.exp(-steepness * score)) for score in scores])


def test_names_with_an_equals_sign_are_those_that_lightgbm_reads() -> None:
    booster = lgb.train({"objective": "binary", "verbose": -1}, lgb.Dataset(X2, Y2, feature_name=["a=b", *"cdef"]), 2)
    text = booster.model_to_string()
    assert load(text).feature_names == tuple(lgb.Booster(model_str=text).feature_name()) == ("a=b", *"cdef")


def test_an_unknown_file_version_is_refused() -> None:
    with pytest.raises(tp.UnsupportedModel, match="file version 'v9'"):
        load(GOOD.replace("version=v4", "version=v9"))


def test_windows_line_ends_are_refused() -> None:
    # LightGBM itself crashes: they move the trees, and it looks for them where tree_sizes says.
    with pytest.raises(tp.InvalidInput, match="Windows line ends"):
        load(GOOD.replace("\n", "\r\n"))


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cut.txt"
    whole = GOOD[: GOOD.index("end of trees")]
    for end in [*range(5, 600), *range(600, len(whole), 37)]:
        file.write_text(whole[:end])
        with pytest.raises((tp.InvalidInput, tp.UnsupportedModel)):
            tp.load_model(file)


def test_flipped_files_are_read_or_refused_and_nothing_else(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = tmp_path / "flipped.txt"
    for text in (GOOD[: GOOD.index("parameters:")], CATEGORY, ONE):
        raw = text.encode()
        for trial in range(150):
            damaged = bytearray(raw)
            for at in rng.integers(5, len(raw), size=1 + trial % 4):
                damaged[at] = rng.choice(list(b"0123456789 -.=e\nx\xff"))
            file.write_bytes(bytes(damaged))
            try:
                ensemble = tp.load_model(file)
            except (tp.InvalidInput, tp.UnsupportedModel):
                continue
            assert ensemble.predict(np.zeros((1, ensemble.n_features))).shape == (1,)


def test_names_with_blanks_still_fit_the_data_frame() -> None:
    X, y = data(2)
    frame = pd.DataFrame(X, columns=["mean radius", "b", "c d", "e", "f"])
    model = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(frame, y)
    ensemble = tp.from_model(model)
    assert (ensemble.predict(frame) == model.predict(frame)).all()
    assert ensemble.feature_index("mean radius") == 0
    with pytest.raises(tp.InvalidInput, match="X has no column 'mean_radius'"):
        ensemble.predict(frame.rename(columns={"mean radius": "radius"}))
