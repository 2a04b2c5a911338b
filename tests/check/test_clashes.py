"""Reasons why no pair of rows is valid: those that are found hold, and none holds where there is such a pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support import valid_pairs
from tests.support.relation_questions import Question, question
from treeproof.check.claims import Grid
from treeproof.check.clashes import Pairs, check_clash
from treeproof.check.doubles import Grid as DecimalGrid
from treeproof.check.objects import attacker_content, epsilon_content, model_of
from treeproof.check.one_hot import View, Views
from treeproof.check.proof_bytes import Reader
from treeproof.check.rows import BROKEN, Asked, Valid, region_of
from treeproof.check.rules import Rejected
from treeproof.verification.clashes import TooManyParts, _Search
from treeproof.verification.proofs import number, signed

RULED_OUT, CUT, CASES, SUM = range(4)


def _holds(pairs: Pairs, reason: bytes) -> bool:
    try:
        check_clash(pairs, Reader(reason))
    except (Rejected, *BROKEN):
        return False
    return True


def _found(pairs: Pairs) -> bytes | None:
    try:
        return _Search().reason(pairs)
    except TooManyParts:
        return None


# --- random questions, where everything is tried ---------------------------------------------------------------------


class _Box(NamedTuple):
    """Ranges of some columns of rows after attacks, and whether a valid one is there."""

    pairs: Pairs
    has_pair: bool


def _boxes(asked: Question, random: Random, n: int) -> Iterator[_Box]:
    """Boxes around the rows of a question, and around their neighbourhoods."""
    texts, goal = tuple(map(str, asked.given)), frozenset[int]()
    content = {"relations": texts, "epsilons": [epsilon_content(asked.epsilon)]}
    views = Views(model_of(asked.ensemble).content, model_of(asked.ensemble), attacker_content(asked.attacker), content)
    for x in asked.X:
        view, own = views.of(x)
        brute = valid_pairs.Pairs(asked, x, random)
        if brute.n_points > 3000:
            continue
        neighbours, _ = brute.neighbours()
        valid = [one for one in neighbours if brute.is_valid(brute.neighbour(one))]
        for which, starts in ((0, neighbours[:1]), (1, valid)):
            reached = {tuple(row) for places in starts for row in brute.reached(places)}
            rows = [views.of(list(row)) for row in reached]
            for _ in range(n):
                about = Asked(view, own, view.sizes[which], goal, which == 0)
                ends = _random_ends(asked, view, random)
                pairs = _pairs_in(about, ends)
                if pairs is not None:
                    inside = [row for seen, row in rows if seen.members == view.members and _is_in(row, ends)]
                    yield _Box(pairs, bool(inside))


def _random_ends(asked: Question, view: View, random: Random) -> dict[int, tuple[float, float]]:
    """Some columns, each from a point to another."""
    ends = {}
    for f in random.sample(range(len(view.columns)), random.randint(1, min(3, len(view.columns)))):
        is_code = view.columns[f].is_category
        points = [float(k if is_code else k * asked.unit) for k in range(-1, asked.words.most + 2)]
        low, high = sorted(random.choices(points, k=2))
        ends[f] = low, high
    return ends


def _pairs_in(about: Asked, ends: dict[int, tuple[float, float]]) -> Pairs | None:
    """The pairs whose second row is in a box; None if nobody is near, or the box is out of reach."""
    view = about.view
    extra = {f: [math.nextafter(low, -math.inf), high] for f, (low, high) in ends.items()}
    grid, part = Grid(view.model, extra), (None,) * len(about.x)
    region = region_of(about, view.columns, grid, part)
    if region is None:
        return None
    cells = list(region.cells)
    for f, (low, high) in ends.items():
        cells[f] &= (2 << grid.cuts[f].index(high)) - (2 << grid.cuts[f].index(math.nextafter(low, -math.inf)))
        if not cells[f]:
            return None
    return Valid(about, grid, view.columns, part, region).pairs(cells)


def _is_in(row: list[float], ends: dict[int, tuple[float, float]]) -> bool:
    return all(low <= row[f] <= high for f, (low, high) in ends.items())


def _changed(reason: bytes, random: Random) -> bytes:
    data = bytearray(reason)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data) + 1)
        data[at : at + random.choice((0, 1, 1, 1))] = [random.choice((0, 1, 2, 3, 4, random.randrange(256)))]
    return bytes(data)


def _tried(seeds: Iterable[int], n: int) -> tuple[int, int, int]:
    """How many boxes have a pair, how many have none and a reason for that, and none and no reason."""
    counts, reasons = [0, 0, 0], [b"\0"]
    for seed in seeds:
        asked, random = question(seed), Random(seed)
        X = np.array(asked.X)
        words: dict[str, Any] = {"relations": asked.given, "epsilon": asked.epsilon, "timeout": 0.0, "n_jobs": 1}
        try:
            tp.verify(asked.ensemble, X, asked.ensemble.predict(X), asked.attacker, **words)
        except tp.InvalidInput:
            continue
        for pairs, has_pair in _boxes(asked, random, n):
            reason = _found(pairs)
            assert reason is None or _holds(pairs, reason)
            if has_pair:
                assert reason is None, seed
                assert not any(_holds(pairs, _changed(random.choice(reasons), random)) for _ in range(20)), seed
                assert not any(_holds(pairs, other) for other in reasons[-20:]), seed
            elif reason is not None:
                reasons.append(reason)
            counts[0 if has_pair else 1 if reason is not None else 2] += 1
    return counts[0], counts[1], counts[2]


def test_no_reason_holds_where_there_is_a_pair() -> None:
    """Neither one that is found, nor one of another box, nor a changed one."""
    n_pairs, n_reasons, _ = _tried((41, 43, 51), 2)
    assert n_pairs
    assert n_reasons


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("first", range(140, 220, 40))
def test_no_reason_holds_where_there_is_a_pair_in_many_questions(first: int) -> None:
    """The same, and most boxes without a pair have a reason, though not all pairs of doubles are tried."""
    n_pairs, n_reasons, n_open = _tried(range(first, first + 40), 5)
    assert n_pairs > 100
    assert n_reasons > n_open


# --- one rule at a time ----------------------------------------------------------------------------------------------

FREE = dict.fromkeys("abc", (-5.0, 5.0))


def _pairs(
    relations: list[str],
    ends: dict[str, tuple[float, float]],
    moves: Any = None,
    epsilon: float | None = None,
    x: tuple[float, ...] = (0.0, 0.0, 0.0),
    attacker: tp.Attacker | None = None,
    **words: Any,
) -> Pairs:
    """Pairs of rows of three columns; those after attacks lie between these ends."""
    frame = pd.DataFrame([[0.0, 1.0, 2.0], [1.0, 2.0, 0.0], [2.0, 0.0, 1.0]] * 3, columns=list("abc"))
    ensemble = tp.from_model(DecisionTreeClassifier(max_depth=1).fit(frame, frame.a > 0.5))
    if any(map(math.isnan, x)):
        from sklearn.ensemble import HistGradientBoostingClassifier

        ensemble = tp.from_model(HistGradientBoostingClassifier(max_iter=1).fit(frame, frame.a > 0.5))
    attacker = attacker or tp.Attacker(FREE if moves is None else moves, **words)
    asked = {"relations": relations, "epsilons": [epsilon_content(epsilon)]}
    view, own = Views(model_of(ensemble).content, model_of(ensemble), attacker_content(attacker), asked).of(list(x))
    about = Asked(view, own, view.sizes[epsilon is not None], frozenset(), epsilon is None)
    pairs = _pairs_in(about, {"abc".index(name): each for name, each in ends.items()})
    assert pairs is not None
    return pairs


def _sum(rate: int = 0, **multipliers: int) -> bytes:
    """A sum of facts f0, f1, …, times these numbers, with `rate` times what changes cost beyond the budget."""
    terms = b"".join(number(int(name[1:])) + signed(times) for name, times in multipliers.items())
    return number(SUM) + number(rate) + number(len(multipliers)) + terms


def test_a_sum_of_two_relations_is_false() -> None:
    """From a >= b + 2 and b >= c follows a >= c + 2, and no row with a <= c + 1 keeps both."""
    pairs = _pairs(["a - b >= 2", "b - c >= 0"], {"a": (0.0, 1.0), "c": (0.0, 5.0)})
    assert not _holds(pairs, number(RULED_OUT))
    assert _holds(pairs, _sum(f0=-1, f1=-1))
    assert _holds(pairs, _sum(f0=-7, f1=-7))
    assert _found(pairs) == _sum(f0=-1, f1=-1)
    for wrong in ({"f0": -1}, {"f1": -1}, {"f0": -1, "f1": -2}, {"f0": -3, "f1": -1}, {"f0": 1, "f1": 1}, {}):
        assert not _holds(pairs, _sum(**wrong))
    assert not _holds(pairs, _sum(f0=-1, f1=-1) + number(0))


def test_a_relation_counts_on_its_own_side_only() -> None:
    """What is at least 0 is not multiplied by a number above it, and the other way round; what is 0, by any."""
    for order, signs in (("<=", {1}), ("<", {1}), (">=", {-1}), (">", {-1}), ("==", {1, -1})):
        for sign in (1, -1):
            # The sum is above 0 for all rows if it is multiplied by the sign.
            ends = (1.0, 2.0) if sign > 0 else (-2.0, -1.0)
            pairs = _pairs([f"a + b {order} 0"], {"a": ends, "b": ends})
            assert _holds(pairs, _sum(f0=sign)) == (sign in signs)


def test_strict_relations_count_at_the_end() -> None:
    """a < b and b < c and c <= a + 0 is impossible; with <= it is not, nor is any sum of it."""
    box = dict.fromkeys("abc", (0.0, 2.0))
    strict, weak = (_pairs([f"a {order} b", "b <= c", "c <= a"], box) for order in ("<", "<="))
    assert _holds(strict, _sum(f0=1, f1=1, f2=1))
    assert not _holds(strict, _sum(f1=1, f2=1))
    assert not _holds(weak, _sum(f0=1, f1=1, f2=1))
    assert _found(strict) is not None
    assert _found(weak) is None


def test_choices_are_told_apart() -> None:
    """Each thing that may hold is refuted, and none is left out; sums that differ are a choice, too."""
    relations = ["a + b >= 5 or b + c >= 5", "not a == b", "b <= 1"]
    pairs = _pairs(relations, {"a": (0.0, 2.0), "b": (0.0, 2.0), "c": (0.0, 2.0)})
    reason = number(CASES) + number(0) + number(RULED_OUT) * 2
    assert _holds(pairs, reason)
    assert _holds(pairs, number(RULED_OUT))  # which is as good here
    assert not _holds(pairs, reason[:-1])
    assert not _holds(pairs, reason + number(RULED_OUT))
    assert not _holds(pairs, number(CASES) + number(2) + number(RULED_OUT) * 2)
    pairs = _pairs(["a != b", "a - b >= 0", "b - a >= 0"], dict.fromkeys("abc", (0.0, 2.0)))
    assert _holds(pairs, number(CASES) + number(0) + _sum(f2=-1, f1=-1, f6=-1)) is False
    found = _found(pairs)
    assert found is not None
    assert found[0] == CASES
    # The facts of one case are not those of the other.
    less, more = _sum(f1=-1, f6=1), _sum(f2=-1, f6=-1)
    assert _holds(pairs, number(CASES) + number(0) + less + more)
    assert not _holds(pairs, number(CASES) + number(0) + more + less)


def test_both_sides_of_a_cut_are_refuted() -> None:
    """Values up to a double are on one side, and all others on the other."""
    pairs = _pairs(["implies(a <= 1, b + c >= 5)", "implies(a > 1, b + c <= -5)"], {"b": (0.0, 2.0), "c": (0.0, 2.0)})
    cut = number(CUT) + number(0) + number(0) + np.float64(1.0).tobytes()
    assert not _holds(pairs, number(RULED_OUT))
    assert _holds(pairs, cut + number(RULED_OUT) * 2)
    assert not _holds(pairs, cut + number(RULED_OUT))
    assert not _holds(pairs, cut.replace(np.float64(1.0).tobytes(), np.float64(1.5).tobytes()) + number(RULED_OUT) * 2)
    assert _found(pairs) is not None
    pairs = _pairs(["implies(a <= 1, b + c >= 5)", "implies(a > 1.5, b + c >= 5)"], {"b": (0.0, 2.0), "c": (0.0, 2.0)})
    assert not _holds(pairs, cut + number(RULED_OUT) * 2)


def test_a_column_that_is_missing_adds_up_to_nothing() -> None:
    """A comparison with a missing value is not false, and links say nothing of it."""
    moves: dict[str, Any] = {"moves": {"a": (-9.0, 9.0)}, "blank": {"a": 1}, "budget": 9}
    relations, box = ["a - b >= 2", "b - a >= -1"], {"b": (0.0, 1.0)}
    frame = {"x": (0.0, 0.0, math.nan), **moves}
    pairs = _pairs(relations, box, **frame)
    assert None in pairs.where[0][0][1]
    assert not _holds(pairs, _sum(f0=-1, f1=-1))
    assert _found(pairs) is None
    pairs = _pairs(relations, {**box, "a": (-9.0, 9.0)}, **frame)
    assert _holds(pairs, _sum(f0=-1, f1=-1))


def test_what_was_missing_is_not_linked() -> None:
    """A value that is filled in has nothing to do with the one before it, of which there is none."""
    box = {"a": (-5.0, 5.0), "b": (1.0, 2.0)}
    pairs = _pairs(["a + b <= 0"], box, {"b": (-1.0, 1.0)}, x=(math.nan, 1.5, 0.0), fill={"a": 1}, budget=2)
    assert not _holds(pairs, _sum(f0=1))
    assert pairs.link(0) == (-math.inf, math.inf)


def test_changes_need_not_be_made() -> None:
    """Who can only add 1 or 2 to a and c may add nothing as well."""
    moves = {"a": (1.0, 2.0), "c": (1.0, 2.0)}
    pairs = _pairs(["a + b == c"], {"c": (2.0, 2.4)}, moves, 0.5, (1.0, 1.0, 2.0))
    assert not _holds(pairs, _sum(f0=1, f1=-1))
    assert pairs.link(0) == (0, 2)


def test_links_say_no_more_than_is_known() -> None:
    """A distance may be more than its square; decimals too fine for doubles, or no decimals, say the direction only."""
    assert _pairs(["a <= b"], {}, attacker=tp.Attacker.lp(2, 0.5)).link(0)[1] >= 0.5
    assert _pairs(["a <= b"], {}, attacker=tp.Attacker.lp(2, 3.0)).link(0)[1] >= 3
    for step, high in (("0.25", 1), ("0.0000000000000001", math.inf), ("0.4", Fraction(4, 5))):
        assert _pairs(["a <= b"], {}, {"a": (0.0, 1.0)}, step={"a": step}).link(0) == (0, high)
    assert DecimalGrid(0.1, Fraction(1, 10)).prints(-1e12, 1e12)
    assert not DecimalGrid(0.1, Fraction(1, 10)).prints(0.0, 1e15)
    assert not DecimalGrid(0.1, Fraction(1, 3)).prints(0.0, 1.0)
    assert not DecimalGrid(0.1, Fraction(1, 10)).prints(0.0, math.inf)


def test_neighbours_are_valid_but_for_the_row_itself() -> None:
    """Where nobody moves a and b, c is a + b before and after; neighbours have c <= 2.5, whatever a + b may be."""
    words: dict[str, Any] = {"moves": {"c": (-1.0, 1.0)}, "x": (1.0, 1.0, 2.0)}
    pairs = _pairs(["a + b == c"], {"c": (2.75, 3.0)}, epsilon=0.5, **words)
    assert _holds(pairs, _sum(f0=-1, f1=1))
    assert _found(pairs) == _sum(f0=-1, f1=1)
    assert not _holds(pairs, _sum(f0=-1))
    near = _pairs(["a + b == c"], {"c": (2.5, 3.0)}, epsilon=0.5, **words)
    assert not _holds(near, _sum(f0=-1, f1=1))
    # What moves need not be the same, and of the row itself nobody says that it is valid.
    moved = _pairs(["a + b == c"], {"c": (2.75, 3.0)}, epsilon=0.5, **{**words, "moves": FREE})
    assert not _holds(moved, _sum(f0=-1, f1=1))
    itself = _pairs(["a + b == c"], {"c": (1.5, 3.0)}, **words)
    assert not _holds(itself, _sum(f0=-1, f1=1))
    assert itself.facts[1] is None


@pytest.mark.parametrize("step", [None, dict.fromkeys("abc", "0.1")])
def test_changes_go_so_far_and_no_farther(step: Any) -> None:
    """Neighbours have a + b == c <= 2.5, and a rises by 0.3: c may rise by 1, but a + b only by that."""
    asked: dict[str, Any] = {"moves": {"a": (-0.3, 0.3), "c": (-1.0, 1.0)}, "epsilon": 0.5, "x": (1.0, 1.0, 2.0)}
    reason = _sum(f0=-1, f1=1)
    assert _holds(_pairs(["a + b == c"], {"c": (2.9, 3.5)}, step=step, **asked), reason)
    assert not _holds(_pairs(["a + b == c"], {"c": (2.8, 3.5)}, step=step, **asked), reason)
    assert _found(_pairs(["a + b == c"], {"c": (2.9, 3.5)}, step=step, **asked)) == reason
    assert _found(_pairs(["a + b == c"], {"c": (2.8, 3.5)}, step=step, **asked)) is None


def test_budgets_say_what_stays_as_it_is() -> None:
    """With money for one change only, and c changed, a is what it was in a valid neighbour."""
    asked: dict[str, Any] = {"moves": {"a": (-9.0, 9.0), "c": (-9.0, 9.0)}, "epsilon": 0.5, "x": (2.0, 0.0, 1.0)}
    box, relations = {"a": (0.0, 1.75), "c": (2.0, 3.0)}, ["a - b >= 1.8", "b + c >= 1.5"]
    poor, rich = (_pairs(relations, box, budget=budget, **asked) for budget in (1, 2))
    # Neighbours have a >= b + 1.8 and b >= 0; but for b = 0, a = 1.8, whose a is to be less after it.
    assert poor.link(0) == (0, 0)
    assert rich.link(0) == (-9, 9)
    del box["c"]
    assert _pairs(relations, box, budget=1, **asked).link(0) == (-9, 9)


def test_distances_add_up_to_the_radius_at_most() -> None:
    """Each of a and b may be 1 and cost 1 of 1.5 by L1, but their sum is 1.5 at most; c costs nothing more."""
    box = {"a": (0.5, 1.5), "b": (0.5, 1.5)}
    far, near, rich = (
        _pairs([f"a + b >= {least}"], box, attacker=tp.Attacker.lp(1, radius))
        for least, radius in ((1.75, 1.5), (1.5, 1.5), (1.75, 1.75))
    )
    assert _found(far) == _sum(rate=1, f0=-1)
    assert _holds(far, _sum(rate=2, f0=-2))
    assert not any(_holds(far, _sum(rate=rate, f0=-1)) for rate in (0, 2, 3))
    assert not _holds(near, _sum(rate=1, f0=-1))
    assert not _holds(rich, _sum(rate=1, f0=-1))
    # A distance of 1 costs more in units of one half, and less in those of 2.
    for scale, holds in ((0.5, True), (2.0, False)):
        attacker = tp.Attacker.lp(1, 1.5, scale={"a": scale})
        asked = _pairs(["a + b >= 1.75"], {"a": (0.25, 1.5), "b": (0.5, 1.5)}, attacker=attacker)
        assert _holds(asked, _sum(rate=1, f0=-1)) == holds
    # By L2 a sum of distances may be more, and costs that are no distances are not counted by them.
    assert not _holds(_pairs(["a + b >= 1.75"], box, attacker=tp.Attacker.lp(2, 1.3)), _sum(rate=1, f0=-1))
    assert not _holds(_pairs(["a + b >= 1.75"], box, budget=2), _sum(rate=1, f0=-1))


@pytest.mark.parametrize("text", ["a <= 0.1", "a in (1, 2)", "a is present", "one_of(a, b)"])
def test_only_sums_add_up(text: str) -> None:
    """A comparison of one column is between doubles, and other conditions are no sums at all."""
    pairs = _pairs(["b + c <= 9", text], {"a": (0.1, 1.0)})
    assert not _holds(pairs, _sum(f1=1))
    assert not _holds(pairs, _sum(f1=-1))
    assert not _holds(pairs, number(CASES) + number(1))
