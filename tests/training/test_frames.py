"""Training on data frames: text, truth values, categories and what is missing or new come through to verification."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

import treeproof as tp
from tests.support.category_frames import NEW, credit
from treeproof.training import RobustBoostingClassifier, RobustForestClassifier, RobustTreeClassifier

ATTACKER = tp.Attacker({"amount": (-50.0, 0.0), "job": tp.ANY, "rate": (-0.1, 0.1)}, budget=1)
MODELS = [
    RobustTreeClassifier(ATTACKER, max_depth=4),
    RobustTreeClassifier(ATTACKER, max_depth=4, criterion="groot"),
    RobustForestClassifier(ATTACKER, n_estimators=3, max_depth=3, random_state=0),
    RobustBoostingClassifier(ATTACKER, n_estimators=6, learning_rate=0.5, max_depth=3),
    RobustBoostingClassifier(ATTACKER, n_estimators=12, learning_rate=0.5, max_depth=1),
]
NAMES = ["tree", "groot", "forest", "boosting", "stumps"]
every_model = pytest.mark.parametrize("model", MODELS, ids=NAMES)


def two_classes(n: int = 120, missing: float = 0.1) -> tuple[pd.DataFrame, np.ndarray]:
    frame, labels = credit(n, missing=missing)
    return frame, np.where(labels > 1, "good", "bad")


@every_model
def test_names_and_values_come_back(model: Any) -> None:
    frame, y = two_classes()
    model = clone(model).fit(frame, y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.n_features_in_ == 5
    ensemble = tp.from_model(model)
    assert ensemble.feature_names == tuple(frame.columns)
    categories = dict(ensemble.categories)
    assert sorted(categories) == [1, 3]
    assert set(categories[1].values) == set(frame["purpose"].dropna())
    assert set(categories[3].values) == {"none", "skilled", "boss"}
    assert ensemble.may_be_missing.any()
    np.testing.assert_array_equal(ensemble.predict(frame), model.predict(frame))


@every_model
def test_it_learns_from_text_and_what_is_missing(model: Any) -> None:
    frame = pd.DataFrame({"a": ["x", "y", "z", None] * 10, "b": [0.0, 1.0, np.nan, 2.0] * 10})
    settings = {"attacker": tp.Attacker((0.0, 0.0))}
    by_text = clone(model).set_params(**settings).fit(frame[["a"]], y := np.array([0, 1, 1, 0] * 10))
    np.testing.assert_array_equal(by_text.predict(frame[["a"]]), y)
    by_number = clone(model).set_params(**settings).fit(frame[["b"]], y := np.array([0, 0, 1, 0] * 10))
    np.testing.assert_array_equal(by_number.predict(frame[["b"]]), y)


@every_model
def test_values_that_training_never_saw_have_a_label(model: Any) -> None:
    frame, y = two_classes()
    model = clone(model).fit(frame, y)
    new = frame.head(20).copy()
    new["purpose"] = NEW
    new.loc[:5, "job"] = np.nan
    labels = model.predict(new)
    assert set(labels) <= {"good", "bad"}
    np.testing.assert_array_equal(tp.from_model(model).predict(new), labels)
    # All new values are one to the model.
    other = new.assign(purpose="another one")
    np.testing.assert_array_equal(model.predict(other), labels)
    result = tp.verify(model, new, labels, ATTACKER)
    assert result.robustness.exact


@every_model
def test_a_frame_in_another_order_or_of_other_types_says_the_same(model: Any) -> None:
    frame, y = two_classes()
    model = clone(model).fit(frame, y)
    labels = model.predict(frame)
    # A category column that knows its values in another order is the same text.
    typed = frame.assign(job=pd.Categorical(frame["job"], categories=["skilled", "boss", "none", "never"]))
    np.testing.assert_array_equal(model.predict(typed), labels)
    np.testing.assert_array_equal(model.predict(frame.iloc[::-1]), labels[::-1])


@every_model
def test_all_kinds_of_columns_may_be_mixed(model: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "truth": rng.random(80) < 0.5,
            "whole": rng.integers(0, 5, 80),
            "single": rng.random(80).astype(np.float32),
            "typed": pd.Categorical(rng.choice(["low", "mid", "high"], 80), categories=["low", "mid", "high", "top"]),
            "maybe": pd.array([None if k % 9 == 0 else int(k % 4) for k in range(80)], dtype="Int64"),
        }
    )
    y = ((frame["truth"]) ^ (frame["typed"] == "mid")).to_numpy().astype(int)
    attacker = tp.Attacker({"typed": tp.values("low", "top"), "whole": (-1, 1)}, budget=1)
    model = clone(model).set_params(attacker=attacker).fit(frame, y)
    ensemble = tp.from_model(model)
    np.testing.assert_array_equal(ensemble.predict(frame), model.predict(frame))
    assert tp.verify(model, frame, y, attacker).robustness.exact
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_a_test_on_a_category_is_a_set_of_values() -> None:
    frame = pd.DataFrame({"c": ["a", "b", "c", "d", "e"] * 8})
    y = frame["c"].isin(["a", "c", "e"]).to_numpy().astype(int)
    tree = RobustTreeClassifier(tp.Attacker((0.0, 0.0)), max_depth=1).fit(frame, y)
    assert tree.get_n_leaves() == 2 and tree.loss_under_attack_ == 0
    np.testing.assert_array_equal(tree.predict(frame), y)


def test_whoever_may_change_a_category_makes_it_useless() -> None:
    frame = pd.DataFrame({"c": ["a", "b"] * 20, "n": np.repeat([0.0, 1.0], 20)})
    y = (frame["c"] == "a").to_numpy().astype(int)
    for attacker, loss in ((tp.Attacker({"c": tp.ANY}), 0.25), (tp.Attacker({"n": tp.ANY}), 0.0)):
        tree = RobustTreeClassifier(attacker).fit(frame, y)
        assert tree.loss_under_attack_ == pytest.approx(loss)


def test_a_matrix_of_costs_and_a_blank_are_what_they_are() -> None:
    frame = pd.DataFrame({"c": ["a", "b", "c"] * 12})
    y = (frame["c"] == "a").to_numpy().astype(int)
    dear = tp.Attacker({}, costs={"c": {("a", "b"): 2, ("b", "c"): 1}}, budget=1)
    cheap = tp.Attacker({}, costs={"c": {("a", "b"): 1, ("b", "c"): 1}}, budget=1)
    blank = tp.Attacker({"c": tp.values("b", "c")}, costs={"c": 3}, budget=1, blank={"c": 1})
    losses = [RobustTreeClassifier(each).fit(frame, y).loss_under_attack_ for each in (dear, cheap, blank)]
    assert losses[0] == 0
    # One in three rows is an "a", and all of them can become a "b".
    assert losses[1] == pytest.approx(2 / 9)
    # Every row can become a missing value.
    assert losses[2] == pytest.approx(2 / 9)


@every_model
def test_columns_are_refused_as_elsewhere(model: Any) -> None:
    frame, y = two_classes(60)
    with pytest.raises(tp.InvalidInput, match="nowhere"):
        clone(model).set_params(attacker=tp.Attacker({"nowhere": (0, 1)})).fit(frame, y)
    with pytest.raises(tp.InvalidInput, match="hired"):
        clone(model).set_params(attacker=tp.Attacker({"job": tp.values("hired", "boss")})).fit(frame, y)
    model = clone(model).fit(frame, y)
    with pytest.raises(ValueError, match="job"):
        model.predict(frame.drop(columns="job"))


@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[ns]"])
def test_dates_may_be_ones_never_seen(kind: str) -> None:
    random = np.random.RandomState(0)
    frame = pd.DataFrame({"x": random.rand(100), "d": random.randint(0, 3, 100).astype(kind)})
    y = random.randint(0, 2, 100)
    model = RobustBoostingClassifier(tp.Attacker({"x": (0, 0.001)}), n_estimators=5, learning_rate=1.0).fit(frame, y)
    result = tp.verify(model, frame, y, tp.Attacker({"d": tp.ANY}, unseen=True))  # asks the model about each attack
    assert result.robustness.lower <= tp.verify(model, frame, y, tp.Attacker({"d": tp.ANY})).robustness.upper


@pytest.mark.parametrize("kind", ["bool", "boolean"])
def test_there_is_no_third_truth_value(kind: str) -> None:
    """One that was never seen was asked about as True."""
    random = np.random.RandomState(0)
    words = {"t": random.choice(["u", "v"], 100), "b": pd.array(random.rand(100) < 0.5, dtype=kind)}
    frame, y = pd.DataFrame({"x": random.rand(100), **words}), random.randint(0, 2, 100)
    for seed in range(5):
        model = RobustBoostingClassifier(
            tp.Attacker({"x": (0, 0.001)}), n_estimators=5, learning_rate=1.0, random_state=seed
        )
        ensemble = tp.from_model(model.fit(frame, y))
        assert dict(ensemble.categories)[2].values == (False, True)
        attacker = tp.Attacker({"b": tp.ANY, "t": tp.ANY}, unseen=True)
        assert tp.verify(model, frame, y, attacker).robustness.upper <= 1  # asks the model about each attack
    assert (model.fit(frame.assign(b=True), y).predict(frame) >= 0).all()
    with pytest.raises(tp.InvalidInput, match="row 0, column 'b': the model does not know the value 'c'"):
        model.predict(frame.assign(b="c"))


def test_lists_are_no_categories() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0], "l": [[1], [2]]})
    with pytest.raises(tp.InvalidInput, match="column 'l' holds something that is no category"):
        RobustBoostingClassifier(tp.Attacker({"x": (0, 1)})).fit(frame, [0, 1])


def test_columns_of_one_name_and_of_complex_numbers_are_refused() -> None:
    model = RobustBoostingClassifier(tp.Attacker.linf(0.1))
    with pytest.raises(tp.InvalidInput, match="two features are named 'a'; rename one"):
        model.fit(pd.DataFrame([[0.0, 1.0], [1.0, 0.0]], columns=["a", "a"]), [0, 1])
    with pytest.raises(tp.InvalidInput, match="column 'c' holds something that is no category"):
        model.fit(pd.DataFrame({"a": [0.0, 1.0], "c": [0j, 1j]}), [0, 1])


@pytest.mark.parametrize("dtype", ["Int64", "Int8", "Float64"])
def test_numbers_that_pandas_masks_may_be_missing(dtype: str) -> None:
    """A frame of numbers alone: no column of text makes the difference."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "c": pd.array([1, None, 3, 0] * 20, dtype=dtype)})
    y = (frame["a"] + frame["c"].isna() > 0.5).to_numpy().astype(int)
    plain = frame.astype("float64")
    attacker = tp.Attacker({"a": (-0.1, 0.1), "c": (0, 1)})
    for model in (RobustBoostingClassifier(attacker, random_state=0), HistGradientBoostingClassifier(random_state=0)):
        model.fit(frame, y)
        ensemble = tp.from_model(model)
        np.testing.assert_array_equal(ensemble.predict(frame), model.predict(frame))
        results = [tp.verify(model, rows, y, attacker) for rows in (frame, plain)]
        assert results[0].robustness_outcomes.tolist() == results[1].robustness_outcomes.tolist()
    assert tp.ceiling(frame, y, attacker).accuracy == tp.ceiling(plain, y, attacker).accuracy


def test_a_column_of_names_is_no_category() -> None:
    frame = pd.DataFrame({"id": [f"person {k}" for k in range(5000)]})
    with pytest.raises(tp.InvalidInput, match="column 'id' has 5000 values; training takes at most 4096, so merge"):
        RobustTreeClassifier(ATTACKER).fit(frame, np.arange(5000) % 2)


def test_rows_that_have_the_wanted_label_are_left_alone() -> None:
    """All may become a "b". Of those that have the label 1, which the attacker wants, none has to."""
    frame, y = pd.DataFrame({"c": ["a", "b", "d"] * 10}), np.array([0, 1, 1] * 10)
    moves = {"c": tp.values("b")}
    wanted = RobustTreeClassifier(tp.Attacker(moves, goal=1)).fit(frame, y)
    # Only "d" can be told apart; the others are one half each.
    assert wanted.loss_under_attack_ == pytest.approx(2 / 3 * 1 / 4)
    anything = RobustTreeClassifier(tp.Attacker(moves)).fit(frame, y)
    assert anything.loss_under_attack_ == pytest.approx(2 / 9)
