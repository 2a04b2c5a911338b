"""Proofs that a search records: every row that is proved has one, and no box that it closes holds an attack."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support import toys
from tests.support.adapters import as_attacker
from tests.support.clock import press_ctrl_c, until
from tests.support.proof_files import read_proofs
from tests.support.proof_reader import (
    CLAIM,
    CLOSED,
    CONTENT,
    CUT_LEFT,
    CUT_RIGHT,
    DECIDED,
    DROP,
    KEEP_LEFT,
    KEEP_RIGHT,
    SPEND,
    WEIGH,
    Claim,
    Reader,
    look_through,
    parts_of,
    skip_claim,
)
from tests.support.random_blocks import Block, block
from treeproof.errors import InvalidInput
from treeproof.results.proof_file import header_of
from treeproof.results.verdicts import Outcome
from treeproof.verification import local_search
from treeproof.verification.local_search import Decisions, Local
from treeproof.verification.proofs import LEFT_ALONE, PAIRS, TOO_LONG, RowProofs, check_limit, number

MIB = 2**20


def look_through_block(asked: Block, patience: int) -> Counter[int]:
    """Looks through all proofs for all rows of a block; returns the steps that they take."""
    ensemble, rows, steps = asked.ensemble, np.array(asked.rows), Counter[int]()
    threat = as_attacker(asked.attacker).bind(ensemble)
    for eps in ((0.0,) * ensemble.n_features, *asked.neighbourhoods):
        local, plain = Local(ensemble, threat, proof_limit=MIB), Local(ensemble, threat)
        local.patience = plain.patience = patience
        decided, without = local.decide(rows, np.array(eps)), plain.decide(rows, np.array(eps))
        assert decided.outcome.tolist() == without.outcome.tolist(), "whether proofs are recorded changes no verdict"
        low, high = threat.neighbourhood(rows, np.array(eps))
        for row in np.flatnonzero(decided.outcome == Outcome.PROVED):
            proof = decided.proofs[row]
            assert isinstance(proof, bytes)
            if proof[0] != CLAIM:
                parts_of(proof, ensemble.n_classes, 0)
                assert any(eps), "a row by itself has one label"
            else:
                claim = Claim(ensemble, threat, rows[row], low[row], high[row])
                steps += look_through(claim, proof, set(range(ensemble.n_classes)))
    return steps


WITHOUT_BALANCE = {CLOSED, CUT_LEFT, CUT_RIGHT, KEEP_LEFT, KEEP_RIGHT, SPEND, DECIDED}


@pytest.mark.parametrize(("patience", "all_steps"), [(300, WITHOUT_BALANCE), (0, WITHOUT_BALANCE | {WEIGH, DROP})])
def test_no_box_that_is_closed_holds_an_attack(patience: int, all_steps: set[int]) -> None:
    steps = sum((look_through_block(block(18, n), patience) for n in (4, 16, 24, 28)), Counter[int]())
    assert steps.keys() == all_steps, "every step occurs"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("patience", [300, 0])
def test_no_box_of_many_models_that_is_closed_holds_an_attack(patience: int) -> None:
    assert sum(look_through_block(block(18, n), patience).total() for n in range(30, 120)) > 1000


def overlapping() -> tuple[tp.Ensemble, np.ndarray]:
    X, y = toys.blobs(3)
    return tp.from_model(toys.forest(n_estimators=30, max_depth=4).fit(X, y)), X


def claims_hold(ensemble: tp.Ensemble, local: Local, X: np.ndarray) -> list[bytes]:
    """Looks through the proofs for rows themselves; returns them."""
    decided, proofs = local.decide(X, np.zeros(X.shape[1])), []
    for row in np.flatnonzero(decided.outcome == Outcome.PROVED):
        proof = decided.proofs[row]
        assert isinstance(proof, bytes), proof
        look_through(Claim(ensemble, local.threat, X[row], X[row], X[row]), proof, set(range(ensemble.n_classes)))
        proofs.append(proof)
    return proofs


def test_rows_that_are_begun_again_have_their_last_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, X = overlapping()
    threat = tp.Attacker.linf(0.1).bind(ensemble)
    whole = claims_hold(ensemble, Local(ensemble, threat, proof_limit=MIB), X[:30])
    # Not enough looks for all rows: what is left goes on in a thread, and the row under way is begun again.
    monkeypatch.setattr(local_search, "FEW_LOOKS", 30 * 20)
    assert claims_hold(ensemble, Local(ensemble, threat, proof_limit=MIB), X[:30]) == whole
    assert len(whole) > 5


def test_what_is_written_is_taken_out_when_there_is_no_room_for_another_row(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, X = overlapping()
    threat = tp.Attacker((-0.4, 0.4), budget=3).bind(ensemble)
    whole = Local(ensemble, threat, proof_limit=MIB).decide(X, np.zeros(4)).proofs
    longest = max(len(proof) for proof in whole if isinstance(proof, bytes))
    assert longest > 40
    monkeypatch.setattr("treeproof.verification.proofs.SPARE", 8)
    assert Local(ensemble, threat, proof_limit=longest).decide(X, np.zeros(4)).proofs == whole


def test_proofs_that_are_too_long_are_left_out_and_others_are_not() -> None:
    ensemble, X = overlapping()
    threat = tp.Attacker((-0.4, 0.4), budget=3).bind(ensemble)
    whole = Local(ensemble, threat, proof_limit=MIB).decide(X, np.zeros(4))
    some = Local(ensemble, threat, proof_limit=12).decide(X, np.zeros(4))
    proved = np.flatnonzero(whole.outcome == Outcome.PROVED)
    longer = [row for row in proved if len(whole.proofs[row]) > 12 + 3]
    assert 0 < len(longer) < len(proved)
    assert [row for row in proved if some.proofs[row] == TOO_LONG] == longer
    assert all(some.proofs[row] == whole.proofs[row] for row in proved if row not in longer)


def test_nobody_attacks_a_row_with_a_label_that_he_wants() -> None:
    ensemble, X = overlapping()
    local = Local(ensemble, tp.Attacker.linf(0.05, goal=[2]).bind(ensemble), proof_limit=MIB)
    decided, labels = local.decide(X, np.zeros(4)), ensemble.predict_index(X)
    wanted = np.flatnonzero(labels == 2)
    assert {decided.proofs[row] for row in wanted} == {bytes([CONTENT, 2, 0, DECIDED, DECIDED])}, (
        "there is nothing to prove"
    )
    other = next(row for row in np.flatnonzero(labels == 0) if decided.outcome[row] == Outcome.PROVED)
    look_through(Claim(ensemble, local.threat, X[other], X[other], X[other]), decided.proofs[other], {2})


def test_claims_of_a_row_stand_together_and_what_is_missing_has_a_reason() -> None:
    proofs = RowProofs()
    proofs.add(0, [7, 3], [b"one", b"two"])
    proofs.add(2, [3, 5], [PAIRS, b"three"])
    rows = {row: (claims and zlib.decompress(claims), reason) for row, (claims, reason) in proofs.rows.items()}
    assert rows == {3: (b"\1\0two", PAIRS), 5: (b"\1\2three", None), 7: (b"\1\0one", None)}


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**40, 2**70])
def test_numbers_are_read_as_they_are_written(value: int) -> None:
    assert Reader(number(value)).number() == value


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput, match="proof_limit is 100, but no proofs are written; name the file"):
        check_limit(None, 100)
    for limit in (0, -1, 1.5, True, "8"):
        with pytest.raises(InvalidInput, match="proof_limit must be a number of bytes"):
            check_limit("proofs.tpp", limit)


# --- through verify --------------------------------------------------------------------------------------------------


def asked() -> tuple[tp.Ensemble, np.ndarray, np.ndarray]:
    X, y = toys.blobs(3)
    return tp.from_model(toys.forest(n_estimators=15).fit(X, y)), X, y


def which_of(proof: bytes) -> list[int]:
    """The numbers of the neighbourhoods of which a record has claims."""
    reader, found = Reader(proof), []
    for _ in range(reader.number()):
        found.append(reader.number())
        skip_claim(reader, 3)
    assert reader.at == len(proof)
    return found


def test_every_row_that_is_proved_has_its_claims(tmp_path: Path) -> None:
    model, X, y = asked()
    for attacker in (tp.Attacker.linf(0.1), tp.Attacker.lp(2, 0.2), tp.Attacker((-0.4, 0.4), budget=1)):
        result = tp.verify(model, X, y, attacker, epsilons=[0.02, 0.1], n_jobs=2, proofs=tmp_path / "proofs.tpp")
        plain = tp.verify(model, X, y, attacker, epsilons=[0.02, 0.1])
        assert np.array_equal(result.resilience_by_epsilon, plain.resilience_by_epsilon)
        header, proofs, without = read_proofs(tmp_path / "proofs.tpp")
        assert header == header_of(model, attacker, (), (0.02, 0.1), X)
        assert not without
        for row in range(len(X)):
            outcomes = [result.stability[row], *(one[row] for one in result.resilience_by_epsilon)]
            proved = [k for k, outcome in enumerate(outcomes) if outcome == tp.Outcome.PROVED]
            which = which_of(proofs[row]) if row in proofs else []
            # Who is proved in the larger neighbourhood is so in the smaller one.
            assert which == ([0, 2] if 2 in proved else proved), row
        assert len(proofs) > 20


def test_rows_without_a_proof_are_listed_with_the_reason(tmp_path: Path) -> None:
    model, X, y = asked()
    path, attacker = tmp_path / "proofs.tpp", tp.Attacker.linf(0.1)
    tp.verify(model, X, y, attacker, actors=[1], proofs=path)
    assert read_proofs(path)[2] == dict.fromkeys(np.flatnonzero(y != 1).tolist(), LEFT_ALONE)
    result = tp.verify(model, X, y, attacker, relations=["[0] <= 100"], proofs=path)
    stable = np.flatnonzero(result.stability == tp.Outcome.PROVED).tolist()
    assert stable
    _, proofs, without = read_proofs(path)
    assert sorted(proofs) == stable
    assert not without
    tp.verify(model, X, y, tp.Attacker((-0.4, 0.4), budget=3), proofs=path, proof_limit=3)
    assert set(read_proofs(path)[2].values()) == {TOO_LONG}


def test_what_a_result_knows_but_its_file_does_not_is_proved_again(tmp_path: Path) -> None:
    model, X, y = asked()
    path, attacker = tmp_path / "proofs.tpp", tp.Attacker.linf(0.1)
    tp.verify(model, X, y, attacker, epsilon=0.02, proofs=path)
    whole = read_proofs(path)
    path.unlink()

    full = tp.verify(model, X, y, attacker, epsilon=0.02)
    resumed = tp.verify(model, X, y, attacker, epsilon=0.02, proofs=path, resume=full)
    assert read_proofs(path) == whole
    assert np.array_equal(resumed.stability, full.stability)
    again = tp.verify(model, X, y, attacker, epsilon=0.02, proofs=path, resume=full)
    assert resumed.boxes > full.boxes == again.boxes, "nothing is left to prove"
    assert read_proofs(path) == whole
    with pytest.raises(InvalidInput, match=r"proofs of something else \(epsilons\)"):
        tp.verify(model, X, y, attacker, proofs=path, resume=tp.verify(model, X, y, attacker))


GOALS = [(True, [0, 1]), (1, [False, True]), (np.float32(1), [0, 1]), (Decimal(3), [2, 3]), (3, [2.0, 3.0])]


@pytest.mark.parametrize(("goal", "labels"), GOALS, ids=str)
def test_a_goal_is_kept_as_the_model_names_the_class(goal: Any, labels: list[Any], tmp_path: Path) -> None:
    """Python calls 1, True and 1.0 equal, and so does whoever names them; files and checkers do not."""
    X = np.linspace(0, 1, 20).reshape(-1, 1)
    y = np.array(labels)[(X[:, 0] > 0.5).astype(int)]
    tree = DecisionTreeClassifier().fit(X, y)
    attacker, file = tp.Attacker((-0.3, 0.3), costs=2, budget=2, goal=goal), tmp_path / "proofs.tpp"
    result = tp.verify(tree, X, y, attacker, epsilon=0.05, proofs=file)
    for one in (result, tp.Verification.from_json(result.to_json())):
        assert one.attacker is not None and repr(one.attacker.goal) == repr((labels[1],))
        assert tp.check.check_verification(tree, one)["counterexamples"] > 0
        assert not tp.check_proofs(tree, one, file).rejected
    found = tp.cheapest_attack(tree, X, attacker, proofs=file)
    assert not tp.check_proofs(tree, found, file).rejected and repr(found.about.attacker.goal) == repr((labels[1],))
    assert tp.Verifier(tree, attacker).attacker == attacker


@pytest.mark.usefixtures("ctrl_c")
def test_a_run_that_was_ended_goes_on_with_its_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, y = asked()
    path, attacker = tmp_path / "proofs.tpp", tp.Attacker.linf(0.1)
    tp.verify(model, X, y, attacker, epsilon=0.02, proofs=path)
    whole = read_proofs(path)
    path.unlink()
    decide, calls = Local.decide, itertools.count()

    def stuck(self: Local, X: np.ndarray, epsilon: np.ndarray, labels: np.ndarray) -> Decisions:
        if next(calls) == 6:
            press_ctrl_c()
            until(self.limits.is_over)
        return decide(self, X, epsilon, labels)

    with monkeypatch.context() as patched:
        patched.setattr(Local, "decide", stuck)
        ended = tp.verify(model, X, y, attacker, epsilon=0.02, proofs=path)
    assert ended.interrupted
    assert not path.exists()
    assert (tmp_path / "proofs.tpp.part").stat().st_size > 800
    tp.verify(model, X, y, attacker, epsilon=0.02, proofs=path, resume=ended)
    assert read_proofs(path) == whole
    assert not (tmp_path / "proofs.tpp.part").exists()
