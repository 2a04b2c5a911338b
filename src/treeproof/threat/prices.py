"""What it costs an attacker to bring a value into a cell, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import NAN_CELL, Grid
from treeproof.numbers.doubles import FloatArray, double_at_least, double_at_most, next_up
from treeproof.numbers.moves import some_move
from treeproof.threat.epsilon import bind_epsilon
from treeproof.threat.threat import Threat


@dataclass(frozen=True, eq=False)
class Prices:
    """For each feature and cell, the least that the attacker must pay to bring the feature from N(x) into the cell.

    `M(x)`, the union of A(z) over z in N(x), is exactly the set of cell vectors whose prices add up to at most
    the budget. Prices of a cost-and-budget attacker are exact whole numbers. Those of an Lp attacker are
    `distance**p`, in the features' units; `low` and `high` enclose them, and `exact` has the rational number. A NaN
    feature has no price: it stays NaN.
    """

    low: FloatArray
    high: FloatArray
    offsets: npt.NDArray[np.int64]
    budget: Fraction
    exact: dict[tuple[int, int], Fraction]
    """Only cells that the attacker can reach at all; a NaN feature has the single cell -1."""

    def of(self, feature: int) -> FloatArray:
        """The lower prices of one feature's cells."""
        return self.low[self.offsets[feature] : self.offsets[feature + 1]]

    def affordable(self, cells: npt.ArrayLike) -> bool:
        """Whether this cell vector (NaN features: -1) is in M(x), decided exactly."""
        vector = np.asarray(cells).tolist()
        if len(vector) != len(self.offsets) - 1:
            raise InvalidInput(f"{len(vector)} cells for {len(self.offsets) - 1} features")
        prices = [self.exact.get((feature, cell)) for feature, cell in enumerate(vector)]
        return None not in prices and sum(prices) <= self.budget  # type: ignore[arg-type]


def price_table(threat: Threat, ensemble: Ensemble, x: npt.ArrayLike, epsilon: Any = 0.0) -> Prices:
    """The price table of one row: section "prices" of docs/theory.md, cell by cell.

    >>> from treeproof import Attacker, from_model
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> threat = Attacker((-0.2, 0.2), costs=3).bind(from_model(clf))
    >>> price_table(threat, from_model(clf), [0.6]).of(0).tolist()
    [3.0, 0.0]
    """
    rows = ensemble.check_rows(np.asarray(x)[None])
    threat.check_domain(rows, ensemble)
    low, high = threat.neighbourhood(rows, bind_epsilon(epsilon, ensemble))
    return price_table_of_box(threat, ensemble, low[0], high[0])


def price_table_of_box(
    threat: Threat, ensemble: Ensemble, low: FloatArray, high: FloatArray, grid: Grid | None = None
) -> Prices:
    """The price table of the neighbours from `low` to `high`, in the model's own cells or others.

    NaN on both sides is a missing value.
    """
    grid = ensemble.grid if grid is None else grid
    offsets = grid.start
    lower, upper = np.full(offsets[-1], np.inf), np.full(offsets[-1], np.inf)
    exact: dict[tuple[int, int], Fraction] = {}
    for f in range(ensemble.n_features):
        box = (float(low[f]), float(high[f]))
        if math.isnan(box[0]):
            exact[f, NAN_CELL] = Fraction(0)
            continue
        for cell in range(int(grid.n_cells[f])):
            interval = grid.interval(f, cell)
            inside = (
                max(float(next_up(interval.lo)), float(threat.domain_low[f])),
                min(interval.hi, float(threat.domain_high[f])),
            )
            price = _price(threat, f, box, inside)
            if price is not None:
                exact[f, cell] = price
                at = offsets[f] + cell
                lower[at], upper[at] = double_at_most(price), double_at_least(price)
    return Prices(lower, upper, offsets, threat.limit, exact)


def _price(threat: Threat, f: int, box: tuple[float, float], cell: tuple[float, float]) -> Fraction | None:
    """The least price of a move of feature f from a double of `box` to one of `cell`; None if there is none."""
    if cell[0] > cell[1]:
        return None
    if cell[0] <= box[1] and box[0] <= cell[1]:
        return Fraction(0)
    if threat.power is not None:
        if threat.high[f] <= 0:
            return None
        return threat.price(f, box[1], cell[0]) if cell[0] > box[1] else threat.price(f, box[0], cell[1])
    moved = some_move(box, cell, (float(threat.low[f]), float(threat.high[f])))
    return None if moved is None else Fraction(int(threat.cost[f]))
