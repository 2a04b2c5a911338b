"""One way to wait for work: time, Ctrl-C, failures, and results that come too late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError

import pytest

from tests.support.clock import Clock, press_ctrl_c, until
from treeproof.errors import SoundnessError
from treeproof.run.limits import INTERRUPTED, LATE, Limits
from treeproof.run.watch import Door, kept_after_ctrl_c, run_watched, watched


def until_told(limits: Limits) -> str:
    """As compiled code does it: works until the token says otherwise."""
    until(lambda: limits.stop[0] != 0)
    return "stopped early"


def after_ctrl_c(limits: Limits) -> str:
    press_ctrl_c()
    return until_told(limits)


def test_time_reaches_the_token_that_work_looks_at(clock: Clock) -> None:
    limits = Limits.of(max_seconds=0.1)
    clock.per_look = 0.04  # the third look is the first too late
    assert watched(lambda: until_told(limits), limits) == "stopped early"
    assert clock.looks >= 3
    assert limits.stop[0] == LATE and limits.late and not limits.interrupted


def test_no_time_at_all_is_known_before_the_work_begins() -> None:
    limits = Limits.of(max_seconds=0)
    assert watched(lambda: int(limits.stop[0]), limits) == LATE


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_the_work_and_is_raised_then() -> None:
    limits, ended = Limits(), threading.Event()
    with pytest.raises(KeyboardInterrupt):
        watched(lambda: (after_ctrl_c(limits), ended.set()), limits)
    assert limits.stop[0] == INTERRUPTED and limits.interrupted and not limits.late
    assert ended.is_set(), "the work was waited for"


@pytest.mark.usefixtures("ctrl_c")
def test_what_is_known_after_ctrl_c_is_kept() -> None:
    limits = Limits()
    assert kept_after_ctrl_c(lambda: after_ctrl_c(limits), limits) == "stopped early"
    assert limits.interrupted


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_does_not_wait() -> None:
    limits, free = Limits(), threading.Event()

    def work() -> None:
        after_ctrl_c(limits)
        press_ctrl_c()
        free.wait()

    with pytest.raises(KeyboardInterrupt):
        kept_after_ctrl_c(work, limits)
    assert not free.is_set()
    free.set()


@pytest.mark.usefixtures("ctrl_c")
def test_what_comes_after_the_wait_finds_the_door_closed(clock: Clock) -> None:
    limits, free, taken = Limits(), threading.Event(), []
    let_in: list[bool] = []

    def work(door: Door) -> None:
        after_ctrl_c(limits)
        clock.per_look = 0.1
        free.wait()
        let_in.append(door.let_in(lambda: taken.append("late")))

    assert run_watched(work, limits, grace=0.2)
    free.set()
    until(lambda: let_in)
    assert let_in == [False] and not taken


def test_failures_come_out_as_they_are() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="^no$"):
        watched(fail, Limits())


def test_somebody_may_look_along() -> None:
    limits, looks = Limits(), []

    def look() -> None:
        looks.append(len(looks))
        if len(looks) == 3:
            limits.stop[0] = LATE

    assert watched(lambda: until_told(limits), limits, look) == "stopped early"
    assert len(looks) >= 3


def test_a_failure_of_who_looks_along_ends_the_work_and_nothing_is_taken_after_it() -> None:
    limits, ended, taken = Limits(), threading.Event(), []

    def work(door: Door) -> None:
        until_told(limits)
        door.let_in(lambda: taken.append("late"))
        ended.set()

    def look(door: Door) -> None:
        assert door.let_in(lambda: taken.append("in time"))
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="^the disk is full$"):
        run_watched(work, limits, look)
    assert ended.is_set() and taken == ["in time"]


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("failure", [SoundnessError("no such attack"), ValueError("no")], ids=["soundness", "bug"])
@pytest.mark.parametrize("run", [watched, kept_after_ctrl_c])
def test_what_fails_after_ctrl_c_is_told(failure: Exception, run: Callable[..., object]) -> None:
    limits = Limits()

    def work() -> None:
        after_ctrl_c(limits)
        raise failure

    with pytest.raises(type(failure), match=str(failure)):
        run(work, limits)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    "gone", [KeyboardInterrupt(), BrokenExecutor(), CancelledError()], ids=lambda e: type(e).__name__
)
def test_workers_that_ctrl_c_has_ended_are_no_failure(gone: BaseException) -> None:
    limits = Limits()

    def work(_: Door) -> None:
        after_ctrl_c(limits)
        raise gone

    assert run_watched(work, limits)


def test_a_failure_tells_all_others_to_stop() -> None:
    limits = Limits()

    def fail() -> None:
        raise SoundnessError("no such attack")

    with pytest.raises(SoundnessError):
        watched(fail, limits)
    assert limits.is_over()
