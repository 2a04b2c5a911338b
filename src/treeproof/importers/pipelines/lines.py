"""Columns of numbers: the doubles that go left at a test behind the steps, found with the steps' own `transform`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import UnsupportedModel
from treeproof.importers.pipelines.intake import Intake
from treeproof.importers.pipelines.plan import Leaf, Plan, Run
from treeproof.importers.pipelines.steps import around
from treeproof.model.other_tests import Bools, Indices, Sides, Tests
from treeproof.numbers.doubles import LARGEST, FloatArray, from_ordinal, next_up, ordinal

Ordinals = npt.NDArray[np.int64]

CLOSE = 4096
"""So many doubles to either side of a cut are looked at, unless fewer do because…"""

PROBES, APART = 8, 2
"""… so many values on the way are so many doubles apart from one another: rounding is never that far off."""

ROWS = 2**20
"""The largest number of rows in a call of `transform`."""

ROWS_AT_ONCE, MOST_PARTS = 2**16, 255
"""A search asks about so many doubles at once, and about at most so many for one problem."""

NEAR_ZERO = (-1.0, *around(0.0), 1.0)
"""What steps pass on is cut here: a stretch whose two ends are too large for a model may hold numbers that are not,
and zero itself is missing for XGBoost if a sparse matrix leaves it out."""

ANCHORS, REACHES = 65, (2**40, 2**24, 2**8)
"""So many problems of a kind are solved before the others are guessed, to so many doubles to either side."""


@dataclass(frozen=True)
class Line:
    """A column of numbers: those that the pipeline takes, and cuts between which every step is monotone."""

    low: float
    high: float
    cuts: FloatArray

    @property
    def starts(self) -> FloatArray:
        """The lowest double of each stretch between two cuts."""
        # Above the largest negative double NumPy has -0.0, at which a step may answer otherwise than at 0.0.
        return np.concatenate(([self.low], next_up(self.cuts))) + 0.0

    @property
    def ends(self) -> FloatArray:
        """The highest double of each stretch."""
        return np.concatenate((self.cuts, [self.high]))

    def with_cuts(self, cuts: FloatArray) -> Line:
        """The same numbers, in more stretches."""
        inside = cuts[(cuts >= self.low) & (cuts < self.high)]
        # -0.0 and 0.0 are one double here.
        return Line(self.low, self.high, np.unique(np.concatenate((self.cuts, inside)) + 0.0))


class Lines:
    """All columns of numbers of a pipeline; calls of `transform` serve all of them at once."""

    def __init__(self, intake: Intake, columns: Sequence[int]) -> None:
        plan = self._plan = intake.plan
        self._intake = intake
        self.lines = {f: Line(-LARGEST, LARGEST, np.zeros(0)) for f in columns}
        if not columns:
            return
        for number, leaf in enumerate(plan.leaves):
            marks = {
                slot: _marks(plan, leaf, column)
                for column, slot in enumerate(leaf.given.slots)
                if plan.slots[slot].origin in self.lines
            }
            self._split(marks, number)
        marks = {slot: NEAR_ZERO for slot in plan.made.slots if plan.slots[slot].origin in self.lines}
        for column, slot in enumerate(plan.made.slots):
            if slot in marks:
                # Between its cuts, a test with several is monotone.
                marks[slot] = (*marks[slot], *intake.tests.several_cuts(column).tolist())
        self._split(marks, None)
        self._keep_accepted()

    def _split(self, marks: Mapping[int, Sequence[float]], n_leaves: int | None) -> None:
        """Cuts the lines where slots pass these marks."""
        far: dict[int, FloatArray] = {}
        for slot, own in marks.items():
            f = self._plan.slots[slot].origin
            if self._plan.slots[slot].kept:
                self.lines[f] = self.lines[f].with_cuts(np.array(own, dtype=np.float64))
            else:
                far[slot] = np.array(own, dtype=np.float64)
        if not far:
            return
        # What the steps hand on for numbers that one of them refuses means nothing, and hides where they pass a mark.
        self._cut_refusals(lambda run, f: run.refused[f], n_leaves)
        lines = {f: self.lines[f] for f in {self._plan.slots[slot].origin for slot in far}}
        ends = self._run({f: np.concatenate((line.starts, line.ends)) for f, line in lines.items()}, n_leaves)
        search = _Search(
            lambda doubles: self._run(doubles, n_leaves),
            lambda run, slot, rows: _at(run, slot)[rows],
            lambda values, marks: values <= marks,
        )
        for slot, values in far.items():
            f = self._plan.slots[slot].origin
            line = lines[f]
            low, high = np.split(_at(ends, slot)[: 2 * len(line.starts)] <= values[:, None], 2, axis=1)
            mark, stretch = np.nonzero(low != high)
            search.add(_Part(f, line.starts[stretch], line.ends[stretch], low[mark, stretch], slot, values[mark]))
        for slot, cuts in zip(far, search.solve(), strict=True):
            f = self._plan.slots[slot].origin
            self.lines[f] = self.lines[f].with_cuts(cuts)

    def _keep_accepted(self) -> None:
        """Narrows each line to the numbers that neither a step nor the model refuses."""
        refused, twofold = self._intake.refused, set(self._intake.twofold_zeros(self.lines))
        self._cut_refusals(refused)
        for f in twofold:
            self.lines[f] = self.lines[f].with_cuts(np.array(around(0.0)))
        starts = self._run({f: line.starts for f, line in self.lines.items()})
        for f, line in self.lines.items():
            n = len(line.starts)
            accepted = ~refused(starts, f)[:n] & ~((line.starts == 0) & (f in twofold))
            self.lines[f] = _longest(line, accepted, self._is_missing(starts, f)[:n])

    def _cut_refusals(self, refused: Callable[[Run, int], Bools], n_leaves: int | None = None) -> None:
        """Cuts the lines where the first steps begin to refuse numbers, or end to."""
        ends = self._run({f: np.concatenate((line.starts, line.ends)) for f, line in self.lines.items()}, n_leaves)
        search = _Search(
            lambda doubles: self._run(doubles, n_leaves),
            lambda run, f, rows: refused(run, f)[rows],
            lambda refused, _: refused > 0,
        )
        for f, line in self.lines.items():
            low, high = np.split(refused(ends, f)[: 2 * len(line.starts)], 2)
            some = np.flatnonzero(low != high)
            search.add(_Part(f, line.starts[some], line.ends[some], low[some], f, np.zeros(len(some))))
        for f, cuts in zip(list(self.lines), search.solve(), strict=True):
            self.lines[f] = self.lines[f].with_cuts(cuts)

    def _is_missing(self, run: Run, f: int) -> Bools:
        """Where steps make numbers of a column missing that are not, as logarithms do."""
        missing = np.zeros(len(run.refused[f]), dtype=bool)
        for _, slot in self._plan.made_of[f]:
            missing |= np.isnan(_at(run, slot))
        return missing

    def _run(self, doubles: Mapping[int, FloatArray], n_leaves: int | None = None) -> Run:
        """A run on columns of different lengths: short ones are filled up."""
        n = max(len(values) for values in doubles.values())
        return self._plan.run({f: _filled(values, n) for f, values in doubles.items() if len(values)}, n_leaves)

    def sides(self, tests: Tests) -> list[Sides]:
        """The tests on columns of numbers, pulled back to the user's doubles."""
        ends = self._run({f: _between(line) for f, line in self.lines.items()}) if self.lines else None
        search = _Search(self._run, self._compared, lambda doubles, asked: tests.sides(asked, doubles))
        found: list[tuple[int, Indices, Bools, Indices, FloatArray]] = []
        goals: list[tuple[FloatArray, Indices]] = []
        for column, slot in enumerate(self._plan.made.slots):
            f = self._plan.slots[slot].origin
            own = tests.on(column)
            if f not in self.lines or not len(own):
                continue
            assert ends is not None
            line = self.lines[f]
            doubles = self._compared(ends, column, slice(2 * len(line.starts)))
            left = tests.sides(own[:, None], doubles[None, :])
            test, place = np.nonzero(left[:, 1:] != left[:, :-1])
            # From the end of a stretch to the start of the next there is one step; within a stretch, many.
            cuts = line.ends[np.minimum(place // 2, len(line.ends) - 1)].copy()
            found.append((column, own, left[:, 0], test, cuts))
            for within in _alike(place):
                goals.append((cuts, within))
                stretch, asked = place[within] // 2, own[test[within]]
                answer = left[test[within], place[within]]
                search.add(
                    _Part(f, line.starts[stretch], line.ends[stretch], answer, column, asked, tests.threshold(asked))
                )
        for (cuts, within), solved in zip(goals, search.solve(), strict=True):
            cuts[within] = solved
        return [self._closely(tests, *one) for one in found]

    def _compared(self, run: Run, column: int, rows: slice) -> FloatArray:
        return self._intake.compared(column, _at(run, self._plan.made.slots[column])[rows])

    def _closely(self, tests: Tests, column: int, own: Indices, first: Bools, test: Indices, cuts: FloatArray) -> Sides:
        """The cuts of tests on a column, with those that rounding adds."""
        slot = self._plan.slots[self._plan.made.slots[column]]
        if slot.rounds and len(cuts):
            test, cuts = _Wiggles(self, tests, column).look(own[test], test, cuts)
        return Sides(own, first, own[test], cuts)

    def after(self, column: int, values: FloatArray) -> FloatArray:
        """What the model compares for values of the column of the user behind one of its own."""
        slot = self._plan.made.slots[column]
        made = [
            _at(self._run({self._plan.slots[slot].origin: values[i : i + ROWS]}), slot)
            for i in range(0, len(values), ROWS)
        ]
        return self._intake.compared(column, np.concatenate(made))

    def line_behind(self, column: int) -> Line:
        """The line of the user's column behind one of the model's."""
        return self.lines[self._plan.slots[self._plan.made.slots[column]].origin]

    def steps_behind(self, column: int) -> str:
        """The steps that round on the way to a column of the model."""
        leaves = self._plan.leaves_behind(self._plan.made.slots[column])
        return ", ".join(reversed([leaf.name for leaf in leaves if leaf.kind.rounds]))


def _alike(place: Indices) -> list[Indices]:
    """The searches within stretches: together if they are few, else those of one stretch by themselves."""
    within = np.flatnonzero(place % 2 == 0)
    if len(within) <= 4 * ANCHORS:
        return [within] if len(within) else []
    return [within[place[within] == stretch] for stretch in np.unique(place[within])]


def _at(run: Run, slot: int) -> FloatArray:
    values = run.values[slot]
    assert values is not None
    return values


def _between(line: Line) -> FloatArray:
    """The start and the end of each stretch, in rising order."""
    return np.column_stack((line.starts, line.ends)).reshape(-1)


def _filled(values: FloatArray, n: int) -> FloatArray:
    return np.concatenate((values, np.full(n - len(values), values[-1])))


def _marks(plan: Plan, leaf: Leaf, column: int) -> Sequence[float]:
    """Where a step stops being monotone, and some places where it does not overflow."""
    own = leaf.kind.cuts(leaf.step, column)
    if (
        own
        and plan.slots[leaf.given.slots[column]].rounds
        and (leaf.kind.encodes or hasattr(leaf.step, "missing_values"))
    ):
        raise UnsupportedModel(
            f"the pipeline's {leaf.name} looks for single numbers behind a step that rounds; do it before that step"
        )
    return [*own, *NEAR_ZERO]


def _longest(line: Line, accepted: Bools, missing: Bools) -> Line:
    """The longest run of stretches that are all accepted; where numbers go missing they do not count."""
    if not accepted.any():
        raise UnsupportedModel("the pipeline takes no number in one of its columns")
    # As doubles, so that the longest line of all does not overflow.
    lengths = ordinal(line.ends).astype(float) - ordinal(line.starts).astype(float) + 1.0
    lengths[missing] = 0.0
    change = np.flatnonzero(np.diff(np.concatenate(([False], accepted, [False])).astype(np.int8)))
    totals = [lengths[first:end].sum() for first, end in zip(change[::2], change[1::2], strict=True)]
    best = len(totals) - 1 - int(np.argmax(totals[::-1]))  # of two, the one with larger numbers
    low, high = float(line.starts[change[2 * best]]), float(line.ends[change[2 * best + 1] - 1])
    return Line(low, high, line.cuts[(line.cuts >= low) & (line.cuts < high)])


class _Search:
    """Looks for the last double with the same answer as the lowest one, in many stretches of several lines at once.

    A problem reads the numbers of one `key` (a slot, a column) and judges each by a number of its own: a mark, a test.
    """

    def __init__(
        self,
        run: Callable[[dict[int, FloatArray]], Run],
        reads: Callable[[Run, int, slice], npt.NDArray[Any]],
        judges: Callable[[FloatArray, npt.NDArray[Any]], Bools],
    ) -> None:
        self._run, self._reads, self._judges = run, reads, judges
        self._parts: list[_Part] = []

    def add(self, part: _Part) -> None:
        """Adds problems that ask about the same key."""
        self._parts.append(part)

    def solve(self) -> list[FloatArray]:
        """The solutions of each part, in the order in which they were added."""
        if not self._parts:
            return []
        sizes = [len(part.low) for part in self._parts]
        self._part = np.repeat(np.arange(len(sizes)), sizes)
        self._first = (np.cumsum(sizes) - sizes).tolist()
        self._about = np.concatenate([part.about for part in self._parts])
        self._low = np.concatenate([ordinal(part.low) for part in self._parts])
        self._high = np.concatenate([ordinal(part.high) for part in self._parts])
        self._answer = np.concatenate([part.answer for part in self._parts])
        some = np.concatenate([self._anchors(number) for number in range(len(sizes))])
        self._narrow(some)
        self._guess(some)
        self._narrow(np.arange(len(self._part)))
        return np.split(from_ordinal(self._low), np.cumsum(sizes)[:-1])

    def _anchors(self, number: int) -> Indices:
        """A few problems of a part that are solved first, if the others can be guessed from them."""
        part = self._parts[number]
        if part.rising is None or len(part.low) <= 4 * ANCHORS:
            return np.zeros(0, dtype=np.intp)
        return np.asarray(self._first[number] + np.unique(np.linspace(0, len(part.low) - 1, ANCHORS).astype(np.intp)))

    def _guess(self, anchors: Indices) -> None:
        """Narrows the other problems to where a line through the solutions of these has its own."""
        for number in np.unique(self._part[anchors]).tolist():
            known = anchors[self._part[anchors] == number]
            rising = self._parts[number].rising
            assert rising is not None
            mine = self._first[number] + np.arange(len(rising))
            guess = ordinal(np.interp(rising, rising[known - mine[0]], from_ordinal(self._low[known])))
            for reach in REACHES:
                for way in (-reach, reach):
                    at = np.clip(guess + way, self._low[mine] + 1, self._high[mine] - 1)
                    open_ = self._high[mine] - 1 > self._low[mine]
                    self._settle(mine[open_], at[open_, None])

    def _narrow(self, problems: Indices) -> None:
        """Searches until the double after the solution has the other answer."""
        while True:
            # The distance from the lowest double to the highest is no signed number of 64 bits.
            span = (self._high[problems].view(np.uint64) - self._low[problems].view(np.uint64)).astype(np.uint64)
            problems, span = problems[span > 1], span[span > 1]
            if not len(problems):
                return
            # The fewer problems, the more parts each is cut into.
            n = max(1, min(MOST_PARTS, ROWS_AT_ONCE // len(problems)))
            step = np.maximum(span // np.uint64(n + 1), 1).view(np.int64)
            at = self._low[problems, None] + step[:, None] * np.arange(1, n + 1)
            # Where there are fewer doubles than parts, the last one is asked about again.
            within = np.arange(1, n + 1) < span[:, None].astype(np.float64)
            at = np.where(within | (step[:, None] > 1), at, self._high[problems, None] - 1)
            self._settle(problems, at)

    def _settle(self, problems: Indices, at: Ordinals) -> None:
        """Asks about rising doubles of each problem, (n_problems, n), and narrows it to the two that differ."""
        same = self._ask(problems, at) == self._answer[problems, None]
        n_same = np.where(same.all(axis=1), same.shape[1], np.argmin(same, axis=1))
        ends = np.column_stack((self._low[problems], at, self._high[problems]))
        rows = np.arange(len(problems))
        self._low[problems], self._high[problems] = ends[rows, n_same], ends[rows, n_same + 1]

    def _ask(self, problems: Indices, at: Ordinals) -> Bools:
        """The answers about these doubles of each problem; problems are in rising order, so parts lie together."""
        n = at.shape[1]
        doubles = from_ordinal(at).reshape(-1)
        numbers, starts = np.unique(self._part[problems], return_index=True)
        bounds = [*(starts * n).tolist(), len(doubles)]
        places = [slice(start, end) for start, end in pairwise(bounds)]
        inputs: dict[int, list[FloatArray]] = {}
        used: dict[int, int] = {}
        rows = []
        for number, place in zip(numbers.tolist(), places, strict=True):
            f = self._parts[number].f
            first = used.get(f, 0)
            used[f] = first + place.stop - place.start
            rows.append(slice(first, used[f]))
            inputs.setdefault(f, []).append(doubles[place])
        ran = self._run({f: np.concatenate(lists) for f, lists in inputs.items()})
        values = np.empty(len(doubles))
        for number, place, own in zip(numbers.tolist(), places, rows, strict=True):
            values[place] = self._reads(ran, self._parts[number].key, own)
        return np.asarray(self._judges(values, np.repeat(self._about[problems], n)).reshape(at.shape))


@dataclass(frozen=True)
class _Part:
    """Problems on the user's column f that ask about one key: `answer` at `low`, the other one at `high`."""

    f: int
    low: FloatArray
    high: FloatArray
    answer: Bools
    key: int
    about: npt.NDArray[Any]
    rising: FloatArray | None = None
    """A rising number for each problem that its solution depends on, smoothly."""


class _Wiggles:
    """Looks at the doubles around cuts of tests on one column, where rounding may send some the other way."""

    def __init__(self, lines: Lines, tests: Tests, column: int) -> None:
        self._lines, self._tests, self._column = lines, tests, column
        line = lines.line_behind(column)
        self._low, self._high = int(ordinal(line.low)), int(ordinal(line.high))

    def look(self, tests: Indices, owner: Indices, cuts: FloatArray) -> tuple[Indices, FloatArray]:
        """(Owners, cuts) with all changes of side near the given cuts."""
        at = ordinal(cuts)
        below, above = self._reach(at, -1), self._reach(at, 1)
        owners, found = [], []
        for chunk in _chunks(below + above + 1):
            sizes = (below + above + 1)[chunk]
            which = np.repeat(np.arange(len(sizes)), sizes)
            offset = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            places = (at - below)[chunk][which] + offset
            doubles = self._lines.after(self._column, from_ordinal(places))
            left = self._tests.sides(tests[chunk][which], doubles)
            change = np.flatnonzero((left[1:] != left[:-1]) & (which[1:] == which[:-1]))
            owners.append(owner[chunk][which[change]])
            found.append(from_ordinal(places[change]))
            self._refuse_far(np.abs(places - at[chunk][which])[change])
        # Two cuts of one test may be so close that both see the same changes.
        pairs = np.unique(np.column_stack((np.concatenate(owners), ordinal(np.concatenate(found)))), axis=0)
        return pairs[:, 0], from_ordinal(pairs[:, 1])

    def _reach(self, at: Ordinals, way: int) -> Ordinals:
        """How many doubles below or above each cut to look at."""
        reach = np.full(len(at), CLOSE)
        for distance in (2**k for k in range(CLOSE.bit_length() - 2, 3, -1)):
            steps = way * np.arange(PROBES + 1) * (distance // PROBES)
            there = np.clip(at[:, None] + steps, self._low, self._high).reshape(-1)
            made = self._lines.after(self._column, from_ordinal(there)).reshape(-1, PROBES + 1)
            reach[(np.abs(np.diff(ordinal(made), axis=1)) >= APART).all(axis=1)] = distance
        ends = np.clip(at + way * reach, self._low, self._high)
        return np.asarray(np.abs(ends - at))

    def _refuse_far(self, distances: Ordinals) -> None:
        """Refuses changes so far from their cuts that there may be some beyond what was looked at."""
        if (distances > CLOSE // 2).any():
            raise UnsupportedModel(
                f"the pipeline's {self._lines.steps_behind(self._column)} rises so slowly that rounding makes it fall "
                "in places, over more doubles than treeproof looks at; leave this step out"
            )


def _chunks(sizes: Ordinals) -> list[slice]:
    """Slices of problems that need at most so many rows together, if none needs more by itself."""
    chunks, start, total = [], 0, 0
    for number, size in enumerate(sizes.tolist()):
        if total and total + size > ROWS:
            chunks.append(slice(start, number))
            start, total = number, 0
        total += size
    return [*chunks, slice(start, len(sizes))]
