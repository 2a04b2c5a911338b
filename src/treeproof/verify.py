"""Test sets: which predictions are robust and resilient, exactly, on one core or a cluster."""

from __future__ import annotations

import dataclasses
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof import check
from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput, SoundnessError
from treeproof.importers import as_ensemble
from treeproof.intervals import FloatArray
from treeproof.local import Limits, Local
from treeproof.per_feature import as_number
from treeproof.threat import Attacker, bind_epsilon
from treeproof.verdicts import Outcome, Verification, Witness, plain_epsilon

GRACE = 2.0
"""Seconds to wait after Ctrl-C for workers that cannot be told to stop, those of other processes."""


def _chunk(n: int) -> int:
    """Rows per task: enough to keep overhead small, few enough for a smooth bar and a quick stop."""
    return int(np.clip(n // 32, 16, 256))


@dataclass(frozen=True, eq=False)
class _Task:
    """A few rows to verify; travels to other processes, so it carries no source model."""

    ensemble: Ensemble
    attacker: Attacker
    rows: npt.NDArray[np.int64]
    X: FloatArray
    y: npt.NDArray[np.int64]
    epsilons: tuple[FloatArray, ...]
    limits: Limits


@dataclass(frozen=True, eq=False)
class _Answer:
    """The outcomes of a task's rows; resilience has one line per neighbourhood, a witness where `level` is >= -1.

    `level` says what the witness refutes: -1 stability, k >= 0 resilience in the k-th neighbourhood, -2 nothing.
    """

    rows: npt.NDArray[np.int64]
    stability: npt.NDArray[np.int8]
    resilience: npt.NDArray[np.int8]
    level: npt.NDArray[np.int64]
    neighbour: FloatArray
    attacked: FloatArray
    boxes: int


def verify(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    epsilon: Any = None,
    epsilons: Sequence[Any] | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    n_jobs: int | None = 1,
    progress: bool = False,
    voting: Any = None,
) -> Verification:
    """Decide stability, robustness and resilience of every row of a test set.

    `epsilon` is the neighbourhood of resilience (one number, one per feature, or by feature; None: no resilience), or
    `epsilons` several of them. A row that is not decided within `timeout` seconds (for each neighbourhood), or after
    `max_seconds` in all, is UNKNOWN; so is what is left after Ctrl-C. `n_jobs` goes to joblib: threads by default, or
    whatever `joblib.parallel_config` says, a Dask cluster for one. Every counterexample has been replayed on the
    model, and its moves re-checked with rational numbers.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X, y)
    >>> result = verify(clf, X, y, tp.Attacker.linf(0.1), epsilon=0.05)
    >>> result.accuracy >= result.robustness.lower >= result.resilience.lower
    True
    """
    began = time.monotonic()
    ensemble = as_ensemble(model, voting=voting)
    if not isinstance(attacker, Attacker):
        raise InvalidInput(f"attacker must be a treeproof.Attacker, got {type(attacker).__name__}")
    rows = ensemble.check_rows(X).copy()  # the result outlives the caller's array
    labels = ensemble.class_index(y)
    if len(labels) != len(rows):
        raise InvalidInput(f"X has {len(rows)} rows and y has {len(labels)} labels; one per row each")
    threat = attacker.bind(ensemble)
    threat.check_domain(rows, ensemble)
    given = _neighbourhoods(epsilon, epsilons)
    bound = tuple(bind_epsilon(one, ensemble) for one in given)
    _check_jobs(n_jobs)
    limits = Limits(_seconds(timeout, "timeout"), None)
    if max_seconds is not None:
        limits.deadline = began + (_seconds(max_seconds, "max_seconds") or 0.0)
    light = dataclasses.replace(ensemble, source=None)
    tasks = [
        _Task(light, attacker, part, rows[part], labels[part], bound, limits)
        for part in np.split(np.arange(len(rows)), np.arange(_chunk(len(rows)), len(rows), _chunk(len(rows))))
        if len(part)
    ]
    table = _Table.empty(ensemble, rows, labels, len(bound))
    with _bar(progress, len(rows)) as advance:
        interrupted = _collect(tasks, table, limits, n_jobs, advance)
    table.check_witnesses(ensemble, attacker, bound)
    return table.result(ensemble, attacker, given, time.monotonic() - began, interrupted)


def _neighbourhoods(epsilon: Any, epsilons: Any) -> tuple[Any, ...]:
    if epsilon is not None and epsilons is not None:
        raise InvalidInput("give epsilon or epsilons, not both")
    if epsilons is None:
        return () if epsilon is None else (plain_epsilon(epsilon),)
    given = epsilons.tolist() if isinstance(epsilons, np.ndarray) else epsilons
    if not isinstance(given, (list, tuple)) or not given:
        raise InvalidInput(f"epsilons must be a list of neighbourhoods, got {epsilons!r}")
    return tuple(plain_epsilon(one) for one in given)


def _check_jobs(n_jobs: Any) -> None:
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise InvalidInput(f"n_jobs must be a number of workers, -1 for all, or None, got {n_jobs!r}")


def _seconds(value: Any, name: str) -> float | None:
    if value is None:
        return None
    seconds = as_number(value, name)
    if seconds < 0:
        raise InvalidInput(f"{name} must be at least 0, got {value!r}")
    return seconds


def _answer(task: _Task) -> _Answer:
    """Verifies the rows of one task; runs wherever joblib put it."""
    local = Local(task.ensemble, task.attacker.bind(task.ensemble), task.limits)
    n = len(task.rows)
    stability = np.full(n, Outcome.UNKNOWN, dtype=np.int8)
    resilience = np.full((len(task.epsilons), n), Outcome.UNKNOWN, dtype=np.int8)
    level = np.full(n, -2, dtype=np.int64)
    neighbour, attacked = task.X.copy(), task.X.copy()
    correct = task.ensemble.predict_index(task.X) == task.y
    resilience[:, ~correct] = Outcome.REFUTED
    if task.limits.is_over() or task.limits.timeout == 0:
        return _Answer(task.rows, stability, resilience, level, neighbour, attacked, 0)
    decided = local.decide(task.X, np.zeros(task.ensemble.n_features))
    stability[:] = decided.outcome
    refuted = stability == Outcome.REFUTED
    attacked[refuted], level[refuted] = decided.attacked[refuted], -1
    # Not robust is not resilient, in any neighbourhood.
    resilience[:, refuted] = Outcome.REFUTED
    order = sorted(range(len(task.epsilons)), key=lambda k: float(task.epsilons[k].sum()), reverse=True)
    for k in order:
        if local.limits.is_over():
            break
        # An unstable row is settled; one whose stability is open cannot be resilient for sure, but can be refuted.
        open_rows = np.flatnonzero(resilience[k] == Outcome.UNKNOWN)
        decided = local.decide(task.X[open_rows], task.epsilons[k])
        resilience[k, open_rows] = decided.outcome
        found = open_rows[decided.outcome == Outcome.REFUTED]
        neighbour[found] = decided.neighbour[decided.outcome == Outcome.REFUTED]
        attacked[found] = decided.attacked[decided.outcome == Outcome.REFUTED]
        level[found] = k
        proved = open_rows[decided.outcome == Outcome.PROVED]
        stability[proved] = Outcome.PROVED
        for j in range(len(task.epsilons)):
            if (task.epsilons[j] <= task.epsilons[k]).all():
                resilience[j, proved] = Outcome.PROVED
            if (task.epsilons[j] >= task.epsilons[k]).all():
                resilience[j, found] = Outcome.REFUTED
    return _Answer(task.rows, stability, resilience, level, neighbour, attacked, local.boxes)


def _collect(tasks: list[_Task], table: _Table, limits: Limits, n_jobs: int | None, advance: Any) -> bool:
    """Runs the tasks and keeps what comes back; returns whether Ctrl-C ended it early.

    joblib throws away the tasks under way when it is interrupted, so a thread of ours waits for its answers: after
    Ctrl-C these tasks stop early and still deliver the rows they decided.
    """
    from joblib import Parallel, delayed

    # Made here, because `joblib.parallel_config` holds for the thread that it was called in.
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator", batch_size=1)
    failure: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            left = (delayed(_answer)(task) for task in tasks if not limits.cancelled.is_set())
            for answer in parallel(left):
                if table.take(answer):
                    advance(len(answer.rows))
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    interrupted = _wait(done, limits)
    table.close()
    # Worker processes get a Ctrl-C of their own, and die of it or hand it on.
    if failure and not interrupted and not isinstance(failure[0], KeyboardInterrupt):
        raise failure[0]
    return interrupted or bool(failure)


def _wait(done: threading.Event, limits: Limits) -> bool:
    """Waits for the work to end; returns whether Ctrl-C came before that. A second one is not waited for.

    An event, because an interrupted `Thread.join` takes a running thread for ended (seen on Python 3.11).
    """
    since: float | None = None
    while True:
        try:
            while not done.wait(0.1) and (since is None or time.monotonic() < since + GRACE):
                pass
            return since is not None
        except KeyboardInterrupt:  # noqa: PERF203 (one turn per Ctrl-C)
            limits.cancelled.set()
            if since is not None:
                return True
            since = time.monotonic()


@dataclass(eq=False)
class _Table:
    """The answers put together, row by row."""

    X: FloatArray
    y: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.int64]
    stability: npt.NDArray[np.int8]
    resilience: npt.NDArray[np.int8]
    level: npt.NDArray[np.int64]
    neighbour: FloatArray
    attacked: FloatArray
    boxes: int = 0
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def empty(cls, ensemble: Ensemble, X: FloatArray, y: npt.NDArray[np.int64], n_epsilons: int) -> _Table:
        n = len(X)
        predicted = ensemble.predict_index(X)
        resilience = np.full((n_epsilons, n), Outcome.UNKNOWN, dtype=np.int8)
        resilience[:, predicted != y] = Outcome.REFUTED
        return cls(
            X,
            y,
            predicted,
            np.full(n, Outcome.UNKNOWN, dtype=np.int8),
            resilience,
            np.full(n, -2, dtype=np.int64),
            X.copy(),
            X.copy(),
        )

    def take(self, answer: _Answer) -> bool:
        """Keeps the answer to one task, unless it comes too late."""
        with self.lock:
            if self.closed:
                return False
            self.stability[answer.rows] = answer.stability
            self.resilience[:, answer.rows] = answer.resilience
            self.level[answer.rows] = answer.level
            self.neighbour[answer.rows] = answer.neighbour
            self.attacked[answer.rows] = answer.attacked
            self.boxes += answer.boxes
            return True

    def close(self) -> None:
        """From here on nothing changes any more."""
        with self.lock:
            self.closed = True

    def check_witnesses(self, ensemble: Ensemble, attacker: Attacker, epsilons: tuple[FloatArray, ...]) -> None:
        """Replays every counterexample on the source model; one that does not flip it is a bug of ours."""
        rows = np.flatnonzero(self.level > -2)
        if not len(rows):
            return
        before, after = labels_of(ensemble, self.neighbour[rows]), labels_of(ensemble, self.attacked[rows])
        failed = rows[before == after]
        if len(failed):
            row = int(failed[0])
            raise SoundnessError(
                f"row {row}: the search found a counterexample that does not change the label: "
                f"{self.neighbour[row]!r} to {self.attacked[row]!r}; please report this"
            )
        for row in rows.tolist():
            witness = Witness(self.X[row], self.neighbour[row], self.attacked[row], None, None)
            epsilon = None if self.level[row] < 0 else epsilons[self.level[row]]
            if not check.is_within_reach(ensemble, attacker, epsilon, witness):
                raise SoundnessError(
                    f"row {row}: the search found a counterexample that the attacker cannot reach: "
                    f"{self.neighbour[row]!r} to {self.attacked[row]!r}; please report this"
                )

    def result(
        self,
        ensemble: Ensemble,
        attacker: Attacker,
        epsilons: tuple[Any, ...],
        seconds: float,
        interrupted: bool,
    ) -> Verification:
        has_witness = self.level > -2
        classes = ensemble.classes
        return Verification(
            X=self.X,
            y=classes[self.y],
            predicted=classes[self.predicted],
            stability=self.stability,
            resilience_by_epsilon=tuple(self.resilience),
            epsilons=epsilons,
            has_witness=has_witness,
            neighbour=self.neighbour,
            attacked=self.attacked,
            neighbour_label=classes[ensemble.predict_index(self.neighbour)],
            attacked_label=classes[ensemble.predict_index(self.attacked)],
            seconds=seconds,
            interrupted=interrupted,
            feature_names=ensemble.feature_names,
            model=ensemble.origin,
            attacker=repr(attacker),
            boxes=self.boxes,
        )


def labels_of(ensemble: Ensemble, X: FloatArray) -> npt.NDArray[Any]:
    """What the source model predicts, or the ensemble itself where there is no source at hand."""
    if ensemble.source is None:
        return ensemble.predict(X)
    with warnings.catch_warnings():
        # Models that were trained on a data frame say so when they are given an array.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(ensemble.source.predict(X)).reshape(-1)


@contextmanager
def _bar(wanted: bool, total: int, doing: str = "verifying") -> Iterator[Any]:
    if not wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("rows", total=total)
        yield lambda n: bar.advance(task, n)
