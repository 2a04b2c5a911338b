"""Results are checked again without the engines: those of the engines hold, damaged ones do not."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.commands import run
from tests.support.proof_files import ProofFiles, proof_files, rewritten
from tests.support.results import changed
from tests.support.strategies import Case, cases
from treeproof.check.__main__ import main
from treeproof.check.attacks import question_of
from treeproof.check.objects import check_verification, drawn
from treeproof.check.proof_file import ProofFile
from treeproof.check.results import check_result
from treeproof.importers import EnsembleBuilder
from treeproof.results.row_table import Refuted

P, R, U = tp.Outcome.PROVED, tp.Outcome.REFUTED, tp.Outcome.UNKNOWN


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(cases())
def test_what_the_engine_decides_holds(case: Case) -> None:
    ensemble, plain, x, label, eps = case
    result = tp.verify(ensemble, [x], [label], as_attacker(plain), epsilon=list(eps))
    counts = check_verification(ensemble, result)
    assert counts["labels"] == 1
    claims = int(result.stability[0] == P) + int(result.resilience_by_epsilon[0][0] == P)
    assert counts["proofs"] == 0 and counts["proofs not checked"] == claims
    assert counts["counterexamples"] == int(result.has_witness[0])


def question(**words: Any) -> tuple[Any, tp.Verification]:
    X, y = load_breast_cancer(return_X_y=True)
    X = minmax_scale(X)
    clf = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X[::2], y[::2])
    return clf, tp.verify(clf, X[1:80:2], y[1:80:2], tp.Attacker.linf(0.03), epsilon=0.01, **words)


def with_entry(result: tp.Verification, name: str, row: int, value: Any) -> tp.Verification:
    array = getattr(result.rows if name in ("refuted", "epsilon_index") else result, name).copy()
    array[row] = value
    return changed(result, **{name: array})


def test_a_result_that_hides_what_can_be_moved_does_not_hold() -> None:
    clf, result = question()
    with pytest.raises(tp.SoundnessError, match="movable of the result is not what follows"):
        check_verification(clf, dataclasses.replace(result, movable=()))
    assert check_verification(clf, dataclasses.replace(result, movable=None), sample=2)["labels"] == 2


def test_a_damaged_result_does_not_hold(tmp_path: Path) -> None:
    clf, result = question(proofs=tmp_path / "proofs.tpp")
    counts = check_verification(clf, result, proofs=tmp_path / "proofs.tpp")
    assert counts["labels"] == 40 and counts["counterexamples"] > 0 and counts["proofs"] > 20
    assert counts["proofs not checked"] == 0
    broken = int(np.argmax(result.has_witness))
    unstable = int(np.argmax(result.stability == R))
    stable = int(np.argmax(result.stability == P))
    fragile = int(np.argmax((result.stability == P) & (result.resilience_by_epsilon[0] == R) & result.correct))
    assert result.stability[fragile] == P and result.resilience_by_epsilon[0][fragile] == R
    claimed = result.resilience_by_epsilon[0].copy()
    claimed[fragile] = P
    for damaged, message in (
        (with_entry(result, "predicted", stable, 1 - result.predicted[stable]), "the model gives it another label"),
        (with_entry(result, "stability", unstable, P), "no counterexample"),
        (with_entry(result, "stability", stable, R), "in a larger or smaller one"),
        (with_entry(result, "has_witness", broken, False), "rows of a counterexample that it does not have"),
        (with_entry(result, "attacked", broken, result.neighbour[broken]), "another attacked_label"),
        (with_entry(result, "attacked", broken, result.attacked[broken] + 1.0), "no counterexample|attacked_label"),
        (changed(result, resilience=claimed[None]), "no counterexample"),
    ):
        with pytest.raises(tp.SoundnessError, match=message):
            check_verification(clf, damaged)


def test_what_has_no_proof_is_counted_and_not_claimed(tmp_path: Path) -> None:
    clf, result = question(proofs=tmp_path / "proofs.tpp")
    n_proved = int((result.stability == P).sum() + (result.resilience_by_epsilon[0] == P).sum())
    counts = check_verification(clf, result)
    assert counts["proofs"] == 0 and counts["proofs not checked"] == n_proved
    assert check_verification(clf, result, sample=5)["labels"] == 5
    # Of what was made up, the file has no proof.
    row = int(np.argmax((result.stability == R) & result.correct))
    resilience = result.resilience_by_epsilon[0].copy()
    resilience[row] = U
    false = with_entry(
        with_entry(changed(result, resilience=resilience[None]), "stability", row, P), "has_witness", row, False
    )
    for name, value in (("neighbour", result.X), ("attacked", result.X), ("attacked_label", result.predicted)):
        false = with_entry(false, name, row, value[row])
    counts = check_verification(clf, false, proofs=tmp_path / "proofs.tpp")
    assert counts["proofs"] == n_proved and counts["proofs not checked"] == 1


def test_proofs_of_something_else_are_refused(tmp_path: Path) -> None:
    clf, result = question(proofs=tmp_path / "proofs.tpp")
    other = tp.verify(clf, result.X, result.y, tp.Attacker.linf(0.02), epsilon=0.01)
    with pytest.raises(tp.SoundnessError, match="not the same attacker"):
        check_verification(clf, other, proofs=tmp_path / "proofs.tpp")


def test_lp_attackers_have_counterexamples_and_proofs_checked(tmp_path: Path) -> None:
    clf, result = question()
    lp = tp.verify(clf, result.X, result.y, tp.Attacker.lp(2, 0.05), proofs=tmp_path / "proofs.tpp")
    counts = check_verification(clf, lp, proofs=tmp_path / "proofs.tpp")
    assert counts["proofs"] == int((lp.stability == P).sum()) and counts["proofs not checked"] == 0
    assert counts["counterexamples"] == int((lp.stability == R).sum()) > 0


def test_nobody_knows_a_sample_before_it_is_drawn() -> None:
    drawn_without = {tuple(drawn(1000, 5, None).tolist()) for _ in range(10)}
    assert len(drawn_without) == 10 and all(len(set(one)) == 5 for one in drawn_without)
    assert drawn(1000, 5, 7).tolist() == drawn(1000, 5, 7).tolist() != drawn(1000, 5, 8).tolist()
    assert drawn(3, 5, None).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("sample", "seed"), [(0, None), (2.5, None), (True, None), (2, -1), (2, "x")])
def test_samples_and_seeds_are_whole_numbers(sample: Any, seed: Any) -> None:
    clf, result = question()
    with pytest.raises(tp.InvalidInput, match="must be a whole number of at least"):
        check_verification(clf, result, sample, seed)


# --- what is false about a row ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProofFiles, tp.Verification]:
    files = proof_files(tmp_path_factory.mktemp("told"), actors=["yes"], epsilons=[0.01, {"age": 0.3}], epsilon=None)
    return files, tp.Verification.from_json(files.result)


def is_believed(files: ProofFiles, result: tp.Verification, folder: Path) -> bool:
    """Whether either checker believes what a result says; of what only proofs can show, nothing is asked."""
    result.to_json(folder / "told.json")
    by_program = main([str(files.model), str(folder / "told.json"), str(files.proofs), "--quiet"]) == 0
    try:
        check_verification(tp.load_model(files.model), result)
    except tp.SoundnessError:
        return by_program
    return True


def outcomes(result: tp.Verification, row: int, stability: Any, *resilience: Any, **fields: Any) -> tp.Verification:
    """The result with other outcomes of a row."""
    each, other = result.stability.copy(), np.stack(result.resilience_by_epsilon)
    each[row], other[:, row] = stability, resilience
    result = changed(result, stability=each, resilience=other)
    for name, value in fields.items():
        result = with_entry(result, name, row, value)
    return result


def test_a_row_is_refuted_in_what_its_counterexample_says(
    told: tuple[ProofFiles, tp.Verification], tmp_path: Path
) -> None:
    """One of a neighbour says nothing about the row itself."""
    files, result = told
    assert is_believed(files, result, tmp_path)
    row = int(np.argmax(result.rows.refuted == Refuted.RESILIENCE))
    assert result.rows.refuted[row] == Refuted.RESILIENCE and result.stability[row] == P and result.correct[row]
    both = np.stack(result.resilience_by_epsilon)[:, row]
    for false in (
        outcomes(result, row, R, R, R),
        outcomes(result, row, R, R, R, refuted=Refuted.STABILITY, epsilon_index=-1),
        outcomes(result, row, P, *both, refuted=Refuted.STABILITY, epsilon_index=-1),
        outcomes(result, row, P, P, P),
        outcomes(result, row, P, *both, epsilon_index=1 - result.rows.epsilon_index[row])
        if both.tolist() != [R, R]
        else outcomes(result, row, R, *both),
    ):
        assert not is_believed(files, false, tmp_path)


def test_rows_that_nobody_attacks_and_rows_with_a_wrong_label_are_what_the_format_says(
    told: tuple[ProofFiles, tp.Verification], tmp_path: Path
) -> None:
    files, result = told
    spared = int(np.argmax(~result.is_attacked & ~result.correct))
    assert not result.is_attacked[spared] and not result.correct[spared]
    for stability, resilience in ((R, R), (U, R), (P, U), (P, P)):
        assert not is_believed(files, outcomes(result, spared, stability, resilience, resilience), tmp_path)
    everybody = proof_files(tmp_path, epsilon=0.01)
    result = tp.Verification.from_json(everybody.result)
    wrong = int(np.argmin(result.correct))
    assert not result.correct[wrong]
    for stability, resilience in ((P, U), (U, U), (P, P)):
        assert not is_believed(everybody, outcomes(result, wrong, stability, resilience), tmp_path)


@pytest.mark.parametrize("epsilons", [[0.01, 0.1], [0.05, {"age": 0.3}]], ids=["nested", "side by side"])
def test_of_all_that_can_be_said_of_a_row_only_the_truth_is_believed(tmp_path: Path, epsilons: Any) -> None:
    """All outcomes of a row and its neighbourhoods, with every word for its counterexample, its own or none."""
    files = proof_files(tmp_path, epsilons=epsilons, epsilon=None)
    model, result = (json.loads(file.read_text("utf-8")) for file in files[:2])
    proofs, met = ProofFile.open(files.proofs), Counter[bool]()
    names = ("stability", "refuted", "neighbour", "attacked", "neighbour_label", "attacked_label")
    for row in range(len(result["X"])):
        x, label = result["X"][row], result["predicted"][row]
        none = {"neighbour": x, "attacked": x, "neighbour_label": label, "attacked_label": label}
        own = {name: result[name][row] for name in none}
        told = [result["stability"][row], *(each[row] for each in result["resilience"])]
        assert U not in told
        for said in itertools.product((P, R, U), repeat=3):
            for word, rows in itertools.product((None, "stability", 0, 1, -1), (none, own)):
                false = {**result, **{name: [*result[name]] for name in names}}
                false["resilience"] = [[*each] for each in result["resilience"]]
                for name, value in {**rows, "refuted": word, "stability": int(said[0])}.items():
                    false[name][row] = value
                for each, one in zip(false["resilience"], said[1:], strict=True):
                    each[row] = int(one)
                ((_, found),) = check_result(question_of(model, false), proofs, [row])
                if row in found.checked and row not in found.unchecked:
                    met[list(said) == told] += 1
                    assert all(one in (U, true) for one, true in zip(said, told, strict=True)), (row, said, word)
                    assert R not in said or found.outcomes[row].count(R) == said.count(R), (row, said, word)
    assert met[True] >= len(result["X"]) and met[False] > 0


def test_a_row_that_nothing_shows_to_be_refuted_in_a_neighbourhood_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two neighbourhoods none is in the other, and a result has one counterexample of each row."""
    builder = EnsembleBuilder(n_features=2, classes=[0, 1])
    tree = {"threshold": [0.5, 0.0, 0.0], "left": [1, -1, -1], "right": [2, -1, -1], "scores": [[0, 0], [1, 0], [0, 3]]}
    for f in (0, 1):
        builder.add_tree(feature=[f, -1, -1], **tree)
    model, files = builder.build(), [str(tmp_path / name) for name in ("model.json", "result.json", "proofs.tpp")]
    tp.save_model(model, files[0])
    for epsilons in ([{0: 0.2}, {1: 0.2}], [{0: 0.2}], [{1: 0.2}], [{0: 0.2}, 0.2]):
        asked: dict[str, Any] = {"epsilons": epsilons, "proofs": files[2], "progress": False}
        result = tp.verify(model, [[0.35, 0.35], [0.0, 0.0]], [0, 0], tp.Attacker.linf(0.1), **asked)
        result.to_json(files[1])
        assert np.stack(result.resilience_by_epsilon).tolist() == [[R, P]] * len(epsilons)
        is_bare = epsilons[1:] == [{1: 0.2}]
        assert main(files) == is_bare
        assert ("unchecked  row 0: its counterexample does not show" in capsys.readouterr().out) == is_bare
        for words in (["--proofs", files[2]], ["--no-proofs"]):
            code, out, _ = run(capsys, "check", *files[:2], *words)
            assert (code, "unchecked  row 0: its counterexample does not show" in out) == (is_bare, is_bare)


@pytest.mark.parametrize(
    "fields",
    [
        {"rows_with_missing": 1},
        {"by_class": []},
        {"movable": [0]},
        {"unreached": [1]},
        {"untested": [2]},
        {"fingerprint": "0" * 64},
        {"decision": "label 'yes' where its probability is at least 0.9"},
        {"categories": [{"feature": 0}]},
        {"label_dtype": "<i8"},
        {"epsilon_names": ["one", "two"]},
        {"proofs": {"checked": 99, "rejected": 0, "unchecked": 0, "version": "1"}},
        {"transform": "log1p"},
    ],
)
@pytest.mark.parametrize("quiet", [True, False])
def test_the_program_finds_again_what_is_said_of_all_rows(tmp_path: Path, fields: Any, quiet: bool) -> None:
    files = proof_files(tmp_path)
    assert main([*map(str, files.changed("result", tmp_path, **fields)), *(["--quiet"] * quiet)]) in (1, 2)


def test_open_rows_are_counted_either_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the program prints lies around what the engine found, and is that where all is checked."""
    files = proof_files(tmp_path)
    result = tp.Verification.from_json(files.result)
    n, proved = len(result), np.flatnonzero(result.is_proved)
    row = int(proved[result.correct[proved]][0])
    short = rewritten(files, tmp_path / "short.tpp", lambda one, data: "left out" if one == row else data)
    assert main([*map(str, short)]) == 1
    said = capsys.readouterr().out
    assert f"proved     {len(proved)} rows: {len(proved) - 1} checked, 1 not checked" in said
    low = round(float(result.robustness.lower) * n)
    assert f"follows    robustness: {low - 1} to {low} of {n} rows" in said
