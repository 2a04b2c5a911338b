"""How the estimates r̂ and R̂ of given data grow with every iteration of the analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof._kernels.symbolic.records import PRE
from treeproof.errors import InvalidInput
from treeproof.numbers.doubles import FloatArray
from treeproof.symbolic.compiled import Boxes, CompiledAnalysis
from treeproof.symbolic.refinement import Lane
from treeproof.symbolic.shifted_grid import as_ranges
from treeproof.symbolic.unstable_region import UnstableRegion
from treeproof.threat.epsilon import bind_epsilon, plain_epsilon


@dataclass(frozen=True, eq=False)
class History:
    """Entry i of every list is what the analysis would have answered after i iterations."""

    robustness: FloatArray
    """r̂."""
    resilience: dict[Any, FloatArray]
    """R̂ per neighbourhood."""
    candidates: npt.NDArray[np.int64]
    """Symbolic attacks that were still to be split."""
    ended: npt.NDArray[np.int64]
    """Symbolic attacks that had ended."""

    def __len__(self) -> int:
        return len(self.robustness)


class Tracker:
    """Follows, lane by lane, which rows are still met by an attack; what is once free stays free."""

    def __init__(self, compiled: CompiledAnalysis, track: Sequence[Any], ended: Boxes, lanes: list[Lane]) -> None:
        """Starts with what is known before the first iteration."""
        rows = _Rows.of(compiled, track)
        self._rows, self._lanes, self._n_ended = rows, lanes, len(ended)
        self._lost = rows.left_out | UnstableRegion(ended[:, PRE]).meets(rows.cells[..., 0], rows.cells[..., 1])
        self._witness = [np.zeros(len(rows.cells), dtype=np.int32) for _ in lanes]
        self._seen = [0] * len(lanes)
        self._notes: list[tuple[FloatArray, int, int]] = []
        for update in self.updates():
            update()
        self.note()

    def updates(self) -> list[Callable[[], None]]:
        """One task per lane that brings its part up to date."""
        return [partial(self._update, i) for i in range(len(self._lanes))]

    def _update(self, i: int) -> None:
        from treeproof._kernels.symbolic.cover import still_covered

        lane = self._lanes[i]
        still_covered(as_ranges(self._rows.cells), lane.queue, self._seen[i], self._witness[i])
        self._seen[i] = lane.count("n_ended")

    def note(self) -> None:
        """Writes down the estimates of this moment."""
        from treeproof._kernels.symbolic.cover import FREED

        free = ~self._lost
        for witness in self._witness:
            free &= witness == FREED
        good = (free & self._rows.correct).reshape(self._rows.n_groups, -1)
        ended = self._n_ended + sum(lane.count("n_ended") for lane in self._lanes)
        self._notes.append((good.mean(axis=1), sum(lane.count("n_open") for lane in self._lanes), ended))

    def history(self) -> History:
        """Everything that was written down."""
        shares = np.array([note[0] for note in self._notes])
        return History(
            shares[:, 0],
            {epsilon: shares[:, 1 + k] for k, epsilon in enumerate(self._rows.epsilons)},
            np.array([note[1] for note in self._notes], dtype=np.int64),
            np.array([note[2] for note in self._notes], dtype=np.int64),
        )


@dataclass(frozen=True, eq=False)
class _Rows:
    """All rows, then all neighbourhoods of the first ε, and so on, as cells."""

    cells: npt.NDArray[Any]
    """(n, n_features, 2): per feature the first and the last cell."""
    correct: npt.NDArray[np.bool_]
    left_out: npt.NDArray[np.bool_]
    epsilons: tuple[Any, ...]

    @property
    def n_groups(self) -> int:
        return 1 + len(self.epsilons)

    @classmethod
    def of(cls, compiled: CompiledAnalysis, track: Sequence[Any]) -> _Rows:
        if not isinstance(track, (tuple, list)) or len(track) not in (2, 3):
            raise InvalidInput("track must be (X, y) or (X, y, epsilons)")
        ensemble, threat, grid = compiled.ensemble, compiled.threat, compiled.grid
        rows, labels = ensemble.check_rows(track[0]), ensemble.class_index(track[1])
        threat.check_domain(rows, ensemble)
        if len(rows) != len(labels) or not len(rows):
            raise InvalidInput(f"track has {len(rows)} rows and {len(labels)} labels; one per row each, at least one")
        given = track[2] if len(track) == 3 else []
        epsilons = list(given) if isinstance(given, (list, tuple, np.ndarray)) else [given]
        groups = [(rows, rows)] + [threat.neighbourhood(rows, bind_epsilon(one, ensemble)) for one in epsilons]
        ends = [np.concatenate([grid.cells(group[end]) for group in groups]) for end in (0, 1)]
        correct = np.tile(ensemble.predict_index(rows) == labels, len(groups))
        left_out = np.tile(compiled.is_left_out(rows), len(groups))
        names = tuple(plain_epsilon(one) for one in epsilons)
        return cls(np.stack(ends, axis=-1).astype(compiled.cell_type), correct, left_out, names)
