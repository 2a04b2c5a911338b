"""The one clock: what looks at it, and when the time of a row stands still."""

from __future__ import annotations

from tests.support.clock import Clock
from treeproof._kernels import compiling
from treeproof.run.limits import Limits


def compile_for(clock: Clock, seconds: float) -> None:
    for watcher in compiling.watchers:
        watcher(1)
    clock.add(seconds)
    for watcher in compiling.watchers:
        watcher(-1)


def test_the_time_of_a_row_stands_still_while_kernels_are_compiled(clock: Clock) -> None:
    time = Limits.of(timeout=2).for_row()
    clock.add(1.5)
    compile_for(clock, 60.0)
    rest = time.rest()
    assert rest is not None and rest.timeout == 0.5
    clock.add(0.5)
    assert time.is_over()


def test_all_time_does_not(clock: Clock) -> None:
    limits = Limits.of(max_seconds=30)
    compile_for(clock, 60.0)
    assert limits.is_over() and limits.late


def test_kernels_within_kernels_and_in_several_threads_count_once(clock: Clock) -> None:
    time = Limits.of(timeout=2).for_row()
    for watcher in compiling.watchers:
        watcher(1)
    clock.add(5.0)
    compile_for(clock, 60.0)
    assert not time.is_over(), "the outer one goes on"
    clock.add(5.0)
    for watcher in compiling.watchers:
        watcher(-1)
    rest = time.rest()
    assert rest is not None and rest.timeout == 2.0
