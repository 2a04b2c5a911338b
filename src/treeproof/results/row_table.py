"""What is known about each row: one table, filled by tasks, put together by `verify`, and kept in its result."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome, Verdict, Witness
from treeproof.threat.relations import Relation


class Refuted(enum.IntEnum):
    """What the counterexample of a row refutes."""

    NOTHING = 0
    """There is no counterexample."""
    STABILITY = 1
    RESILIENCE = 2


@dataclass(eq=False)
class RowTable:
    """Outcomes and counterexamples, one entry per row.

    `resilience` is (n_epsilons, n_rows). Where `refuted` says so, `neighbour` and `attacked` hold the counterexample,
    and `epsilon_index` the index of the neighbourhood in which it refutes resilience; that is -1 where it refutes
    stability, or where a file does not say.
    """

    X: FloatArray
    stability: npt.NDArray[np.int8]
    resilience: npt.NDArray[np.int8]
    refuted: npt.NDArray[np.int8]
    epsilon_index: npt.NDArray[np.int64]
    neighbour: FloatArray
    attacked: FloatArray
    boxes: int = 0
    """The number of boxes of cells that the search examined."""

    @classmethod
    def unknown(cls, X: FloatArray, correct: npt.NDArray[np.bool_], n_epsilons: int) -> RowTable:
        """A table that knows nothing yet, except that rows with a wrong label are not resilient."""
        n = len(X)
        resilience = np.full((n_epsilons, n), Outcome.UNKNOWN, dtype=np.int8)
        resilience[:, ~correct] = Outcome.REFUTED
        return cls(
            X,
            stability=np.full(n, Outcome.UNKNOWN, dtype=np.int8),
            resilience=resilience,
            refuted=np.full(n, Refuted.NOTHING, dtype=np.int8),
            epsilon_index=np.full(n, -1, dtype=np.int64),
            neighbour=X.copy(),
            attacked=X.copy(),
        )

    def __len__(self) -> int:
        return len(self.X)

    @property
    def has_witness(self) -> npt.NDArray[np.bool_]:
        """Which rows have a counterexample."""
        return np.asarray(self.refuted != Refuted.NOTHING)

    @property
    def is_open(self) -> npt.NDArray[np.bool_]:
        """Which rows have something left to decide."""
        return np.asarray((self.stability == Outcome.UNKNOWN) | (self.resilience == Outcome.UNKNOWN).any(axis=0))

    def verdict(
        self, row: int, correct: bool, has_missing: bool, witness: Witness | None, breaks: tuple[Relation, ...] = ()
    ) -> Verdict:
        """What is known about one row, in the first neighbourhood if there are several."""
        stability = Outcome(int(self.stability[row]))
        resilience = Outcome(int(self.resilience[0, row])) if len(self.resilience) else None
        return Verdict(stability, stability if correct else Outcome.REFUTED, resilience, witness, has_missing, breaks)

    def leave_alone(self, rows: npt.NDArray[np.bool_]) -> None:
        """Records that nobody attacks these rows: they are stable, and resilient where their label is right."""
        self.stability[rows] = Outcome.PROVED
        self.resilience[:, rows] = np.where(
            self.resilience[:, rows] == Outcome.UNKNOWN, Outcome.PROVED, Outcome.REFUTED
        )

    def refute_stability(self, rows: npt.NDArray[np.integer], attacked: FloatArray) -> None:
        """Records attacks on these rows themselves; what is not robust is not resilient in any neighbourhood."""
        self.stability[rows] = Outcome.REFUTED
        self.resilience[:, rows] = Outcome.REFUTED
        self.refuted[rows], self.epsilon_index[rows] = Refuted.STABILITY, -1
        self.neighbour[rows], self.attacked[rows] = self.X[rows], attacked

    def refute_resilience(
        self, rows: npt.NDArray[np.integer], epsilon_index: int, neighbour: FloatArray, attacked: FloatArray
    ) -> None:
        """Records attacks on neighbours of these rows, within this neighbourhood."""
        self.resilience[epsilon_index, rows] = Outcome.REFUTED
        self.refuted[rows], self.epsilon_index[rows] = Refuted.RESILIENCE, epsilon_index
        self.neighbour[rows], self.attacked[rows] = neighbour, attacked

    def forget_proved(self, rows: npt.NDArray[np.bool_]) -> None:
        """What is proved of these rows is open again."""
        for outcomes in (self.stability, *self.resilience):
            outcomes[rows & (outcomes == Outcome.PROVED)] = Outcome.UNKNOWN

    def forget_refuted(self, row: int, correct: bool) -> None:
        """A row whose counterexample could not be checked in time has none; what it refutes is open again."""
        for outcomes in (self.stability, *(self.resilience if correct else ())):
            if outcomes[row] == Outcome.REFUTED:
                outcomes[row] = Outcome.UNKNOWN
        self.refuted[row], self.epsilon_index[row] = Refuted.NOTHING, -1
        self.neighbour[row] = self.attacked[row] = self.X[row]

    def take(self, rows: npt.NDArray[np.integer], part: RowTable) -> None:
        """Takes over what a table of these rows knows; what that leaves open, or counterexamples, may be known here."""
        is_new = (part.resilience == Outcome.REFUTED) & (self.resilience[:, rows] != Outcome.REFUTED)
        found = part.has_witness & (is_new.any(axis=0) | ~self.has_witness[rows])
        found |= part.refuted == Refuted.STABILITY
        self.stability[rows] = _known(part.stability, self.stability[rows])
        self.resilience[:, rows] = _known(part.resilience, self.resilience[:, rows])
        for name in ("refuted", "epsilon_index", "neighbour", "attacked"):
            getattr(self, name)[rows[found]] = getattr(part, name)[found]
        self.boxes += part.boxes


def _known(new: npt.NDArray[np.int8], old: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    return np.where(new == Outcome.UNKNOWN, old, new)
