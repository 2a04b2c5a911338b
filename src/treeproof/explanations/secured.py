"""A row with a wanted label all of whose neighbours have it, too: found by steepest ascent, not the cheapest one."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from treeproof.explanations.neighbours import Neighbours
from treeproof.numbers.doubles import LARGEST, FloatArray, add_down, add_up, next_down, next_up
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.step_grid import StepGrid
from treeproof.threat.threat import Threat

MOST_STEPS = 200
"""Moves of an ascent."""
MOST_CHECKS = 60
"""Searches that may bring a row nearer."""


class Secured:
    """The ascent from one row to one label."""

    def __init__(self, around: Neighbours, threat: Threat, x: FloatArray, label: int, limits: Limits) -> None:
        """`threat` says what columns may become, and what that costs."""
        self._around, self._threat, self._x, self._label, self._limits = around, threat, x, label, limits
        self._values = [self._places_of(f) for f in range(len(x))]

    def row(self) -> FloatArray | None:
        """A valid row whose valid neighbours all have wanted labels; None if none is found."""
        w = self._climbed()
        if w is None or not self._holds(w):
            return None
        return self._nearer(w)

    def _places_of(self, f: int) -> list[tuple[float, float]]:
        """What a column may become, and the price of each value; its own value is the first."""
        x, moves = float(self._x[f]), self._threat.moves_of(f)
        found = {x: 0.0}
        if math.isnan(x) or not self._threat.movable[f]:
            return [(x, 0.0)]
        for value in self._candidates(f, x):
            price = moves.price(x, x, value)
            if price is not None:
                found.setdefault(value, float(price))
        return list(found.items())

    def _candidates(self, f: int, x: float) -> list[float]:
        """Values whose neighbours are just beyond a cut of the model, and all values of categories."""
        threat, categories = self._threat, dict(self._around.columns.ensemble.categories)
        low, high = float(threat.domain_low[f]), float(threat.domain_high[f])
        if f in categories:
            return [value for value in categories[f].known().tolist() if low <= value <= high]
        cuts, size = self._around.space.grid.cuts_of(f), float(self._around.sizes[f])
        if math.isinf(size):
            return []
        above, below = next_up(add_down(cuts, size)), next_down(add_up(next_up(cuts), -size))
        step = threat.moves_of(f).step
        if step is not None:
            grid = StepGrid(step)
            numbers = [grid.numbers(x, value, LARGEST)[0] for value in above.tolist()]
            numbers += [grid.numbers(x, -LARGEST, value)[1] for value in below.tolist()]
            points = [grid.point(x, number) for number in numbers if abs(number) < 2**53]
            return [value for value in points if low <= value <= high]
        values = np.concatenate((above, below))
        return list(values[(values >= low) & (values <= high)].tolist())

    def _climbed(self) -> FloatArray | None:
        """The row at which the ascent ends; None if it gets stuck."""
        from treeproof._kernels.explanations.secure_rows import Places, secure
        from treeproof._kernels.explanations.wrong_boxes import walls_for

        model, n = self._around.space.compiled[0], len(self._x)
        counts = [len(places) for places in self._values]
        start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        rows = np.repeat(self._x[None], start[-1], axis=0)
        column: npt.NDArray[np.int64] = np.repeat(np.arange(n), counts)
        rows[np.arange(start[-1]), column] = [value for places in self._values for value, _ in places]
        low, high = (
            self._around.space.cells(np.array(ends))[np.arange(start[-1]), column].astype(np.int64)
            for ends in zip(*map(self._around.of, rows), strict=True)
        )
        price = np.array([price for places in self._values for _, price in places])
        places = Places(start, low, high, price, start[:-1].copy())
        goal = self._threat.goal
        others = np.array([k for k in range(model.value.shape[1]) if k not in goal], dtype=np.int64)
        walls = walls_for(model, self._around.uses, low[start[:-1]], len(others))
        walls.high[:] = high[start[:-1]]
        if not secure(model, walls, places, others, np.int64(self._label), MOST_STEPS):
            return None
        return np.array([rows[at, f] for f, at in enumerate(places.at.tolist())])

    def _holds(self, w: FloatArray) -> bool:
        """Whether a row is valid and resilient, by an exact search."""
        if self._around.columns.relations.broken(w[None])[0]:
            return False
        return self._around.wrong(w, self._limits)[0] == Outcome.PROVED

    def _nearer(self, w: FloatArray) -> FloatArray:
        """The row with columns at cheaper values, as long as it holds."""
        checks = 0
        prices = [dict(places) for places in self._values]
        changed = [f for f in range(len(w)) if w[f] != self._x[f] and not math.isnan(w[f])]
        for f in sorted(changed, key=lambda f: -prices[f][float(w[f])]):
            for value, price in sorted(self._values[f], key=lambda place: place[1]):
                if price >= prices[f][float(w[f])] or checks == MOST_CHECKS or self._limits.is_over():
                    break
                closer, checks = w.copy(), checks + 1
                closer[f] = value
                if self._holds(closer):
                    w = closer
                    break
        return w
