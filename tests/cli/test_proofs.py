"""`treeproof check --proofs` and `treeproof proof`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import treeproof as tp
from tests.support.commands import run
from tests.support.proof_files import ProofFiles, proof_files, rewritten
from tests.support.pseudo_boolean import is_refuted
from tests.support.results import changed


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ProofFiles:
    return proof_files(tmp_path_factory.mktemp("proofs"))


def test_check_takes_proofs_in_place_of_proving_again(files: ProofFiles, capsys: pytest.CaptureFixture[str]) -> None:
    n = len(tp.check_proofs(*files, progress=False).checked)
    code, out, _ = run(capsys, "check", files.model, files.result, "--proofs", files.proofs, "--jobs", 1)
    assert code == 0
    holds, *follows, proofs = out.splitlines()
    assert holds.startswith("holds      12 labels and ")
    assert holds.endswith(" counterexamples, of 12 of 12 rows")
    assert [line.split(":")[0] for line in follows] == [
        *("follows    accuracy", "follows    stability", "follows    robustness"),
        'follows    resilience at {"all"',
    ]
    assert proofs == f"proofs     {n} of {n} proved rows (100%) checked by treeproof {tp.__version__}"


def test_check_of_a_sample_checks_its_proofs(files: ProofFiles, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--proofs", files.proofs, "--sample", 3, "--seed", 0, "--jobs", 1)
    code, out, _ = run(capsys, "check", files.model, files.result, *options)
    assert code == 0
    assert ", of 3 of 12 rows" in out
    assert out.splitlines()[-1].split()[3] in "123"


def test_check_notes_in_the_result_how_many_proofs_it_checked(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = files.changed("result", tmp_path)
    code, _, _ = run(capsys, "check", *noted[:2], "--proofs", noted.proofs, "--note", "--jobs", 1)
    assert code == 0
    result = tp.Verification.from_json(noted.result)
    assert result.proofs == tp.check_proofs(*files, progress=False).counts
    for options in (["--note"], ["--proofs", files.proofs, "--note", "--sample", 2]):
        code, _, err = run(capsys, "check", *noted[:2], *options)
        assert code == 2
        assert "--note needs --proofs, and no --sample" in err


def test_check_lists_rows_without_proofs(files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *_ = tp.check_proofs(*files, progress=False).checked
    short = rewritten(files, tmp_path / "short.tpp", lambda row, data: "too large" if row == first else data).proofs
    code, out, _ = run(capsys, "check", files.model, files.result, "--proofs", short, "--jobs", 1)
    assert code == 1
    assert f"unchecked  row {first}: too large\n" in out
    code, out, _ = run(capsys, "proof", "list", short)
    assert code == 0
    assert f"without    row {first}: too large\n" in out
    code, _, err = run(capsys, "proof", "show", files.model, files.result, short, first)
    assert code == 2
    assert f"short.tpp has no proof of row {first}: too large" in err


def test_proofs_that_do_not_hold_are_an_error(
    files: ProofFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from treeproof.check.proof_file import ProofFile

    monkeypatch.setattr(ProofFile, "payload", lambda self, row: b"\1")
    code, out, err = run(capsys, "check", files.model, files.result, "--proofs", files.proofs, "--jobs", 1)
    assert code == 2
    assert "rejected   rows " in out
    assert " proofs do not hold; the first is that of row " in err


def test_check_refuses_proofs_of_something_else_in_one_line(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = proof_files(tmp_path, epsilon=0.02)
    (tmp_path / "cut.tpp").write_bytes(files.proofs.read_bytes()[:-3])
    (tmp_path / "begun.tpp.part").touch()
    for proofs, said in (
        (other.proofs, "not the same epsilons"),
        (tmp_path / "cut.tpp", "was not written to its end"),
        (files.model, "is no file of proofs"),
        (tmp_path / "none.tpp", "cannot read"),
        (tmp_path / "begun.tpp", "begun.tpp.part was begun and not finished: resume goes on with it"),
    ):
        code, out, err = run(capsys, "check", files.model, files.result, "--proofs", proofs)
        assert (code, out) == (2, "")
        assert said in err
        assert len(err.splitlines()) == 1
    tp.StabilityMap.build(tp.load_model(files.model), tp.Attacker.linf(0.01), progress=False).save(tmp_path / "m.tpm")
    code, _, err = run(capsys, "check", files.model, tmp_path / "m.tpm", "--proofs", files.proofs)
    assert code == 2
    assert "not the same attacker" in err


def test_proof_list_and_show(files: ProofFiles, capsys: pytest.CaptureFixture[str]) -> None:
    checked = tp.check_proofs(*files, progress=False).checked
    code, out, _ = run(capsys, "proof", "list", files.proofs)
    assert code == 0
    assert out.startswith(f"proofs     {len(checked)} of ")
    about = (files.model, files.result)
    code, out, _ = run(capsys, "proof", "show", *about, files.proofs, checked[0], "--depth", 2)
    assert code == 0
    label = json.loads(files.result.read_text("utf-8"))["predicted"][checked[0]]
    assert out.startswith(f"row {checked[0]}, {label}, in ")
    assert out.splitlines()[-1].startswith("holds: ")
    code, _, err = run(capsys, "proof", "show", *about, files.proofs, 999)
    assert code == 2
    assert "has no proof of row 999: the result has rows 0 to 11" in err
    code, _, err = run(capsys, "proof", "show", *about, files.model, 0)
    assert code == 2
    assert "is no file of proofs" in err


def test_check_takes_cheapest_attacks(files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tp.Verification.from_json(files.result).X
    proofs, attacks = tmp_path / "cheapest.tpp", tmp_path / "attacks.json"
    tp.cheapest_attack(tp.load_model(files.model), rows, tp.Attacker.l0(1), proofs=proofs).to_json(attacks)
    code, out, _ = run(capsys, "check", files.model, attacks, "--proofs", proofs, "--jobs", 1)
    assert (code, out) == (0, f"proofs     12 of 12 proved rows (100%) checked by treeproof {tp.__version__}\n")
    assert run(capsys, "proof", "show", files.model, attacks, proofs, 0)[0] == 0
    content = json.loads(attacks.read_text())
    attacks.write_text(json.dumps({**content, "price": [price + 1 for price in content["price"]]}))
    code, _, err = run(capsys, "check", files.model, attacks, "--proofs", proofs, "--jobs", 1)
    assert code == 2
    assert "12 proofs do not hold" in err
    for options in ([], ["--proofs", proofs, "--sample", 2], ["--proofs", proofs, "--note"]):
        code, _, err = run(capsys, "check", files.model, attacks, *options)
        assert code == 2
        assert "they take --proofs FILE, and no --sample or --note" in err
    attacks.write_text(json.dumps({name: value for name, value in content.items() if name != "price"}))
    code, _, err = run(capsys, "check", files.model, attacks, "--proofs", proofs, "--jobs", 1)
    assert code == 2
    assert "the result lacks 'price'" in err


def test_export_writes_what_veripb_reads(files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row, *_ = tp.check_proofs(*files, progress=False).checked
    code, out, _ = run(capsys, "proof", "export", *files, row, "--out", tmp_path / "one")
    assert code == 0
    problems, proofs = sorted(tmp_path.glob("one.*.opb")), sorted(tmp_path.glob("one.*.pbp"))
    assert out.count("wrote ") == len(problems) == len(proofs) >= 1
    assert f"check      veripb {problems[0]} {proofs[0]}\n" in out
    for problem, proof in zip(problems, proofs, strict=True):
        assert is_refuted(problem.read_text(), proof.read_text())
    code, _, err = run(capsys, "proof", "export", *files, row, "--out", tmp_path / "no" / "such" / "one")
    assert code == 2 and "cannot write" in err
    for other, options, said in (
        (files, [999], "has no proof of row 999: the result has rows 0 to 11"),
        (files, [row, "--neighbourhood", 9], "has no proof of neighbourhood 9, but of "),
        (files, ["one"], "'one' is not a valid integer"),
        ((files.result, *files[1:]), [row], "is not a valid treeproof model"),
        ((*files[:2], files.model), [row], "is no file of proofs"),
    ):
        code, _, err = run(capsys, "proof", "export", *other, *options, "--out", tmp_path / "other")
        assert code == 2 and said in err and len(err.splitlines()) == 1
    assert not list(tmp_path.glob("other*"))


def test_rows_with_the_same_reason_are_one_line(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = rewritten(files, tmp_path / "short.tpp", lambda row, data: "too large").proofs
    code, out, _ = run(capsys, "check", files.model, files.result, "--proofs", short, "--jobs", 1)
    assert code == 1
    (line,) = (line for line in out.splitlines() if line.startswith("unchecked"))
    assert line.startswith("unchecked  rows ") and line.endswith(" more: too large")


def test_proofs_of_maps_are_listed_and_not_shown(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boxes, smap = tmp_path / "boxes.tpp", tmp_path / "m.tpm"
    built = tp.StabilityMap.build(tp.load_model(files.model), tp.Attacker.linf(0.01), progress=False, max_boxes=50)
    built.prove(boxes)
    built.save(smap)
    code, out, _ = run(capsys, "proof", "list", boxes)
    assert code == 0 and "boxes with a proof" in out
    for words in (
        ["show", files.model, smap, boxes, 0],
        ["export", files.model, smap, boxes, 0],
    ):
        code, _, err = run(capsys, "proof", *words, *(["--out", tmp_path / "one"] if words[0] == "export" else []))
        assert code == 2 and "boxes.tpp proves boxes of a map" in err


def test_a_gate_says_that_it_opens_with_rows_of_a_file(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever writes the file that is resumed can write anything: with --strict the gate stays closed."""
    result = tp.Verification.from_json(files.result)
    np.savez(tmp_path / "rows.npz", X=result.X, y=result.y)
    forged = changed(
        result, stability=np.zeros_like(result.stability), resilience=np.zeros((0, len(result)), dtype=np.int8),
        has_witness=np.zeros(len(result), dtype=bool), epsilons=(), epsilon_names=None,
    )  # fmt: skip
    forged.to_json(tmp_path / "forged.json")
    command = ["verify", files.model, tmp_path / "rows.npz", "--delta", "0.03", "--jobs", 1]
    gate = [*command, "--json", tmp_path / "forged.json", "--resume", "--fail-under-robustness", 0.9]
    code, out, err = run(capsys, *gate, "--strict")
    assert code == 1, (out, err)
    assert "FAILED     rows were taken over by --resume, unchecked" in out
    code, out, _ = run(capsys, *gate)
    assert code == 0 and "WARNING    passed, but rows were taken over by --resume" in out
    assert run(capsys, "check", files.model, tmp_path / "forged.json")[0] in (1, 2)
