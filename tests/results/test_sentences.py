"""Every sentence of `treeproof.results.sentences` against brute force, on small models chosen to break it.

Rows are whole numbers, attackers and neighbours go in steps of one, and labels are asked of scikit-learn: so all rows
within reach can be listed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from treeproof.cli import screen
from treeproof.model.builder import EnsembleBuilder
from treeproof.present.report.instances import KINDS, kinds_of
from treeproof.present.report.words import decided, summary
from treeproof.results import sentences
from treeproof.results.markup import at_least, at_most

SIDE, WIDTH = 5, 3
LABELS = ("bad", "fair", "good")
EVERYWHERE = list(itertools.product(range(SIDE), repeat=WIDTH))
SEEDS = range(14)
Row = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class World:
    """A tree on whole numbers, with labels that it gets wrong here and there, and all that an attacker may do."""

    model: DecisionTreeClassifier
    y: np.ndarray
    budget: int
    goal: str | None
    relations: tuple[str, ...]
    label: dict[Row, str]
    result: tp.Verification

    @classmethod
    @cache
    def of(cls, seed: int) -> World:
        draw = np.random.default_rng(seed)
        X = np.array(EVERYWHERE, dtype=float)
        depth = int(draw.integers(2, 6))
        model = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(X, draw.choice(LABELS, len(X)))
        label = dict(zip(EVERYWHERE, model.predict(X), strict=True))
        wrong = draw.random(len(X)) < (1.0 if seed == 5 else 0.2)
        others = {"bad": "fair", "fair": "good", "good": "bad"}
        y = np.array([others[label[row]] if off else label[row] for row, off in zip(EVERYWHERE, wrong, strict=True)])
        goal = str(draw.choice(LABELS)) if seed % 3 == 1 else None
        relations = ("[0] <= [1]",) if seed % 4 == 2 else ()
        budget = int(draw.integers(1, 3))
        attacker = tp.Attacker((-1, 1), budget=budget, step=1, goal=goal, domain=(0, SIDE - 1))
        result = tp.verify(model, X, y, attacker, epsilon=1, relations=relations or None)
        assert result.robustness.exact and result.resilience is not None and result.resilience.exact
        return cls(model, y, budget, goal, relations, label, result)

    def is_valid(self, row: Row) -> bool:
        return not self.relations or row[0] <= row[1]

    def near(self, row: Row) -> Iterator[Row]:
        """The row, and all valid rows whose columns are at most one away."""
        for other in EVERYWHERE:
            close = all(abs(a - b) <= 1 for a, b in zip(row, other, strict=True))
            if other == row or (close and self.is_valid(other)):
                yield other

    def attacks(self, row: Row) -> Iterator[Row]:
        """What an attack makes of a row and counts as one: with a goal, only what has that label."""
        for other in self.near(row):
            few = sum(a != b for a, b in zip(row, other, strict=True)) <= self.budget
            changes = self.label[other] != self.label[row]
            wanted = self.goal is None or (self.label[other] == self.goal and self.label[row] != self.goal)
            if few and changes and wanted:
                yield other

    def is_stable(self, row: Row) -> bool:
        return not any(True for _ in self.attacks(row))

    @property
    def right(self) -> list[Row]:
        return [row for row, label in zip(EVERYWHERE, self.y, strict=True) if self.label[row] == label]

    @property
    def robust(self) -> list[Row]:
        return [row for row in self.right if self.is_stable(row)]

    @property
    def resilient(self) -> list[Row]:
        return [row for row in self.robust if all(map(self.is_stable, self.near(row)))]


@pytest.mark.parametrize("seed", SEEDS)
def test_measures_mean_what_is_said_beside_them(seed: int) -> None:
    world, n = World.of(seed), len(EVERYWHERE)
    found = world.result
    assert round(found.accuracy * n) == len(world.right)
    assert round(float(found.robustness) * n) == len(world.robust)
    assert round(float(found.resilience) * n) == len(world.resilient)  # type: ignore[arg-type]
    assert decided(found.robustness) == sentences.ALL_DECIDED


def test_a_neighbour_of_a_resilient_row_may_have_another_label_and_a_wrong_one() -> None:
    """So "its whole neighbourhood is robust" would be false."""
    labels, wrong = 0, 0
    for world in map(World.of, SEEDS):
        y = dict(zip(EVERYWHERE, world.y, strict=True))
        for row in world.resilient:
            labels += any(world.label[near] != world.label[row] for near in world.near(row))
            wrong += any(world.label[near] != y[near] for near in world.near(row))
    assert labels and wrong
    assert "a neighbour, which may be another or wrong" in sentences.SHARE_RESILIENT


@pytest.mark.parametrize("seed", SEEDS)
def test_kinds_of_rows_are_what_their_meanings_say(seed: int) -> None:
    world = World.of(seed)
    right, robust, resilient = set(world.right), set(world.robust), set(world.resilient)
    meant = {
        sentences.ROW_BROKEN: right - robust,
        sentences.ROW_FRAGILE: robust - resilient,
        sentences.ROW_WRONG: set(EVERYWHERE) - right,
        sentences.ROW_OPEN: set(),
        sentences.ROW_ROBUST: set(),
        sentences.ROW_RESILIENT: resilient,
    }
    kinds = kinds_of(world.result)
    for number, (_, _, meaning) in enumerate(KINDS):
        rows = {row for row, kind in zip(EVERYWHERE, kinds, strict=True) if kind == number}
        assert rows == meant[meaning], meaning
    alone = kinds_of(
        tp.verify(world.model, EVERYWHERE, world.y, world.result.attacker, relations=list(world.relations))
    )
    kept = {row for row, kind in zip(EVERYWHERE, alone, strict=True) if KINDS[kind][2] == sentences.ROW_ROBUST}
    assert kept == robust


@pytest.mark.parametrize("seed", SEEDS)
def test_broken_rows_are_right_and_their_attacks_work_as_they_are_printed(seed: int) -> None:
    world = World.of(seed)
    frame = world.result.broken
    assert [EVERYWHERE[row] for row in frame["row"]] == [row for row in world.right if not world.is_stable(row)]
    assert frame.index.tolist() == frame["row"].tolist()
    for row, label, after, moved in frame[["row", "label", "attacked_label", "moved"]].itertuples(index=False):
        start, end = EVERYWHERE[row], list(EVERYWHERE[row])
        for column, (before, to) in moved.items():
            assert before == start[column]
            end[column] = int(to)
        assert world.label[start] == label == world.y[row] and world.label[tuple(end)] == after != label
        assert tuple(end) in set(world.attacks(start))
        assert (start, tuple(end)) == _read(screen.in_words(world.result, row), row, start)
        for column in moved:  # none of its moves could be left out
            less = (*end[:column], start[column], *end[column + 1 :])
            assert less not in set(world.attacks(start))
    html = world.result._repr_html_()
    nearby = int(world.result.is_broken_nearby.sum())
    assert (sentences.BROKEN_IN_SHORT.format(broken=len(frame)) in html) == (len(frame) + nearby > 0)
    assert (sentences.FRAGILE_IN_SHORT.format(fragile=nearby) in html) == (nearby > 0)
    assert nearby == len(set(world.robust) - set(world.resilient))


def _read(said: str, row: int, start: Row) -> tuple[Row, Row]:
    """Where an attack starts and ends, from what is printed of it."""
    assert said.startswith(f"row {row}: ")
    end = list(start)
    for column, before, after in re.findall(r"feature (\d+) (\S+) → ([^\s,]+)", said):
        assert float(before) == start[int(column)]
        end[int(column)] = int(float(after))
    return start, tuple(end)


def test_what_is_printed_as_an_attack_is_one_where_rounding_would_miss_it() -> None:
    """A sliver between two thresholds: six digits fall beside it, on either side."""
    edges = (1.2345678, 1.23456785)
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    builder.add_tree(
        feature=[0, -1, 0, -1, -1],
        threshold=[edges[0], 0.0, edges[1], 0.0, 0.0],
        left=[1, -1, 3, -1, -1],
        right=[2, -1, 4, -1, -1],
        scores=[[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]],
    )
    model = builder.build()
    for start in (1.0, 2.0, 0.1 + 0.2):
        result = tp.verify(model, [[start]], [0], tp.Attacker((-1, 1)))
        said = screen.in_words(result, 0)
        before, after = map(float, re.findall(r"([\d.]+) → ([\d.]+)", said)[0])
        assert before == start and abs(after - start) <= 1
        assert model.predict([[before], [after]]).tolist() == [0, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_summary_counts_what_it_says(seed: int) -> None:
    world = World.of(seed)
    right, robust, resilient = (len(rows) for rows in (world.right, world.robust, world.resilient))
    said = summary(world.result, 3)
    broken = right - robust
    assert sentences.N_RIGHT.format(right=right, rows=len(EVERYWHERE)) in said
    shown = sentences.SOME_SHOWN.format(shown=3) if broken > 3 else sentences.ALL_SHOWN
    assert (sentences.N_BROKEN.format(least="", broken=broken, shown=shown) in said) == (broken > 0)
    # Of no rows nothing is worth saying.
    assert (sentences.NONE_BROKEN in said) == (broken == 0 and right > 0)
    fragile = sentences.N_FRAGILE.format(fragile=robust - resilient, near="ε = 1.0")
    assert (fragile in said) == (robust > resilient)
    assert "decided" not in said


def test_what_is_open_is_said_to_be() -> None:
    world = World.of(0)
    nothing = tp.verify(world.model, EVERYWHERE, world.y, world.result.attacker, epsilon=1, max_seconds=0)
    said = summary(nothing, 0)
    assert sentences.N_OPEN.format(open=len(world.right)) in said and sentences.NONE_BROKEN not in said
    assert {KINDS[kind][2] for kind in kinds_of(nothing)} == {sentences.ROW_WRONG, sentences.ROW_OPEN}
    assert decided(nothing.robustness).startswith(sentences.SOME_OPEN.partition("{")[0])
    partly = tp.Verification.from_json(world.result.to_json())
    some = np.flatnonzero(partly.is_broken)
    opened = np.flatnonzero(partly.robustness_outcomes == tp.Outcome.PROVED)
    partly.rows.stability[opened] = partly.rows.resilience[:, opened] = tp.Outcome.UNKNOWN
    shown = sentences.ALL_SHOWN
    assert sentences.N_BROKEN.format(least="at least ", broken=len(some), shown=shown) in summary(partly, len(some))
    assert "time ran out, or relations were too hard" in sentences.UNDECIDED


def test_a_row_may_hold_at_its_radius_and_never_holds_above_it() -> None:
    """The exact radius lies above the double: "broken at it" would be false."""
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    leaves = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    builder.add_tree(feature=[0, -1, -1], threshold=[0.1, 0.0, 0.0], left=[1, -1, -1], right=[2, -1, -1], scores=leaves)
    model = builder.build()
    (radius,) = tp.robustness_radius(model, [[0.0]], [0], tp.Attacker((-0.1, 0.1)))
    assert radius == 1.0
    at, above = (tp.verify(model, [[0.0]], [0], tp.Attacker((-r, r))) for r in (0.1, np.nextafter(0.1, 1)))
    assert float(at.robustness) == 1.0 and float(above.robustness) == 0.0
    assert "broken at it" not in str(tp.robustness_radius.__doc__)


# ---- explanations -----------------------------------------------------------------------------------------


def _labels(world: World, row: Row, held: set[int], moves: Any = None) -> set[str]:
    """The labels of all rows that agree with a row on the columns that are held."""
    rows = EVERYWHERE if moves is None else [row, *moves(row)]
    return {world.label[other] for other in rows if all(other[f] == row[f] for f in held)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["reason", "smallest"])
def test_reasons_are_enough_and_no_part_can_be_left_out(seed: int, kind: Any) -> None:
    world = World.of(seed)
    found = tp.explain(world.model, EVERYWHERE[::7], kind=kind, domain=(0, SIDE - 1))
    for row, one in zip(EVERYWHERE[::7], found, strict=True):
        held = {int(name) for name in one.columns}
        assert _labels(world, row, held) == {world.label[row]}
        if not held:
            continue
        assert str(one).endswith(f"; {sentences.ENOUGH if kind == 'reason' else sentences.ENOUGH_FEWEST}")
        fewer = (
            [held - {f} for f in held]
            if kind == "reason"
            else map(set, itertools.combinations(range(3), len(held) - 1))
        )
        assert all(len(_labels(world, row, less)) > 1 for less in fewer)


def test_other_columns_may_matter_and_one_of_a_reason_need_not_be_in_another() -> None:
    """So neither "nothing else matters" nor "each of these is needed" would be true."""
    matters = spared = 0
    for world in map(World.of, SEEDS):
        found = tp.explain(world.model, EVERYWHERE[::7], domain=(0, SIDE - 1))
        for row, one in zip(EVERYWHERE[::7], found, strict=True):
            held = {int(name) for name in one.columns}
            matters += any(len(_labels(world, row, {0, 1, 2} - {f})) > 1 for f in {0, 1, 2} - held)
            others = ({0, 1, 2} - {f} for f in held)
            spared += any(_labels(world, row, rest) == {world.label[row]} for rest in others)
    assert matters + spared > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_against_an_attacker_labels_are_said_to_stay_only_where_they_do(seed: int) -> None:
    world = World.of(seed)
    attacker = tp.Attacker((-1, 1), goal=world.goal, step=1, domain=(0, SIDE - 1))
    for kind in ("reason", "smallest", "contrastive"):
        found = tp.explain(world.model, EVERYWHERE[::7], kind=kind, attacker=attacker)  # type: ignore[arg-type]
        for row, one in zip(EVERYWHERE[::7], found, strict=True):
            said, label = str(one), world.label[row]
            reach = [o for o in EVERYWHERE if all(abs(a - b) <= 1 for a, b in zip(row, o, strict=True))]
            held = set() if kind == "contrastive" else {int(name) for name in one.columns}
            gives = {world.label[o] for o in reach if all(o[f] == row[f] for f in held)}
            if label == world.goal:
                assert "wants" in said and not one.columns
            elif f"stays {label}" in said:
                assert gives == {label} and world.goal is None
            elif "cannot be made" in said:
                assert world.goal not in gives and f"cannot be made {world.goal}" in said
            if held and label != world.goal:
                assert said.endswith(f"; {sentences.NO_PART if kind == 'reason' else sentences.NO_FEWER}")


def test_what_is_not_proved_smallest_says_so() -> None:
    found = tp.explain(World.of(0).model, EVERYWHERE[60:63], timeout=0)
    assert all("no part" not in str(one) for one in found)
    for text in (sentences.MAYBE_PART, sentences.MAYBE_FEWER):
        assert "maybe" in text


@pytest.mark.parametrize("seed", SEEDS)
def test_no_allowed_change_means_none_of_the_columns_that_may_change(seed: int) -> None:
    world = World.of(seed)
    own = tp.Attacker({0: tp.ANY, 1: (-1, 1)}, costs={0: 2}, budget=9, step=1, domain=(0, SIDE - 1))
    found = tp.counterfactual(world.model, EVERYWHERE[::3], to="good", attacker=own, k=4)
    for row, one in zip(EVERYWHERE[::3], found, strict=True):
        allowed = [o for o in EVERYWHERE if o[2] == row[2] and abs(o[1] - row[1]) <= 1]
        working = [o for o in allowed if world.label[o] == "good"]
        assert (sentences.NO_CHANGE in str(one)) == (not working)
        if not one.changes:
            continue
        sets = [set(map(int, each.changes)) for each in (one, *one.others) if each.found]
        changed = [{f for f in range(3) if o[f] != row[f]} for o in working]
        if sentences.NO_OTHERS in str(one):
            assert all(any(shown <= columns for shown in sets) for columns in changed)


# ---- training, and shares in sentences --------------------------------------------------------------------


def test_shares_that_bound_something_are_rounded_to_the_safe_side() -> None:
    for n in (3, 7, 114, 400, 999, 1000, 30_011):
        for k in range(0, n + 1, max(1, n // 97)):
            assert float(at_least(k / n)) <= k / n <= float(at_most(k / n))
            assert float(at_most(k / n)) - float(at_least(k / n)) <= 0.0010001
    assert at_least(0.29) == at_most(0.29) == "0.290"


def test_no_classifier_passes_the_ceiling_that_is_said() -> None:
    for seed in range(20):
        draw = np.random.default_rng(seed)
        n = int(draw.integers(5, 40))
        X, y = draw.integers(0, 30, (n, 1)).astype(float), draw.integers(0, 2, n)
        ceiling = tp.ceiling(X, y, tp.Attacker((-1, 1), step=1))
        # Any labelling of the line: rows of two classes that meet within two steps cannot both be kept.
        best = max(_kept(X[:, 0], y), 0)
        assert ceiling.exact and ceiling.n_rows - ceiling.lost == best
        said = re.search(sentences.NO_CLASSIFIER.format(holds="robust", most=r"([\d.]+) % of"), str(ceiling))
        assert said is not None and float(said[1]) / 100 >= best / n - 1e-12


def _kept(x: np.ndarray, y: np.ndarray) -> int:
    """How many rows one labelling of the whole numbers can keep right at each point that their attacks reach."""
    best = dict.fromkeys((0, 1), 0)
    points = range(int(x.min()) - 1, int(x.max()) + 2)
    states: dict[tuple[int, int], int] = {(0, 0): 0, (1, 1): 0}
    first = True
    for point in points:
        new: dict[tuple[int, int], int] = {}
        for (a, b), kept in states.items():
            for c in (0, 1):
                here = 0 if first else int(((x == point - 1) & (y == a)).sum()) * (a == b == c)
                new[b, c] = max(new.get((b, c), 0), kept + here)
        states, first = new, False
    best_of = max(states.values())
    return max(best_of, *best.values())


TESTED = {
    test_measures_mean_what_is_said_beside_them: "RIGHT ROBUST RESILIENT SHARE_RIGHT SHARE_ROBUST ALL_DECIDED",
    test_a_neighbour_of_a_resilient_row_may_have_another_label_and_a_wrong_one: "SHARE_RESILIENT",
    test_kinds_of_rows_are_what_their_meanings_say: "ROW_BROKEN ROW_FRAGILE ROW_WRONG ROW_ROBUST ROW_RESILIENT",
    test_broken_rows_are_right_and_their_attacks_work_as_they_are_printed: "BROKEN_IN_SHORT FRAGILE_IN_SHORT REFUTED",
    test_a_summary_counts_what_it_says: "N_RIGHT N_BROKEN ALL_SHOWN SOME_SHOWN NONE_BROKEN N_FRAGILE",
    test_what_is_open_is_said_to_be: "ROW_OPEN N_OPEN SOME_OPEN UNDECIDED",
    test_reasons_are_enough_and_no_part_can_be_left_out: "ENOUGH ENOUGH_FEWEST REASON_MEANS SMALLEST_MEANS UNLESS",
    test_against_an_attacker_labels_are_said_to_stay_only_where_they_do: "NO_PART NO_FEWER",
    test_what_is_not_proved_smallest_says_so: "MAYBE_PART MAYBE_FEWER",
    test_no_allowed_change_means_none_of_the_columns_that_may_change: "NO_CHANGE NO_OTHERS CHANGES_MEAN",
    test_no_classifier_passes_the_ceiling_that_is_said: "NO_CLASSIFIER",
    test_shares_that_bound_something_are_rounded_to_the_safe_side: "PROVED_BY_TRAINING",
}
"""Which test holds which sentences."""

ELSEWHERE = {
    "PROVED": "tests/test_oracles.py: every double within reach",
    "CONTRASTIVE_MEANS": "tests/explanations/test_definitions.py",
    "NOT_HARDENED": "tests/training/test_hardening.py",
}


def test_every_sentence_is_tested() -> None:
    named = {name for names in TESTED.values() for name in names.split()}
    assert named.isdisjoint(ELSEWHERE)
    assert named | set(ELSEWHERE) == {name for name in vars(sentences) if name.isupper()}
