"""Proofs of a result, checked from Python and by the program that needs nothing but Python."""

from __future__ import annotations

import ast
import io
import itertools
import json
import re
import struct
import subprocess
import sys
import tokenize
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.clock import press_ctrl_c, until
from tests.support.proof_files import ProofFiles, proof_files, rewritten
from tests.support.small_maps import small_forest
from tools.build_checker import CORE, FILES, SOURCE
from tools.build_checker import main as build_checker
from treeproof.check import __main__ as program
from treeproof.check import proofs as proof_checks
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Checked
from treeproof.errors import InvalidInput
from treeproof.run.limits import Limits


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ProofFiles:
    return proof_files(tmp_path_factory.mktemp("proofs"))


@pytest.fixture(scope="module")
def result(files: ProofFiles) -> tp.Verification:
    return tp.Verification.from_json(files.result)


def run(files: ProofFiles, *options: str) -> int:
    return program.main([*map(str, files), *options])


# --- from Python -----------------------------------------------------------------------------------------------------


def test_all_proofs_of_a_result_are_checked(files: ProofFiles, result: tp.Verification) -> None:
    found = tp.check_proofs(tp.load_model(files.model), result, files.proofs, progress=False)
    assert found.checked == tuple(np.flatnonzero(result.is_proved).tolist())
    assert len(found.checked) > 5
    assert (found.rejected, found.unchecked, found.interrupted) == ({}, {}, False)
    n = len(found.checked)
    assert str(found) == f"The proofs of {n} of {n} proved rows were checked by treeproof {tp.__version__}."
    assert found.boxes >= n


@pytest.mark.slow
def test_processes_find_the_same(files: ProofFiles) -> None:
    one, two = (tp.check_proofs(*files, progress=False, n_jobs=n) for n in (1, 2))
    assert (one.checked, one.boxes) == (two.checked, two.boxes)


def test_paths_do_as_well_as_objects_and_rows_can_be_chosen(files: ProofFiles) -> None:
    one = tp.check_proofs(str(files.model), str(files.result), str(files.proofs), progress=False)
    some = tp.check_proofs(*files, progress=False, rows=one.checked[:2])
    assert some.checked == one.checked[:2]


def test_names_of_columns_may_stand_in_the_result_alone(tmp_path: Path) -> None:
    files = proof_files(tmp_path, attacker=tp.Attacker({"age": (-0.02, 0.02), "debt": (0, 0.1)}))
    columns = json.loads(files.model.read_text())["columns"]
    nameless = files.changed(
        "model", tmp_path, columns=[{name: one for name, one in column.items() if name != "name"} for column in columns]
    )
    assert tp.check_proofs(*nameless, progress=False).checked == tp.check_proofs(*files, progress=False).checked
    assert run(nameless, "--quiet") == 0


def test_rows_that_nobody_attacks_need_no_proofs(tmp_path: Path) -> None:
    files = proof_files(tmp_path, actors=["yes"])
    result, found = tp.Verification.from_json(files.result), tp.check_proofs(*files, progress=False)
    assert found.checked == tuple(np.flatnonzero(result.is_proved).tolist())
    assert 0 < len(found.checked) < (result.stability == tp.Outcome.PROVED).sum()
    assert tp.Verification.from_json(found.noted_in(result).to_json()).proofs == found.counts


def test_rows_without_proofs_and_proofs_that_do_not_hold_are_named(files: ProofFiles, tmp_path: Path) -> None:
    first, second, *rest = tp.check_proofs(*files, progress=False).checked

    def change(row: int, payload: bytes) -> bytes | str:
        return {first: payload + b"\0", second: "it was too large"}.get(row, payload)

    found = tp.check_proofs(*rewritten(files, tmp_path / "other.tpp", change), progress=False)
    assert found.checked == tuple(rest)
    assert found.rejected == {first: "something follows the proof"}
    assert found.unchecked == {second: "it was too large"}
    assert f"Rejected: row {first} (something follows the proof). Not checked: row {second} (it was too large)." in str(
        found
    )


def test_whatever_is_broken_in_a_proof_is_rejected_and_not_raised(files: ProofFiles, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for number in range(25):

        def change(row: int, payload: bytes) -> bytes:
            noise = bytearray(payload)
            noise[int(rng.integers(len(noise)))] ^= int(rng.integers(1, 256))
            return bytes(noise)

        found = tp.check_proofs(*rewritten(files, tmp_path / f"{number}.tpp", change), progress=False)
        assert not found.interrupted


def test_many_rows_are_named_by_a_few(files: ProofFiles, tmp_path: Path) -> None:
    found = tp.check_proofs(*rewritten(files, tmp_path / "other.tpp", lambda row, _: "left out"), progress=False)
    assert found.checked == ()
    assert re.search(rf"Not checked: rows \d, [\d, ]+ and {len(found.unchecked) - 5} more \(left out\)\.$", str(found))
    found = tp.check_proofs(*rewritten(files, tmp_path / "other.tpp", lambda row, _: f"{row} is"), progress=False)
    assert str(found).endswith(f"; rows with {len(found.unchecked) - 5} other reasons.")
    nothing = tp.check_proofs(*files, rows=[], progress=False)
    assert str(nothing).startswith("The proofs of 0 of 0 proved rows")


def test_ctrl_c_keeps_what_was_checked(
    files: ProofFiles, monkeypatch: pytest.MonkeyPatch, ctrl_c: None, interrupts: list[Limits]
) -> None:
    calls, original = itertools.count(), proof_checks._check

    def check(asked: Any, rows: list[int]) -> Checked:
        if next(calls) == 1:
            press_ctrl_c()
            until(lambda: interrupts)
        return original(asked, rows)

    monkeypatch.setattr(proof_checks, "_check", check)
    found = tp.check_proofs(*files, progress=False)
    assert found.interrupted
    assert found.checked
    assert set(found.unchecked.values()) == {proof_checks.INTERRUPTED}


def test_results_and_their_files_say_how_many_proofs_were_checked(
    files: ProofFiles, result: tp.Verification, tmp_path: Path
) -> None:
    found = tp.check_proofs(*files, progress=False)
    noted = found.noted_in(result)
    noted.to_json(tmp_path / "noted.json")
    again = tp.Verification.from_json(tmp_path / "noted.json")
    assert again.proofs == found.counts == (len(found.checked), 0, 0, tp.__version__)
    assert f"proofs of {len(found.checked)} of {len(found.checked)} rows checked" in repr(again)
    assert tp.check_proofs(files.model, tmp_path / "noted.json", files.proofs, progress=False).counts == again.proofs
    assert "were checked by treeproof" in tp.report_html(tp.load_model(files.model), again, max_seconds=0)
    assert "were checked by treeproof" not in tp.report_html(tp.load_model(files.model), result, max_seconds=0)


@pytest.mark.parametrize(
    "proofs",
    [
        7,
        {},
        {"checked": 1, "rejected": 0, "unchecked": 0, "version": "1", "more": 1},
        {"checked": -1, "rejected": 0, "unchecked": 0, "version": "1"},
        {"checked": 1.0, "rejected": 0, "unchecked": 0, "version": "1"},
        {"checked": 1, "rejected": 0, "unchecked": 0, "version": 1},
        {"checked": 999, "rejected": 0, "unchecked": 0, "version": "1"},
    ],
)
def test_result_files_with_other_counts_are_refused(files: ProofFiles, tmp_path: Path, proofs: Any) -> None:
    changed = files.changed("result", tmp_path, proofs=proofs)
    with pytest.raises(InvalidInput, match="proofs"):
        tp.Verification.from_json(changed.result)


# --- wrong input -----------------------------------------------------------------------------------------------------


def wrong(files: ProofFiles, folder: Path) -> dict[str, ProofFiles]:
    """Files that do not belong together, or are none, by what is said about them."""
    content = json.loads(files.result.read_text("utf-8"))
    model = json.loads(files.model.read_text("utf-8"))
    rows = [[value + 0.001 for value in row] for row in content["X"]]
    data = files.proofs.read_bytes()
    broken = zlib.compress(b"[]")
    for name, bytes_ in {
        "cut": data[:-7],
        "none": b"nothing",
        "empty": b"",
        "index": b"TPP1\n" + broken + struct.pack("<QQ", 5, len(broken)) + b"TPPEND\n\0",
        "beyond": b"TPP1\n" + struct.pack("<QQ", 2**63, 2**62) + b"TPPEND\n\0",
    }.items():
        (folder / name).write_bytes(bytes_)

    def other(what: str, number: int, **fields: Any) -> ProofFiles:
        place = folder / str(number)
        place.mkdir()
        return files.changed(what, place, **fields)

    return {
        "not the same fingerprint": other("model", 0, base=[base + 1.0 for base in model["base"]]),
        "not the same model": other("model", 1, takes_frames=True),
        "not the same attacker": other("result", 2, attacker={**content["attacker"], "budget": 1}),
        "not the same epsilons": other("result", 3, epsilons=[{"all": 0.02}]),
        "not the same rows": other("result", 4, X=rows, neighbour=rows, attacked=rows),
        "not the same relations": other("result", 5, relations=["age <= 5"], broken=[[]]),
        "was not written to its end": files._replace(proofs=folder / "cut"),
        "none is no file of proofs": files._replace(proofs=folder / "none"),
        "empty is no file of proofs": files._replace(proofs=folder / "empty"),
        "the index of index cannot be read": files._replace(proofs=folder / "index"),
        "beyond the end of the file": files._replace(proofs=folder / "beyond"),
        "cannot read": files._replace(proofs=folder / "missing"),
    }


def test_wrong_files_are_refused_in_one_line(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for said, given in wrong(files, tmp_path).items():
        with pytest.raises(InvalidInput, match=said):
            tp.check_proofs(*given, progress=False)
        assert run(given) == 2
        out, err = capsys.readouterr()
        assert not out
        assert said in err
        assert err.count("\n") == 1, err


@pytest.mark.parametrize(
    ("which", "fields", "said"),
    [
        ("model", {"format": "xgboost"}, "format of the model must not be 'xgboost'"),
        ("model", {"version": True}, "version of the model must not be True"),
        ("model", {"trees": [{}]}, "entry 0 lacks 'feature'"),
        ("model", {"trees": 5}, "trees of the model must not be 5"),
        ("result", {"format": "other"}, "format of the result must not be 'other'"),
        ("result", {"version": 9}, "version of the result must not be 9"),
        ("result", {"n_features": 9}, "rows of another model"),
        ("result", {"X": []}, "lists of other lengths"),
        ("result", {"resilience": []}, "lists of other lengths"),
        ("result", {"X": [[0.0]] * 12}, "rows of another model"),
        ("result", {"attacker": None}, "attacker of the result is no JSON object"),
        ("result", {"attacker": {}}, "attacker of the result lacks 'budget'"),
    ],
)
def test_the_program_refuses_other_objects_in_one_line(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str, fields: Any, said: str
) -> None:
    assert run(files.changed(which, tmp_path, **fields)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1, "a": 2}', "\udcff"])
def test_the_program_refuses_what_is_no_json_object(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "odd.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    for which in ("model", "result"):
        assert run(files._replace(**{which: tmp_path / "odd.json"})) == 2
        err = capsys.readouterr().err
        assert "odd.json is n" in err or f"the {which} is no JSON object" in err
        assert err.count("\n") == 1


# --- the program -----------------------------------------------------------------------------------------------------


def test_the_program_says_what_it_checked(files: ProofFiles, capsys: pytest.CaptureFixture[str]) -> None:
    proved = tp.check_proofs(*files, progress=False).checked
    assert run(files) == 0
    first, second, third, fourth, *follows = capsys.readouterr().out.splitlines()
    assert first == f"checked    12 of 12 rows, by treeproof {tp.__version__}"
    n = int(tp.Verification.from_json(files.result).has_witness.sum())
    assert second.split()[:2] == [str(n), "counterexamples,"]
    assert third.split()[-1] == ProofFile.open(files.proofs).header["model"]
    assert fourth == f"proved     {len(proved)} rows: {len(proved)} checked, 0 not checked"
    result = tp.Verification.from_json(files.result)
    resilience = result.resilience
    assert resilience is not None
    shares = [result.accuracy, float((result.stability == 0).mean()), result.robustness.lower, resilience.lower]
    assert [float(line.split(", ")[-1]) for line in follows] == [float(f"{share:.4g}") for share in shares]
    assert run(files, "--rows", f"{proved[0]},{proved[-1]}") == 0
    assert capsys.readouterr().out.startswith("checked    2 of 2 rows, ")
    assert run(files, "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_the_program_checks_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A map holds its model, so two files are enough; the hash says which model that is."""
    clf, _, _ = small_forest(3, 2)
    smap = tp.StabilityMap.build(clf, tp.Attacker.linf(0.1), voting="hard", progress=False)
    smap.save(tmp_path / "map.tpm")
    smap.prove(tmp_path / "boxes.tpp")
    files = [str(tmp_path / "map.tpm"), str(tmp_path / "boxes.tpp")]
    assert program.main(files) == 0
    assert capsys.readouterr().out.startswith(f"checked    {smap.n_boxes} of {smap.n_boxes} boxes, ")
    (tmp_path / "map.tpm").write_bytes(b"nonsense")
    assert program.main(files) == 2
    assert "map.tpm is no stability map" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        program.main(files[:1])
    assert "three files, MODEL RESULT PROOFS, or two, MAP PROOFS" in capsys.readouterr().err


@pytest.mark.parametrize("rows", ["x", "1.5", "-1", "999", "", "0,,1"])
def test_rows_must_be_there(files: ProofFiles, capsys: pytest.CaptureFixture[str], rows: str) -> None:
    assert run(files, f"--rows={rows}") == 2
    assert "must name what there is" in capsys.readouterr().err


def test_the_program_lists_what_it_did_not_check(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = tp.check_proofs(*files, progress=False).checked

    def change(row: int, payload: bytes) -> bytes | str:
        return {first: payload + b"\0", second: "it was \x1b[2Jtoo\nlarge"}.get(row, payload)

    other = rewritten(files, tmp_path / "other.tpp", change)
    assert run(other) == 1
    out = capsys.readouterr().out
    assert f"rejected   row {first}: something follows the proof\n" in out
    assert f"unchecked  row {second}: it was ?[2Jtoo?large\n" in out
    assert run(other, "--rows", str(second), "--quiet") == 1
    assert capsys.readouterr().out == ""


def test_the_program_rejects_false_results(
    files: ProofFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(files.result.read_text("utf-8"))
    n = len(content["y"])
    swapped = [{"yes": "no", "no": "yes"}[label] for label in content["predicted"]]
    assert run(files.changed("result", tmp_path, predicted=swapped)) == 1
    assert "another label than the result says" in capsys.readouterr().out
    assert run(files.changed("result", tmp_path, y=swapped)) == 1
    assert "called resilient, but its label is wrong" in capsys.readouterr().out
    # What is called proved although it is not has no proof.
    nothing = {"refuted": [None] * n, **dict.fromkeys(("neighbour", "attacked"), content["X"])}
    nothing |= {**dict.fromkeys(("predicted", "neighbour_label", "attacked_label"), content["predicted"])}
    nothing["y"] = content["predicted"]
    assert run(files.changed("result", tmp_path, stability=[0] * n, resilience=[[0] * n], **nothing)) == 1
    assert "unchecked" in capsys.readouterr().out


def test_a_program_that_is_interrupted_before_it_checks_anything_does_not_say_that_all_is_well(
    files: ProofFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "_of_result", stop)
    assert program.main([*map(str, files)]) == 1
    assert capsys.readouterr() == ("", "treeproof.check: interrupted\n")


def test_an_interrupted_program_says_what_it_checked(
    files: ProofFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(*asked: Any) -> Iterator[tuple[int, Checked]]:
        yield 0, Checked([0])
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "check_result", some)
    assert run(files) == 1
    out, err = capsys.readouterr()
    assert out.startswith("checked    1 of ")
    assert err == "treeproof.check: interrupted\n"


@pytest.mark.parametrize("rows", [[12], [-1], "3", [1.0], [None], [True], 3.5])
def test_rows_that_are_none_are_refused(files: ProofFiles, rows: Any) -> None:
    with pytest.raises(InvalidInput, match="rows must be numbers of rows, from 0 to 11"):
        tp.check_proofs(*files, rows=rows, progress=False)


def test_the_program_is_one_file_that_needs_nothing_but_python(files: ProofFiles, tmp_path: Path) -> None:
    target = tmp_path / "apart" / "treeproof-check.pyz"
    build_checker(target)
    # Without site-packages there is no numpy and no treeproof but the one in the file.
    alone = [sys.executable, "-I", "-S"]
    done = subprocess.run([*alone, target, *files], cwd=target.parent, env={}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("checked ")
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "from treeproof.check.__main__ import main\n"
        f"code = main({[*map(str, files), '--quiet']!r})\n"
        "own = {name for name in sys.modules if name.startswith('treeproof')}\n"
        "foreign = {name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names - {'treeproof', '__main__'}\n"
        "print(code, len(own), *sorted(foreign))"
    )
    done = subprocess.run([*alone, "-c", code], cwd=tmp_path, env={}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # Beside the files there are the two packages.
    assert done.stdout.split() == ["0", str(len(FILES) + 2)]


def test_the_program_runs_as_a_module_without_other_libraries(files: ProofFiles) -> None:
    code = (
        f"import sys, runpy; sys.argv = ['check', *{list(map(str, files))!r}, '--quiet']\n"
        "try:\n    runpy.run_module('treeproof.check', run_name='__main__')\n"
        "except SystemExit as end:\n    print(end.code, *sorted({'numpy', 'numba', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


# --- its size --------------------------------------------------------------------------------------------------------


def code_lines(path: Path) -> int:
    """Lines of a file that are neither blank nor comments nor docstrings."""
    text = path.read_text("utf-8")
    said: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            said |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    none = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in none:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - said)


def test_the_checker_stays_as_small_as_the_page_says() -> None:
    size = {name: code_lines(SOURCE / "check" / f"{name}.py") for name in FILES}
    page = (SOURCE.parents[1] / "docs" / "proofs.md").read_text("utf-8")
    table = page.split("| part | modules | lines, at most |")[1].split("\n\n")[0].splitlines()[2:]
    parts = [(re.findall(r"`(\w+)`", line), int(line.split("|")[-2].replace(",", ""))) for line in table]
    assert sorted(name for names, _ in parts for name in names) == sorted(FILES)
    (core, most_core), (further, _), *_, (nothing, most) = parts
    assert tuple(core) == CORE and not nothing
    assert most_core <= 540 and sum(size[name] for name in (*core, *further)) <= 1400, size
    for names, most_lines in parts[:-1]:
        assert sum(size[name] for name in names) <= most_lines, size
    assert sum(size.values()) <= most


def test_the_checker_needs_its_own_files_only() -> None:
    for name in FILES:
        tree = ast.parse((SOURCE / "check" / f"{name}.py").read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("treeproof"):
                own = {f"treeproof.check.{one}" for one in FILES}
                assert node.module in own or [one.name for one in node.names] == ["__version__"], (name, node.module)
