"""Signals end a command like Ctrl-C, and only while it runs; checkpoints that cannot be written do not end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.support.clock import press_ctrl_c, until
from treeproof.cli import main as main_module
from treeproof.cli.main import main
from treeproof.cli.stopping import SIGNALS, Checkpoints, LikeCtrlC, postponed
from treeproof.errors import InvalidInput
from treeproof.run.limits import Limits
from treeproof.run.watch import run_watched

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no such signals")


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_work_like_ctrl_c_and_is_the_exit_code(number: int, code: int) -> None:
    limits = Limits()

    def work(_: object) -> None:
        press_ctrl_c(number)
        until(lambda: limits.interrupted)

    with LikeCtrlC() as stop:
        assert run_watched(work, limits), "as after Ctrl-C, what is known is kept"
    assert stop.exit_code == code
    assert signal.getsignal(number) == signal.SIG_DFL, "restored"


def test_ctrl_c_itself_is_130_and_ignored_signals_stay_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with LikeCtrlC() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert stop.exit_code == 130
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_handlers_of_somebody_else_stay() -> None:
    def mine(*_: object) -> None: ...

    signal.signal(signal.SIGTERM, mine)
    with LikeCtrlC():
        assert signal.getsignal(signal.SIGTERM) is mine
    done = []
    thread = threading.Thread(target=lambda: done.append(LikeCtrlC().__enter__().exit_code))
    thread.start()
    thread.join()
    assert done == [130], "in a thread, there is nothing to set"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_without_anything_to_save_just_ends(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def command() -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(main_module, "program", command)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 128 + number and capsys.readouterr().err.split() == ["interrupted"]


def test_a_checkpoint_that_cannot_be_written_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = Checkpoints(tmp_path / "c")

    def full(_: Path) -> None:
        raise InvalidInput("no space")

    checkpoints.save(full)
    checkpoints.save(full)
    assert not checkpoints.written and capsys.readouterr().err == "treeproof: no checkpoint: no space\n"
    checkpoints.save(lambda file: file.write_text("known"))
    assert checkpoints.written and checkpoints.file.read_text() == "known"
    checkpoints.remove()
    assert not checkpoints.file.exists()


def test_a_signal_waits_until_a_file_is_written(ctrl_c: None) -> None:
    done = []

    def write() -> None:
        with postponed():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("written")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["written"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with postponed():
        pass
