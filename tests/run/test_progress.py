"""Progress: a bar or lines on stderr, and what is said while the search is compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import treeproof
from treeproof._kernels import cache
from treeproof.run import progress
from treeproof.run.progress import progress_bar


def test_elsewhere_than_in_a_terminal_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(True, 10) as advance:
        for _ in range(10):
            advance(1)
    assert capsys.readouterr().err.splitlines() == ["verifying 1 of 10", "verifying 10 of 10"]
    with progress_bar(False, 10) as advance:
        advance(10)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("terminal", [False, True])
def test_it_says_so_while_kernels_are_compiled(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
    with progress_bar(True, 10) as advance:
        for watcher in list(cache.watchers):
            watcher()
        if not terminal:
            advance(10)
    said = (
        "compiling the search, once: part 1" if terminal else "verifying waits: part 1 of the search is compiled, once"
    )
    assert said in capsys.readouterr().err
    assert cache.watchers == []


@pytest.mark.slow
def test_watchers_hear_of_every_kernel_that_is_not_in_the_cache(tmp_path: Path) -> None:
    (tmp_path / "tiny_kernels.py").write_text(
        "from treeproof._kernels.jit import entry, tiny\n"
        "@tiny\ndef twice(x):\n    return 2 * x\n"
        "@entry\ndef answer(x):\n    return twice(x) + 1\n"
    )
    code = (
        "from treeproof._kernels import cache; heard = []; cache.watchers.append(lambda: heard.append(1)); "
        "import tiny_kernels; tiny_kernels.answer(20); print(len(heard))"
    )
    path = f"{tmp_path}:{Path(treeproof.__file__).parent.parent}"
    for compiled in ("2\n", "0\n"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        assert done.stdout == compiled
