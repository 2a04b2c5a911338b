"""Where a neighbour and what an attack makes of it are both valid, no reason why there are no such rows is accepted."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any, TypeAlias

import pytest

from tests.support.row_questions import VALUES, some_question
from treeproof.check.clashes import CASES, CUT, RULED_OUT, SUM, Pairs, check_clash
from treeproof.check.evidence import Reach
from treeproof.check.results import ITSELF
from treeproof.check.rows import Asked, Question, Valid, region_of

Row: TypeAlias = "tuple[float, ...]"


class Steps:
    """A reason as the checker reads it."""

    def __init__(self, numbers: list[Any]) -> None:
        self._left = numbers

    def number(self) -> Any:
        """The next number."""
        return self._left.pop(0)

    signed = double = number

    @property
    def is_done(self) -> bool:
        """Whether everything was read."""
        return not self._left


# --- pairs of valid rows, and reasons why there are none -------------------------------------------------------------


def is_in(question: Question, pairs: Pairs, row: Row) -> bool:
    """Whether a row is in the cells that pairs are about."""
    _, own = question.views.of(row)
    for value, cuts, cells in zip(own, pairs.grid.cuts, pairs.cells[0], strict=True):
        cell = len(cuts) + 1 if math.isnan(value) else sum(cut < value for cut in cuts)
        if not (cells >> cell & 1 if cells else math.isnan(value)):
            return False
    return True


def has_pair(question: Question, reach: Reach, pairs: Pairs, epsilon: Any) -> bool:
    """Whether some neighbour becomes a row of these cells by an attack, both of them valid."""
    x, around = tuple(question.row(0)), reach.around(ITSELF if epsilon is None else epsilon)
    rows = list(itertools.product(VALUES, repeat=3))
    near = [x] if epsilon is None else [z for z in rows if around.holds(x, z) and not reach.relations.broken(z)]
    ends = [w for w in rows if not reach.relations.broken(w) and is_in(question, pairs, w)]
    return any(reach.holds(around, x, z, w) for z in near for w in ends)


def some_reason(pairs: Pairs, random: Random, depth: int) -> list[Any] | None:
    """A reason, of which each last step holds, or None."""
    parts, reason = [], []
    choices = [number for number, fact in enumerate(pairs.facts) if fact and fact[1][0] == "or"]
    if depth and choices and random.random() < 0.3:
        number = random.choice(choices)
        parts, reason = pairs.cases(number), [CASES, number]
    elif depth and random.random() < 0.3:
        cut = random.randrange(2), random.randrange(len(pairs.columns)), random.choice(VALUES[:-1])
        parts, reason = pairs.cut(*cut), [CUT, *cut]
    if reason:
        found = [some_reason(part, random, depth - 1) for part in parts]
        return None if None in found else reason + [step for steps in found if steps for step in steps]
    if pairs.is_ruled_out:
        return [RULED_OUT]
    sums = [number for number, fact in enumerate(pairs.facts) if fact and fact[1][0] == "compare"]
    for _ in range(25 if sums else 0):
        times = {number: random.choice([1, 2, -1, -2]) for number in random.sample(sums, random.randint(1, len(sums)))}
        rate = random.choice([0, 0, 1, 2])
        if pairs.is_refuted_by(times, rate):
            return [SUM, rate, len(times), *itertools.chain.from_iterable(times.items())]
    return None


def check_reasons(seed: int, n: int) -> tuple[int, int]:
    """Tries reasons for what is false in n questions; returns how many others were accepted, and false ones tried."""
    random, accepted, false = Random(seed), 0, 0
    for _ in range(n):
        found = some_question(random)
        if found is None:
            continue
        question, reach, epsilon = found
        view, own = question.view(0)
        which = random.randrange(2)
        asked, part = Asked(view, own, view.sizes[which], question.goal, which == 0), (None,) * len(own)
        region = region_of(asked, view.columns, view.grid, part)
        if region is None:
            continue
        cells = [mask & (random.getrandbits(4) or mask) or mask for mask in region.cells]
        pairs = Valid(asked, view.grid, view.columns, part, region).pairs(cells)
        is_false = has_pair(question, reach, pairs, epsilon if which else None)
        false += is_false
        for _ in range(4):
            reason = some_reason(pairs, random, random.randrange(3))
            if reason is not None:
                check_clash(pairs, Steps(reason))  # type: ignore[arg-type]
                assert not is_false, (seed, question.result, cells, reason)
                accepted += 1
    return accepted, false


def test_there_is_no_reason_against_pairs_that_there_are() -> None:
    accepted, false = check_reasons(0, 10)
    assert accepted and false


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 3))
def test_there_is_no_reason_against_many_pairs_that_there_are(seed: int) -> None:
    accepted, false = check_reasons(seed, 150)
    assert accepted > 100 and false > 40
