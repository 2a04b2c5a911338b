"""Models travel once and arrive once, and time ends everywhere at the same moment."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import uuid
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.clock import Clock, until
from treeproof.model.ensemble import Ensemble
from treeproof.run import transport
from treeproof.run.limits import Limits
from treeproof.run.transport import MAX_ARRIVED, Carried
from treeproof.run.workers import Crew, in_groups, run_tasks


def forest(seed: int = 0, n: int = 30) -> tp.Ensemble:
    X, y = load_digits(return_X_y=True)
    return tp.from_model(RandomForestClassifier(n, max_depth=8, random_state=seed).fit(X, y))


def test_the_numbers_from_0_on_in_groups() -> None:
    assert [group.tolist() for group in in_groups(5, 2)] == [[0, 1], [2, 3], [4]]
    assert [group.tolist() for group in in_groups(4, 2)] == [[0, 1], [2, 3]]
    assert in_groups(0, 3) == []


# --- models ------------------------------------------------------------------------------------------------------


def test_a_model_arrives_once_whole_and_without_its_source() -> None:
    ensemble = forest()
    first, second = (pickle.loads(pickle.dumps(Carried(ensemble))).content for _ in range(2))
    assert first is second and first.source is None and ensemble.source is not None
    assert first.compiled is second.compiled
    X = load_digits().data
    assert (first.predict(X) == ensemble.predict(X)).all() and repr(first) == repr(ensemble)
    other = pickle.loads(pickle.dumps(Carried(forest(seed=1)))).content
    assert (other.predict(X) != first.predict(X)).any()


def test_a_worker_keeps_only_the_last_models() -> None:
    first = pickle.loads(pickle.dumps(Carried(forest(n=1))))
    for seed in range(1, MAX_ARRIVED + 1):
        pickle.loads(pickle.dumps(Carried(forest(seed, n=1))))
    assert len(transport._arrived) == MAX_ARRIVED
    assert pickle.loads(pickle.dumps(first)) is not first


def test_a_model_says_how_large_it_is() -> None:
    ensemble = forest()
    packed = len(pickle.dumps(Carried(ensemble)))
    assert 0.9 * packed < Carried(ensemble).__sizeof__() < 1.1 * packed


def arrivals(ensemble: Ensemble, folder: str) -> int:
    """Leaves one file per process and one per arrival of the model there."""
    Path(folder, f"process {os.getpid()}").touch()
    Path(folder, f"model {os.getpid()} {id(ensemble)}").touch()
    return ensemble.n_trees


def count_arrivals(folder: Path, n_jobs: int | None) -> tuple[int, int]:
    answers: list[int] = []
    assert not run_tasks(arrivals, forest(), [str(folder)] * 12, Limits(), n_jobs, lambda _, one: answers.append(one))
    assert answers == [30] * 12
    names = [path.name for path in folder.iterdir()]
    assert f"process {os.getpid()}" not in names
    return sum(name.startswith("process") for name in names), sum(name.startswith("model") for name in names)


@pytest.mark.slow
def test_processes_unpack_a_model_once(tmp_path: Path) -> None:
    with joblib.parallel_config(backend="loky", n_jobs=2):
        processes, models = count_arrivals(tmp_path, None)
    assert processes == models >= 1


@pytest.mark.slow
def test_dask_sends_a_model_once_and_not_with_every_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    packed: list[int] = []
    reduce = Carried.__reduce__

    def counted(self: Carried) -> Any:
        packed.append(1)
        return reduce(self)

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        monkeypatch.setattr(Carried, "__reduce__", counted)
        processes, models = count_arrivals(tmp_path, 2)
    assert processes == models >= 1
    assert 1 <= len(packed) <= 2, "pickled here for the workers, not for each of 12 tasks"


# --- time --------------------------------------------------------------------------------------------------------


@pytest.fixture
def both_clocks(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The machine's time of day goes by with the other clock."""
    monkeypatch.setattr("treeproof.run.clock.time_of_day", lambda: clock.seconds + 1e9)
    return clock


def test_a_deadline_is_the_same_moment_after_a_wait_in_a_queue(both_clocks: Clock) -> None:
    limits = Limits(1.5, both_clocks.seconds + 4)
    queued = pickle.dumps(limits)
    both_clocks.add(2)
    arrived = pickle.loads(queued)
    assert arrived.timeout == 1.5 and not arrived.is_over()
    assert arrived.deadline == limits.deadline
    both_clocks.add(2.5)
    assert limits.is_over() and arrived.is_over() and pickle.loads(queued).is_over()


def test_a_clock_that_is_behind_gives_no_extra_time(both_clocks: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    queued = pickle.dumps(Limits(None, both_clocks.seconds + 10))
    monkeypatch.setattr("treeproof.run.clock.time_of_day", lambda: 1e9 - 3600)
    assert pickle.loads(queued).deadline == both_clocks.seconds + 10


def test_no_deadline_stays_none_and_cancelling_stays_here() -> None:
    limits = Limits(2.0)
    limits.interrupt()
    arrived = pickle.loads(pickle.dumps(limits))
    assert (arrived.timeout, arrived.deadline) == (2.0, None) and not arrived.is_over()


# --- answers -----------------------------------------------------------------------------------------------------


def test_answers_come_as_they_arrive_with_the_numbers_of_their_tasks() -> None:
    free = threading.Event()

    def slow_first(ensemble: Ensemble, task: str) -> str:
        if task == "a":
            free.wait()
        return task * 2

    answers: list[tuple[int, str]] = []

    def take(number: int, answer: str) -> None:
        answers.append((number, answer))
        if len(answers) == 7:
            free.set()

    assert not run_tasks(slow_first, forest(n=1), list("abcdefgh"), Limits(), 4, take)
    assert answers[-1] == (0, "aa") and sorted(answers) == [(i, 2 * task) for i, task in enumerate("abcdefgh")]


def test_an_answer_that_cannot_be_taken_is_an_error() -> None:
    def refuse(_: int, __: Any) -> None:
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        run_tasks(lambda ensemble, task: task, forest(n=1), [1], Limits(), 1, refuse)


def test_threads_share_the_model_with_its_source() -> None:
    ensemble = forest(n=1)
    answers: list[Any] = []
    run_tasks(lambda got, task: got, ensemble, [1, 2], Limits(), 2, lambda _, one: answers.append(one))
    assert all(got is ensemble for got in answers)
    assert np.shape(answers) == (2,)


# --- workers that are killed ---------------------------------------------------------------------------------------


def die_once(folder: str, task: int) -> int:
    """Tasks 20 and 25 end their process when they are asked for the first time, and most answers have been taken."""
    mark = Path(folder, f"died at {task}")
    Path(folder, f"asked {task} {uuid.uuid4()}").touch()
    if task in (20, 25) and not mark.exists():
        until(lambda: len(list(Path(folder).glob("taken *"))) >= task - 8, "that answers are taken")
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task * task


def die(_: str, task: int) -> int:
    if task == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
@pytest.mark.parametrize("kept", [False, True], ids=["workers for one call", "workers that are kept"])
def test_a_killed_worker_loses_only_the_tasks_under_way(tmp_path: Path, kept: bool) -> None:
    answers: dict[int, int] = {}

    def take(number: int, answer: int) -> None:
        assert number not in answers
        answers[number] = answer
        Path(tmp_path, f"taken {number}").touch()

    with joblib.parallel_config(backend="loky", n_jobs=2):
        if kept:
            with Crew(str(tmp_path), None) as crew:
                for one in crew.answers(die_once, range(30), Limits()):
                    take(*one)
        else:
            assert not run_tasks(die_once, str(tmp_path), range(30), Limits(), None, take)
    assert answers == {i: i * i for i in range(30)}
    asked = sum(path.name.startswith("asked") for path in tmp_path.iterdir())
    # What is under way or on its way back at a death is asked for again. Beginning anew would ask 21 + 26 + 30 times.
    assert 32 <= asked <= 30 + 2 * 12


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_a_task_that_kills_every_worker_is_given_up_with_a_reason() -> None:
    answers: dict[int, int] = {}
    with joblib.parallel_config(backend="loky", n_jobs=2), pytest.raises(RuntimeError, match="killed 4 times.*n_jobs"):
        run_tasks(die, "", range(8), Limits(), None, answers.__setitem__)
    # Which others are answered before the last death is up to the system.
    assert 5 not in answers and all(answers[task] == task for task in answers)
