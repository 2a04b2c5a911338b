"""A hardened model is of the same kind, predicts what its ensemble does, and exact verdicts say what it is worth."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.category_frames import credit
from tests.support.strategies import Case, cases
from tests.support.toys import blobs
from treeproof.model.agreement import check_agreement, probe_rows
from treeproof.results.markup import percent
from treeproof.training import _rescoring, hardening
from treeproof.training._rescoring import Freedom, Rescoring, with_scores

LINF = tp.Attacker.linf(0.3)
ONE_COLUMN = tp.Attacker((-0.6, 0.0), budget=1)


def three_parts(n_classes: int = 2, seed: int = 0) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Rows to train on, to choose by, and to measure on."""
    X, y = blobs(n_classes, n=360, seed=seed)
    return (X[:160], y[:160]), (X[160:260], y[160:260]), (X[260:], y[260:])


def _xgboost(**more: Any) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(**{"n_estimators": 12, "max_depth": 3, "n_jobs": 1, "random_state": 0, **more})


def _lightgbm(**more: Any) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=12, num_leaves=6, min_child_samples=5, verbose=-1, n_jobs=1, **more)


def _catboost(**more: Any) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(iterations=12, depth=3, learning_rate=0.5, verbose=0, allow_writing_files=False, **more)


MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(12, max_depth=5, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(12, max_depth=6, random_state=0),
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "bagging": lambda: BaggingClassifier(n_estimators=8, max_features=0.7, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=15, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), RandomForestClassifier(9, max_depth=5, random_state=0)),
    "xgboost": _xgboost,
    "dart": lambda: _xgboost(booster="dart", rate_drop=0.4),
    "lightgbm": _lightgbm,
    "catboost": _catboost,
}
BINARY: dict[str, Callable[[], Any]] = {
    "cut of a forest": lambda: FixedThresholdClassifier(
        RandomForestClassifier(9, max_depth=5, random_state=0), threshold=0.3, response_method="predict_proba"
    ),
}
CHOICES = [*((name, 2) for name in (*MODELS, *BINARY)), *((name, 3) for name in MODELS)]


def counted(model: Any, X: Any, y: Any, attacker: tp.Attacker, epsilon: Any = None) -> tuple[int, int]:
    """How many rows are right, and how many hold, by `verify`."""
    result = tp.verify(model, X, y, attacker, epsilon=epsilon)
    outcomes = result.robustness_outcomes if epsilon is None else result.resilience_by_epsilon[0]
    return int((result.predicted == y).sum()), int((outcomes == tp.Outcome.PROVED).sum())


@pytest.mark.parametrize(("name", "n_classes"), CHOICES, ids=lambda value: str(value))
def test_every_kind_of_model(name: str, n_classes: int) -> None:
    train, held, _ = three_parts(n_classes)
    model = (MODELS | BINARY)[name]().fit(*train)
    was = tp.from_model(model)
    hardened = tp.harden(model, *train, LINF, validation=held, max_loss=0.03)
    said = hardened.hardening_
    assert type(hardened) is type(model) and said.kind == type(model).__name__ and not said.why
    assert hardened is not model and not hasattr(model, "hardening_")
    assert tp.from_model(model).fingerprint == was.fingerprint, "the model itself was changed"
    new = tp.from_model(hardened)
    check_agreement(new, probe_rows(new, 500))
    check_agreement(new, held[0])
    assert said.n_rows == 100 and said.n_fitted == 160
    assert counted(model, *held, LINF) == said.before[:2]
    assert counted(hardened, *held, LINF) == said.after[:2]
    assert said.after.proved > said.before.proved or not said.changed
    assert said.after.right >= said.before.right - 3
    differ = (new.leaf_scores != was.leaf_scores).any(axis=1)
    assert abs(int(differ.sum()) - said.rescored) <= 3, "but for rounding"


@pytest.mark.slow
def test_models_of_most_kinds_are_helped_on_new_rows() -> None:
    """Otherwise the test above would say little."""
    train, held, test = three_parts()
    gains = []
    for name in MODELS:
        model = MODELS[name]().fit(*train)
        hardened = tp.harden(model, *train, LINF, validation=held, max_loss=0.03)
        gains.append(counted(hardened, *test, LINF)[1] - counted(model, *test, LINF)[1])
    assert np.mean(np.array(gains) > 0) >= 0.6 and np.mean(gains) > 5


@pytest.mark.parametrize("attacker", [LINF, ONE_COLUMN, tp.Attacker.l0(1), tp.Attacker.lp(2, 0.5)], ids=repr)
@pytest.mark.parametrize("epsilon", [None, 0.05])
def test_every_kind_of_attacker(attacker: tp.Attacker, epsilon: float | None) -> None:
    train, held, _ = three_parts()
    model = GradientBoostingClassifier(n_estimators=40, random_state=0).fit(*train)
    hardened = tp.harden(model, *train, attacker, epsilon=epsilon, validation=held, max_loss=1)
    said = hardened.hardening_
    assert said.resilient == (epsilon is not None)
    assert counted(model, *held, attacker, epsilon) == said.before[:2]
    assert counted(hardened, *held, attacker, epsilon) == said.after[:2]
    assert said.changed and said.after.proved > said.before.proved


def test_an_attacker_with_a_goal() -> None:
    """Rows of the goal are not attacked, so that they are as robust as they are right."""
    train, held, _ = three_parts(3)
    attacker = tp.Attacker((-0.4, 0.4), goal=2)
    model = GradientBoostingClassifier(n_estimators=8, random_state=0).fit(*train)
    said = tp.harden(model, *train, attacker, validation=held, max_loss=0.1).hardening_
    assert said.changed
    ensemble = tp.from_model(model)
    X, label = train[0], ensemble.class_index(train[1])
    bounds = Rescoring(ensemble, X, label, attacker, None, Freedom.of(ensemble)).bounds()
    wanted = label == 2
    assert np.isinf(bounds[~wanted][:, :2]).all() and np.isfinite(bounds[~wanted][:, 2]).all()
    # What such a row leads by is what it leads by as it is.
    scores = ensemble.scores(X[wanted])
    np.testing.assert_allclose(bounds[wanted][:, :2], scores[:, 2:] - scores[:, :2], atol=1e-9)


def test_probabilities_of_a_forest_stay_probabilities() -> None:
    for n_classes in (2, 3):
        train, held, _ = three_parts(n_classes)
        model = RandomForestClassifier(12, max_depth=5, random_state=0).fit(*train)
        hardened = tp.harden(model, *train, LINF, validation=held, max_loss=0.1)
        assert hardened.hardening_.changed
        for tree in hardened.estimators_:
            values = tree.tree_.value[tree.tree_.children_left == -1, 0, :]
            assert (values >= 0).all() and (values <= 1).all()
            np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-12)


def test_an_ensemble_stays_one_and_what_cannot_be_written_becomes_one() -> None:
    train, held, _ = three_parts()
    forest = RandomForestClassifier(9, max_depth=5, random_state=0).fit(*train)
    hard = tp.from_model(forest, voting="hard")
    hardened = tp.harden(hard, *train, LINF, validation=held, max_loss=0.05)
    assert isinstance(hardened, tp.Ensemble) and not hardened.hardening_.why
    assert hardened.hardening_.changed and not hasattr(hard, "hardening_")
    assert counted(hardened, *held, LINF) == hardened.hardening_.after[:2]
    boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=9, random_state=0).fit(*train)
    hardened = tp.harden(boosted, *train, LINF, validation=held, max_loss=0.05)
    assert isinstance(hardened, tp.Ensemble) and hardened.hardening_.changed
    assert "AdaBoostClassifier" in hardened.hardening_.why and hardened.hardening_.why in str(hardened.hardening_)


def test_robust_models_can_be_hardened_too() -> None:
    train, held, _ = three_parts()
    model = tp.RobustForestClassifier(tp.Attacker.linf(0.05), n_estimators=9, max_depth=4, random_state=0).fit(*train)
    hardened = tp.harden(model, *train, LINF, validation=held, max_loss=0.1)
    assert hardened.hardening_.changed and isinstance(hardened, tp.Ensemble)


def test_without_validation_rows_are_parted() -> None:
    train, _, _ = three_parts()
    model = DecisionTreeClassifier(random_state=0).fit(*train)
    said = tp.harden(model, *train, LINF, validation_fraction=0.25).hardening_
    assert (said.n_rows, said.n_fitted) == (40, 120)
    assert said.before.right == 40, "the model has seen these rows"


def test_the_same_seed_gives_the_same_model() -> None:
    train, _, _ = three_parts()
    model = RandomForestClassifier(9, max_depth=5, random_state=0).fit(*train)
    one, same, other = (tp.harden(model, *train, LINF, max_loss=0.1, random_state=seed) for seed in (1, 1, 2))
    assert tp.from_model(one).fingerprint == tp.from_model(same).fingerprint != tp.from_model(other).fingerprint
    assert one.hardening_.stops == same.hardening_.stops


def test_no_accuracy_to_lose() -> None:
    train, held, _ = three_parts()
    model = RandomForestClassifier(9, max_depth=5, random_state=0).fit(*train)
    strict = tp.harden(model, *train, LINF, validation=held, max_loss=0).hardening_
    assert strict.after.right >= strict.before.right
    assert all(stop.held is None for stop in strict.stops if stop.right < strict.before.right)
    loose = tp.harden(model, *train, LINF, validation=held, max_loss=1).hardening_
    assert loose.after.proved >= strict.after.proved
    assert all(stop.held is not None for stop in loose.stops if stop.right >= loose.after.proved)


def test_nothing_to_gain() -> None:
    train, held, _ = three_parts()
    model = RandomForestClassifier(9, max_depth=5, random_state=0).fit(*train)
    nobody = tp.Attacker((0.0, 0.0))
    right = int((model.predict(held[0]) == held[1]).sum())
    hardened = tp.harden(model, *train, nobody, validation=(held[0], model.predict(held[0])))
    said = hardened.hardening_
    assert hardened is not model and not said.changed and said.before == said.after
    assert tp.from_model(hardened).fingerprint == tp.from_model(model).fingerprint
    assert str(said).startswith(
        "Nothing helped: of the leaf scores that were tried, none raises robustness on 100 held-out rows"
    )
    assert right < 100


def test_words_and_pickles() -> None:
    train, held, _ = three_parts()
    model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(*train)
    hardened = tp.harden(model, *train, LINF, epsilon=0.02, validation=held)
    said = hardened.hardening_
    before, after = said.proved
    assert f"Resilience {100 * before:.1f} % → {100 * after:.1f} %" in str(said)
    assert f"{said.rescored} of {said.n_leaves} leaves" in str(said) and "rows that had no part in this" in str(said)
    best = tp.ceiling(*held, LINF, epsilon=0.02)
    assert after <= best.accuracy == said.ceiling.accuracy
    assert f"No classifier is resilient at more than {percent(best.accuracy)} of the held-out rows" in str(said)
    assert str(said) in said._repr_html_() and repr(said).startswith("Hardening(resilience 0.")
    assert str(pickle.loads(pickle.dumps(hardened)).hardening_) == str(said)


def test_a_ceiling_is_said_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of very many rows, nor where names that only the model knows say what is attacked."""
    train, held, _ = three_parts()
    named = [pd.DataFrame(rows, columns=list("abcd")) for rows, _ in (train, held)]
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(named[0], train[1])
    by_name = tp.Attacker({"a": (-0.5, 0.5)})
    for attacker, rows in ((by_name, named[1]), (LINF, held[0])):
        said = tp.harden(model, *train, attacker, validation=(rows, held[1])).hardening_
        assert said.ceiling.accuracy == tp.ceiling(rows, held[1], attacker).accuracy
        assert "No classifier is robust at more than" in str(said)
    assert tp.harden(model, *train, by_name, validation=held).hardening_.ceiling is None
    monkeypatch.setattr(hardening, "MOST_BOUNDED", 99)
    said = tp.harden(model, *train, LINF, validation=held).hardening_
    assert said.ceiling is None and "No classifier" not in str(said)


def test_undecided_rows_are_not_proved() -> None:
    train, held, _ = three_parts()
    model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(*train)
    said = tp.harden(model, *train, LINF, validation=held, timeout=0).hardening_
    assert said.before.proved == 0 and said.before.undecided == said.before.right and not said.changed
    assert "Undecided within the timeout" in str(said)


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    train, held, _ = three_parts()
    model = DecisionTreeClassifier(max_depth=2).fit(*train)
    tp.harden(model, *train, LINF, validation=held, progress=True)
    assert "hardening" in capsys.readouterr().err


# --- data frames -------------------------------------------------------------------------------------------------


def _encoded() -> Any:
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["purpose", "job"]), remainder="passthrough"
    )
    return make_pipeline(encode, RandomForestClassifier(9, max_depth=5, random_state=0))


def _as_categories(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({"purpose": "category", "job": "category"})


def _as_text(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.fillna({"purpose": "none", "job": "none"})


FRAMES: dict[str, tuple[Callable[[], Any], Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "histogram": (lambda: HistGradientBoostingClassifier(max_iter=8, random_state=0), _as_categories),
    "lightgbm": (_lightgbm, _as_categories),
    "xgboost": (lambda: _xgboost(enable_categorical=True), _as_categories),
    "one-hot": (_encoded, _as_text),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_with_categories_and_missing_values(name: str) -> None:
    make, prepare = FRAMES[name]
    frame, labels = credit(300, missing=0.05)
    frame = frame.replace({"purpose": {"études": "studies"}})  # XGBoost takes ASCII only
    frame, y = prepare(frame), (labels > 0).astype(int)
    model = make().fit(frame[:150], y[:150])
    attacker = tp.Attacker({"amount": (-400.0, 0.0), "job": tp.ANY, "rate": (-0.3, 0.3)}, budget=1)
    held = frame[150:], y[150:]
    hardened = tp.harden(model, frame[:150], y[:150], attacker, validation=held, max_loss=0.02)
    said = hardened.hardening_
    assert type(hardened) is type(model), said
    assert counted(hardened, *held, attacker) == said.after[:2]
    assert said.changed and said.after.proved > said.before.proved
    np.testing.assert_array_equal(hardened.predict(held[0]), tp.from_model(hardened).predict(held[0]))


def test_names_of_columns_come_from_the_rows() -> None:
    """A model that was trained on an array has none, and an attacker may still use them."""
    train, held, _ = three_parts()
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(*train)
    frame = pd.DataFrame(train[0], columns=list("abcd"))
    attacker = tp.Attacker({"a": (-0.5, 0.5), "b": (-0.5, 0.5)})
    hardened = tp.harden(model, frame, train[1], attacker, validation=held, max_loss=0.1)
    assert hardened.hardening_.changed
    by_position = tp.harden(model, *train, tp.Attacker({0: (-0.5, 0.5), 1: (-0.5, 0.5)}), validation=held, max_loss=0.1)
    assert tp.from_model(hardened).fingerprint == tp.from_model(by_position).fingerprint


def test_catboost_with_categories_is_given_as_an_ensemble() -> None:
    frame, labels = credit(300, missing=0)
    y = (labels > 0).astype(int)
    model = _catboost(cat_features=["purpose", "job"], one_hot_max_size=10).fit(frame[:150], y[:150])
    attacker = tp.Attacker({"amount": (-400.0, 0.0), "rate": (-0.3, 0.3)}, budget=1)
    with pytest.raises(tp.InvalidInput, match="categories are needed"):
        tp.harden(model, frame[:150], y[:150], attacker)
    held = frame[150:], y[150:]
    ensemble = tp.from_model(model, categories=frame)
    hardened = tp.harden(ensemble, frame[:150], y[:150], attacker, validation=held, max_loss=0.02)
    assert isinstance(hardened, tp.Ensemble)
    assert counted(hardened, *held, attacker) == hardened.hardening_.after[:2]


# --- the bound, and what is fitted -------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(cases())
def test_no_attack_leaves_less_of_a_lead_than_the_bound_says(case: Case) -> None:
    _check_bound(case)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(cases())
def test_the_bound_on_more_cases(case: Case) -> None:
    _check_bound(case)


def _check_bound(case: Case) -> None:
    ensemble, x = case.ensemble, np.array([case.x])
    attacker = as_attacker(case.attacker)
    label = ensemble.class_index([case.y])
    rescoring = Rescoring(ensemble, x, label, attacker, list(case.eps), Freedom.of(ensemble))
    (bounds,) = rescoring.bounds()
    own, rule = int(label[0]), ensemble.rule
    reached = {w for _, w in oracles.attacks(ensemble, case.attacker, case.x, case.eps)}
    leads = np.array([_leads(ensemble, cells, own) for cells in reached])
    slack = 1e-9 * max(1.0, float(np.abs(leads).max()), float(np.abs(ensemble.leaf_scores).max()) * ensemble.n_trees)
    least = leads.min(axis=0)
    for other in range(ensemble.n_classes):
        if other != own:
            assert bounds[other] <= least[other] + slack
            if ensemble.n_trees == 1 and not len(ensemble.more) and not rule.members:
                assert bounds[other] >= least[other] - slack, "of one tree, the bound is what attacks do"


def _leads(ensemble: tp.Ensemble, cells: tuple[int, ...], own: int) -> list[float]:
    """By how much a class leads each in the cells, before sums are divided, added up leaf by leaf."""
    x = [np.nan if cell < 0 else float(span.first) for cell, span in zip(cells, _spans(ensemble, cells), strict=True)]
    walked = np.array(x)
    ends = [*np.cumsum([member.n_trees for member in ensemble.rule.members]).tolist()]
    scores = np.zeros(ensemble.n_scores)
    for tree, root in enumerate(ensemble.roots.tolist()):
        weight = 1.0
        if ends:
            member = ensemble.rule.members[int(np.searchsorted(ends, tree, side="right"))]
            weight = member.weight / member.divisor
        node = oracles._leaf_node(ensemble, root, walked.tolist())
        scores += weight * ensemble.leaf_scores[ensemble.leaf[node]].astype(float)
    rule = ensemble.rule
    scores += ensemble.base.astype(float) * (rule.divisor if rule.base_last else 1.0)
    every = [0.0, float(scores[0]) - rule.cut * rule.divisor] if len(scores) == 1 else scores.tolist()
    return [every[own] - other for other in every]


def _spans(ensemble: tp.Ensemble, cells: tuple[int, ...]) -> list[Any]:
    return [oracles.Span(0.0, 0.0) if cell < 0 else oracles.cells_of(ensemble, f)[cell] for f, cell in enumerate(cells)]


@pytest.mark.parametrize("attacker", [LINF, ONE_COLUMN], ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_loss_under_attack_falls_along_the_path(n_classes: int, attacker: tp.Attacker) -> None:
    (X, y), _, _ = three_parts(n_classes)
    for model in (
        RandomForestClassifier(9, max_depth=5, random_state=0),
        GradientBoostingClassifier(n_estimators=9, random_state=0),
    ):
        ensemble = tp.from_model(model.fit(X, y))
        label = ensemble.class_index(y)

        def lost(ensemble: tp.Ensemble, label: np.ndarray = label) -> float:
            rescoring = Rescoring(ensemble, X, label, attacker, None, Freedom.of(ensemble))
            return float(np.logaddexp(0, -rescoring.bounds().min(axis=1)).mean())

        start = Rescoring(ensemble, X, label, attacker, None, Freedom.of(ensemble))
        losses = [lost(ensemble), *(lost(with_scores(ensemble, scores)) for _, scores in start.path(0))]
        assert losses[-1] < 0.9 * losses[0] and max(losses[1:]) < losses[0]


def test_fewer_rows_where_there_is_no_room_for_their_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    (X, y), held, _ = three_parts()
    model = GradientBoostingClassifier(n_estimators=9, random_state=0).fit(X, y)
    every = tp.harden(model, X, y, LINF, validation=held).hardening_.n_fitted
    monkeypatch.setattr(_rescoring, "MOST_LISTED", 2000)
    assert 10 < tp.harden(model, X, y, LINF, validation=held).hardening_.n_fitted < every == len(X)


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"max_loss": -0.1}, "max_loss must be a number from 0 to 1"),
        ({"max_loss": 1.5}, "max_loss must be a number from 0 to 1"),
        ({"max_loss": "0.1"}, "max_loss must be a number from 0 to 1"),
        ({"validation_fraction": 0}, "validation_fraction must lie between 0 and 1"),
        ({"validation_fraction": 1.0}, "validation_fraction must lie between 0 and 1"),
        ({"validation_fraction": 0.001}, "would be fitted and 0 held out; both need two classes; give more rows"),
        ({"validation": 3}, "validation must be a pair of rows and labels"),
        ({"validation": ([[0.0] * 4], [0, 1])}, "validation: X has 1 rows and y has 2 labels"),
        ({"validation": (np.zeros((2, 3)), [0, 1])}, "validation: X has shape"),
        ({"validation": (np.zeros((2, 4)), [1, 1])}, "validation: all labels of y are the same"),
        ({"y": np.zeros(160, dtype=int)}, "all labels of y are the same"),
        ({"y": np.zeros(159, dtype=int)}, "X has 160 rows and y has 159 labels"),
        ({"y": np.full(160, 7)}, "does not know the label 7"),
        ({"X": np.zeros((160, 3))}, "rows of 4 features"),
        ({"attacker": 0.3}, "attacker"),
        ({"attacker": tp.Attacker((-0.1, 0.1), domain=(0, 1))}, "lies outside the domain"),
        ({"epsilon": -1}, "epsilon"),
        ({"timeout": -1}, "timeout"),
    ],
)
def test_refusals(wrong: dict[str, Any], match: str) -> None:
    (X, y), _, _ = three_parts()
    model = DecisionTreeClassifier(max_depth=2).fit(X, y)
    given: dict[str, Any] = {"X": X, "y": y, "attacker": LINF, **wrong}
    with pytest.raises(tp.InvalidInput, match=match):
        tp.harden(model, given.pop("X"), given.pop("y"), given.pop("attacker"), **given)


def test_a_model_that_is_none() -> None:
    with pytest.raises(tp.UnsupportedModel, match="no importer"):
        tp.harden(object(), [[0.0], [1.0]], [0, 1], LINF)
