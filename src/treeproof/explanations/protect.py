"""What to protect: the cheapest columns to put out of the attacker's reach so that a share of rows holds.

A row holds iff what is protected hits every set of columns that some attack on it changes. These sets come from
counterexamples: columns are proposed that hit all known ones of enough rows, the cheapest first, and asked about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, counted, disbelieved
from treeproof.explanations.hitting import HittingSets
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.decimals import parse_decimal
from treeproof.results.asked import Unit, unit_number, units_of
from treeproof.results.protection import Protection, Step
from treeproof.results.row_table import RowTable
from treeproof.results.verdicts import Bounds, Outcome, differ
from treeproof.run import clock
from treeproof.run.limits import Limits
from treeproof.run.progress import progress_line
from treeproof.run.watch import run_watched
from treeproof.run.workers import GRACE, Crew, do_task, in_groups
from treeproof.threat.attacker import Attacker
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.one_hot import ValidAround
from treeproof.verification.request import Request
from treeproof.verification.rows import decide_rows, replay_witnesses
from treeproof.verification.verify import neighbourhoods, some_rows

ROWS = 64
"""Rows per task."""

MOST_COST = 2**40
"""What all columns may cost together, in the smallest unit that all costs are multiples of."""

Outcomes: TypeAlias = npt.NDArray[np.int8]
"""(n_rows,) whether each row holds."""

Columns: TypeAlias = npt.NDArray[np.bool_]
"""(n_units,): which are in a set."""


def protect(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    epsilon: Any = None,
    to: float = 0.95,
    costs: Mapping[Any, float] | None = None,
    relations: Any = None,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> Protection:
    """The fewest columns to put out of the attacker's reach so that a share `to` of the rows is robust.

    With `epsilon`, a row counts if it is resilient; neighbours may still differ in what is protected, only the attacker
    cannot touch it. `costs`, {column: cost}, are what protecting a column costs (1 if not named); then the cheapest
    columns are looked for. A one-hot group of `relations` is one column, by its name. A row that the model is wrong
    about never counts, so its accuracy is the most that can be reached. `timeout` is for a row, each time that one is
    asked about; after `max_seconds`, or Ctrl-C, the best columns known come back, and what is proved to be needed.
    `n_jobs` and `relations` are as in `verify`. One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    >>> tp.protect(clf, [[0.25, 0.0], [0.75, 3.0]], [0, 1], tp.Attacker.linf(0.3), to=1.0)
    Protection(feature 0 at a cost of 1, exact; share 1.000 for a goal of 1; 2 rows)
    """
    began = clock.now()
    asked = Request.of(model, X, y, attacker, voting, relations)
    given = neighbourhoods(epsilon, None)
    asked, around = asked.with_neighbours(given)
    units = units_of(asked.ensemble, asked.threat.relations)
    prices = _prices(costs, units, asked.ensemble)
    predicted = asked.ensemble.predict_index(asked.X)
    needed = _needed(to, predicted == asked.y)
    limits = Limits.of(timeout=timeout, max_seconds=max_seconds)
    whole = math.lcm(*(price.denominator for price in prices))
    search = _Search(asked, around, units, _as_whole(prices, whole), predicted, needed, limits)
    crew = Crew(asked.ensemble, n_jobs)
    with progress_line(progress, "protecting") as say, asked.told():

        def work(_: Any) -> None:
            with crew:
                search.run(crew, say)

        interrupted = run_watched(work, limits, None, GRACE)
    return _result(asked, search, prices, whole, to, (costs is not None, given, interrupted, began))


def _prices(given: Any, units: Sequence[Unit], ensemble: Ensemble) -> list[Fraction]:
    """What protecting each unit costs."""
    prices = [Fraction(1)] * len(units)
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput(f"costs is a mapping, {{column: cost}}, got {given!r}", argument="costs")
    for key, value in (given or {}).items():
        name, number = key.item() if isinstance(key, np.generic) else key, unit_number(units, ensemble, key)
        if units[number].is_group and name != units[number].name:
            raise InvalidInput(
                f"costs names {name!r}, one of the columns of {units[number].name!r}; name that group, which is "
                "protected as one"
            )
        prices[number] = parse_decimal(value, f"the cost of {name!r}")
        if prices[number] <= 0:
            raise InvalidInput(f"the cost of {name!r} must be more than 0, got {value!r}", argument="costs")
    return prices


def _as_whole(prices: Sequence[Fraction], unit: int) -> npt.NDArray[np.int64]:
    """Prices in whole parts, so many to 1."""
    if sum(prices) * unit > MOST_COST:
        raise InvalidInput(
            f"costs are compared in parts of 1/{unit}, and together are more than 2**40 of these; round them",
            argument="costs",
        )
    return np.array([int(price * unit) for price in prices], dtype=np.int64)


def _needed(to: Any, is_right: npt.NDArray[np.bool_]) -> int:
    """How many rows have to hold for a share of at least `to`."""
    goal, n, right = parse_decimal(to, "to"), len(is_right), int(is_right.sum())
    if not 0 <= goal <= 1:
        raise InvalidInput(f"to is a share of the rows, from 0 to 1, got {to!r}", argument="to")
    if not n:
        raise InvalidInput("X has no rows; give at least one", argument="X")
    needed = math.ceil(goal * n)
    if needed > right:
        raise InvalidInput(
            f"to={to!r} is out of reach: the model is right about {right} of {n} rows ({right / n:.6g}), and no "
            "protection makes more of them hold",
            argument="to",
        )
    return needed


def _can_move(moves: ColumnMoves) -> bool:
    """Whether the attacker can change a column at all."""
    ways = moves.interval, moves.ends, moves.costs, moves.rules or None, moves.blank, moves.fill
    return any(way is not None for way in ways)


class _Sets:
    """Sets of columns that attacks on rows change."""

    def __init__(self, n_units: int) -> None:
        self._columns, self._owner, self.n = np.zeros((64, n_units), dtype=bool), np.zeros(64, dtype=np.int64), 0

    @property
    def columns(self) -> npt.NDArray[np.bool_]:
        """(n, n_units)"""
        return self._columns[: self.n]

    @property
    def owner(self) -> npt.NDArray[np.int64]:
        """(n,) the row of each."""
        return self._owner[: self.n]

    def add(self, columns: Columns, row: int) -> None:
        """Notes another one."""
        if self.n == len(self._owner):
            self._columns, self._owner = (np.concatenate((one, one)) for one in (self._columns, self._owner))
        self._columns[self.n], self._owner[self.n] = columns, row
        self.n += 1

    def missed(self, protected: Columns) -> npt.NDArray[np.bool_]:
        """Which of them have nothing in common with what is protected."""
        return np.asarray(~self.columns[:, protected].any(axis=1))


@dataclass(eq=False)
class _Search:
    """The search for the cheapest units; everything that it knows is kept when time is up."""

    asked: Request
    around: tuple[ValidAround, ...]
    units: Sequence[Unit]
    costs: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.int64]
    needed: int
    limits: Limits

    def __post_init__(self) -> None:
        self.right = self.predicted == self.asked.y
        self.sets = _Sets(len(self.units))
        self.held: list[tuple[Columns, npt.NDArray[np.bool_]]] = []
        """What was protected, and the rows that are proved to hold then; they hold if more is protected, too."""
        moves_of = self.asked.threat.moves_of
        self.everything = np.array(
            [unit.is_group or any(_can_move(moves_of(f)) for f in unit.features) for unit in self.units]
        )
        """The units that the attacker can change at all."""
        self.best = self.everything, np.where(self.right, np.int8(Outcome.PROVED), np.int8(Outcome.REFUTED))
        """The cheapest units known that are enough, and the outcomes then: if all are protected, nobody can attack."""
        self.path: list[tuple[Columns, Outcomes]] = []
        self.least = 0
        self._crew: Crew[Ensemble] | None = None
        self._say: Callable[[str], None] = lambda _: None

    def cost(self, protected: Columns) -> int:
        """What units cost together."""
        return int(self.costs[protected].sum())

    @property
    def may_miss(self) -> int:
        """How many rows that the model is right about need not hold."""
        return int(self.right.sum()) - self.needed

    def run(self, crew: Crew[Ensemble], say: Callable[[str], None]) -> None:
        """First some units that are enough, one after another; then those of them that are; then the cheapest ones."""
        self._crew, self._say = crew, say
        self._grow()
        self._thin()
        self._prove()

    def _grow(self) -> None:
        """Protects one unit after another until that is enough."""
        protected = np.zeros(len(self.units), dtype=bool)
        while (self.everything & ~protected).any() and not self.limits.is_over():
            outcomes = self._check(protected)
            self.path.append((protected.copy(), outcomes))
            if self._take(protected, outcomes):
                return
            protected[self._next(protected)] = True
        if not self.limits.is_over():
            self.path.append(self.best)

    def _next(self, protected: Columns) -> int:
        """The unit that makes most rows hold for its cost, as far as is known, and then the one in most sets."""
        missed = self.sets.missed(protected)
        columns, owner = self.sets.columns[missed], self.sets.owner[missed]
        contains = np.zeros((len(self.right), len(self.units)), dtype=np.int64)
        np.add.at(contains, owner, columns)
        total = np.bincount(owner, minlength=len(self.right))
        mended = ((contains == total[:, None]) & (total[:, None] > 0)).sum(axis=0)
        seen = (contains > 0).sum(axis=0)
        worth = np.where(protected | ~self.everything, -1.0, (mended + seen / (1 + len(self.right))) / self.costs)
        return int(worth.argmax())

    def _thin(self) -> None:
        """Leaves out units, the dearest first, that are not needed for what is enough already."""
        for unit in sorted(np.flatnonzero(self.best[0]).tolist(), key=lambda unit: -int(self.costs[unit])):
            if self.limits.is_over():
                return
            fewer = self.best[0].copy()
            fewer[unit] = False
            self._take(fewer, self._check(fewer, enough=True))

    def _prove(self) -> None:
        """Asks about all that might be enough and costs less, the cheapest first."""
        numbers = np.cumsum(self.right) - 1
        hitting, known = HittingSets(self.costs, int(self.right.sum()), self.may_miss), 0
        while True:
            for columns, row in zip(self.sets.columns[known:], self.sets.owner[known:], strict=True):
                hitting.add(columns, int(numbers[row]) if self.may_miss else 0)
            known = self.sets.n
            candidate = hitting.propose(self.limits.is_over, below=self.cost(self.best[0]))
            self.least = min(hitting.least, self.cost(self.best[0]))
            if candidate is None:
                return
            outcomes = self._check(candidate, enough=True)
            is_refuted = (outcomes == Outcome.REFUTED).sum() > len(outcomes) - self.needed
            if not self._take(candidate, outcomes) and not is_refuted:
                return  # time was up for some rows

    def _take(self, protected: Columns, outcomes: Outcomes) -> bool:
        """Whether some units are enough; if so, and if they are cheaper than those known, they are noted."""
        is_enough = bool((outcomes == Outcome.PROVED).sum() >= self.needed)
        if is_enough and self.cost(protected) <= self.cost(self.best[0]):
            self.best = protected.copy(), outcomes
        return is_enough

    def _check(self, protected: Columns, enough: bool = False) -> Outcomes:
        """Which rows hold if some units are protected; if that is `enough`, no more than tells whether these do."""
        outcomes = np.where(self.right, np.int8(Outcome.UNKNOWN), np.int8(Outcome.REFUTED))
        for less, hold in self.held:
            if not (less & ~protected).any():
                outcomes[hold] = Outcome.PROVED
        outcomes[self.sets.owner[self.sets.missed(protected)]] = Outcome.REFUTED
        left = np.flatnonzero(outcomes == Outcome.UNKNOWN)

        def is_lost() -> bool:
            return enough and bool((outcomes == Outcome.REFUTED).sum() > len(outcomes) - self.needed)

        groups = [left[some] for some in in_groups(len(left), ROWS)]
        for number, table in self._tables(protected, groups, is_lost):
            rows = groups[number]
            outcomes[rows] = table.resilience[0] if self.around else table.stability
            self._note(protected, rows, table)
        self.held.append((protected.copy(), outcomes == Outcome.PROVED))
        self._say(f"{len(self.held)} sets of columns asked about, {int(self.best[0].sum())} columns are enough")
        return np.asarray(outcomes)

    def _tables(
        self, protected: Columns, groups: Sequence[npt.NDArray[np.int64]], is_lost: Callable[[], bool]
    ) -> Iterator[tuple[int, RowTable]]:
        """What is found out about groups of rows, until nothing more needs to be."""
        asked, ensemble = self.asked, self.asked.ensemble
        features = [
            f for unit, there in zip(self.units, protected.tolist(), strict=True) if there for f in unit.features
        ]
        frozen = replace(asked, threat=asked.threat.freeze(features))
        tasks = (some_rows(frozen, self.predicted, rows, self.around, self.limits) for rows in groups if not is_lost())
        if self._crew is None or self._crew.size == 1 or len(groups) == 1:
            yield from enumerate(do_task(decide_rows, ensemble, task) for task in tasks)
        else:
            yield from self._crew.answers(decide_rows, tasks, self.limits)

    def _note(self, protected: Columns, rows: npt.NDArray[np.int64], table: RowTable) -> None:
        """Notes what the counterexamples change, once they have been replayed on the source model."""
        with counted(rows):
            replay_witnesses(self.asked.ensemble, table)
        found = np.flatnonzero(table.has_witness)
        moved = differ(table.neighbour[found], table.attacked[found])
        changed = np.stack([moved[:, list(unit.features)].any(axis=1) for unit in self.units], axis=1)
        if (changed & (protected | ~self.everything)).any() or not changed.any(axis=1).all():
            raise disbelieved("an attack was found that changes what nobody can", rows)
        for columns, row in zip(changed, rows[found].tolist(), strict=True):
            self.sets.add(columns, row)


def _result(
    asked: Request,
    search: _Search,
    prices: Sequence[Fraction],
    whole: int,
    to: Any,
    more: tuple[bool, Any, bool, float],
) -> Protection:
    """The result in the user's own names and costs."""
    has_costs, given, interrupted, began = more
    protected, outcomes = search.best

    def names(some: Columns) -> tuple[str | int, ...]:
        return tuple(unit.name for unit, there in zip(search.units, some.tolist(), strict=True) if there)

    def plain(cost: Fraction) -> float:
        return cost.numerator if cost.denominator == 1 else float(cost)

    return Protection(
        names(protected),
        Bounds.of(outcomes),
        float(parse_decimal(to, "to")),
        plain(sum((price for price, there in zip(prices, protected.tolist(), strict=True) if there), Fraction(0))),
        plain(Fraction(search.least, whole)),
        tuple(Step(names(some), Bounds.of(known)) for some, known in search.path),
        len(asked.X),
        float(search.right.mean()),
        asked.attacker,
        given[0] if given else None,
        has_costs,
        asked.ensemble.origin,
        asked.threat.relations.given,
        int(asked.threat.has_missing(asked.X).sum()),
        int(asked.threat.relations.broken(asked.X).sum()) if asked.threat.relations else 0,
        clock.now() - began,
        interrupted,
        asked.attacker_words,
    )
