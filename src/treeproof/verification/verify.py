"""Which predictions on a test set are robust and resilient, exactly, on one core or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, counted
from treeproof.model.ensemble import Ensemble
from treeproof.results.proof_file import NoProofFile, ProofFile, Proofs, header_of
from treeproof.results.row_table import RowTable
from treeproof.results.verification import Verification
from treeproof.run import clock
from treeproof.run.checkpoints import Checkpoint
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.progress import progress_bar
from treeproof.run.workers import in_groups, run_tasks
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import plain_epsilon
from treeproof.threat.one_hot import ValidAround
from treeproof.threat.reached import InVain
from treeproof.verification.proofs import LEFT_ALONE, RowProofs, check_limit
from treeproof.verification.request import Request
from treeproof.verification.rows import Rows, decide_rows, replay_witnesses

TASK_SECONDS = 0.5
"""About how long a task should take: until it ends, nobody else knows what it has decided."""

MOST_ROWS = 256
"""Rows per task, at most."""


def _chunk(n: int) -> int:
    """Rows per task, at most: enough to keep overhead small, few enough for a smooth bar and a quick stop."""
    return int(np.clip(n // 32, 16, MOST_ROWS))


class _Pace:
    """How many rows the next task gets: one at first, then as many as can be decided in its time."""

    def __init__(self, most: int) -> None:
        self.most, self.rows = most, 1

    def groups(self, rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """The rows in groups, each as large as is right when it is asked for."""
        at = 0
        while at < len(rows):
            size = self.rows
            yield rows[at : at + size]
            at += size

    def learn(self, n: int, seconds: float) -> None:
        """Notes how long a task of n rows took."""
        self.rows = int(np.clip(TASK_SECONDS * n / max(seconds, 1e-9), 1, min(16 * n, self.most)))


class _Answer(NamedTuple):
    """The numbers of a task's rows, what is now known about them, how long that took, and what proves it."""

    rows: npt.NDArray[np.int64]
    table: RowTable
    seconds: float
    proofs: Proofs


def verify(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    epsilon: Any = None,
    epsilons: Sequence[Any] | None = None,
    actors: Any = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    voting: Any = None,
    relations: Any = None,
    resume: Verification | None = None,
    checkpoint: Callable[[Verification], object] | None = None,
    proofs: Any = None,
    proof_limit: int | None = None,
) -> Verification:
    """Decides stability, robustness and resilience of every row of a test set.

    `epsilon` is the neighbourhood of resilience (one number, one per feature, or by feature; None: no resilience);
    `epsilons` is a list of several. By feature, a category has `tp.values(…)`, which neighbours may have for each
    other, or `tp.ANY`; they share all other categories. With `actors`, one or more classes, only rows whose true label
    is one of them are attacked; the others count by accuracy alone: robust and resilient wherever the model is right.
    `relations` say which rows are valid, and neighbours and attacked rows are; a row that breaks them itself is listed
    in the result's `invalid_rows`, and may stay as it is or become a valid row. A row that is not decided within
    `timeout` seconds (for each neighbourhood), or after `max_seconds` in all, is UNKNOWN; so is whatever is left after
    Ctrl-C. `n_jobs` goes to joblib: threads by default, or whatever `joblib.parallel_config` says, such as a Dask
    cluster. Every counterexample has been replayed on the model, and its moves re-checked with rational numbers.
    `resume` is an earlier result of the same question that was stopped: what it decided is taken over, and only the
    rest is searched. `checkpoint` is called with what is decided so far, a result to resume from, about every 10
    seconds if there is anything new. `proofs` is a file for what proves rows, for others to check; a proof of more than
    `proof_limit` bytes (16 MiB) is left out, and the file says so. It is there when all rows had their time; until
    then, and after Ctrl-C, its name has `.part` at the end, and `resume` goes on with it. One parameter per choice that
    users have.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X, y)
    >>> result = verify(clf, X, y, tp.Attacker.linf(0.1), epsilon=0.05)
    >>> result.accuracy >= result.robustness.lower >= result.resilience.lower
    True
    """
    began = clock.now()
    asked = Request.of(model, X, y, attacker, voting, relations, actors)
    given = neighbourhoods(epsilon, epsilons)
    asked, bound = asked.with_neighbours(given)
    check_jobs(n_jobs)
    limits, most = Limits.of(timeout=timeout, max_seconds=max_seconds), check_limit(proofs, proof_limit)
    predicted = asked.ensemble.predict_index(asked.X)
    table = _begun(asked, predicted, len(bound))
    if resume is not None:
        _check_same_question(resume, asked, given)
        table.take(np.arange(len(table)), resume.rows)
    file = _proof_file(proofs, asked, given, table, resume is not None)
    spent = 0.0 if resume is None else resume.seconds
    in_vain = asked.moved_in_vain(limits, bound)

    def known(table: RowTable, interrupted: bool) -> Verification:
        found = _result(asked, predicted, given, table, in_vain, clock.now() - began + spent, interrupted)
        return found if resume is None else replace(found, treeproof=resume.treeproof)

    saving = (
        None if checkpoint is None else Checkpoint(partial(_copy_of, table), lambda now: checkpoint(known(now, True)))
    )
    left = np.flatnonzero(table.is_open)
    pace = _Pace(_chunk(len(left)))
    tasks = (some_rows(asked, predicted, rows, bound, limits, most) for rows in pace.groups(left))
    with progress_bar(progress, len(left)) as advance, file, asked.told():

        def take(_: int, answer: _Answer) -> None:
            table.take(answer.rows, answer.table)
            file.add_all(answer.proofs)
            pace.learn(len(answer.rows), answer.seconds)
            advance(len(answer.rows))

        interrupted = run_tasks(_answer, asked.ensemble, tasks, limits, n_jobs, take, saving)
        result = _in_the_end(known, table, interrupted)
        if not interrupted:
            file.finish()
    return result


def _in_the_end(known: Callable[[RowTable, bool], Verification], table: RowTable, interrupted: bool) -> Verification:
    try:
        return known(table, interrupted)
    except KeyboardInterrupt:  # too late to save any work, and early enough to lose all of it
        return known(table, True)


def verify_here(
    asked: Request, epsilons: tuple[Any, ...], limits: Limits, proof_limit: int = 0
) -> tuple[Verification, Proofs]:
    """What `verify` finds, in the calling thread and within these limits: for tasks that hold many rows themselves.

    And what proves it, if no more than `proof_limit` bytes a proof; 0: no proofs are recorded.
    """
    began = clock.now()
    asked, bound = asked.with_neighbours(epsilons)
    predicted = asked.ensemble.predict_index(asked.X)
    table = _begun(asked, predicted, len(bound))
    left, proofs, alone = np.flatnonzero(table.is_open), RowProofs(), np.flatnonzero(~asked.is_attacked)
    proofs.add(0, alone.tolist(), [LEFT_ALONE] * len(alone))
    for some in in_groups(len(left), MOST_ROWS):
        rows = left[some]
        with counted(rows):
            part = decide_rows(asked.ensemble, some_rows(asked, predicted, rows, bound, limits, proof_limit), proofs)
        table.take(rows, part)
    in_vain = asked.moved_in_vain(limits, bound)
    result = _result(asked, predicted, epsilons, table, in_vain, clock.now() - began, limits.interrupted)
    return result, proofs.rows


def _begun(asked: Request, predicted: npt.NDArray[np.int64], n_epsilons: int) -> RowTable:
    """What is known before any search."""
    table = RowTable.unknown(asked.X, predicted == asked.y, n_epsilons)
    table.leave_alone(~asked.is_attacked)
    return table


def some_rows(
    asked: Request,
    predicted: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    epsilons: tuple[ValidAround, ...],
    limits: Limits,
    proof_limit: int = 0,
) -> Rows:
    """Some of the rows that are asked about."""
    X, y = asked.X[rows], asked.y[rows]
    return Rows(asked.threat, limits, rows, X, y, asked.attacker, predicted[rows], epsilons, proof_limit)


def _proof_file(proofs: Any, asked: Request, given: tuple[Any, ...], table: RowTable, resume: bool) -> NoProofFile:
    """The file that proofs go to, if any; rows that are proved already but not in it are open again."""
    if proofs is None:
        return NoProofFile()
    header = header_of(asked.ensemble, asked.attacker, asked.threat.relations.given, given, asked.X)
    file = ProofFile(proofs, header, resume=resume)
    for row in np.flatnonzero(~asked.is_attacked).tolist():
        if not file.has(row):
            file.add(row, None, LEFT_ALONE)
    table.forget_proved(np.array([not file.has(row) for row in range(len(table))]))
    return file


def _copy_of(table: RowTable) -> RowTable:
    """What is known now, whatever the table learns later."""
    names = ("stability", "resilience", "refuted", "epsilon_index", "neighbour", "attacked")
    return replace(table, **{name: getattr(table, name).copy() for name in names})


def _result(
    asked: Request,
    predicted: npt.NDArray[np.int64],
    epsilons: tuple[Any, ...],
    table: RowTable,
    in_vain: InVain | None,
    seconds: float,
    interrupted: bool,
) -> Verification:
    """The result, once every counterexample has been replayed."""
    replay_witnesses(asked.ensemble, table)
    ensemble, classes = asked.ensemble, asked.ensemble.classes
    return Verification(
        rows=table,
        y=classes[asked.y],
        predicted=classes[predicted],
        neighbour_label=classes[ensemble.predict_index(table.neighbour)],
        attacked_label=classes[ensemble.predict_index(table.attacked)],
        epsilons=epsilons,
        seconds=seconds,
        interrupted=interrupted,
        feature_names=ensemble.feature_names,
        model=ensemble.origin,
        decision=ensemble.decision_text,
        attacker=asked.attacker,
        fingerprint=ensemble.fingerprint.hex(),
        categories=ensemble.categories,
        movable=tuple(np.flatnonzero(asked.threat.movable).tolist()),
        in_vain=in_vain,
        actors=asked.actors,
        relations=asked.threat.relations.given,
        breakers=asked.threat.relations.breakers(asked.X),
        given=asked.given,
    )


def neighbourhoods(epsilon: Any, epsilons: Any) -> tuple[Any, ...]:
    """The neighbourhoods that a user asks about, in plain form."""
    if epsilon is not None and epsilons is not None:
        raise InvalidInput("give epsilon or epsilons, not both")
    if epsilons is None:
        return () if epsilon is None else (plain_epsilon(epsilon),)
    given = epsilons.tolist() if isinstance(epsilons, np.ndarray) else epsilons
    if not isinstance(given, (list, tuple)) or not given:
        raise InvalidInput(f"epsilons must be a list of neighbourhoods, got {epsilons!r}")
    return tuple(plain_epsilon(one) for one in given)


def _check_same_question(earlier: Verification, asked: Request, given: tuple[Any, ...]) -> None:
    """Refuses to resume from the result of another question."""
    for what, same in (
        ("model", earlier.fingerprint == asked.ensemble.fingerprint.hex()),
        ("attacker", earlier.attacker == asked.attacker),
        ("epsilon", earlier.epsilons == given),
        ("set of rows", np.array_equal(earlier.X, asked.X, equal_nan=True)),
        ("choice of actors", earlier.actors == asked.actors),
        ("set of relations", earlier.relations == asked.threat.relations.given),
        ("set of labels", np.array_equal(earlier.y, asked.ensemble.classes[asked.y])),
    ):
        if not same:
            raise InvalidInput(f"the result to resume from has a different {what}; start again without it")


def _answer(ensemble: Ensemble, task: Rows) -> _Answer:
    """Decides a task's rows; runs in whichever worker joblib chose."""
    began, proofs = clock.now(), RowProofs()
    table = decide_rows(ensemble, task, proofs)
    return _Answer(task.numbers, table, clock.now() - began, proofs.rows)
