"""Killed work: outputs are old or whole, little is lost, and resuming leads to the same result; see `make kill`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forks")
@pytest.mark.parametrize("command", ["verify", "map", "reproduce", "stream"])
def test_a_killed_command_leaves_something_to_go_on_from(command: str) -> None:
    # In a process of its own: forks of one that has threads are not safe.
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill", "--moments", "1", "--only", command],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 runs, 0 failures" in done.stdout
