"""An attacker the other way round: from a row back to the rows that he may have made it of.

A distance, a cost matrix, a blank and a rule that adds one number lead back as they lead there, for the same price.
Where what is given cannot say exactly where a move began, it is enclosed: a column of numbers that he sets to listed
values may have held anything, a rule that adds any number of a range may have begun in a wider one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeproof.model.ensemble import Ensemble
from treeproof.threat.binding import directions, price_range
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.moves import ANY
from treeproof.threat.rule_chains import BoundRule
from treeproof.threat.threat import Threat


def backwards(threat: Threat, ensemble: Ensemble) -> Threat:
    """The attacker who turns w into x, for the same price, wherever this one turns x into w; perhaps elsewhere, too.

    He wants the labels that this one does not. In columns with a step, w must be the very decimal that steps lead to.
    """
    # All that rows hold in categories that have no other numbers, the known ones first.
    values = {
        f: tuple(map(float, range(category.n_codes))) if category.coded else tuple(category.known().tolist())
        for f, category in ensemble.categories
        if category.coded or not category.unseen
    }
    n_known = {f: len(category.values) for f, category in ensemble.categories}
    # Adding 0 makes 0 of -0.
    low, high, cost = -threat.high + 0.0, -threat.low + 0.0, threat.cost.copy()
    columns = tuple((f, _moves_back(moves, values.get(f), n_known.get(f, 0))) for f, moves in threat.columns)
    for f, moves in columns:
        low[f], high[f] = directions(moves)
        cost[f] = price_range(moves)[0]
    return replace(
        threat,
        low=low,
        high=high,
        cost=cost,
        ends=tuple((f, np.array(values[f])) for f, _ in threat.ends if f in values),
        columns=columns,
        goal=tuple(k for k in range(ensemble.n_classes) if k not in threat.goal) if threat.goal else (),
        backwards=True,
    )


def _moves_back(moves: ColumnMoves, values: tuple[float, ...] | None, n_known: int) -> ColumnMoves:
    """What leads back in one column, of numbers or of such values."""
    interval, costs, step = moves.interval, moves.costs, moves.step
    if costs is not None:
        costs = {(end, start): cost for (start, end), cost in costs.items()}
    elif interval is not None and moves.ends is None:
        interval = -interval[1] + 0.0, -interval[0] + 0.0
    elif values and len(moves.ends or values) < n_known:
        costs = {(start, end): moves.cost for start in moves.ends or () for end in values if start != end}
    if step is not None and (moves.ends is not None or moves.blank is not None):
        # He may have begun beside the grid of the listed or the missing value: anywhere.
        interval, step = None if interval is None else ANY, None
    return replace(
        moves,
        interval=interval,
        step=step,
        ends=values,
        costs=costs,
        rules=tuple(back for rule in moves.rules for back in _rules_back(rule)),
        blank=moves.fill,
        fill=moves.blank,
    )


def _rules_back(rule: BoundRule) -> list[BoundRule]:
    if rule.codes is not None:
        assert rule.to is not None
        return [BoundRule(rule.cost, codes=(rule.to,), to=code) for code in rule.codes]
    assert rule.change is not None
    least, most = rule.change
    low = None if rule.low is None else rule.low + least
    high = None if rule.high is None else rule.high + most
    return [BoundRule(rule.cost, low=low, high=high, change=(-most, -least))]
