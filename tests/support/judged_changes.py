"""Counterfactuals against brute force: every price, every changed row, and that nothing cheaper was left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.explained import Explained, Made, Price, Units
from tests.support.fast_oracle import TooManyPairs
from tests.support.made_rows import AllPairs, Around, Labels, moved_units, plain_resilient, plain_rows, sums_of
from tests.support.oracles import OracleAttacker
from tests.support.random_blocks import Block
from tests.support.relation_questions import Question
from treeproof.model.ensemble import Ensemble
from treeproof.results.verdicts import Outcome

MOST_TRIED = 400
"""Rows whose neighbours are enumerated."""


@dataclass(frozen=True)
class Judge:
    """One row of one question, and all that can become of it."""

    ensemble: Ensemble
    labels: Labels
    x: Sequence[float]
    units: Sequence[Sequence[int]]
    names: Sequence[Any]
    """Of the units."""
    to: Collection[Any]
    explained: Explained
    complete: bool
    """Whether it is all."""
    price_of: Callable[[Sequence[float]], Price | None]
    """What it costs to make a row of x, by definition; None if it cannot be done or is not valid."""
    power: int | None = None
    holds: Callable[[Made], bool] = lambda made: True
    holds_at: Callable[[Sequence[float]], bool] = lambda row: True

    def judge(self, found: tp.Counterfactual, counts: Counter[str]) -> None:
        """AssertionError unless the counterfactual and all others of the row are right."""
        earlier: list[Units] = []
        for rank, one in enumerate((found, *found.others)):
            where = f"x={list(self.x)!r} to={list(self.to)!r}, number {rank}: {one!r}"
            moved = self._check_row(one, where) if math.isfinite(one.price) else frozenset[int]()
            self._check_price(one, earlier, where, counts)
            counts["changes"] += 1
            counts["impossible" if math.isinf(one.price) else "found"] += 1
            assert not any(before <= moved for before in earlier) or math.isinf(one.price), where
            earlier.append(moved)
        assert all(math.isfinite(one.price) for one in found.others[:-1]), found.others

    def _check_row(self, one: tp.Counterfactual, where: str) -> Units:
        """The units that a change changes; the row must be what it says, at its price."""
        given = one.row if hasattr(one.row, "columns") else np.array([one.row])
        row = self.ensemble.check_rows(given)[0].tolist()
        assert self.labels.of_row(row) == one.label, f"{where}: {row!r} has another label"
        assert one.label in self.to, where
        assert self.holds_at(row), f"{where}: a neighbour of {row!r} has another label"
        price = self.price_of(row)
        assert price is not None, f"{where}: nothing leads to {row!r}"
        assert self._same(one.price, price), f"{where}: {row!r} costs {float(price)}"
        moved = moved_units(self.units, self.x, row)
        assert [self.names[unit] for unit in sorted(moved)] == list(one.changes), f"{where}: {row!r}"
        return moved

    def _check_price(self, one: tp.Counterfactual, earlier: list[Units], where: str, counts: Counter[str]) -> None:
        least = self.explained.cheapest(self.to, earlier, self.holds)
        if one.outcome != Outcome.PROVED:
            counts["OPEN" if self.complete else "open with continuous columns"] += 1
            return
        if math.isinf(least):
            assert math.isinf(one.price) or not self.complete, f"{where}: nothing is found"
        elif self.complete:
            assert math.isfinite(one.price), f"{where}: there is one of {self._root(least)}"
            assert self._same(one.price, least), f"{where}: {self._root(least)} is the least"
        else:
            assert one.price <= self._root(least) * (1 + 1e-11), f"{where}: there is one of {self._root(least)}"

    def _root(self, price: Any) -> float:
        return float(price) if self.power in (None, 1) else float(price) ** (1 / self.power)  # type: ignore[operator]

    def _same(self, price: float, exact: Any) -> bool:
        return math.isclose(price, self._root(exact), rel_tol=1e-11, abs_tol=0.0)


def wanted(random: Random, ensemble: Ensemble) -> list[Any]:
    """One label or several, not all of them."""
    classes = ensemble.classes.tolist()
    return random.sample(classes, random.randint(1, max(1, len(classes) - 1)))


def is_free(attacker: tp.Attacker) -> bool:
    """Whether all moves are free to an attacker, so that none is the cheapest."""
    has_more = attacker.blank or attacker.fill or attacker.rewrites or attacker.groups
    return attacker.power is None and attacker.budget is None and set(attacker.costs.values) == {1} and not has_more


# --- plain attackers -------------------------------------------------------------------------------------------------


def plain_price(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], row: Sequence[float]) -> Price | None:
    """What an attacker pays for a row, by definition; None if he cannot make it."""
    total: Price = 0
    for f, (old, new) in enumerate(zip(x, row, strict=True)):
        if old == new or (math.isnan(old) and math.isnan(new)):
            continue
        low, high = attacker.intervals[f]
        inside = attacker.domain is None or attacker.domain[f][0] <= new <= attacker.domain[f][1]
        if math.isnan(old) or math.isnan(new) or not inside:
            return None
        moved = Fraction(new) - Fraction(old)
        if attacker.p is not None:
            if (low, high) == (0.0, 0.0):
                return None
            total += attacker.power(f, moved)
        elif low <= moved <= high:
            total += attacker.costs[f]
        else:
            return None
    return total if total <= attacker.limit else None


def judge_block(asked: Block, random: Random, n_rows: int, epsilon: bool) -> Counter[str]:
    """Changes of rows of a block, resilient ones with its first neighbourhood."""
    counts: Counter[str] = Counter()
    plain, ensemble = asked.attacker, asked.ensemble
    if plain.p is not None and plain.radius == 0:
        return counts
    attacker, within, to = as_attacker(plain), random.random() < 0.5, wanted(random, ensemble)
    if is_free(attacker):
        return counts
    mine = plain if within else replace(plain, budget=None, radius=math.inf)
    labels = Labels(ensemble)
    rows = asked.rows[:n_rows]
    eps = asked.neighbourhoods[0] if epsilon else None
    words: dict[str, Any] = {} if eps is None else {"epsilon": list(eps)}
    found = tp.counterfactual(ensemble, rows, to=to, attacker=attacker, within=within, k=random.randint(1, 3), **words)
    for x, one in zip(rows, found, strict=True):
        world, holds = plain_rows(ensemble, mine, x, labels), {}
        if eps is not None:
            around = plain_resilient(ensemble, mine, x, eps, labels)
            holds = {made.row: set(near) <= set(to) for made, near in around}
            world = replace(world, made=[made for made, _ in around])
        if mine.p is not None and not _in_range(world, to):
            counts["prices beyond doubles"] += 1
            continue
        judge = Judge(
            ensemble, labels, x, [(f,) for f in range(len(x))], ensemble.feature_names or range(len(x)), to, world,
            True, lambda row, x=x: plain_price(ensemble, mine, x, row), mine.p,
            (lambda made, holds=holds: holds[made.row]) if eps is not None else (lambda made: True),
            lambda row: eps is None or _holds(ensemble, mine, row, eps, labels, to),
        )  # fmt: skip
        judge.judge(one, counts)
        counts["resilient rows" if epsilon else "rows"] += 1
    return counts


def _in_range(world: Explained, to: Collection[Any]) -> bool:
    """Whether powers of distances are within what doubles can be compared by."""
    prices = [Fraction(made.price) for made in world.made if made.price and made.label in to]
    return all(Fraction(2) ** -899 < price < Fraction(2) ** 899 for price in prices)


def _holds(
    ensemble: Ensemble,
    attacker: OracleAttacker,
    row: Sequence[float],
    eps: Sequence[float],
    labels: Labels,
    to: Collection[Any],
) -> bool:
    """Whether all neighbours of a row have a wanted label: what nobody makes of it, with its neighbours."""
    nobody = replace(attacker, intervals=((0.0, 0.0),) * len(row), p=None, budget=None)
    ((_, near),) = plain_resilient(ensemble, nobody, row, eps, labels)
    return set(near) <= set(to)


# --- attackers of every kind, with relations -------------------------------------------------------------------------


def judge_question(asked: Question, random: Random, epsilon: bool = False) -> Counter[str]:
    """Changes of the rows of a question, with all of its relations; resilient ones with its neighbourhood."""
    counts: Counter[str] = Counter()
    asked = replace(asked, attacker=asked.attacker.with_goal(None))
    if epsilon:  # sums of columns are refused there
        single = [one for one in asked.relations if all(len(each.terms) == 1 for each in sums_of(one))]
        asked = replace(asked, relations=single)
    if is_free(asked.attacker):
        return counts
    to, within = wanted(random, asked.ensemble), random.random() < 0.5
    every = [AllPairs(asked, x) for x in asked.X]
    valid = [pairs for pairs in every if pairs.is_valid(pairs.x)]
    if not valid:
        return counts
    words: dict[str, Any] = {"relations": asked.given or None, "voting": asked.voting}
    words |= {"epsilon": asked.epsilon} if epsilon else {}
    found = tp.counterfactual(
        asked.model, np.array([pairs.x for pairs in valid]), to=to, attacker=asked.attacker, within=within,
        k=1 if epsilon else random.randint(1, 3), **words,
    )  # fmt: skip
    for pairs, one in zip(valid, found, strict=True):
        names = [_name(asked, unit) for unit in pairs.units]
        world, holds = pairs.explained(within, every=epsilon), _Holds(asked, pairs.labels, to)
        # Cells of neighbours depend on where in a cell a changed number is, and only its ends are tried.
        complete = pairs.complete and (not epsilon or _is_on_lists(asked, pairs))
        judge = Judge(
            asked.ensemble, pairs.labels, pairs.x, pairs.units, names, to, world, complete,
            lambda row, pairs=pairs: _price(pairs, row), asked.attacker.power,
        )  # fmt: skip
        if epsilon:
            judge = replace(judge, holds=lambda made, holds=holds: holds.at(made.row), holds_at=holds.at)
        judge.judge(one, counts)
        what = "rows with relations" if asked.relations else "rows"
        counts[f"resilient {what}" if epsilon else what] += 1
    return counts


@dataclass(frozen=True)
class _Holds:
    """Whether all neighbours of rows have a wanted label."""

    asked: Question
    labels: Labels
    to: Collection[Any]
    known: dict[tuple[float, ...], bool] = field(default_factory=dict)

    def at(self, row: Sequence[float]) -> bool:
        key = tuple(row)
        if key not in self.known:
            if len(self.known) > MOST_TRIED:
                raise TooManyPairs
            self.known[key] = Around(self.asked, row, self.labels).labels_near() <= set(self.to)
        return self.known[key]


def _is_on_lists(asked: Question, pairs: AllPairs) -> bool:
    """Whether all columns that can change are on grids or lists, and no neighbour of any row is left out."""
    moves = zip(asked.names, asked.columns, strict=False)
    bits = {name for one in asked.relations for name in getattr(one, "names", ())}
    listed = all(
        column.step is not None or column.is_category or column.ends is not None or column.matrix is not None
        or (column.reach == (0.0, 0.0) and column.fill is None and not column.rules) or name in bits
        for name, column in moves
    )  # fmt: skip
    return listed and Around(asked, pairs.x, pairs.labels).complete_near


def _price(pairs: AllPairs, row: Sequence[float]) -> Price | None:
    return pairs.price_of(list(row)) if pairs.is_valid(row) else None


def _name(asked: Question, unit: Sequence[int]) -> str:
    group = next((one for one in asked.relations if getattr(one, "names", None) and len(unit) > 1), None)
    if group is None:
        return asked.names[unit[0]]
    return str(getattr(group, "group", None) or " or ".join(asked.names[f] for f in unit))
