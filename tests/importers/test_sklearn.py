"""scikit-learn: what is refused and why; pipelines; the bundled special cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.points import critical_rows
from tests.support.prices import price_table
from tests.support.zoo.case import data

X, y = data(2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression().fit(X / 1e6, y), "no importer for scikit-learn's LogisticRegression"),
        (RandomForestClassifier(3).fit(X, np.column_stack((y, y))), "RandomForestClassifier has 2 outputs"),
        (DecisionTreeClassifier().fit(X, np.column_stack((y, y, y))), "DecisionTreeClassifier has 3 outputs"),
        (
            BaggingClassifier(LogisticRegression(), 2).fit(X / 1e6, y),
            "BaggingClassifier has a member of type LogisticRegression",
        ),
        (
            AdaBoostClassifier(LogisticRegression(), n_estimators=2).fit(X / 1e6, y),
            "AdaBoostClassifier has a member of type Logistic",
        ),
        (
            GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()).fit(X / 1e6, y),
            r"starts from init=LogisticRegression\(\), whose scores vary from row to row",
        ),
        (
            GradientBoostingClassifier(n_estimators=2, init=DummyClassifier(strategy="stratified")).fit(X, y),
            "starts from init=DummyClassifier.*stratified",
        ),
        (Pipeline([("scale", StandardScaler()), ("model", "passthrough")]).fit(X, y), "no step that predicts"),
        (make_pipeline(PCA(2), DecisionTreeClassifier()).fit(X, y), "the pipeline has a PCA before the model"),
        (make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), "no importer .* LogisticRegression"),
        (StandardScaler().fit(X), "no importer for scikit-learn's StandardScaler"),
    ],
)
def test_what_cannot_be_exact_is_refused(model: object, message: str) -> None:
    with pytest.raises(tp.UnsupportedModel, match=message):
        tp.from_model(model)


@pytest.mark.parametrize("model", [RandomForestClassifier(), make_pipeline(StandardScaler(), DecisionTreeClassifier())])
def test_unfitted_models_are_refused(model: object) -> None:
    with pytest.raises(tp.InvalidInput, match="is not fitted; call fit first"):
        tp.from_model(model)


def test_a_search_without_a_model_is_refused() -> None:
    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}, refit=False, cv=2).fit(X, y)
    with pytest.raises(tp.InvalidInput, match="kept no model; fit it with refit=True"):
        tp.from_model(search)


@pytest.mark.parametrize("model", [AdaBoostClassifier(n_estimators=3), GradientBoostingClassifier(n_estimators=3)])
def test_boosting_has_no_voting(model: object) -> None:
    with pytest.raises(tp.InvalidInput, match="voting='hard' is for forests and bagging"):
        tp.from_model(model.fit(X, y), voting="hard")


def test_feature_names_come_along() -> None:
    frame = pd.DataFrame(X, columns=list("abcde"))
    assert tp.from_model(DecisionTreeClassifier().fit(frame, y)).feature_names == tuple("abcde")
    assert tp.from_model(make_pipeline(MinMaxScaler(), DecisionTreeClassifier()).fit(frame, y)).feature_names == tuple(
        "abcde"
    )


def test_a_pipeline_is_in_the_users_units() -> None:
    pipeline = make_pipeline(MinMaxScaler(), RandomForestClassifier(9, random_state=0)).fit(X, y)
    ensemble = tp.from_model(pipeline)
    cuts = ensemble.grid.cuts_of(3)
    assert X[:, 3].min() < cuts[0] and cuts[-1] < X[:, 3].max() and np.ptp(cuts) > 1e5
    assert ensemble.source is pipeline


def test_a_pipeline_keeps_the_models_number_range() -> None:
    X_small = X * [1, 1, 1, 1e-12, 1]
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X_small, y)
    ensemble = tp.from_model(pipeline)
    # The third feature is scaled up by about 1e6, so the float32 range ends there at about 3e32.
    assert 1e30 < ensemble.value_high[3] < 1e34
    edge = np.array([ensemble.value_low, ensemble.value_high])
    assert (ensemble.predict(edge) == pipeline.predict(edge)).all()
    for f in range(5):
        for row, end in ((0, -np.inf), (1, np.inf)):
            beyond = np.zeros((1, 5))
            beyond[0, f] = edge[row, f] + np.copysign(np.abs(edge[row, f]), end) * 1e-4
            with pytest.raises(ValueError, match="too large"):
                pipeline.predict(beyond)


def test_features_of_very_different_scale_keep_their_own_ranges() -> None:
    rng = np.random.default_rng(0)
    tiny = 6.6e-34 * (1 + rng.normal(size=200) * 0.1)
    money = np.where(np.arange(200) < 40, 1e9, 1.0) * (1 + rng.random(200))
    rows = np.column_stack((tiny, money))
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(rows, money > 1e6)
    ensemble = tp.from_model(pipeline)
    assert (ensemble.predict(rows) == pipeline.predict(rows)).all()
    assert price_table(tp.Attacker.l0(1).bind(ensemble), ensemble, rows[100]).of(1).tolist() == [0.0, 1.0]


def test_a_search_around_another_library_imports() -> None:
    xgboost = pytest.importorskip("xgboost")
    search = GridSearchCV(xgboost.XGBClassifier(n_estimators=3, n_jobs=1), {"max_depth": [1, 2]}, cv=2).fit(X, y)
    assert (tp.from_model(search).predict(X) == search.predict(X)).all()


def test_a_pipeline_inside_a_pipeline() -> None:
    inner = make_pipeline(StandardScaler(), "passthrough", MinMaxScaler())
    nested = make_pipeline(inner, make_pipeline(MinMaxScaler(), RandomForestClassifier(5, random_state=0))).fit(X, y)
    rows = critical_rows(tp.from_model(nested), X)
    assert (tp.from_model(nested).predict(rows) == nested.predict(rows)).all()


class Contrarian(RandomForestClassifier):
    def predict(self, X: object) -> np.ndarray:
        return 1 - super().predict(X)


def test_a_subclass_that_predicts_otherwise_is_refused() -> None:
    with pytest.raises(tp.UnsupportedModel, match="Contrarian has a predict of its own"):
        tp.from_model(Contrarian(3).fit(X, y))


def test_a_constant_column_in_a_pipeline() -> None:
    flat = np.column_stack((X, np.full(len(X), 3.0)))
    pipeline = make_pipeline(MinMaxScaler(), RandomForestClassifier(5, random_state=0)).fit(flat, y)
    rows = critical_rows(tp.from_model(pipeline), flat)
    assert (tp.from_model(pipeline).predict(rows) == pipeline.predict(rows)).all()


def test_one_class_only() -> None:
    model = RandomForestClassifier(3).fit(X, np.zeros(len(X), dtype=int))
    assert (tp.from_model(model).predict(X) == 0).all()


def test_boolean_labels_keep_their_type() -> None:
    model = DecisionTreeClassifier(max_depth=2).fit(X, y == 1)
    assert tp.from_model(model).predict(X).dtype == model.predict(X).dtype == bool
