"""The fixed cases of benchmarks.regression count what is stored, and a difference would be seen."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.regression import against, counts
from benchmarks.regression.__main__ import main
from benchmarks.regression.cases import CASES, Case
from benchmarks.regression.measure import Measured, why_skipped

Counts = counts.Counts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_counts_are_as_stored(case: Case) -> None:
    """With two threads; the command itself runs with one, and counts must not know."""
    if why := why_skipped(case):
        pytest.skip(why)
    assert counts.changes(counts.read()[case.name], case.run(2)) == []


def test_every_stored_case_exists() -> None:
    assert list(counts.read()) == [case.name for case in CASES]


# --- the command -------------------------------------------------------------------------------------------------


def fixed(name: str, needs: str = "", **numbers: int | str) -> Case:
    return Case(name, lambda _: dict(numbers), needs)


TWO = [fixed("search", boxes=1234, verdicts="5f"), fixed("map", boxes=7)]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A file with the counts of TWO."""
    path = tmp_path / "stored.json"
    assert main(["--update"], TWO, path) == 0
    return path


def said(capsys: pytest.CaptureFixture[str], word: str) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith(word)]


def test_update_writes_what_is_read_back_one_line_per_count(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert counts.read(stored) == {"search": {"boxes": 1234, "verdicts": "5f"}, "map": {"boxes": 7}}
    assert '  "boxes": 1234,' in stored.read_text(encoding="utf-8").splitlines()
    assert main([], TWO, stored) == 0
    assert said(capsys, "2 cases") == ["2 cases, all counts as in stored.json"]


@pytest.mark.parametrize(
    ("now", "line"),
    [
        ({"boxes": 1235, "verdicts": "5f"}, "changed: search: boxes was 1,234, is 1,235"),
        ({"boxes": 1234, "verdicts": "60"}, "changed: search: verdicts was 5f, is 60"),
        ({"boxes": 1234}, "changed: search: verdicts was 5f, is not counted"),
        ({"boxes": 1234, "verdicts": "5f", "moves": 2}, "changed: search: moves was not counted, is 2"),
        ({"boxes": "1234", "verdicts": "5f"}, "changed: search: boxes was 1,234, is 1234"),
    ],
)
def test_a_changed_count_fails_and_is_named(
    stored: Path, capsys: pytest.CaptureFixture[str], now: Counts, line: str
) -> None:
    assert main([], [fixed("search", **now), TWO[1]], stored) == 1
    assert said(capsys, "changed") == [line]


def test_a_missing_and_a_new_case_fail_and_are_named(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], [TWO[0], fixed("radius", rows=3)], stored) == 1
    out = capsys.readouterr().out
    assert "missing: map: its counts are stored, and it did not run" in out
    assert "new: radius: its counts are not stored" in out
    assert "changed" not in out


def test_only_looks_at_the_chosen_cases(stored: Path) -> None:
    changed = [fixed("search", boxes=1), TWO[1]]
    assert main(["--only", "map"], changed, stored) == 0
    assert main(["--only", "sea"], changed, stored) == 1
    assert main(["--only", "nothing like it"], changed, stored) == 2


def test_update_of_some_cases_keeps_the_others_and_drops_what_is_gone(stored: Path) -> None:
    cases = [fixed("search", boxes=1), fixed("radius", rows=3)]
    assert main(["--update", "--only", "radius"], cases, stored) == 0
    assert counts.read(stored) == {"search": {"boxes": 1234, "verdicts": "5f"}, "radius": {"rows": 3}}


def test_a_case_without_its_library_is_skipped_with_a_word(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [TWO[0], fixed("map", needs="no_such_library", boxes=8)]
    assert main([], cases, stored) == 0
    assert said(capsys, "map")[0].endswith("skipped: no_such_library is not installed")
    assert main(["--update"], cases, stored) == 0
    assert counts.read(stored)["map"] == {"boxes": 7}


def test_checksums_see_every_bit_and_the_shape_but_not_the_kind_of_array() -> None:
    X = np.array([[0.1, np.nan], [2.0, -3.0]])
    assert counts.checksum(X) == counts.checksum(np.asfortranarray(X))
    assert counts.checksum(np.array([True, False])) == counts.checksum(np.array([1, 0], dtype=np.int8))
    other = X.copy()
    other[0, 0] = math.nextafter(0.1, 1.0)
    assert len({counts.checksum(one) for one in (X, other, X.reshape(-1), X[::-1], [1, 2], [1.0, 2.0])}) == 6


# --- another commit ----------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit, in the place of ours."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set where tests run in a hook of git
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "repository"
    root.mkdir()
    root.joinpath("file").write_text("text")
    for line in ("init --quiet", "add file", "-c user.name=x -c user.email=x@x commit --quiet --no-gpg-sign -m one"):
        subprocess.run(["git", "-C", root, *line.split()], check=True)
    monkeypatch.setattr(against, "ROOT", root)
    return root


def worktrees(root: Path) -> int:
    listed = subprocess.run(["git", "-C", root, "worktree", "list"], check=True, capture_output=True, text=True)
    return len(listed.stdout.splitlines())


@pytest.mark.parametrize("revision", ["no-such-branch", "0123456", "HEAD:file", ""])
def test_an_unknown_commit_gives_one_clear_line(
    repository: Path, capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    assert main(["--against", revision]) == 2
    assert capsys.readouterr().err == f"git knows no commit {revision!r} here\n"


def test_without_git_there_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["--against", "HEAD"]) == 2
    assert capsys.readouterr().err == "git is not installed, and other commits cannot be had without it\n"


@pytest.mark.parametrize("end", ["nothing", "Ctrl-C", "SIGTERM", "an error"])
def test_the_worktree_of_another_commit_is_gone_afterwards(repository: Path, end: str, ctrl_c: None) -> None:
    seen = []

    def look_and_end() -> None:
        with against.checked_out(against.commit_of("HEAD")) as checkout:
            seen.append(checkout)
            assert checkout.joinpath("file").read_text() == "text" and worktrees(repository) == 2
            if end == "Ctrl-C":
                os.kill(os.getpid(), signal.SIGINT)
            elif end == "SIGTERM":
                os.kill(os.getpid(), signal.SIGTERM)
            elif end == "an error":
                raise ZeroDivisionError

    if end == "nothing":
        look_and_end()
    else:
        with pytest.raises({"Ctrl-C": KeyboardInterrupt, "SIGTERM": SystemExit}.get(end, ZeroDivisionError)):
            look_and_end()
    assert not seen[0].parent.exists() and worktrees(repository) == 1


def side(name: str, tmp_path: Path, boxes: int, times: list[float], failure: str = "") -> against.Side:
    one = against.Side(name, tmp_path, tmp_path)
    one.cold = [{"search": Measured({"boxes": boxes}, 20.0 * times[0] + k, math.nan, failure)} for k in (0, 5)]
    one.warm = [{"search": Measured({"boxes": boxes}, 1.0, best)} for best in times]
    return one


def test_ratios_are_of_the_best_rounds_and_above_1_where_it_got_slower(tmp_path: Path) -> None:
    there, here = side("old", tmp_path, 5, [0.5, 0.2, 0.4]), side("here", tmp_path, 5, [1.0, 0.3, 0.6])
    line = next(line for line, agree in against.lines(there, here) if line.startswith("search"))
    assert line.split() == ["search", "0.200", "0.300", "1.50", "10.0", "20.0", "2.00", "same"]


def test_counts_that_differ_between_commits_are_named(tmp_path: Path) -> None:
    there, here = side("old", tmp_path, 5, [0.5]), side("here", tmp_path, 6, [0.5])
    [line] = [line for line, agree in against.lines(there, here) if not agree]
    assert line.startswith("search") and line.endswith("boxes was 5, is 6")


def test_counts_that_change_from_run_to_run_are_named(tmp_path: Path) -> None:
    there, here = side("old", tmp_path, 5, [0.5]), side("here", tmp_path, 5, [0.5, 0.5])
    here.warm[1] = {"search": Measured({"boxes": 6}, 1.0, 0.5)}
    [line] = [line for line, agree in against.lines(there, here) if not agree]
    assert line.endswith("here, from run to run: boxes was 5, is 6")


def test_a_commit_that_cannot_run_a_case_says_why(tmp_path: Path) -> None:
    there, here = side("old", tmp_path, 5, [0.5], "AttributeError: no radii"), side("here", tmp_path, 5, [0.5])
    [line] = [line for line, agree in against.lines(there, here) if not agree]
    assert line.endswith("old: AttributeError: no radii")
