"""What it costs an attacker to bring a value into a cell, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import NAN_CELL, Grid
from treeproof.numbers.doubles import FloatArray, double_at_least, double_at_most
from treeproof.threat.epsilon import bind_epsilon
from treeproof.threat.threat import Threat


@dataclass(frozen=True, eq=False)
class Prices:
    """For each feature and cell, the least that the attacker must pay to bring the feature from N(x) into the cell.

    `M(x)`, the union of A(z) over z in N(x), is exactly the set of cell vectors whose prices add up to at most
    the budget. Prices of a cost-and-budget attacker are exact whole numbers. Those of an Lp attacker are
    `distance**p`, in the features' units; `low` and `high` enclose them, and `exact` has the rational number, for
    NaN too: a feature that is NaN stays so for nothing.
    """

    low: FloatArray
    high: FloatArray
    offsets: npt.NDArray[np.int64]
    budget: Fraction
    exact: dict[tuple[int, int], Fraction]
    """Only cells that the attacker can reach at all; NaN is the cell -1."""
    groups: tuple[tuple[tuple[int, ...], int], ...]
    """Features whose prices may add up to no more than a budget of their own."""

    def of(self, feature: int) -> FloatArray:
        """The lower prices of one feature's cells."""
        return self.low[self.offsets[feature] : self.offsets[feature + 1]]

    def affordable(self, cells: npt.ArrayLike) -> bool:
        """Whether this cell vector (NaN features: -1) is in M(x), decided exactly."""
        vector = np.asarray(cells).tolist()
        if len(vector) != len(self.offsets) - 1:
            raise InvalidInput(f"{len(vector)} cells for {len(self.offsets) - 1} features")
        prices = [self.exact.get((feature, cell)) for feature, cell in enumerate(vector)]
        paid = [price for price in prices if price is not None]
        return (
            len(paid) == len(vector)
            and sum(paid) <= self.budget
            and all(sum(paid[f] for f in group) <= budget for group, budget in self.groups)
        )


def price_table(threat: Threat, ensemble: Ensemble, x: npt.ArrayLike, epsilon: Any = 0.0) -> Prices:
    """The price table of one row: section "prices" of docs/theory.md, cell by cell.

    >>> from treeproof import Attacker, from_model
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> threat = Attacker((-0.2, 0.2), costs=3).bind(from_model(clf))
    >>> price_table(threat, from_model(clf), [0.6]).of(0).tolist()
    [3.0, 0.0]
    """
    rows = ensemble.check_rows(np.asarray(x)[None], coded=True)
    threat.check_domain(rows, ensemble)
    low, high = threat.neighbourhood(rows, bind_epsilon(epsilon, ensemble))
    return price_table_of_box(threat, ensemble, low[0], high[0], x=rows[0])


def price_table_of_box(
    threat: Threat,
    ensemble: Ensemble,
    low: FloatArray,
    high: FloatArray,
    grid: Grid | None = None,
    x: FloatArray | None = None,
) -> Prices:
    """The price table of the neighbours from `low` to `high`, in the model's own cells or others.

    NaN on both sides is a missing value. Points of columns with a step are counted from x, or else from `low`.
    """
    grid = ensemble.grid if grid is None else grid
    x = low if x is None else x
    offsets = grid.start
    lowest, highest = grid.cell_ends
    lower, upper = np.full(offsets[-1], np.inf), np.full(offsets[-1], np.inf)
    exact: dict[tuple[int, int], Fraction] = {}
    for f in range(ensemble.n_features):
        cells = slice(offsets[f], offsets[f + 1])
        moves, box = threat.moves_of(f), (float(low[f]), float(high[f]))
        *prices, missing = moves.exact_prices(float(x[f]), box, lowest[cells], highest[cells])
        if missing is not None:
            exact[f, NAN_CELL] = missing
        for cell, price in enumerate(prices):
            if price is not None:
                exact[f, cell] = price
                at = offsets[f] + cell
                lower[at], upper[at] = double_at_most(price), double_at_least(price)
    groups = tuple(zip(threat.groups, threat.group_budgets, strict=True))
    return Prices(lower, upper, offsets, threat.limit, exact, groups)
