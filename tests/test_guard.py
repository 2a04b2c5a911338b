"""The guard: what it answers withstands every attack, by the oracle; labels, modes, limits and prefit models."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support import loans, oracles
from tests.support.adapters import as_attacker
from tests.support.columns import with_names
from tests.support.oracles import OracleAttacker, Span
from tests.support.strategies import Case, cases, points
from tests.support.toys import forest, sample
from treeproof.guard import GuardedClassifier
from treeproof.model.ensemble import Ensemble

ATTACKER = tp.Attacker.linf(0.05)


# --- the promise -------------------------------------------------------------------------------------------------


def attacked_rows(ensemble: Ensemble, plain: OracleAttacker, x: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    """For all cells that attacks on x reach, one row z in A(x) there; the oracle's own reckoning, on doubles."""
    nothing = [0.0] * len(x)
    for _, cells in oracles.attacks(ensemble, plain, x, nothing):
        z = list(x)
        for f, cell in enumerate(cells):
            if cell == oracles.NAN_CELL:
                continue
            span = oracles.cells_of(ensemble, f)[cell]
            if span.first <= x[f] <= span.last:
                continue
            if plain.domain is not None:
                span = span.meet(Span(*plain.domain[f]))
            if plain.p is None:
                span = span.meet(oracles.shifted(Span(x[f], x[f]), *plain.intervals[f]))
            z[f] = span.first if span.first > x[f] else span.last
        yield tuple(z)


def is_attack(plain: OracleAttacker, x: tuple[float, ...], z: tuple[float, ...]) -> bool:
    """Whether z is in A(x), word for word."""
    moved = [f for f in range(len(x)) if not (math.isnan(x[f]) and math.isnan(z[f])) and x[f] != z[f]]
    by = {f: Fraction(z[f]) - Fraction(x[f]) for f in moved}
    if plain.p is not None:
        allowed = all(plain.intervals[f] != (0.0, 0.0) for f in moved)
        return allowed and sum(plain.power(f, d) for f, d in by.items()) <= plain.limit
    paid = sum(plain.costs[f] for f in moved)
    return paid <= plain.limit and all(plain.intervals[f][0] <= d <= plain.intervals[f][1] for f, d in by.items())


@pytest.mark.slow
@settings(max_examples=150, deadline=None, database=None)
@given(cases())
def test_no_attack_turns_an_answer_into_another_class(case: Case) -> None:
    ensemble, plain, x = case.ensemble, case.attacker, case.x
    guard = GuardedClassifier(ensemble, as_attacker(plain)).fit()
    assert guard.classes_.tolist() == ensemble.classes.tolist()
    answer = guard.predict([x])[0]
    assert (answer != guard.abstain_label_) == guard.is_proved([x])[0] == oracles.stable(ensemble, plain, x)
    if answer == guard.abstain_label_:
        return
    assert answer == oracles.predict(ensemble, x)
    attacked = list(attacked_rows(ensemble, plain, x))
    assert all(is_attack(plain, x, z) for z in attacked)
    assert {oracles.predict(ensemble, z) for z in attacked} == {answer}
    assert set(guard.predict(attacked)) <= {answer, guard.abstain_label_}


@pytest.mark.slow
@settings(max_examples=80, deadline=None, database=None)
@given(st.data())
def test_both_modes_agree_where_the_map_is_complete(data: st.DataObject) -> None:
    case = data.draw(cases().filter(lambda one: one.attacker.p is None))
    ensemble, plain = case.ensemble, case.attacker
    attacker = as_attacker(plain)
    rows = [case.x, *(data.draw(points(ensemble)) for _ in range(4))]
    online = GuardedClassifier(ensemble, attacker).fit()
    mapped = GuardedClassifier(ensemble, attacker, mode="map", max_boxes=data.draw(st.sampled_from([None, 5]))).fit()
    proved, looked_up = online.is_proved(rows), mapped.is_proved(rows)
    assert (looked_up <= proved).all()
    domain = plain.domain or [(-math.inf, math.inf)] * ensemble.n_features
    for x, here, there in zip(rows, proved.tolist(), looked_up.tolist(), strict=True):
        if any(value < low or value > high for value, (low, high) in zip(x, domain, strict=True)):
            assert not here
        if mapped.map_.complete and not any(map(math.isnan, x)):
            assert here == there
    agree = proved == looked_up
    assert (online.predict(rows)[agree] == mapped.predict(rows)[agree]).all()


def library_models() -> list[Any]:
    import lightgbm
    import xgboost

    return [
        forest(),
        DecisionTreeClassifier(max_depth=4, random_state=0),
        HistGradientBoostingClassifier(max_iter=5, max_depth=3),
        xgboost.XGBClassifier(n_estimators=5, max_depth=3),
        lightgbm.LGBMClassifier(n_estimators=5, max_depth=3, learning_rate=0.5, verbose=-1),
        tp.RobustForestClassifier(ATTACKER, n_estimators=3, max_depth=3, random_state=0),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
@pytest.mark.parametrize("model", library_models(), ids=lambda model: type(model).__name__)
def test_random_attacks_on_answers_fail_against_the_library_itself(model: Any, frozen: bool) -> None:
    X, y = sample(3)
    own = clone(model).fit(X, y)
    guard = GuardedClassifier(FrozenEstimator(own) if frozen else model, ATTACKER)
    guard = guard.fit() if frozen else guard.fit(X, y)
    assert (guard.estimator_ is own) == frozen
    answers, proved = guard.predict(X), guard.is_proved(X)
    assert 0 < guard.coverage(X) == proved.mean() < 1
    assert (answers[proved] == own.predict(X)[proved]).all() and (answers[~proved] == -1).all()
    result = tp.verify(own, X, y, ATTACKER)
    assert proved.tolist() == (result.stability == tp.Outcome.PROVED).tolist()
    assert accuracy_score(y, answers) == float(result.robustness)
    rng = np.random.default_rng(1)
    for _ in range(50):
        attacked = X + rng.choice([-0.05, 0.05, 0.0], X.shape) * rng.random(X.shape)
        assert (own.predict(attacked)[proved] == answers[proved]).all()
        assert np.isin(guard.predict(attacked)[proved], [*set(answers[proved]), -1]).all()
        assert ((guard.predict(attacked) == answers) | (guard.predict(attacked) == -1))[proved].all()
    mapped = GuardedClassifier(FrozenEstimator(own), ATTACKER, mode="map", n_jobs=2).fit()
    assert mapped.map_.complete and (mapped.predict(X) == answers).all()
    np.testing.assert_array_equal(guard.predict_proba(X), own.predict_proba(X))


def test_a_catboost_model_is_guarded_as_it_is() -> None:
    catboost = pytest.importorskip("catboost")
    X, y = sample()
    own = catboost.CatBoostClassifier(n_estimators=5, depth=3, verbose=0, allow_writing_files=False).fit(X, y)
    guard = GuardedClassifier(FrozenEstimator(own), ATTACKER).fit()
    proved = guard.is_proved(X)
    assert proved.any() and (guard.predict(X)[proved] == own.predict(X)[proved]).all()


# --- labels ------------------------------------------------------------------------------------------------------


def labelled(labels: Any, **settings: Any) -> tuple[GuardedClassifier, np.ndarray]:
    X, y = sample(len(labels))
    return GuardedClassifier(forest(), ATTACKER, **settings).fit(X, np.asarray(labels)[y]), X


@pytest.mark.parametrize(
    ("labels", "given", "expected"),
    [
        (np.array([0, 1]), None, -1),
        (np.array([3, 7, 9]), None, -1),
        (np.array([-1, 1]), None, -2),
        (np.array([-1, 1]), 0, 0),
        (np.array([0, 1], dtype=np.int8), None, -1),
        (np.array([0, 1], dtype=np.uint8), None, 2),
        (np.array([0, 1], dtype=np.uint8), np.uint8(255), 255),
        (np.array([0.0, 1.0]), None, -1.0),
        (np.array([0.0, 1.0], dtype=np.float32), 0.5, 0.5),
        (np.array([0.0, 1.0]), math.nan, math.nan),
        (np.array([0.0, 1.0]), 9, 9.0),
        (np.array(["no", "yes"]), None, "abstain"),
        (np.array(["no", "yes"]), "cannot say", "cannot say"),
        (np.array(["no", "yes"], dtype=object), None, "abstain"),
    ],
    ids=repr,
)
def test_the_label_of_abstention_is_of_the_labels_kind(labels: np.ndarray, given: Any, expected: Any) -> None:
    guard, X = labelled(labels, abstain_label=given)
    np.testing.assert_equal(guard.abstain_label_, expected)
    assert type(guard.abstain_label_) is type(expected)
    answers, own = guard.predict(X), guard.estimator_.predict(X)
    assert answers.dtype.kind == own.dtype.kind == labels.dtype.kind
    if labels.dtype.kind != "U":
        assert answers.dtype == own.dtype == guard.classes_.dtype
    proved = guard.is_proved(X)
    assert 0 < proved.mean() < 1
    assert answers[proved].tolist() == own[proved].tolist()
    np.testing.assert_equal(answers[~proved].tolist(), [expected] * int((~proved).sum()))
    # The kind does not depend on whether any row of the batch is answered.
    assert guard.predict(X[proved][:1]).dtype == guard.predict(X[~proved][:1]).dtype == answers.dtype


@pytest.mark.parametrize(
    ("labels", "given", "message"),
    [
        ([0, 1], 1, r"abstain_label 1 is one of the model's labels \[0, 1\]; choose another"),
        ([-1, 1], -1, "abstain_label -1 is one of the model's labels"),
        ([0.0, 1.0], 1, "abstain_label 1 is one of"),
        (["no", "abstain"], None, "abstain_label 'abstain' is one of the model's labels"),
        ([0, 1], "none", r"abstain_label must be a whole number, like the labels \[0, 1\], got 'none'"),
        ([0, 1], 0.5, "must be a whole number"),
        ([0, 1], math.nan, "must be a whole number"),
        ([0, 1], True, "must be a whole number.* got True"),
        ([0, 1], np.True_, "must be a whole number"),
        ([2.0, 3.0], False, "must be a number"),
        (["no", "yes"], -1, "abstain_label must be a string, like the labels .*, got -1"),
        (np.array([0, 1], dtype=np.int8), 300, "abstain_label 300 does not fit the labels' dtype int8"),
        (np.array([0, 1], dtype=np.uint8), -1, "does not fit the labels' dtype uint8"),
        (np.array([0, 255], dtype=np.uint8), None, "abstain_label 256 does not fit the labels' dtype uint8"),
        (np.array([0, 1], dtype=np.float32), 0.1, "abstain_label 0.1 does not fit the labels' dtype float32"),
        ([0, 1], 10**30, "does not fit the labels' dtype int64"),
        ([False, True], None, "the labels are True and False, and there is no third value to abstain with"),
        ([False, True], -1, "the labels are True and False"),
    ],
    ids=repr,
)
def test_labels_that_would_be_taken_for_others_are_refused(labels: Any, given: Any, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message) as refusal:
        labelled(np.asarray(labels), abstain_label=given)
    assert "\n" not in str(refusal.value)


# --- modes, limits, domains --------------------------------------------------------------------------------------


def test_what_is_open_is_not_answered() -> None:
    X, y = sample()
    for limits in (
        {"timeout": 0},
        {"max_seconds": 0},
        {"mode": "map", "max_boxes": 1},
        {"mode": "map", "max_seconds": 0},
    ):
        guard = GuardedClassifier(forest(), ATTACKER, **limits).fit(X, y)
        assert guard.coverage(X) == 0 and (guard.predict(X) == -1).all()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert math.isnan(guard.score(X, y))
    some = GuardedClassifier(forest(n_estimators=30), ATTACKER, mode="map", max_boxes=300).fit(X, y)
    full = GuardedClassifier(forest(n_estimators=30), ATTACKER).fit(X, y)
    open_rows = some.map_.status(X) == tp.Status.OPEN
    assert open_rows.any() and (some.predict(X)[open_rows] == -1).all()
    assert (some.predict(X)[~open_rows] == full.predict(X)[~open_rows]).all()
    # Rows that are given guide a map that may be stopped.
    unguided = GuardedClassifier(FrozenEstimator(some.estimator_), ATTACKER, mode="map", max_boxes=300).fit()
    assert some.coverage(X) > unguided.coverage(X)


def test_workers_do_not_change_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from treeproof import guard as module

    X, y = sample(3)
    guard = GuardedClassifier(forest(), ATTACKER).fit(X, y)
    expected = guard.predict(X)
    monkeypatch.setattr(module, "MAX_ROWS", 7)
    assert (guard.predict(X) == expected).all()
    assert (clone(guard).set_params(n_jobs=3).fit(X, y).predict(X) == expected).all()
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert (guard.predict(X) == expected).all()
    guard.set_params(n_jobs=2)
    monkeypatch.setattr(module, "run_tasks", lambda *_: True)
    with pytest.raises(KeyboardInterrupt):
        guard.predict(X)


def test_rows_outside_the_attackers_domain_are_not_answered() -> None:
    X, y = sample()
    attacker = tp.Attacker.linf(0.05, domain=(0.1, 0.9))
    inside = ((X >= 0.1) & (X <= 0.9)).all(axis=1)
    own = forest().fit(X, y)
    truth = tp.verify(own, X[inside], y[inside], attacker).stability == tp.Outcome.PROVED
    for mode in ("online", "map"):
        guard = GuardedClassifier(FrozenEstimator(own), attacker, mode=mode).fit()
        proved = guard.is_proved(X)
        assert not proved[~inside].any() and 0 < inside.mean() < 1
        assert proved[inside].tolist() == truth.tolist()


def test_missing_values_are_answered_online_only() -> None:
    X, _ = sample()
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X).sum(axis=1) > 1.8).astype(int)
    own = HistGradientBoostingClassifier(max_iter=3, max_depth=2)
    online = GuardedClassifier(own, ATTACKER).fit(X, y)
    mapped = GuardedClassifier(own, ATTACKER, mode="map").fit(X, y)
    missing = np.isnan(X).any(axis=1)
    truth = tp.verify(online.estimator_, X, y, ATTACKER).stability == tp.Outcome.PROVED
    with pytest.warns(UserWarning, match=f"{missing.sum()} of 200 rows have missing cells .* does not fill them"):
        assert online.is_proved(X).tolist() == truth.tolist() and truth[missing].any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough, and what is not answered needs no warning
        online.predict(X)
        mapped.predict(X)
    assert online.has_missing(X).tolist() == missing.tolist()
    assert (mapped.predict(X)[missing] == -1).all()
    assert (mapped.predict(X)[~missing] == online.predict(X)[~missing]).all()
    known = ~missing
    with pytest.raises(ValueError, match="NaN"):
        GuardedClassifier(tp.RobustTreeClassifier(ATTACKER), ATTACKER).fit(X[known], y[known]).predict(X)


@pytest.mark.parametrize(
    "attacker",
    [tp.Attacker.lp(2, 0.05), tp.Attacker.l0(1), tp.Attacker((-0.1, 0.0), budget=1), tp.Attacker((0.0, 0.0))],
    ids=repr,
)
def test_every_attacker_online_says_what_verify_says(attacker: tp.Attacker) -> None:
    X, y = sample(3)
    guard = GuardedClassifier(forest(), attacker).fit(X, y)
    stability = tp.verify(guard.estimator_, X, y, attacker).stability
    assert guard.is_proved(X).tolist() == (stability == tp.Outcome.PROVED).tolist()


# --- ready maps --------------------------------------------------------------------------------------------------


def test_a_ready_map_is_used_if_it_is_the_models(tmp_path: Path) -> None:
    X, y = sample()
    own = forest().fit(X, y)
    smap = tp.StabilityMap.build(own, ATTACKER)
    guard = GuardedClassifier(FrozenEstimator(own), ATTACKER, mode="map", stability_map=smap).fit()
    assert guard.map_ is smap and clone(guard).stability_map is smap
    online = GuardedClassifier(FrozenEstimator(own), ATTACKER).fit()
    assert (guard.predict(X) == online.predict(X)).all()
    smap.save(tmp_path / "m.tpm")
    loaded = tp.StabilityMap.load(tmp_path / "m.tpm")
    from_file = clone(guard).set_params(stability_map=loaded).fit()
    assert (from_file.predict(X) == guard.predict(X)).all()
    again = pickle.loads(pickle.dumps(from_file))
    assert (again.predict(X) == guard.predict(X)).all()
    # Trained again on the same data, the forest is the same one.
    trained = GuardedClassifier(forest(), ATTACKER, mode="map", stability_map=smap).fit(X, y)
    assert (trained.predict(X) == guard.predict(X)).all()
    part = tp.StabilityMap.build(own, ATTACKER, domain=(0.3, 0.7))
    within = clone(guard).set_params(stability_map=part).fit().is_proved(X)
    assert (within == (guard.is_proved(X) & ((X >= 0.3) & (X <= 0.7)).all(axis=1))).all()


def test_a_map_of_something_else_is_refused() -> None:
    X, y = sample()
    own = forest().fit(X, y)
    smap = tp.StabilityMap.build(own, ATTACKER, max_boxes=9)
    swapped = with_names(tp.from_model(own), "bacd")
    named = tp.Attacker((-0.05, 0.05), costs={"a": 2, "b": 1}, budget=1)
    of_named = tp.StabilityMap.build(with_names(swapped, "abcd"), named, max_boxes=9)
    for changed, message in [
        ({"estimator": forest(random_state=1)}, "stability_map was made for another model"),
        ({"voting": "hard"}, "stability_map was made for another model"),
        ({"attacker": tp.Attacker.linf(0.04)}, "stability_map was made for another attacker"),
        ({"estimator": swapped, "attacker": named, "stability_map": of_named}, "features of other names"),
        ({"mode": "online"}, "stability_map needs mode='map', but mode is 'online'"),
        ({"stability_map": "m.tpm"}, "stability_map must be a StabilityMap, got str; StabilityMap.load reads files"),
    ]:
        guard = GuardedClassifier(forest(), ATTACKER, mode="map", stability_map=smap).set_params(**changed)
        with pytest.raises(tp.InvalidInput, match=message):
            guard.fit(X, y)


# --- probabilities and scores ------------------------------------------------------------------------------------


def test_probabilities_are_the_models_own_everywhere(tmp_path: Path) -> None:
    X, y = sample(3)
    guard = GuardedClassifier(forest(), ATTACKER).fit(X, y)
    own = guard.estimator_.predict_proba(X)
    np.testing.assert_array_equal(guard.predict_proba(X), own)
    ensemble = tp.from_model(guard.estimator_)
    np.testing.assert_array_equal(GuardedClassifier(ensemble, ATTACKER).fit().predict_proba(X), own)
    hard = GuardedClassifier(forest(), ATTACKER, voting="hard").fit(X, y)
    shares = np.mean([tree.predict_proba(X) == tree.predict_proba(X).max(axis=1)[:, None] for tree in
                      guard.estimator_.estimators_], axis=0)  # fmt: skip
    untied = np.isclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(hard.predict_proba(X)[untied], shares[untied])
    voted = tp.from_model(hard.estimator_, voting="hard")
    np.testing.assert_array_equal(GuardedClassifier(voted, ATTACKER).fit().predict_proba(X), hard.predict_proba(X))
    assert (hard.predict(X)[hard.is_proved(X)] == voted.predict(X)[hard.is_proved(X)]).all()
    # A file holds no probabilities of a model that rounds them in its own way.
    tp.save_model(ensemble, tmp_path / "m.json")
    loaded = GuardedClassifier(tp.load_model(tmp_path / "m.json"), ATTACKER).fit()
    assert (loaded.predict(X) == guard.predict(X)).all()
    assert not hasattr(loaded, "predict_proba") and hasattr(GuardedClassifier(forest(), ATTACKER), "predict_proba")


def test_the_score_is_the_accuracy_of_answers() -> None:
    X, y = sample(3)
    guard = GuardedClassifier(forest(), ATTACKER).fit(X, y)
    proved = guard.is_proved(X)
    weight = np.random.default_rng(0).random(len(X))
    assert guard.score(X, y) == accuracy_score(y[proved], guard.estimator_.predict(X)[proved])
    expected = np.average(guard.estimator_.predict(X)[proved] == y[proved], weights=weight[proved])
    assert guard.score(X, y, sample_weight=weight) == pytest.approx(expected)
    assert math.isnan(guard.score(X[~proved], y[~proved])) and math.isnan(guard.score(X, y, np.where(proved, 0, 1)))
    assert guard.score(X[proved], np.full(proved.sum(), 99)) == 0
    with pytest.raises(tp.InvalidInput, match="X has 200 rows, y has 3 labels and there are 200 weights"):
        guard.score(X, y[:3])


# --- models that are fitted already ------------------------------------------------------------------------------


def test_what_is_fitted_stays_as_it_is() -> None:
    X, y = sample()
    own = forest().fit(X[:50], y[:50])
    expected = GuardedClassifier(tp.from_model(own), ATTACKER).fit().predict(X)
    for model in (FrozenEstimator(own), tp.from_model(own), FrozenEstimator(tp.from_model(own))):
        guard = GuardedClassifier(model, ATTACKER)
        for fitted in (guard.fit(), clone(guard).fit(X, 1 - y), pickle.loads(pickle.dumps(guard)).fit()):
            assert (fitted.predict(X) == expected).all()
            assert fitted.n_features_in_ == 4 and fitted.classes_.tolist() == [0, 1]
    assert clone(GuardedClassifier(tp.from_model(own), ATTACKER)).estimator is not own
    ensemble = tp.from_model(own)
    assert clone(GuardedClassifier(ensemble, ATTACKER)).estimator is ensemble
    # Without a frame around it, a model is trained anew, as everywhere in scikit-learn.
    assert (GuardedClassifier(own, ATTACKER).fit(X, y).predict(X) != expected).any()
    with pytest.raises(tp.InvalidInput, match="fit needs X and y to train RandomForestClassifier; if it is fitted"):
        GuardedClassifier(own, ATTACKER).fit()


def test_boosters_and_files_are_guarded(tmp_path: Path) -> None:
    import lightgbm
    import xgboost

    X, y = sample()
    boosted = xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(X, y)
    light = lightgbm.LGBMClassifier(n_estimators=4, max_depth=2, learning_rate=0.5, verbose=-1).fit(X, y)
    for classifier, booster in ((boosted, boosted.get_booster()), (light, light.booster_)):
        whole, bare = (GuardedClassifier(one, ATTACKER).fit() for one in (FrozenEstimator(classifier), booster))
        assert (whole.predict(X) == bare.predict(X)).all() and 0 < bare.coverage(X) < 1
        assert not hasattr(bare, "predict_proba")
        assert (pickle.loads(pickle.dumps(whole)).predict(X) == whole.predict(X)).all()


def test_a_second_fit_leaves_nothing_of_the_first() -> None:
    import pandas as pd

    X, y = sample()
    frame = pd.DataFrame(X, columns=list("abcd"))
    guard = GuardedClassifier(forest(), ATTACKER, mode="map").fit(frame, y)
    assert guard.feature_names_in_.tolist() == list("abcd")
    guard.set_params(mode="online", estimator=FrozenEstimator(forest().fit(X, y))).fit()
    assert not hasattr(guard, "map_") and not hasattr(guard, "feature_names_in_")
    assert (guard.predict(X) == GuardedClassifier(forest(), ATTACKER).fit(X, y).predict(X)).all()


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attacker": 0.1}, "attacker must be a treeproof.Attacker, got float"),
        ({"attacker": tp.Attacker([(0, 1)] * 3)}, "attacker has 3 features, model has 4"),
        ({"attacker": tp.Attacker({"age": (0, 1)})}, "the model has no feature names; give an index instead of 'age'"),
        ({"attacker": tp.Attacker.lp(2, 0.1), "mode": "map"}, "for an Lp attacker use treeproof.verify"),
        ({"mode": "offline"}, "mode must be one of 'online', 'map', got 'offline'"),
        ({"mode": None}, "mode must be one of"),
        ({"timeout": -1}, "timeout must be at least 0, got -1; None means no limit"),
        ({"timeout": "1"}, "timeout must be a number, got '1'"),
        ({"max_seconds": -1}, "max_seconds must be at least 0"),
        ({"max_boxes": 0, "mode": "map"}, "max_boxes must be a whole number of at least 1, got 0"),
        ({"n_jobs": 0}, "n_jobs must be a number of workers"),
        ({"voting": "firm"}, "voting must be 'soft' or 'hard', got 'firm'"),
        ({"estimator": RandomForestClassifier}, "estimator is the class RandomForestClassifier; pass an instance"),
        ({"estimator": FrozenEstimator(forest())}, "this RandomForestClassifier is not fitted; call fit first"),
    ],
    ids=repr,
)
def test_settings_are_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    X, y = sample()
    guard = GuardedClassifier(forest(), ATTACKER)
    for name, value in settings.items():  # set_params looks into estimators, and a class is none
        setattr(guard, name, value)
    with pytest.raises(tp.InvalidInput, match=message) as refusal:
        guard.fit(X, y)
    assert "\n" not in str(refusal.value)


def test_models_that_are_not_trees_are_refused() -> None:
    from sklearn.linear_model import LogisticRegression

    X, y = sample()
    with pytest.raises(tp.UnsupportedModel, match="no importer for scikit-learn's LogisticRegression"):
        GuardedClassifier(LogisticRegression(), ATTACKER).fit(X, y)
    with pytest.raises(tp.UnsupportedModel, match="no importer for NoneType"):
        GuardedClassifier(None, ATTACKER).fit(X, y)
    with pytest.raises(tp.UnsupportedModel, match="GuardedClassifier is not a tree model; pass the model inside it"):
        tp.from_model(GuardedClassifier(forest(), ATTACKER).fit(X, y))


# --- goals and relations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", [(1,), (1, 2)])
def test_no_attack_gets_an_answer_that_the_attacker_wants(goal: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 6, (60, 2)).astype(float), rng.integers(0, 3, 60)
    model = tp.from_model(RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y))
    attacker = tp.Attacker({0: tp.steps(-1, 2, 1), 1: tp.steps(-1, 1, 1)}, budget=1, goal=goal)
    guard = GuardedClassifier(model, attacker, promise="stable").fit()
    rows = np.stack(np.meshgrid(np.arange(-2.0, 9.0), np.arange(-2.0, 9.0)), axis=-1).reshape(-1, 2)
    answers, labels = guard.predict(rows), model.predict(rows)
    wanted = np.isin(labels, goal)
    assert (answers[wanted] == labels[wanted]).all()
    away = rows[None] - rows[:, None]
    reaches = ((away == 0).sum(axis=2) >= 1) & (away >= [-1, -1]).all(axis=2) & (away <= [2, 1]).all(axis=2)
    gets = (reaches & np.isin(answers, goal)[None]).any(axis=1)
    answered = ~wanted & (answers != guard.abstain_label_)
    assert answered.any() and not (answered & gets).any()
    inside = (rows >= 0).all(axis=1) & (rows < 6).all(axis=1)  # whose attacks end on the mesh
    assert (gets[inside & ~wanted] == ~answered[inside & ~wanted]).all()


def test_with_relations_a_guard_answers_what_no_valid_row_changes() -> None:
    given = loans.loans()
    plain = GuardedClassifier(
        FrozenEstimator(given.forest), tp.Attacker({"max_30d": (-2, 2), "max_12m": (-1, 3)})
    ).fit()
    guard = GuardedClassifier(FrozenEstimator(given.forest), loans.ATTACKER, relations=loans.RELATIONS).fit()
    answers = guard.predict(given.X)
    result = tp.verify(given.forest, given.X, given.y, loans.ATTACKER, relations=loans.RELATIONS)
    assert ((answers != "abstain") == (result.stability == tp.Outcome.PROVED)).all()
    assert (guard.breaks_relations(given.X) == result.invalid_rows).all() and result.invalid_rows.sum() == 3
    assert not plain.breaks_relations(given.X).any()
    for row, answer in zip(given.X.to_numpy().tolist(), answers, strict=True):
        if answer != "abstain":
            made = guard.predict(pd.DataFrame(loans.attacks(row), columns=given.X.columns))
            assert set(made) <= {answer, "abstain"}
    assert clone(guard).relations == loans.RELATIONS
