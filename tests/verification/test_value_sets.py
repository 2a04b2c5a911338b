"""ε that names values of categories: neighbours may have them for each other, in all that knows neighbours."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeproof as tp
from tests.support.any_attacker import alike_rows, random_attacker, random_row, random_sets
from tests.support.category_models import random_model
from treeproof.check.objects import check_verification, is_witness
from treeproof.errors import SoundnessError
from treeproof.results.verdicts import Outcome

NUMBERS = {"b": 0.1, "d": 0.3}
PURPOSES = ["car", "radio", "school", "other"]
ATTACKER = tp.Attacker({"amount": (-200, 200), "housing": tp.ANY}, costs={"housing": 2}, budget=2)
SETS = {"purpose": tp.values("car", "school"), "housing": tp.ANY}
EPSILON = {"amount": 50.0} | SETS


class Loans(NamedTuple):
    """Loans with text columns and as zeros and ones, and the same trees on both."""

    frame: pd.DataFrame
    labels: np.ndarray
    pipeline: Any
    dummies: pd.DataFrame
    forest: Any
    relations: list[Any]


@cache
def loans() -> Loans:
    rng = np.random.default_rng(5)
    n = 200
    frame = pd.DataFrame(
        {
            "amount": rng.integers(1, 40, n) * 50.0,
            "purpose": rng.choice(PURPOSES, n),
            "housing": rng.choice(["own", "rent"], n),
            "age": rng.integers(18, 70, n) * 1.0,
        }
    )
    worth = frame["amount"] / 500 + (frame["purpose"] == "car") + (frame["housing"] == "rent") - frame["age"] / 40
    labels = np.where(worth + rng.normal(0, 0.4, n) > worth.median(), "bad", "good")
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["purpose", "housing"]),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    forest = RandomForestClassifier(9, max_depth=4, random_state=0)
    pipeline = make_pipeline(encoder, forest).fit(frame, labels)
    dummies = encoder.transform(frame).astype(float)
    relations = [
        tp.one_of(*(one for one in dummies if one.startswith(f"{name}_")), name=name) for name in ("purpose", "housing")
    ]
    return Loans(frame[:40], labels[:40], pipeline, dummies[:40], forest, relations)


@cache
def result() -> tp.Verification:
    given = loans()
    return tp.verify(given.pipeline, given.frame, given.labels, ATTACKER, epsilon=EPSILON)


def variants(x: pd.Series) -> pd.DataFrame:
    """The rows that differ from x in values that may stand for its own."""
    purposes = ["car", "school"] if x["purpose"] in ("car", "school") else [x["purpose"]]
    rows = [{**x, "purpose": purpose, "housing": housing} for purpose in purposes for housing in ("own", "rent")]
    return pd.DataFrame(rows)


def test_a_row_is_resilient_if_all_rows_with_values_for_its_own_are() -> None:
    given, found = loans(), result()
    for row in range(8):
        rows = variants(given.frame.iloc[row])
        labels = given.pipeline.predict(rows)
        each = tp.verify(given.pipeline, rows, labels, ATTACKER, epsilon={"amount": 50})
        expected = bool((each.resilience_by_epsilon[0] == Outcome.PROVED).all())
        stable = found.resilience_by_epsilon[0][row] == Outcome.PROVED
        assert stable == (expected and found.correct[row]), row
    before = tp.verify(given.pipeline, given.frame, given.labels, ATTACKER, epsilon={"amount": 50})
    assert 0 < float(found.resilience or 0) < float(before.resilience or 0)


def check_random(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        model, attacker, sets = random_model(random), random_attacker(random), random_sets(random)
        X = np.array([random_row(random) for _ in range(2)])
        found = tp.verify(model, X, model.predict(X), attacker, epsilon=NUMBERS | sets)
        for x, outcome in zip(X.tolist(), found.resilience_by_epsilon[0].tolist(), strict=True):
            rows = np.array(alike_rows(x, sets))
            each = tp.verify(model, rows, model.predict(rows), attacker, epsilon=NUMBERS)
            refuted = bool((each.resilience_by_epsilon[0] == Outcome.REFUTED).any())
            assert outcome == (Outcome.REFUTED if refuted else Outcome.PROVED), (seed, x, attacker, sets)


def test_random_models_agree_in_a_few_cases() -> None:
    check_random(range(500, 504))


@pytest.mark.long
@pytest.mark.slow
def test_random_models_agree() -> None:
    check_random(range(60))


def check_radii(seeds: range) -> set[float]:
    found = set()
    for seed in seeds:
        random = Random(seed)
        model, attacker, sets = random_model(random), random_attacker(random), random_sets(random)
        X = np.array([random_row(random) for _ in range(2)])
        radii = tp.resilience_radius(model, X, model.predict(X), attacker, epsilon=NUMBERS | sets)
        for x, radius in zip(X.tolist(), radii.tolist(), strict=True):
            rows = np.array(alike_rows(x, sets))
            each = tp.resilience_radius(model, rows, model.predict(rows), attacker, epsilon=NUMBERS)
            assert radius == each.min(), (seed, x, attacker, sets)
            found.add(radius)
    return found


def test_radii_are_the_least_of_rows_with_values_for_its_own_in_one_case() -> None:
    check_radii(range(500, 501))


@pytest.mark.long
@pytest.mark.slow
def test_radii_are_the_least_of_rows_with_values_for_its_own() -> None:
    found = check_radii(range(40))
    assert {-np.inf, np.inf} < found


@pytest.mark.slow
def test_groups_of_one_hot_columns_answer_like_categories() -> None:
    given, found = loans(), result()
    sets = {"purpose": tp.values("purpose_car", "purpose_school"), "housing": tp.ANY, "amount": 50}
    ours = tp.verify(given.forest, given.dummies, given.labels, ATTACKER, epsilon=sets, relations=given.relations)
    assert np.array_equal(ours.resilience_by_epsilon[0], found.resilience_by_epsilon[0])
    assert np.array_equal(ours.stability, found.stability)
    near = ours.neighbour[ours.has_witness]
    names = list(given.dummies)
    for name in ("purpose", "housing"):
        members = [names.index(one) for one in names if one.startswith(f"{name}_")]
        assert (np.sort(near[:, members], axis=1)[:, -1] == 1).all() and (near[:, members].sum(axis=1) == 1).all()
    assert check_verification(given.forest, ours)["counterexamples"] == int(ours.has_witness.sum())
    unit = {"amount": 50, "housing": tp.ANY}
    theirs = tp.resilience_radius(given.pipeline, given.frame[:6], given.labels[:6], ATTACKER, epsilon=unit)
    radii = tp.resilience_radius(
        given.forest, given.dummies[:6], given.labels[:6], ATTACKER, epsilon=unit, relations=given.relations
    )
    assert radii.tolist() == theirs.tolist()


def test_rows_one_at_a_time_and_tables_in_chunks_answer_alike(tmp_path: Path) -> None:
    given, found = loans(), result()
    verifier = tp.Verifier(given.pipeline, ATTACKER, epsilon=EPSILON)
    verdicts = verifier.verdicts(given.frame, given.labels)
    assert [one.resilience for one in verdicts] == found.resilience_by_epsilon[0].tolist()
    given.frame.assign(y=given.labels).to_csv(tmp_path / "rows.csv", index=False)
    words: dict[str, Any] = {"label": "y", "out": tmp_path / "out", "format": "csv", "chunk_rows": 15}
    summary = tp.verify_table(given.pipeline, tmp_path / "rows.csv", ATTACKER, epsilon=EPSILON, **words)
    assert summary.resilience == found.resilience


def test_counterexamples_name_the_values_of_neighbours_and_proofs_are_checked(tmp_path: Path) -> None:
    given, file = loans(), tmp_path / "proofs.tpp"
    found = tp.verify(given.pipeline, given.frame, given.labels, ATTACKER, epsilon=EPSILON, proofs=file)
    counts = check_verification(given.pipeline, found, proofs=file)
    assert counts["proofs not checked"] == 0 and counts["proofs"] > 0
    moved = np.flatnonzero(found.has_witness & (found.neighbour[:, 1] != found.X[:, 1]))
    assert len(moved)
    witness = found.witness(int(moved[0]))
    assert witness is not None
    assert {witness.x[1], witness.neighbour[1]} == {"car", "school"}
    assert f"of a neighbour with purpose {witness.neighbour[1]}" in witness.in_words()
    assert is_witness(given.pipeline, ATTACKER, EPSILON, witness)
    for other in ({"amount": 50.0, "housing": tp.ANY}, EPSILON | {"purpose": [tp.values("car"), tp.values("school")]}):
        assert not is_witness(given.pipeline, ATTACKER, other, witness)
    open_set = replace(found, epsilons=({"amount": 50.0, "housing": tp.ANY},))
    with pytest.raises(SoundnessError, match="has no counterexample that holds"):
        check_verification(given.pipeline, open_set)


def test_files_and_names_say_which_values_stand_for_each_other(tmp_path: Path) -> None:
    found = result()
    again = tp.Verification.from_json(found.to_json(tmp_path / "result.json"))
    assert again.epsilons == found.epsilons == (EPSILON,) and repr(again) == repr(found)
    said = "In neighbours, values may stand for each other in purpose (car/school) and housing (any)."
    assert found.assumptions[0] == said and said in found._repr_html_()
    assert found.names_of_epsilons == ["ε = amount 50, purpose car/school, housing any"]
    content = json.loads(found.to_json())
    assert content["epsilons"] == [
        {"by_feature": [["amount", 50.0], ["purpose", {"values": [["car", "school"]]}], ["housing", "any"]]}
    ]
    two = {"purpose": [tp.values("car"), tp.values("radio", "other")]}
    given = loans()
    several = tp.verify(given.pipeline, given.frame[:2], given.labels[:2], ATTACKER, epsilon=two)
    assert tp.Verification.from_json(several.to_json()).epsilons == several.epsilons
    assert several.names_of_epsilons == ["ε = purpose car and radio/other"]
    for wrong in ({"all": "any"}, {"by_feature": [["purpose", {"values": []}]]}, {"by_feature": [["purpose", "all"]]}):
        with pytest.raises(tp.InvalidInput, match="not a valid verification"):
            tp.Verification.from_json(json.dumps(content | {"epsilons": [wrong]}))


@pytest.mark.slow
def test_reports_name_values_and_draw_no_curve_of_them() -> None:
    given, found = loans(), result()
    page = tp.report_html(given.pipeline, found, max_seconds=1)
    assert "amount 50, purpose car/school, housing any" in page
    assert "names values of categories, which do not scale, so there is no curve" in page
    assert '"school","car"]' in page.replace(", ", ",") or '"car","school"]' in page.replace(", ", ",")


def test_several_neighbourhoods_share_their_sets() -> None:
    given, found = loans(), result()
    both = tp.verify(given.pipeline, given.frame, given.labels, ATTACKER, epsilons=[{"amount": 50}, EPSILON])
    assert np.array_equal(both.resilience_by_epsilon[1], found.resilience_by_epsilon[0])
    alone = tp.verify(given.pipeline, given.frame, given.labels, ATTACKER, epsilon={"amount": 50})
    assert np.array_equal(both.resilience_by_epsilon[0], alone.resilience_by_epsilon[0])


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (
            {"purpose": 1},
            "column 'purpose' is a category, and nothing is a distance there; tp.ANY gives neighbours any",
        ),
        ({"purpose": tp.values("car", "boat")}, "does not know the value 'boat'; it knows 'car', 'other'"),
        ({"purpose": [tp.values("car", "radio"), tp.values("car")]}, "ε names 'car' twice"),
        ({"amount": tp.values("car")}, "column 'amount' holds numbers, so ε is a distance there"),
        (tp.ANY, "values are those of a column; name it"),
        (tp.values("car"), "values are those of a column; name it"),
    ],
)
def test_sets_that_make_no_sense_are_refused(epsilon: Any, words: str) -> None:
    given = loans()
    with pytest.raises(tp.InvalidInput, match=words):
        tp.verify(given.pipeline, given.frame[:2], given.labels[:2], ATTACKER, epsilon=epsilon)


def test_what_knows_only_distances_refuses_sets() -> None:
    given = loans()
    with pytest.raises(tp.InvalidInput, match="epsilons name different values of column 'purpose'; ask about one"):
        tp.verify(
            given.pipeline, given.frame, given.labels, ATTACKER,
            epsilons=[{"purpose": tp.ANY}, {"purpose": tp.values("car", "school")}],
        )  # fmt: skip
    with pytest.raises(tp.InvalidInput, match="not 0 everywhere, as values of categories do not scale"):
        tp.resilience_radius(given.pipeline, given.frame, given.labels, ATTACKER, epsilon=SETS)
    built = tp.StabilityMap.build(given.pipeline, tp.Attacker({"amount": (-50, 50)}), max_boxes=50)
    with pytest.raises(tp.InvalidInput, match="ε names values of column 'purpose', and only distances are known here"):
        built.covers(given.frame, {"purpose": tp.ANY})
    trained = tp.RobustTreeClassifier(tp.Attacker((-1, 1)), epsilon={0: tp.values(1, 2)})
    with pytest.raises(tp.InvalidInput, match="holds numbers, so ε is a distance there"):
        trained.fit(given.dummies.to_numpy(), given.labels)
