"""Exact verdicts on single rows: is the label the same on all that an attacker can reach from a box of neighbours?

`Local.decide` answers for a batch of rows with compiled code (`_kernels/search/rows.py`). A counterexample comes back
as cells; here it becomes doubles, and for neighbourhoods the pair (z, w) that shows an unstable z. See docs/theory.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.errors import disbelieved
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray, double_at_least, root_at_most
from treeproof.numbers.moves import shortest_moves
from treeproof.numbers.patience import in_time
from treeproof.results.verdicts import Outcome
from treeproof.run import clock
from treeproof.run.limits import Limits
from treeproof.run.watch import watched
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.threat import Threat
from treeproof.verification.exact_prices import exact_prices, no_exact_prices
from treeproof.verification.pairs import Boxes, Pairs
from treeproof.verification.part_proofs import content_row
from treeproof.verification.proofs import PAIRS, Proof, Recorder
from treeproof.verification.space import Space

NO_CELL = -2
"""Stands in place of cells where there is no counterexample."""

MAX_BUDGET = 1e307
"""Of an Lp attacker, so that no sum of prices overflows; prices are at most 1e299."""


SMALLEST_PRICE, LARGEST_PRICE = 2.0**-900, 2.0**900
"""Between these, sums of powers of distances are exact but for rounding."""

FEW_CLASSES = 3
"""Toward how many classes the first hunt goes."""
MOST_KNOWN = 32
"""How many counterexamples of other rows are tried."""

FEW_NODES, FEW_LOOKS, FEW_SECONDS = 2**19, 4096, 0.01
"""A search is tried without a thread if all rows together meet at most so many nodes, and so many trees as looks. It
goes on in a thread that is watched after so many looks, or with something left to do after so many seconds."""

Ints: TypeAlias = "npt.NDArray[np.int64]"
Cells: TypeAlias = "npt.NDArray[np.int32]"
Boxed: TypeAlias = "tuple[FloatArray, FloatArray, FloatArray]"
"""Rows, and the ends of their boxes of neighbours."""
_OneRow: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, Ints, FloatArray]
"""The ends of its box of neighbours, a point of it, the label of that, and the row: arrays of one row each."""

Stage: TypeAlias = "Callable[[Ints], None]"
"""Searches rows in one way."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Per row the outcome, and for refuted rows the neighbour and the attacked row that show it."""

    outcome: npt.NDArray[np.int8]
    neighbour: FloatArray
    attacked: FloatArray
    boxes: int
    proofs: tuple[Proof, ...] = ()
    """If they are recorded: per row that is proved what proves it, or why that is not there."""


@dataclass(frozen=True, eq=False)
class Attacks:
    """Per row whether an attack is proved to be the cheapest, the row after it, and its price: inf if there is none."""

    outcome: npt.NDArray[np.int8]
    attacked: FloatArray
    price: FloatArray


class Local:
    """The local search for one model and one attacker.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = tp.from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
    >>> local = Local(model, tp.Attacker.linf(0.3).bind(model))
    >>> local.decide(np.array([[0.0], [0.3]]), np.zeros(1)).outcome.tolist()
    [0, 1]
    """

    patience = 300
    """Boxes after which a row counts as hard and is searched with costlier, tighter bounds."""
    efforts = ((1, 1, 2**62), (0, 8, 8), (0, 16, 8), (8, 16, 2**62), (64, 48, 2**62))
    """How many regions are balanced in each race, how wide the hunt after that is, and toward how many classes it goes:
    before hard rows are divided until nothing is left."""
    max_looks = 2**62
    """How often a call may look at the clock; tests end searches everywhere with it."""

    def __init__(
        self,
        ensemble: Ensemble,
        threat: Threat,
        limits: Limits | None = None,
        space: Space | None = None,
        sums: Any = None,
        proof_limit: int = 0,
    ) -> None:
        """Proofs of up to `proof_limit` bytes are recorded; 0: none are."""
        self.ensemble = ensemble
        self.threat = threat
        self.limits = limits or Limits()
        self.boxes = self.looks = 0
        self.used: FloatArray = np.zeros(1)
        """Of the last search, the seconds that each row has had, with those of searches before it."""
        self._owner = np.zeros(1, dtype=np.int64)
        """For each box that is searched, the row whose time it takes."""
        self.space = Space(ensemble, blanks=threat.blanks) if space is None else space
        self._sums = _no_sums() if sums is None else sums
        self.around: npt.NDArray[Any] = np.empty(0)
        """Where valid rows keep sums, the cells (n_rows, n_features) around each counterexample that are as good."""
        self._proof_limit = proof_limit
        self._claims: list[Proof] = []
        """Of the last search, per row what proves it, if that was recorded."""
        self._start = self.space.start
        self._depth = self.space.compiled[0].depth
        # Prices matter unless everything within reach is affordable, and reach has no gaps.
        too_poor = threat.power is not None or threat.budget < int(threat.cost.sum())
        self._flat = too_poor and threat.is_flat
        self._blocked = self._blocked_cells()
        self._limited = bool(too_poor or threat.away.any() or len(self._blocked) or threat.columns or threat.groups)
        self._lowest, self._highest = self.space.cell_ends
        self._goal = np.full(ensemble.n_classes, not threat.goal)
        self._goal[list(threat.goal)] = True
        self._group = np.full(ensemble.n_features, -1, dtype=np.int32)
        for g, features in enumerate(threat.groups):
            self._group[list(features)] = g

    def _blocked_cells(self) -> npt.NDArray[np.bool_]:
        """Which cells no move can end in though others on both sides of them can be reached; empty if there is none."""
        grid = self.space.grid
        blocked = np.zeros(self._start[-1], dtype=np.bool_)
        for f, ends in self.threat.ends:
            cells = grid.cells_of(f, ends)
            own = blocked[self._start[f] : self._start[f + 1]]
            own[cells.min() : cells.max() + 1] = True
            own[cells] = False
        return blocked if blocked.any() else blocked[:0]

    def decide(self, X: FloatArray, epsilon: FloatArray, labels: Ints | None = None) -> Decisions:
        """Per row of X: is the model stable at every row of its neighbourhood? With ε = 0, at the row itself.

        `labels` are the indices of the classes that the model predicts for X, if they are known already.
        """
        return self.decide_boxes(X, *self.threat.neighbourhood(X, epsilon), labels)

    def decide_boxes(
        self,
        X: FloatArray,
        low: FloatArray,
        high: FloatArray,
        labels: Ints | None = None,
        used: FloatArray | None = None,
    ) -> Decisions:
        """Per row of X: is the model stable at every row from `low` to `high`, doubles around that row of X?

        Of each row's time so many seconds are `used`.
        """
        labels = self.ensemble.predict_index(X) if labels is None else labels
        used = np.zeros(len(X)) if used is None else used.copy()
        is_over = self.limits.for_rows(len(X), used.sum())
        # Nobody attacks a row that has a label he wants, but maybe its neighbours.
        wanted = np.isin(labels, self.threat.goal)
        status, cells = np.full(len(X), Outcome.PROVED, dtype=np.int64), np.zeros(X.shape, dtype=np.int32)
        asked = np.flatnonzero(~wanted)
        status[asked], cells[asked] = self._search(low[asked], high[asked], X[asked], labels[asked], None, used[asked])
        used[asked] = self.used
        proofs = self._claims_of(labels, asked)
        neighbour, attacked, late = self._in_time(status == Outcome.REFUTED, (X, low, high), cells, is_over)
        status[late] = Outcome.UNKNOWN
        broken = np.flatnonzero(status == Outcome.REFUTED)
        open_rows = broken[~self.shows(X[broken], neighbour[broken], attacked[broken])]
        content = np.flatnonzero(wanted & (low < high).any(axis=1))
        if len(open_rows) or len(content):
            mixed = np.concatenate((open_rows, content))
            every = np.arange(len(mixed))
            pairs = Pairs(self, Boxes(every, every, low[mixed], high[mixed], X[mixed], neighbour[mixed]), used[mixed])
            pairs.settle()
            used[mixed] = pairs.used
            for k, row in enumerate(mixed.tolist() if proofs else ()):
                proofs[row] = pairs.proofs.proof(k)
            status[mixed], neighbour[mixed], attacked[mixed] = pairs.outcome, pairs.neighbour, pairs.attacked
        self.used = used
        return Decisions(status.astype(np.int8), neighbour, attacked, self.boxes, tuple(proofs))

    def one_label(self, X: FloatArray, low: FloatArray, high: FloatArray) -> Decisions:
        """Per row of X: has all that the attacker makes of rows from `low` to `high`, and have they, its label?"""
        is_over = self.limits.for_rows(len(X))
        status, cells = self._search(low, high, X, self.ensemble.predict_index(X))
        neighbour, attacked, late = self._in_time(status == Outcome.REFUTED, (X, low, high), cells, is_over)
        status[late] = Outcome.UNKNOWN
        return Decisions(status.astype(np.int8), neighbour, attacked, self.boxes, tuple(self._claims))

    def _claims_of(self, labels: Ints, asked: Ints) -> list[Proof]:
        """Per row the claim that was recorded by the last search, of rows that were `asked` about.

        Nobody attacks the others, unless he attacks their neighbours.
        """
        if not self._proof_limit:
            return []
        claims: list[Proof] = [
            content_row(label, self.threat.goal, self.ensemble.n_classes) for label in labels.tolist()
        ]
        for row, claim in zip(asked.tolist(), self._claims, strict=True):
            claims[row] = claim
        return claims

    def shows(self, _x: FloatArray, neighbour: FloatArray, attacked: FloatArray) -> npt.NDArray[np.bool_]:
        """Which pairs of rows within reach of others are counterexamples: the label changes, to one that is wanted."""
        before, after = self.ensemble.predict_index(neighbour), self.ensemble.predict_index(attacked)
        wants = self._goal
        return np.asarray(wants[after] & ~wants[before] if self.threat.goal else before != after)

    def search_within(
        self,
        X: FloatArray,
        reach: tuple[FloatArray, FloatArray],
        budget: FloatArray | None = None,
        unaffordable: Cells | None = None,
        used: FloatArray | None = None,
        below: Fraction | None = None,
    ) -> tuple[Ints, Cells]:
        """Outcomes per row, and the cells of counterexamples, for another reach (and budgets) than the attacker's own.

        `reach` is the lowest and the highest double that a move of each entry can end at. Prices of an Lp attacker
        are rounded down: the caller checks what a counterexample costs, and names those that are `unaffordable`, the
        same number (n_rows, n, n_features) for each row; or only what is `below` a price is asked about, for one row.
        Of each row's time so many seconds are `used`. One parameter per part of the question.
        """
        exact = None if below is None else exact_prices(self.threat, self.space, X[0], (X[0], X[0]), below, True)
        labels = self.ensemble.predict_index(X)
        return self._run(X, X, X, labels, X, (), unaffordable, reach, budget, exact=exact, used=used)

    def cheapest(self, X: FloatArray, within: bool, labels: Ints | None = None) -> Attacks:
        """Per row of X the cheapest attack, at most at the attacker's own budget or radius if `within`.

        PROVED: there is none that is cheaper, or none at all, and the row is unchanged. Otherwise time was up. Where
        prices are not whole numbers, the next ones may be cheaper by less than a share of `TRACE`.
        """
        labels = self.ensemble.predict_index(X) if labels is None else labels
        threat, is_over = self.threat, self.limits.for_rows(len(X))
        budget = MAX_BUDGET if not within and threat.power is not None else None
        status, cells = self._run(X, X, X, labels, X, (), None, None, budget, cheapest=True)
        # Nobody attacks a row that has a label he wants.
        content = np.isin(labels, threat.goal)
        status[content], cells[content] = Outcome.PROVED, NO_CELL
        used = self.used
        if within and threat.power is not None:
            for row in np.flatnonzero(cells[:, 0] != NO_CELL):
                one = slice(row, row + 1)
                asked = X[one], X[one], X[one], labels[one], X[one]
                status[one], cells[one] = self._really_affordable(asked, (status[one], cells[one]), used[one], True)
                used[one] = self.used
        self.used = used
        found, price = cells[:, 0] != NO_CELL, np.full(len(X), np.inf)
        attacked, late = self._in_time(found, (X, X, X), cells, is_over)[1:]
        found[late] = False
        for row in np.flatnonzero(found).tolist():
            priced = partial(price_of_attack, threat, X[row], attacked[row], within)
            price[row] = in_time(is_over, priced, np.inf)
            found[row] = price[row] < np.inf
        status[(cells[:, 0] != NO_CELL) & ~found] = Outcome.UNKNOWN
        attacked[~found] = X[~found]
        if threat.power is not None:
            # Powers of such distances are not normal doubles, and cannot be compared.
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                power = price**threat.power
            status[found & ~((power > SMALLEST_PRICE) & (power < LARGEST_PRICE))] = Outcome.UNKNOWN
        return Attacks(status.astype(np.int8), attacked, price)

    def _search(
        self,
        low: FloatArray,
        high: FloatArray,
        own: FloatArray,
        labels: Ints,
        X: FloatArray | None = None,
        used: FloatArray | None = None,
        owner: Ints | None = None,
    ) -> tuple[Ints, Cells]:
        """Outcomes per box [low, high] of neighbours, and the cells of counterexamples; all rows in compiled code.

        `labels` are those of `own`, a point of each box; the boxes are those of neighbours of X, if not of `own`. Of
        each row's time so many seconds are `used`; boxes of one `owner` share its time.
        """
        X = own if X is None else X
        gaps = tuple(
            (f, self._own_prices(self.threat.moves_of(f), f, X, low, high)) for f in self._with_gaps(low, high)
        )
        status, cells = self._run(low, high, own, labels, X, gaps, used=used, owner=owner)
        used, claims, owner = self.used, self._claims, self._owner
        if self.threat.power is not None:
            for row in np.flatnonzero(status == Outcome.REFUTED):
                one = slice(row, row + 1)
                asked = low[one], high[one], own[one], labels[one], X[one]
                its = owner[one]
                status[one], cells[one] = self._really_affordable(asked, (status[one], cells[one]), used[its])
                used[its] = self.used
                if status[row] == Outcome.PROVED:
                    claims[row] = self._claims[0]
        self._claims, self.used = claims, used
        return status, cells

    def _with_gaps(self, low: FloatArray, high: FloatArray) -> Iterator[int]:
        """Features whose interval, without 0, is so narrow that some cells between reachable ones are not reachable."""
        threat = self.threat
        if not threat.away.any():
            return
        ends = [np.abs(end) for end in (low, high, *threat.reach(low, high))]
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = threat.high - threat.low < np.spacing(np.max(ends, axis=0))
        yield from np.flatnonzero((threat.away & narrow & (low < high)).any(axis=0)).tolist()

    def _run(
        self,
        low: FloatArray,
        high: FloatArray,
        own: FloatArray,
        labels: Ints,
        X: FloatArray,
        own_prices: tuple[tuple[int, FloatArray], ...] = (),
        unaffordable: Cells | None = None,
        reach: tuple[FloatArray, FloatArray] | None = None,
        budget: float | FloatArray | None = None,
        cheapest: bool = False,
        exact: Any = None,
        used: FloatArray | None = None,
        owner: Ints | None = None,
    ) -> tuple[Ints, Cells]:
        """Outcomes, and the cells of counterexamples. One parameter per part of the question.

        `own_prices` are those of all cells of a feature, for each row; `exact` those of a single row. Of each row's
        time so many seconds are `used`; boxes of one `owner` share its time.
        """
        # What no search proves here is left to the one for pairs.
        self._claims = [PAIRS] * len(low)
        self.used = np.zeros(len(low)) if used is None else used.copy()
        self._owner = np.arange(len(low)) if owner is None else owner
        if len(low) == 0:
            return np.empty(0, dtype=np.int64), np.empty(low.shape, dtype=np.int32)
        rows, began = np.unique(self._owner), clock.at_work()
        bind = partial(self.asked_about, low, high, own, labels, X, own_prices, reach, budget)
        asked = in_time(self.limits.for_rows(len(rows), self.used[rows].sum()), bind, None)
        self._share(clock.at_work() - began)
        if asked is None:
            return np.full(len(low), Outcome.UNKNOWN, dtype=np.int64), np.full(low.shape, NO_CELL, dtype=np.int32)
        if unaffordable is not None:
            asked = asked._replace(unaffordable=np.ascontiguousarray(unaffordable))
        if exact is not None:
            asked = asked._replace(prices=asked.prices._replace(exact=exact))
        if cheapest:
            prices = asked.prices._replace(limited=True, flat=self.threat.is_flat)
            asked = asked._replace(prices=prices, cheapest=True)
        found = self._within_limits(asked)
        self.around = found.around
        self.boxes += int(found.boxes.sum())
        # A search for the cheapest that is done has proved that nothing is cheaper than what it found, if anything.
        some = np.isfinite(found.price) if cheapest else found.status == Outcome.REFUTED
        return found.status, np.where(some[:, None], found.cells, np.int32(NO_CELL))

    def _share(self, seconds: float) -> None:
        """Notes time that all boxes took together."""
        self.used += seconds * np.bincount(self._owner, minlength=len(self.used)) / len(self._owner)

    def asked_about(
        self,
        low: FloatArray,
        high: FloatArray,
        own: FloatArray,
        labels: Ints,
        X: FloatArray,
        own_prices: tuple[tuple[int, FloatArray], ...] = (),
        reach: tuple[FloatArray, FloatArray] | None = None,
        budget: float | FloatArray | None = None,
    ) -> Any:
        """The same question as kernels take it: where each row can be, and at what price."""
        from treeproof._kernels.search.asked import Asked, Prices

        threat = self.threat
        reachable = self._reachable(low, high, own, threat.reach(low, high) if reach is None else reach)
        own_prices = (*own_prices, *((f, self._own_prices(moves, f, X, low, high)) for f, moves in threat.columns))
        at, tables, width = np.full(low.shape[1], -1), [np.empty((len(low), 0))], 0
        for f, table in own_prices:
            _fit_reach(reachable[:, f], table)
            at[f], width = width, width + table.shape[1]
            tables.append(table)
        budgets = np.full(len(low), double_at_least(threat.limit) if budget is None else budget)
        if threat.power is not None:
            # Prices are rounded down one by one, but their sums, along paths of trees, are not.
            steps = low.shape[1] + self._depth + 8
            budgets = np.minimum(budgets, MAX_BUDGET) * (1.0 + steps * 2.0**-50)
        prices = Prices(
            self._start,
            threat.cost.astype(np.float64),
            self._blocked,
            threat.power or 0,
            threat.unit,
            low,
            high,
            self._lowest,
            self._highest,
            at,
            np.concatenate(tables, axis=1),
            budgets,
            self._group,
            np.array(threat.group_budgets, dtype=np.float64),
            self._limited,
            self._flat,
            no_exact_prices(),
        )
        nothing = np.empty((len(low), 0, low.shape[1]), dtype=np.int32)
        return Asked(reachable, prices, labels, nothing, False, self._goal, self._sums)

    def _reachable(
        self, low: FloatArray, high: FloatArray, own: FloatArray, reach: tuple[FloatArray, FloatArray]
    ) -> npt.NDArray[Any]:
        """Where each feature of each row can be."""
        from treeproof._kernels.search.asked import REACH

        some = reach[0] <= reach[1]
        ends = self.space.cells(np.concatenate((low, high, own, *reach))).reshape(5, *low.shape)
        reachable = np.empty(low.shape, dtype=REACH)
        reachable["near_low"], reachable["near_high"], reachable["own"] = ends[:3]
        reachable["reach_low"], reachable["reach_high"] = np.where(some, ends[3], 1), np.where(some, ends[4], 0)
        return reachable

    def _own_prices(self, moves: ColumnMoves, f: int, own: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """What the cells of a feature cost that has prices of its own, for each row."""
        is_blank = f in self.space.blanks
        lowest, highest = self.space.ends_of(f)
        n = len(lowest) - is_blank
        return moves.table(own[:, f], low[:, f], high[:, f], lowest[:n], highest[:n], is_blank)

    def _stages(self, asked: Any, found: Any, watch: Any, recorder: Recorder) -> Iterator[Stage]:
        """Easy rows first; what is costly to compute, and to compile, is for those that are left."""
        from treeproof._kernels.search.asked import HARD, question_about
        from treeproof._kernels.search.rows import room_for
        from treeproof._kernels.search.spending import purse_for

        question = question_about(*self.space.compiled, asked, found, watch, recorder.proof)
        room = room_for(question.model, asked.prices)
        purse = purse_for(len(question.cells) if asked.prices.limited else 0)

        def run(kernel: Any, *effort: Any) -> Stage:
            """Has a kernel search rows."""
            return partial(recorder.in_turns, lambda rows: kernel(question, asked, found, room, purse, rows, *effort))

        # Single moves rarely keep sums, and what is cheaper is found by proofs as well.
        hunts = asked.prices.limited and not (asked.cheapest and len(asked.sums.bound))
        if not asked.prices.limited:
            from treeproof._kernels.search.rows import race_rows

            if len(question.model.more):
                # Where tests have many cuts, climbing takes long, and a hunt at no price does not.
                free = asked._replace(prices=asked.prices._replace(cost=np.zeros_like(asked.prices.cost), limited=True))
                priced = room_for(question.model, free.prices)
                yield partial(self._hunt, question, free, found, priced, 1, FEW_CLASSES)
            races = partial(race_rows, question, asked, found, room)
            yield partial(recorder.in_turns, lambda rows: races(rows, self.patience))
        else:
            from treeproof._kernels.search.spend import spend_rows

            if hunts:
                yield partial(self._hunt, question, asked, found, room, 1, FEW_CLASSES)
            yield run(spend_rows, self.patience // 4)
        if HARD in found.status:
            from treeproof._kernels.search.divide import divide_rows

            # Proofs and hunts by turns, each time with more effort, and hunts only toward what is not proved.
            for regions, width, classes in self.efforts if hunts else ():
                # Where a feature costs the same wherever it goes, there are only so many sets of features to buy.
                if regions and asked.prices.flat:
                    yield run(spend_rows, self.patience * regions)
                elif regions:
                    yield run(divide_rows, self.patience, regions)
                price = found.price.copy()
                yield partial(self._hunt, question, asked, found, room, width, classes)
                # If a beam finds nothing that is cheaper, most often there is nothing.
                if asked.cheapest and width > 1 and (found.price >= price)[found.status == HARD].all():
                    break
            yield run(divide_rows, self.patience, 2**62)

    def _hunt(self, question: Any, asked: Any, found: Any, room: Any, width: int, most: int, rows: Ints) -> None:
        """Hunts for counterexamples with a beam of this width, toward so many classes, after trying those of others."""
        from treeproof._kernels.search.hunt import hunt_rows, scratch_for

        broken = np.flatnonzero(found.status == Outcome.REFUTED)[-MOST_KNOWN:]
        moved = found.cells[broken] != asked.reach["own"][broken]
        known = np.where(moved, found.cells[broken], np.int32(-1))
        hunt_rows(question, asked, found, room, scratch_for(question, room, width), rows, known, width, most)

    def _within_limits(self, asked: Any) -> Any:
        """What the limits leave time to find."""
        from treeproof._kernels.search.asked import HARD, Watch

        found = self._nothing_found(asked)
        if self.is_used_up(self.used[self._owner]):
            return found
        watch = Watch(np.array([0, 0, self.max_looks], dtype=np.int64), np.zeros(1, dtype=np.int64))
        found.status[:] = HARD
        limit = 0 if asked.cheapest else self._proof_limit
        recorder = Recorder(limit, self.ensemble, len(asked.labels), self.space.frame if limit else None)
        stages = self._stages(asked, found, watch, recorder)
        # To start a thread takes longer than most searches of a row. There is at least one look per row and tree.
        nodes, trees = (len(asked.labels) * n for n in (self.ensemble.n_nodes, self.ensemble.n_trees))
        # Where prices matter, more is done between two looks.
        few = FEW_NODES // 8 if asked.prices.limited else FEW_NODES
        if nodes <= few and trees <= FEW_LOOKS < self.max_looks:
            began = clock.at_work()
            stages = self._for_a_moment(stages, found, watch)
            self._share(clock.at_work() - began)
        if HARD in found.status:
            self._watched(lambda: _go_through(stages, found), watch)
        self.looks += int(watch.stop[1])
        found.status[found.status == HARD] = Outcome.UNKNOWN
        if recorder.is_on:
            wanted = np.flatnonzero(self._goal).tolist()
            for row in np.flatnonzero(found.status == Outcome.PROVED).tolist():
                self._claims[row] = recorder.claim(row, int(asked.labels[row]), wanted)
        return found

    def _for_a_moment(self, stages: Iterator[Stage], found: Any, watch: Any) -> Iterator[Stage]:
        """Goes through stages of a search without a thread; what is left of them, as soon as that takes long."""
        from treeproof._kernels.search.asked import HARD

        watch.stop[2], until, stage = FEW_LOOKS, clock.now() + FEW_SECONDS, None
        while stage is None and HARD in found.status and (stage := next(stages, None)) is not None:
            if clock.now() <= until:
                boxes = found.boxes.copy()
                stage(np.flatnonzero(found.status == HARD))
                # Rows that were under way are begun again: what is open of them is not known.
                cut_short = found.status == Outcome.UNKNOWN
                found.status[cut_short], found.open[cut_short] = HARD, self._goal
                if watch.stop[1] <= FEW_LOOKS:
                    stage = None
                else:
                    # The stage comes again for all that is hard; boxes are counted once.
                    again = found.status == HARD
                    found.boxes[again] = boxes[again]
        watch.stop[2] = self.max_looks
        return stages if stage is None else itertools.chain((stage,), stages)

    def _nothing_found(self, asked: Any) -> Any:
        """Where a search writes what it finds."""
        from treeproof._kernels.search.asked import Found
        from treeproof._kernels.search.region import CELLS

        n = len(asked.labels)
        return Found(
            np.full(n, Outcome.UNKNOWN, dtype=np.int64),
            np.zeros(asked.reach.shape, dtype=np.int32),
            np.zeros(asked.reach.shape if len(asked.sums.bound) else (0, 0), dtype=CELLS),
            np.full(n, np.inf),
            np.zeros(n, dtype=np.int64),
            np.tile(self._goal, (n, 1)),
            np.full((n, self.ensemble.n_classes), -(2**62)),
        )

    def _watched(self, work: Callable[[], None], watch: Any) -> None:
        """Runs compiled work on rows in a thread, and ends it by `watch` when a row or all have had their time."""
        limits, used, owner = self.limits, self.used, self._owner
        row, since = 0, clock.at_work()

        def note() -> None:
            nonlocal row, since
            now = clock.at_work()
            if row > 0:
                used[owner[row - 1]] += now - since
            row, since = int(watch.progress[0]), now

        def look() -> None:
            note()
            if self.is_used_up(used[owner]):
                watch.stop[0] = -1
            elif limits.timeout is not None and row > 0 and used[owner[row - 1]] > limits.timeout:
                watch.stop[0] = row

        watched(work, limits, look)
        note()

    def _really_affordable(
        self, asked: _OneRow, answer: tuple[Ints, Cells], used: FloatArray, cheapest: bool = False
    ) -> tuple[Ints, Cells]:
        """Searches a row again, by exact prices, if its counterexample costs more than its rounded-down prices said.

        What exact prices of too many digits leave open is left out one by one, all in the time of one row.
        """
        (low, high, _, _, X), (status, cells), exact = asked, answer, None
        self.used = used
        unaffordable = np.empty((1, 0, low.shape[1]), dtype=np.int32)
        while not self._affordable(X, low, high, cells):
            if status[0] == Outcome.UNKNOWN or self.is_used_up(self.used):
                return np.full_like(status, Outcome.UNKNOWN), np.full_like(cells, NO_CELL)
            if exact is None:
                exact = exact_prices(self.threat, self.space, X[0], (low[0], high[0]), self.threat.limit, False)
            unaffordable = np.concatenate((unaffordable, cells[None]), axis=1)
            status, cells = self._run(*asked, (), unaffordable, cheapest=cheapest, exact=exact, used=self.used)
        return status, cells

    def is_used_up(self, used: FloatArray) -> bool:
        """Whether all these rows have had their time."""
        return self.limits.is_over() or (self.limits.timeout is not None and bool((used >= self.limits.timeout).all()))

    def _affordable(self, X: FloatArray, low: FloatArray, high: FloatArray, cells: Cells) -> bool:
        """Whether an Lp attacker can pay for the way from the box of a row into these cells, if there are any."""
        if cells[0, 0] == NO_CELL:
            return True
        z, w = self._doubles(X, low, high, cells)
        return self.threat.can_do(X[0], z[0], w[0])

    def _in_time(
        self, found: npt.NDArray[np.bool_], boxes: Boxed, cells: Cells, is_over: Callable[[], bool]
    ) -> tuple[FloatArray, FloatArray, Ints]:
        """For rows that something was found of what `_doubles` has, for others X; and those without time for that."""
        X, low, high = boxes
        (z, w), late, rows = (X.copy(), X.copy()), [np.empty(0, dtype=np.int64)], np.flatnonzero(found)
        # Where chains are followed, one row may take all of it.
        for some in rows[:, None] if any(moves.rules for _, moves in self.threat.columns) else (rows,):
            pairs = in_time(is_over, partial(self._doubles, X[some], low[some], high[some], cells[some]), None)
            if pairs is None:
                late.append(some)
            else:
                z[some], w[some] = pairs
        return z, w, np.concatenate(late)

    def _doubles(self, X: FloatArray, low: FloatArray, high: FloatArray, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """Rows z of the boxes and w of the cells such that w is in A(z), each feature as close to X as can be."""
        threat = self.threat
        known = cells >= 0
        at = self._start[:-1] + np.maximum(cells, 0)
        first = np.maximum(self._lowest[at], threat.domain_low)
        last = np.minimum(self._highest[at], threat.domain_high)
        own = np.clip(X, low, high)
        # Where the cell meets the box, nothing is paid: z = w, in both.
        inside = known & (first <= high) & (last >= low)
        shared = np.clip(own, np.maximum(first, low), np.minimum(last, high))
        w = np.where(inside, shared, np.where(first > high, first, last))
        z = np.where(inside, shared, np.clip(w, low, high))
        z, w = np.where(known, z, X), np.where(known, w, X)
        listed = [f for f, _ in (*threat.ends, *threat.columns)]
        moved = known & ~inside
        moved[:, listed] = False
        if threat.power is None and moved.any():
            interval = (np.broadcast_to(end, X.shape)[moved] for end in (threat.low, threat.high))
            z[moved], w[moved] = shortest_moves(
                own[moved], *(each[moved] for each in (low, high, first, last)), *interval
            )
        for f in listed:
            some = known[:, f]
            from_to = threat.moves_of(f).move(
                X[some, f], low[some, f], high[some, f], *self._ends_of_cells(f, cells[some])
            )
            z[some, f], w[some, f] = from_to
        return z, w

    def _ends_of_cells(self, f: int, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest double of the cells of feature f in rows of cells."""
        at = self._start[f] + cells[:, f]
        return self._lowest[at], self._highest[at]


def price_of_attack(threat: Threat, x: FloatArray, attacked: FloatArray, within: bool) -> float:
    """The Lp norm or the sum of costs of an attack on a row; SoundnessError if the attacker cannot do it at all."""
    prices = threat.attack_prices(x, x, attacked)
    if prices is None or (within and not threat.can_pay(prices)):
        raise disbelieved(f"an attack was found that the attacker cannot do: {x!r} to {attacked!r}")
    total = sum(prices.values(), Fraction(0))
    return float(total) if threat.power is None else root_at_most(total, threat.power)


def _no_sums() -> Any:
    """No sums that valid rows keep."""
    from treeproof._kernels.search.region import CELLS
    from treeproof._kernels.search.sums import Sums

    none, no_number = np.empty(0), np.zeros(0, dtype=np.int64)
    return Sums(np.zeros(1, dtype=np.int64), no_number, none, none, none, none, none, no_number, np.empty(0, CELLS))


def _fit_reach(reachable: npt.NDArray[Any], table: FloatArray) -> None:
    """Makes the cells of N(x) those that are free, and those in reach all that can be paid for, of one feature."""
    known = reachable["own"] >= 0
    for free, (first, last) in ((table == 0, ("near_low", "near_high")), (table < np.inf, ("reach_low", "reach_high"))):
        some = known & free.any(axis=1)
        reachable[first][some] = free.argmax(axis=1)[some]
        reachable[last][some] = (free.shape[1] - 1 - free[:, ::-1].argmax(axis=1))[some]


def _go_through(stages: Iterator[Stage], found: Any) -> None:
    """Has the stages search the rows that are left."""
    from treeproof._kernels.search.asked import HARD

    for stage in stages:
        rows = np.flatnonzero(found.status == HARD)
        if not len(rows):
            return
        stage(rows)
