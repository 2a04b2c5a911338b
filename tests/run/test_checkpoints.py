"""Checkpoints: every now and then, only if there is news, never half a state, and not where writing takes all time."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.clock import Clock, until
from tests.support.small_maps import ATTACKERS, small_forest
from treeproof.maps import partition
from treeproof.run import checkpoints
from treeproof.run.checkpoints import EVERY, SHARE, Checkpoint
from treeproof.run.limits import Limits
from treeproof.run.watch import Door
from treeproof.run.workers import run_tasks
from treeproof.verification import verify as verify_module
from treeproof.verification.local_search import Local


def test_only_news_are_saved_and_only_when_it_is_time(clock: Clock) -> None:
    saved: list[int] = []
    limits, door, state = Limits(), Door(), [0]
    checkpoint = Checkpoint(lambda: state[0], saved.append)
    clock.add(2 * EVERY)
    checkpoint.look(limits, door)
    assert saved == [], "nothing is known yet"
    state[0] = 1
    checkpoint.note()
    checkpoint.look(limits, door)
    clock.add(0.9 * EVERY)
    checkpoint.note()
    checkpoint.look(limits, door)
    assert saved == [1], "the second one comes too early"
    clock.add(0.2 * EVERY)
    checkpoint.look(limits, door)
    assert saved == [1, 1]
    clock.add(2 * EVERY)
    checkpoint.look(limits, door)
    assert saved == [1, 1], "there was nothing new"


def test_slow_writing_widens_the_interval(clock: Clock) -> None:
    began: list[float] = []

    def slowly(_: object) -> None:
        began.append(clock.seconds)
        clock.add(EVERY)

    checkpoint, limits, door = Checkpoint(lambda: None, slowly), Limits(), Door()
    for _ in range(30):
        checkpoint.note()
        checkpoint.look(limits, door)
        clock.add(EVERY / 2)
    assert len(began) == 2 and EVERY / SHARE < began[1] - began[0] < 2 * EVERY / SHARE, "a tenth of all time"


def test_what_ends_anyway_is_not_saved_twice(clock: Clock) -> None:
    saved: list[None] = []
    limits, door = Limits(), Door()
    checkpoint = Checkpoint(lambda: None, saved.append)
    clock.add(2 * EVERY)
    checkpoint.note()
    limits.interrupt()
    checkpoint.look(limits, door)
    door.close()
    checkpoint.look(Limits(), door)
    assert saved == []


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is new is saved at the next look."""
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)


@pytest.mark.usefixtures("at_once")
def test_checkpoints_come_while_a_task_takes_its_time() -> None:
    free, answers, saved = threading.Event(), [], []

    def work(_: str, task: int) -> int:
        if task == 3:
            free.wait()
        return task

    def save(known: list[int]) -> None:
        saved.append(known)
        if len(known) == 3:
            free.set()

    checkpoint = Checkpoint(lambda: list(answers), save)
    run_tasks(work, "", iter(range(4)), Limits(), 2, lambda _, answer: answers.append(answer), checkpoint)
    assert len(answers) == 4 and free.is_set(), "three answers were saved while the fourth was not there"


def same(one: tp.Verification, two: tp.Verification) -> bool:
    names = ("stability", "resilience", "refuted", "epsilon_index", "neighbour", "attacked")
    return all(np.array_equal(getattr(one.rows, name), getattr(two.rows, name), equal_nan=True) for name in names)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_verify_goes_on_from_a_checkpoint_and_ends_the_same(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clf, X, y = small_forest(9, 4)
    question = (clf, X, y, ATTACKERS[1])
    whole = tp.verify(*question, epsilons=[0.01, 0.02])
    decide, calls, saved = Local.decide, itertools.count(), list[str]()

    def wait_for_a_checkpoint(*asked: Any) -> Any:
        if next(calls) == 5:
            until(lambda: saved, "a checkpoint")
        return decide(*asked)

    monkeypatch.setattr(Local, "decide", wait_for_a_checkpoint)
    found = tp.verify(
        *question, epsilons=[0.01, 0.02], n_jobs=n_jobs, checkpoint=lambda now: saved.append(now.to_json())
    )
    assert same(found, whole) and not found.interrupted and saved
    part = tp.Verification.from_json(saved[0])
    known = part.stability != tp.Outcome.UNKNOWN
    assert part.interrupted and 0 < known.sum() < len(X)
    assert (part.stability[known] == whole.stability[known]).all()
    assert same(tp.verify(*question, epsilons=[0.01, 0.02], resume=part), whole)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_map_goes_on_from_a_checkpoint_and_ends_the_same(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clf, X, _ = small_forest(9, 4)
    whole = tp.StabilityMap.build(clf, ATTACKERS[0])
    monkeypatch.setattr(partition, "FIRST_TASK_BOXES", 400)
    monkeypatch.setattr(partition, "SMALL_TASK_BOXES", 400)
    monkeypatch.setattr(partition, "TASK_BOXES", 400)
    real, calls, saved = partition.cut_up, itertools.count(), list[tp.StabilityMap]()

    def wait_for_a_checkpoint(*asked: Any) -> Any:
        if next(calls) == 3:
            until(lambda: saved, "a checkpoint")
        return real(*asked)

    monkeypatch.setattr(partition, "cut_up", wait_for_a_checkpoint)
    found = tp.StabilityMap.build(clf, ATTACKERS[0], n_jobs=n_jobs, checkpoint=saved.append)
    assert found.complete and not found.interrupted and (found.nodes == whole.nodes).all() and saved
    assert saved[0].interrupted and not saved[0].complete and 1 < saved[0].n_boxes < whole.n_boxes
    rest = tp.StabilityMap.build(clf, ATTACKERS[0], resume=saved[0])
    assert rest.complete and (rest.status(X) == whole.status(X)).all()
    assert (rest.nodes == whole.nodes).all()


def test_a_task_of_a_map_ends_after_its_share_of_work_and_cuts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    clf, _, _ = small_forest(9, 4)
    whole = tp.StabilityMap.build(clf, ATTACKERS[0])
    monkeypatch.setattr(partition, "TASK_TREES", 0)
    monkeypatch.setattr(partition, "SMALL_TASK_BOXES", 20)
    pieces = []
    take = partition.Partition.take
    monkeypatch.setattr(partition.Partition, "take", lambda self, *a: (pieces.append(a), take(self, *a))[1])
    assert (tp.StabilityMap.build(clf, ATTACKERS[0]).nodes == whole.nodes).all()
    assert len(pieces) > 3


def test_a_map_is_the_same_however_fast_the_machine_is(clock: Clock) -> None:
    clf, X, _ = small_forest(9, 4)
    maps = []
    for clock.per_look in (0.0, 1000.0):
        for given in ({}, {"max_boxes": 40}, {"order": X}):
            maps.append(tp.StabilityMap.build(clf, ATTACKERS[0], **given))  # noqa: PERF401
    for fast, slow in zip(maps[:3], maps[3:], strict=True):
        assert (fast.nodes == slow.nodes).all()


def test_rows_that_take_long_come_one_by_one(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    clf, X, y = small_forest(9, 4)
    monkeypatch.setattr(verify_module, "TASK_SECONDS", 0.02)
    sizes: list[int] = []
    decide = Local.decide

    def slow_after_100(self: Local, rows: np.ndarray, *asked: np.ndarray) -> object:
        clock.add(0.01 * len(rows) if sum(sizes) > 100 else 0.0)
        sizes.append(len(rows))
        return decide(self, rows, *asked)

    monkeypatch.setattr(Local, "decide", slow_after_100)
    tp.verify(clf, X[:140], y[:140], ATTACKERS[1])
    assert sum(sizes) == 140 and sizes[0] == 1 and max(sizes) == 16 and max(sizes[-5:]) <= 2
