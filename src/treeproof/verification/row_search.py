"""One row after another where rows must be valid: cells that a search finds, and the pairs of rows that they hold.

With relations prices of cells are lower bounds only, unless a cell tells whether its values are paid for: so the cells
of columns in relations are cut at the ends of N(x). Boxes of neighbours with several labels are split between them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray, next_up
from treeproof.numbers.patience import TimeIsUpError, in_time, until
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits, RowTime
from treeproof.verification.clashes import Clashes
from treeproof.verification.local_search import Decisions, Local, price_of_attack
from treeproof.verification.part_proofs import PartProofs, content, content_row
from treeproof.verification.proofs import BY_SEVERAL, CLOSED, CONFLICTS, Proof, claim_of, frame_of
from treeproof.verification.row_question import Box, Pair, Question
from treeproof.verification.space import MOST_CLAUSES, Clause, Space

if TYPE_CHECKING:
    from treeproof.verification.valid_rows import Columns

Bools = npt.NDArray[np.bool_]


class RowSearch:
    """Decides rows of the columns of a search."""

    def __init__(self, columns: Columns, local: Local, clashes: Clashes | None = None) -> None:
        """`clashes` find what proves conflicts, if that is asked for."""
        self._columns, self._local, self._clashes = columns, local, clashes
        self._predict = local.ensemble.predict_index
        self._threat = columns.threat
        self.claims: dict[int, Proof] = {}
        """What proves rows, or why that is not recorded."""
        self.used = np.zeros(0)
        """The seconds that each row has had."""

    # --- all rows at once --------------------------------------------------------------------------------------------

    def answer(
        self,
        which: npt.NDArray[np.int64],
        rows: FloatArray,
        low: FloatArray,
        high: FloatArray,
        labels: npt.NDArray[np.int64],
        answers: Decisions,
    ) -> None:
        """Notes in the answers of these rows what is known about neighbours from `low` to `high`."""
        wanted = np.isin(labels[which], self._threat.goal)
        if len(which) and (low[which] == rows[which]).all() and (high[which] == rows[which]).all():
            # Nobody attacks a row that has a label he wants.
            n_classes = self._local.ensemble.n_classes
            self.claims |= {
                row: content_row(int(labels[row]), self._threat.goal, n_classes) for row in which[wanted].tolist()
            }
            which = which[~wanted]
            wanted = wanted[~wanted]
        status = np.full(len(rows), Outcome.REFUTED, dtype=np.int64)
        plain = which[~wanted]
        own, near = rows[plain], (low[plain], high[plain])
        is_over = self._local.limits.for_rows(len(plain), self.used[plain].sum())
        its_status, cells = self._local._search(*near, own, labels[plain], used=self.used[plain])
        self.used[plain] = self._local.used
        self.claims |= dict(zip(plain.tolist(), self._local._claims, strict=True))
        z, w, late = self._local._in_time(its_status == Outcome.REFUTED, (own, *near), cells, is_over)
        its_status[late] = Outcome.UNKNOWN
        status[plain], refuted = its_status, its_status == Outcome.REFUTED
        found, z, w = plain[refuted], z[refuted], w[refuted]
        shown = self._is_shown(rows[found], z, w)
        answers.neighbour[found[shown]], answers.attacked[found[shown]] = z[shown], w[shown]
        open_rows = np.concatenate((found[~shown], which[wanted]))
        for row in open_rows.tolist():
            one = slice(row, row + 1)
            proofs, time = PartProofs(1, self._local._proof_limit), self._local.limits.for_row(self.used[row])
            decide = partial(self._decide, rows[row], low[row], high[row], proofs, time)
            unknown = int(Outcome.UNKNOWN), rows[row], rows[row]
            status[one], answers.neighbour[one], answers.attacked[one] = in_time(time.is_over, decide, unknown)
            self.used[row] = time.used
            self.claims[row] = proofs.proof(0)
        for outcome in (Outcome.UNKNOWN, Outcome.REFUTED):
            answers.outcome[which[status[which] == outcome]] = outcome

    def _is_shown(self, x: FloatArray, z: FloatArray, w: FloatArray) -> Bools:
        """Which pairs are counterexamples."""
        itself = ((z == x) | np.isnan(x)).all(axis=1)
        shown = self._local.shows(x, z, w)
        return np.asarray(shown & self.valid(w) & (itself | self.valid(z)))

    def valid(self, rows: FloatArray) -> Bools:
        """Which rows keep all relations."""
        return ~self._columns.relations.broken(rows)

    # --- one row -----------------------------------------------------------------------------------------------------

    def _decide(
        self, x: FloatArray, low: FloatArray, high: FloatArray, proofs: PartProofs, time: RowTime
    ) -> tuple[int, FloatArray, FloatArray]:
        """The outcome for one row, and a counterexample if it is refuted."""
        todo, unknown = [Box(low, high, x)], False
        while todo:
            box = todo.pop()
            limits = self._rest(time, box)
            if limits is None:
                return Outcome.UNKNOWN, x, x
            if wide := [f for f, moves in self._threat.columns if moves.alike and box.low[f] < box.high[f]]:
                parts, shown = self._divide(x, box, wide, limits, proofs)
                if shown is not None:
                    return Outcome.REFUTED, *shown
                todo += _cut_parts(proofs, box, parts)
                continue
            here = self._reference(x, box, limits, proofs)
            if here is None:
                continue
            status, pair = self._search(x, replace(box, here=here), limits, proofs)
            unknown |= status == Outcome.UNKNOWN
            if pair is None:
                continue
            if pair.conflict is not None:
                box = box.with_conflict(pair.conflict, self._reason(x, box, pair.conflict))
                if len(pair.conflict):
                    todo.append(box)
                else:
                    proofs.prove(np.array([box.part_number]), [self._claim_of_nothing(here, box.reasons[-1])])
                continue
            if pair.z is None or pair.w is None:
                unknown |= not pair.finer
                todo += _cut_parts(proofs, box, pair.finer)
                continue
            if self._is_shown(x[None], pair.z[None], pair.w[None])[0]:
                return Outcome.REFUTED, pair.z, pair.w
            parts = self._split(box, here, pair.z)
            unknown |= not parts
            todo += _cut_parts(proofs, box, parts)
        return Outcome.UNKNOWN if unknown else Outcome.PROVED, x, x

    def cheapest(self, x: FloatArray, within: bool, least: float, used: float) -> tuple[int, FloatArray, float]:
        """Whether the cheapest attack on a row is known, the row after it, and its price; inf if there is none.

        It is known that no attack costs less than `least`; so many seconds of the row's time are `used`.
        """
        time, found = self._local.limits.for_row(used), (int(Outcome.UNKNOWN), x, math.inf)
        with suppress(TimeIsUpError), until(time.is_over):
            for known in self._cheaper(x, within, least, time):
                found = known
        return found

    def _cheaper(
        self, x: FloatArray, within: bool, least: float, time: RowTime
    ) -> Iterator[tuple[int, FloatArray, float]]:
        """The same, the last one; before it what would be known if time were up.

        What cells cost at least is known before it is asked what a valid row in them costs. So the cheapest cells are
        asked about and then left out, until all others cost more than the best row so far.
        """
        del least
        box, best, price, exact = Box(x, x, x), x, math.inf, True
        while (limits := self._rest(time, box)) is not None:
            question = Question(self._columns, x, box)
            local = Local(self._local.ensemble, self._threat, limits, question.space, question.sums)
            found = local.cheapest(x[None], within)
            self._local.boxes += local.boxes
            if found.outcome[0] != Outcome.PROVED or not found.price[0] < price:
                yield int(found.outcome[0]) if exact else Outcome.UNKNOWN, best, price
                return
            cells = local.space.cells(found.attacked)
            pair = question.cheapest(local, cells, float(found.price[0]))
            conflict = pair.conflict
            if pair.w is not None:
                its_price = price_of_attack(self._threat, x, pair.w, within=False)
                if its_price < price and (not within or self._threat.can_do(x, x, pair.w)):
                    best, price = pair.w, its_price
                    yield Outcome.UNKNOWN, best, price
            if pair.finer:
                box = pair.finer[0]
                continue
            exact &= pair.is_cheapest
            if conflict is None:
                conflict = question.around(local, cells)
            if not len(conflict):
                yield Outcome.PROVED if exact else Outcome.UNKNOWN, best, price
                return
            box = box.with_conflict(conflict)

    def _reason(self, x: FloatArray, box: Box, conflict: Clause) -> bytes | None:
        """What proves a conflict; None if that is not asked for or not known."""
        if self._clashes is None:
            return None
        near: list[tuple[float, float, Sequence[float]]] = []
        for f, (low, high) in enumerate(zip(box.low.tolist(), box.high.tolist(), strict=True)):
            moves = self._threat.moves_of(f)
            near.append((low, high, moves.values_between(float(x[f]), low, high) if moves.alike else ()))
        return self._clashes.reason(self._columns.own(x[None])[0], near, conflict)

    def _claim_of_nothing(self, here: FloatArray, reason: bytes | None) -> Proof:
        """The claim that no row in reach is valid."""
        goal, label = self._threat.goal, int(self._predict(here[None])[0])
        n_trees = len(goal) or self._local.ensemble.n_classes - 1
        frame = frame_of([], [(BY_SEVERAL, reason or b"", [])])
        return CONFLICTS if reason is None else claim_of(label, *[CLOSED] * n_trees, frame=frame)

    def _rest(self, time: RowTime, box: Box) -> Limits | None:
        """The limits with what is left of the time for a row; None if nothing is, or of room for its conflicts."""
        return None if len(box.conflicts) + len(self._columns.clauses) >= MOST_CLAUSES else time.rest()

    def _reference(self, x: FloatArray, box: Box, limits: Limits, proofs: PartProofs) -> FloatArray | None:
        """A row of the box with a label that the attacker does not want, or None if there is none."""
        goal = self._threat.goal
        if not goal or self._predict(box.here[None])[0] not in goal:
            return box.here
        number = np.array([box.part_number])
        if bool(((box.low == box.high) | np.isnan(box.low)).all()):
            label = int(self._predict(box.here[None])[0])
            proofs.prove(number, [content_row(label, goal, self._local.ensemble.n_classes)])
            return None
        idle = self._threat.idle(self._local.ensemble.n_classes)
        clauses, reasons = (*self._columns.clauses, *box.conflicts), tuple(reason or b"" for reason in box.reasons)
        space = Space(self._local.ensemble, clauses, reasons=reasons)
        search = Local(self._local.ensemble, idle, limits, space, proof_limit=self._local._proof_limit)
        low, high, here = box.low[None], box.high[None], box.here[None]
        status, cells = search._search(low, high, here, self._predict(here), x[None])
        if status[0] == Outcome.UNKNOWN:
            return box.here
        if status[0] == Outcome.REFUTED:
            found: FloatArray = search._doubles(x[None], low, high, cells)[0][0]
            return found
        proofs.prove(number, [CONFLICTS if None in box.reasons else content(search._claims[0])])
        return None

    def _divide(
        self, x: FloatArray, box: Box, wide: list[int], limits: Limits, proofs: PartProofs
    ) -> tuple[list[Box], tuple[FloatArray, FloatArray] | None]:
        """Two parts of a box whose neighbours differ in some categories; none if all of it is proved, or refuted."""
        here = there = box.here
        labels = self._predict(here[None])
        if labels[0] not in self._threat.goal:
            local = Local(
                self._local.ensemble, self._threat, limits, self._local.space, proof_limit=self._local._proof_limit
            )
            low, high = box.low[None], box.high[None]
            status, cells = local._search(low, high, here[None], labels, x[None])
            self._local.boxes += local.boxes
            if status[0] == Outcome.PROVED:
                proofs.prove(np.array([box.part_number]), local._claims)
                return [], None
            if status[0] == Outcome.REFUTED:
                z, w = local._doubles(x[None], low, high, cells)
                if self._is_shown(x[None], z, w)[0]:
                    return [], (z[0], w[0])
                there = z[0]
        f = next((f for f in wide if here[f] != there[f]), wide[0])
        values = self._threat.moves_of(f).values_between(float(x[f]), float(box.low[f]), float(box.high[f]))
        n_below = min(bisect_right(values, min(here[f], there[f])), len(values) - 1)
        parts = [box.part(f, *ends) for ends in ((values[0], values[n_below - 1]), (values[n_below], values[-1]))]
        is_there = [part.low[f] <= there[f] <= part.high[f] and here[f] != there[f] for part in parts]
        return [replace(part, here=there) if its else part for part, its in zip(parts, is_there, strict=True)], None

    def _search(self, x: FloatArray, box: Box, limits: Limits, proofs: PartProofs) -> tuple[int, Pair | None]:
        """What a search of the cells within reach of a box finds."""
        question = Question(self._columns, x, box)
        limit = self._local._proof_limit
        local = Local(self._local.ensemble, self._threat, limits, question.space, question.sums, limit)
        low, high, here = box.low[None], box.high[None], box.here[None]
        status, cells = local._search(low, high, here, self._predict(here), x[None])
        self._local.boxes += local.boxes
        if status[0] == Outcome.PROVED:
            proofs.prove(np.array([box.part_number]), [CONFLICTS] if None in box.reasons else local._claims)
        if status[0] != Outcome.REFUTED:
            return int(status[0]), None
        return Outcome.REFUTED, question.pair(local, cells)

    def _split(self, box: Box, here: FloatArray, there: FloatArray) -> list[Box]:
        """Both sides of a test between two rows of the box with different labels."""
        grid = self._local.ensemble.grid
        features = np.flatnonzero((here != there) & ~np.isnan(here) & ~np.isnan(there)).tolist()
        way = np.repeat(here[None], len(features) + 1, axis=0)
        for k, f in enumerate(features):
            way[k + 1 :, f] = there[f]
        labels = self._predict(way)
        changes = np.flatnonzero(labels[1:] != labels[:-1])
        if not len(changes):
            return []
        f = features[int(changes[0])]
        cuts = grid.cuts_of(f)
        low, high = sorted((float(here[f]), float(there[f])))
        between = cuts[(cuts >= low) & (cuts < high)]
        rows = np.repeat(way[changes[0]][None], len(between) + 1, axis=0)
        rows[:-1, f], rows[-1, f] = between, high
        labels = self._predict(rows)
        cut = float(between[np.flatnonzero(labels[1:] != labels[:-1])[0]])
        below, above = box.high.copy(), box.low.copy()
        below[f], above[f] = cut, float(next_up(cut))
        first, second = (here, there) if here[f] <= cut else (there, here)
        return [replace(box, high=below, here=first), replace(box, low=above, here=second)]


def _cut_parts(proofs: PartProofs, box: Box, parts: Sequence[Box]) -> list[Box]:
    """Boxes side by side, which a box was cut into, with the numbers of the parts that they are in a proof."""
    found, number = [], np.array([box.part_number])
    for part, after in pairwise(parts):
        f = np.flatnonzero(part.high < after.low)[:1]
        below, number = proofs.split(number, f, part.high[f])
        found.append(replace(part, part_number=int(below[0])))
    return found + [replace(part, part_number=int(number[0])) for part in parts[-1:]]
