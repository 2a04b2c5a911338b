"""Results under relations: what they keep, which rows break them, in words, files, tables, checks and single rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from tests.support.loans import ATTACKER, RELATIONS, attacks, is_valid, loans
from treeproof.check.objects import check_verification
from treeproof.errors import SoundnessError

EPSILON = {"max_30d": 1.0, "max_12m": 1.0}
BROKEN = [3, 5, 11]


def result(**words: Any) -> tp.Verification:
    given = loans()
    return tp.verify(given.forest, given.X, given.y, ATTACKER, relations=RELATIONS, **words)


def test_stability_is_that_of_brute_force_over_valid_rows() -> None:
    given, found = loans(), result()
    made = [attacks(row) for row in given.X.to_numpy().tolist()]
    labels = given.forest.predict(pd.DataFrame([one for some in made for one in some], columns=given.X.columns))
    each = np.split(labels, np.cumsum([len(some) for some in made])[:-1])
    for i, own in enumerate(each):
        assert (found.stability[i] == tp.Outcome.PROVED) == bool((own == own[0]).all()), i
    assert {0, 1} <= set(found.stability.tolist())
    assert all(is_valid(row) for row in found.attacked[found.has_witness].tolist())


def test_rows_that_break_relations_are_listed() -> None:
    given, found = loans(), result()
    assert [str(one) for one in found.relations][1] == "max_30d <= max_12m"
    assert np.flatnonzero(found.invalid_rows).tolist() == BROKEN
    assert BROKEN == [i for i, row in enumerate(given.X.to_numpy().tolist()) if not is_valid(row)]
    assert [str(one) for one in found.broken_by(5)] == ["max_30d <= max_12m"] and found.broken_by(0) == ()
    assert found.breakers == ((3,), (5,), (11,))
    assert found.verdicts[5].breaks == found.broken_by(5) and found.verdicts[0].breaks == ()
    assert found.to_frame()["breaks"].tolist()[5] == "max_30d <= max_12m"


@pytest.mark.slow
def test_the_result_says_so_in_words() -> None:
    given, found = loans(), result()
    said = "3 of 60 rows break the relations themselves (row 3: one_of(p_car, p_radio, p_other, name='purpose'))"
    assert any(one.startswith(said) for one in found.assumptions)
    assert "3 rows break the relations" in repr(found)
    assert "Neighbours and attacked rows keep 3 relations" in found._repr_html_()
    page = tp.report_html(given.forest, found, max_seconds=1)
    assert "3 of 60 rows break the relations themselves" in page and "keep 3 relations" in page
    assert "purpose to any value, at a cost of" in page and "Left out: rows keep relations" in page
    assert "Whatever the reach, purpose may take any value." in page
    whole = tp.verify(given.forest, given.X[:3], given.y[:3], ATTACKER, relations=RELATIONS)
    assert whole.broken_in_words is None and "break" not in repr(whole)


def test_files_keep_relations_and_who_breaks_them(tmp_path: Path) -> None:
    found = result(epsilon=EPSILON)
    again = tp.Verification.from_json(found.to_json(tmp_path / "result.json"))
    assert again.relations == found.relations and again.breakers == found.breakers and repr(again) == repr(found)
    content = json.loads(found.to_json())
    assert content["relations"][1] == "max_30d <= max_12m" and content["broken"] == [[3], [5], [11]]
    for name, value in (
        ("broken", [[3], [5]]),
        ("broken", [[3], [5], [60]]),
        ("broken", [[3], [5], [11, 4]]),
        ("relations", ["max_30d <="] * 3),
        ("relations", "max_30d <= max_12m"),
    ):
        with pytest.raises(tp.InvalidInput, match="not a valid verification"):
            tp.Verification.from_json(json.dumps(content | {name: value}))


def test_results_are_resumed_only_under_the_same_relations() -> None:
    given, found = loans(), result()
    assert tp.verify(given.forest, given.X, given.y, ATTACKER, relations=RELATIONS, resume=found).boxes == found.boxes
    with pytest.raises(tp.InvalidInput, match="different set of relations"):
        tp.verify(given.forest, given.X, given.y, ATTACKER, relations=RELATIONS[:2], resume=found)


def test_checks_know_relations() -> None:
    given, found = loans(), result(epsilon=EPSILON)
    counts = check_verification(given.forest, found)
    assert counts["labels"] == 60 and counts["counterexamples"] == int(found.has_witness.sum()) > 0
    lies = replace(found, breakers=((3,), (5,), ()))
    with pytest.raises(SoundnessError, match="row 11: it breaks other relations than the result says"):
        check_verification(given.forest, lies)
    row = int(np.argmax(found.has_witness & ~found.invalid_rows))
    rows = replace(found.rows, attacked=found.attacked.copy())
    rows.attacked[row, :3] = 1.0
    with pytest.raises(SoundnessError, match=f"row {row}: it has no counterexample that holds"):
        check_verification(given.forest, replace(found, rows=rows))


@pytest.mark.slow
def test_tables_in_chunks_are_verified_alike(tmp_path: Path) -> None:
    given, found = loans(), result(epsilon=EPSILON)
    file, out = tmp_path / "rows.csv", tmp_path / "out"
    given.X.assign(label=given.y).to_csv(file, index=False)
    words: dict[str, Any] = {"epsilon": EPSILON, "chunk_rows": 25, "out": out, "format": "csv"}
    summary = tp.verify_table(given.forest, file, ATTACKER, relations=RELATIONS, **words)
    assert summary.rows_that_break == 3 and "3 rows break the relations" in repr(summary)
    assert summary.broken_in_words is not None and "1 of them one_of(" in summary.broken_in_words
    assert summary.robustness == found.robustness and summary.resilience == found.resilience
    verdicts = pd.concat([pd.read_csv(part) for part in sorted(out.glob("*.csv"))]).sort_values("row")
    assert verdicts["breaks"].notna().to_numpy().nonzero()[0].tolist() == BROKEN
    with pytest.raises(tp.InvalidInput, match="set of relations"):
        tp.verify_table(given.forest, file, ATTACKER, relations=RELATIONS[:1], resume=True, **words)


def test_single_rows_have_the_same_verdicts() -> None:
    given, found = loans(), result(epsilon=EPSILON)
    verifier = tp.Verifier(given.forest, ATTACKER, epsilon=EPSILON, relations=RELATIONS)
    assert "max_30d <= max_12m" in repr(verifier)
    verdicts = verifier.verdicts(given.X[:14], given.y[:14])
    assert [one.stability for one in verdicts] == found.stability[:14].tolist()
    assert [one.resilience for one in verdicts] == found.resilience_by_epsilon[0][:14].tolist()
    assert [bool(one.breaks) for one in verdicts] == found.invalid_rows[:14].tolist()


def test_cheapest_attacks_end_in_valid_rows() -> None:
    given, found = loans(), result()
    cheapest = tp.cheapest_attack(given.forest, given.X, ATTACKER, within=True, relations=RELATIONS)
    assert (np.isfinite(cheapest.price) == (found.stability == tp.Outcome.REFUTED)).all() and cheapest.exact.all()
    assert cheapest.invalid_rows.nonzero()[0].tolist() == BROKEN and "3 rows break the relations" in repr(cheapest)
    made = cheapest.rows.to_numpy()[np.isfinite(cheapest.price)]
    assert len(made) and all(is_valid(row) for row in made.tolist())


def test_scorers_take_relations() -> None:
    given, found = loans(), result(epsilon=EPSILON)
    robust = tp.robust_accuracy_scorer(ATTACKER, relations=RELATIONS)(given.forest, given.X, given.y)
    resilient = tp.resilience_scorer(ATTACKER, EPSILON, relations=RELATIONS)(given.forest, given.X, given.y)
    assert robust == float(found.robustness) and resilient == float(found.resilience or 0)


def test_maps_and_the_symbolic_analysis_refuse_goals_and_relations() -> None:
    given = loans()
    aimed = tp.Attacker({"max_30d": (-2, 2)}, goal="good")
    with pytest.raises(tp.InvalidInput, match="a map knows attackers with .* and this one has a goal"):
        tp.StabilityMap.build(given.forest, aimed)
    with pytest.raises(tp.InvalidInput, match="a map knows no relations"):
        tp.GuardedClassifier(tp.from_model(given.forest), ATTACKER, mode="map", relations=RELATIONS).fit()
    with pytest.raises(tp.InvalidInput, match="the symbolic analysis knows attackers with .* and this one has a goal"):
        tp.analyze(given.forest, aimed)
