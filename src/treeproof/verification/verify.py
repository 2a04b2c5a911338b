"""Test sets: which predictions are robust and resilient, exactly, on one core or a cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.check.evidence import is_within_reach
from treeproof.errors import InvalidInput, SoundnessError
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome, Witness
from treeproof.results.verification import Verification
from treeproof.run.limits import Limits, as_seconds, check_jobs
from treeproof.run.progress import progress_bar
from treeproof.run.workers import in_groups, run_tasks
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import bind_epsilon, plain_epsilon
from treeproof.threat.threat import Threat
from treeproof.verification.local import Local
from treeproof.verification.request import Request
from treeproof.verification.witnesses import shorten


def _chunk(n: int) -> int:
    """Rows per task: enough to keep overhead small, few enough for a smooth bar and a quick stop."""
    return int(np.clip(n // 32, 16, 256))


@dataclass(frozen=True, eq=False)
class _Task:
    """A few rows to verify; travels to other processes, so it carries no model."""

    attacker: Attacker
    threat: Threat
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
    n_jobs: int | None = None,
    progress: bool = False,
    voting: Any = None,
    resume: Verification | None = None,
) -> Verification:
    """Decide stability, robustness and resilience of every row of a test set.

    `epsilon` is the neighbourhood of resilience (one number, one per feature, or by feature; None: no resilience), or
    `epsilons` several of them. A row that is not decided within `timeout` seconds (for each neighbourhood), or after
    `max_seconds` in all, is UNKNOWN; so is what is left after Ctrl-C. `n_jobs` goes to joblib: threads by default, or
    whatever `joblib.parallel_config` says, a Dask cluster for one. Every counterexample has been replayed on the
    model, and its moves re-checked with rational numbers. `resume` is an earlier result of the same question that was
    stopped: what it decided is taken over, and only the rest is searched.

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
    asked = Request.of(model, X, y, attacker, voting)
    given = _neighbourhoods(epsilon, epsilons)
    bound = tuple(bind_epsilon(one, asked.ensemble) for one in given)
    check_jobs(n_jobs)
    in_all = as_seconds(max_seconds, "max_seconds")
    limits = Limits(as_seconds(timeout, "timeout"), None if in_all is None else began + in_all)
    table = _Table.empty(asked.ensemble, asked.X, asked.y, len(bound))
    if resume is not None:
        table.take_over(resume, asked.ensemble, attacker, given)
    left = np.flatnonzero(table.open_rows())
    tasks = [
        _Task(attacker, asked.threat, rows, asked.X[rows], asked.y[rows], bound, limits)
        for rows in (left[group] for group in in_groups(len(left), _chunk(len(left))))
    ]
    with progress_bar(progress, len(left)) as advance:

        def take(answer: _Answer) -> None:
            table.take(answer)
            advance(len(answer.rows))

        interrupted = run_tasks(_answer, asked.ensemble, tasks, limits, n_jobs, take)
    table.replay_witnesses(asked.ensemble)
    return table.result(asked.ensemble, attacker, given, time.monotonic() - began, interrupted)


def _neighbourhoods(epsilon: Any, epsilons: Any) -> tuple[Any, ...]:
    if epsilon is not None and epsilons is not None:
        raise InvalidInput("give epsilon or epsilons, not both")
    if epsilons is None:
        return () if epsilon is None else (plain_epsilon(epsilon),)
    given = epsilons.tolist() if isinstance(epsilons, np.ndarray) else epsilons
    if not isinstance(given, (list, tuple)) or not given:
        raise InvalidInput(f"epsilons must be a list of neighbourhoods, got {epsilons!r}")
    return tuple(plain_epsilon(one) for one in given)


def _answer(ensemble: Ensemble, task: _Task) -> _Answer:
    """Verifies the rows of one task; runs wherever joblib put it."""
    local = Local(ensemble, task.threat, task.limits)
    n = len(task.rows)
    stability = np.full(n, Outcome.UNKNOWN, dtype=np.int8)
    resilience = np.full((len(task.epsilons), n), Outcome.UNKNOWN, dtype=np.int8)
    level = np.full(n, -2, dtype=np.int64)
    neighbour, attacked = task.X.copy(), task.X.copy()
    correct = ensemble.predict_index(task.X) == task.y
    resilience[:, ~correct] = Outcome.REFUTED
    if task.limits.is_over() or task.limits.timeout == 0:
        return _Answer(task.rows, stability, resilience, level, neighbour, attacked, 0)
    decided = local.decide(task.X, np.zeros(ensemble.n_features))
    stability[:] = decided.outcome
    refuted = stability == Outcome.REFUTED
    attacked[refuted], level[refuted] = decided.attacked[refuted], -1
    # Not robust is not resilient, in any neighbourhood.
    resilience[:, refuted] = Outcome.REFUTED
    # A larger one settles those inside it, if it proves, and is never inside a later one.
    order = sorted(range(len(task.epsilons)), key=lambda k: sorted(task.epsilons[k], reverse=True), reverse=True)
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
    broken = level > -2
    neighbour[broken], attacked[broken] = shorten(ensemble, task.X[broken], neighbour[broken], attacked[broken])
    # A neighbour that was not needed: the row itself can be attacked, which its own search had no time to find.
    itself = (level >= 0) & ((neighbour == task.X) | np.isnan(task.X)).all(axis=1)
    if (stability[itself] == Outcome.PROVED).any():
        row = int(task.rows[itself & (stability == Outcome.PROVED)][0])
        raise SoundnessError(
            f"row {row}: the search proved it stable and then found an attack on it; please report this"
        )
    stability[itself], resilience[:, itself], level[itself] = Outcome.REFUTED, Outcome.REFUTED, -1
    answer = _Answer(task.rows, stability, resilience, level, neighbour, attacked, local.boxes)
    _check_reach(ensemble, task, answer)
    return answer


def _check_reach(ensemble: Ensemble, task: _Task, answer: _Answer) -> None:
    """Decides with rational numbers whether the attacker can reach every counterexample; here, since it takes time."""
    for i in np.flatnonzero(answer.level > -2):
        epsilon = None if answer.level[i] < 0 else task.epsilons[answer.level[i]]
        witness = Witness(task.X[i], answer.neighbour[i], answer.attacked[i], None, None)
        if not is_within_reach(ensemble, task.attacker, epsilon, witness):
            raise SoundnessError(
                f"row {task.rows[i]}: the search found a counterexample that the attacker cannot reach: "
                f"{answer.neighbour[i]!r} to {answer.attacked[i]!r}; please report this"
            )


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
    seconds: float = 0.0
    """What an earlier result took."""

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

    def open_rows(self) -> npt.NDArray[np.bool_]:
        """Which rows have something left to decide."""
        return np.asarray((self.stability == Outcome.UNKNOWN) | (self.resilience == Outcome.UNKNOWN).any(axis=0))

    def take_over(self, earlier: Verification, ensemble: Ensemble, attacker: Attacker, given: tuple[Any, ...]) -> None:
        """Starts from an earlier result, if that was about the same question."""
        classes = ensemble.classes
        for what, same in (
            ("model", earlier.fingerprint == ensemble.fingerprint.hex()),
            ("attacker", earlier.attacker == attacker),
            ("epsilon", earlier.epsilons == given),
            ("set of rows", np.array_equal(earlier.X, self.X, equal_nan=True)),
            ("set of labels", np.array_equal(earlier.y, classes[self.y])),
        ):
            if not same:
                raise InvalidInput(f"the result to resume from has another {what}; start again without it")
        self.stability[:] = earlier.stability
        for k, outcomes in enumerate(earlier.resilience_by_epsilon):
            self.resilience[k] = outcomes
        self.neighbour[:], self.attacked[:] = earlier.neighbour, earlier.attacked
        self.level[earlier.has_witness] = -1
        self.boxes, self.seconds = earlier.boxes, earlier.seconds

    def take(self, answer: _Answer) -> None:
        """Keeps what one task decided; what it left open may be known from an earlier result."""
        rows = answer.rows
        self.stability[rows] = _known(answer.stability, self.stability[rows])
        self.resilience[:, rows] = _known(answer.resilience, self.resilience[:, rows])
        found = answer.level > -2
        self.level[rows[found]] = answer.level[found]
        self.neighbour[rows[found]] = answer.neighbour[found]
        self.attacked[rows[found]] = answer.attacked[found]
        self.boxes += answer.boxes

    def replay_witnesses(self, ensemble: Ensemble) -> None:
        """Replays every counterexample on the source model; one that does not flip it is a bug of ours."""
        rows = np.flatnonzero(self.level > -2)
        if not len(rows):
            return
        before, after = ensemble.source_labels(self.neighbour[rows]), ensemble.source_labels(self.attacked[rows])
        failed = rows[before == after]
        if len(failed):
            row = int(failed[0])
            raise SoundnessError(
                f"row {row}: the search found a counterexample that does not change the label: "
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
            seconds=self.seconds + seconds,
            interrupted=interrupted,
            feature_names=ensemble.feature_names,
            model=ensemble.origin,
            attacker=attacker,
            boxes=self.boxes,
            fingerprint=ensemble.fingerprint.hex(),
        )


def _known(new: npt.NDArray[np.int8], old: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    return np.where(new == Outcome.UNKNOWN, old, new)
