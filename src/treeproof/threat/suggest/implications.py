"""Implications without exception between simple facts: a column is 0, has a value, or is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.threat.relations.expressions import Comparison, Implies, Key, Missing, Not, Relation
from treeproof.threat.suggest import phrases
from treeproof.threat.suggest.chance import ACCIDENT, FEWEST, LIKELY, is_no_accident
from treeproof.threat.suggest.columns import FEW_VALUES, SeenColumn, SeenTable
from treeproof.threat.suggest.suggestions import Suggestion

MISSING = math.nan
"""The value of a fact about a missing value; the one object, so that it equals itself in tuples."""
Flags = npt.NDArray[np.bool_]
MOST_CHECKED = 3000
"""Candidates that are checked on all rows."""
MOST_FACTS = 1500
"""Facts that are compared with each other."""


@dataclass(frozen=True, eq=False)
class Fact:
    """A column has a value, or is missing; or the opposite, which is as unknown as the fact where there is no value."""

    column: SeenColumn
    value: float
    """NaN: it is missing."""
    holds: bool = True

    @property
    def relation(self) -> Relation:
        """The fact as a relation."""
        if math.isnan(self.value):
            missing = Missing(self.column.key)
            return missing if self.holds else Not(missing)
        if self.holds:
            return phrases.equals(self.column, self.value)
        sign = ">" if self.column.low >= 0 else "!="
        return Comparison(phrases.total({self.column: 1}), sign, phrases.total({}))

    @property
    def is_value(self) -> bool:
        """Whether it is about a value of a category."""
        return self.column.is_category and not math.isnan(self.value)

    @property
    def opposite(self) -> tuple[Key, float, bool]:
        """What the opposite fact is known by, if it is one of the facts."""
        levels = self.column.levels.tolist()
        if len(levels) == 2 and self.value in levels and (self.column.is_category or self.column.is_binary):
            return self.column.key, levels[1 - levels.index(self.value)], True
        return self.column.key, self.value, not self.holds

    @property
    def known_by(self) -> tuple[Key, float, bool]:
        """The column, the value and whether it holds; equal for equal facts."""
        return self.column.key, self.value, self.holds

    def true(self, rows: npt.NDArray[np.intp] | slice = slice(None)) -> Flags:
        """The rows in which it holds."""
        return self._says(self.holds, rows)

    def false(self, rows: npt.NDArray[np.intp] | slice = slice(None)) -> Flags:
        """The rows in which it does not."""
        return self._says(not self.holds, rows)

    def _says(self, equal: bool, rows: npt.NDArray[np.intp] | slice) -> Flags:
        present = self.column.present[rows]
        if math.isnan(self.value):
            return ~present if equal else present
        numbers = self.column.numbers[rows]
        return np.asarray(numbers == self.value if equal else present & (numbers != self.value))


def facts_of(column: SeenColumn) -> Iterator[Fact]:
    """The facts about a column that hold in some rows and not in others."""
    if min(column.n_missing, column.n_present) >= 2 * FEWEST:
        yield from (Fact(column, MISSING), Fact(column, MISSING, False))
    if column.is_constant:
        return
    if column.is_binary or (column.is_category and len(column.levels) <= FEW_VALUES):
        yield from (Fact(column, float(value)) for value in column.levels if column.value_of(value) is not None)
    elif not column.is_category and 2 * FEWEST <= int((column.numbers == 0).sum()) <= column.n_present - 2 * FEWEST:
        yield from (Fact(column, 0.0), Fact(column, 0.0, False))


class Implication(NamedTuple):
    """If the one fact holds, so does the other."""

    condition: Fact
    conclusion: Fact
    rows: int
    likely: float

    def is_among(self, zeros: set[tuple[Key, Key]]) -> bool:
        """Whether it says that one column is 0 where another is, and these are among the pairs; also the other way."""
        condition, conclusion = self.condition, self.conclusion
        if not condition.value == conclusion.value == 0 or condition.holds != conclusion.holds:
            return False
        names = condition.column.key, conclusion.column.key
        return (names if condition.holds else names[::-1]) in zeros

    @property
    def relation(self) -> Relation:
        """The implication as a relation."""
        return Implies(self.condition.relation, self.conclusion.relation)


def implications(
    table: SeenTable,
    columns: list[SeenColumn],
    settled: set[tuple[Key, Key]],
    zeros: set[tuple[Key, Key]],
) -> list[Suggestion]:
    """The implications between facts about different columns that nothing else implies.

    `settled` are pairs of columns about which all is said; of the pairs `zeros`, the second is 0 where the first is.
    """
    facts = [fact for column in columns for fact in facts_of(column)]
    if len(facts) > MOST_FACTS:
        # Facts that hold in every other row say most.
        weight = {fact: min(int(fact.true().sum()), int(fact.false().sum())) for fact in facts}
        facts = sorted(facts, key=lambda fact: -weight[fact])[:MOST_FACTS]
    found: dict[tuple[int, int], Implication] = {}
    for i, j in _candidates(table, facts, settled):
        one = _checked(table, facts[i], facts[j], len(facts) ** 2)
        if one is not None and not one.is_among(zeros):
            found[i, j] = one
    return _told(found, facts)


def _candidates(table: SeenTable, facts: list[Fact], settled: set[tuple[Key, Key]]) -> list[tuple[int, int]]:
    """Pairs of facts without exception in the sample, the least likely ones first."""
    if not facts:
        return []
    true = np.stack([fact.true(table.sample) for fact in facts], axis=1).astype(np.float32)
    false = np.stack([fact.false(table.sample) for fact in facts], axis=1).astype(np.float32)
    both, exceptions = true.T @ true, true.T @ false
    known = true.sum(axis=0) + false.sum(axis=0)
    rows = both + exceptions
    with np.errstate(divide="ignore", invalid="ignore"):
        likely = np.maximum((np.diag(both) - both) / (known - rows), 1e-9)
        surprise = -both * np.log(likely)
    enough = (exceptions == 0) & (both >= FEWEST / 2) & (likely <= (1 + LIKELY) / 2) & (surprise >= ACCIDENT)
    pairs = [
        (i, j)
        for i, j in np.argwhere(enough).tolist()
        if facts[i].column is not facts[j].column
        and not (facts[i].is_value and facts[j].is_value)
        and (facts[i].column.key, facts[j].column.key) not in settled
    ]
    return sorted(pairs, key=lambda pair: -float(surprise[pair]))[:MOST_CHECKED]


def _checked(table: SeenTable, condition: Fact, conclusion: Fact, candidates: int) -> Implication | None:
    holds, fails = condition.true(), conclusion.false()
    if (holds & fails).any():
        return None
    true = conclusion.true()
    rows = holds & true
    elsewhere = int((true & ~holds).sum())
    likely = elsewhere / max(elsewhere + int((fails & ~holds).sum()), 1)
    if not is_no_accident(rows, table.first_half, likely, candidates):
        return None
    return Implication(condition, conclusion, int(rows.sum()), likely)


def _told(found: dict[tuple[int, int], Implication], facts: list[Fact]) -> list[Suggestion]:
    """The implications that others do not imply; facts that imply each other are told together."""
    head = _heads(found, len(facts))
    number = {fact.known_by: i for i, fact in enumerate(facts)}
    opposite = [number.get(fact.opposite, -1) for fact in facts]
    best: dict[tuple[int, int], tuple[int, int]] = {}
    for pair in sorted(found, key=lambda pair: _plainness(found[pair], pair)):
        best.setdefault((head[pair[0]], head[pair[1]]), pair)
    edges = np.zeros((len(facts), len(facts)), dtype=np.float32)
    for i, j in best:
        edges[i, j] = i != j
    # What has a value is present.
    for i, fact in enumerate(facts):
        present = number.get((fact.column.key, MISSING, False), i)
        edges[head[i], head[present]] = head[i] != head[present]
        best.pop((head[i], head[present]), None)
    chained = edges @ edges > 0
    kept: list[Implication] = []
    for ends, (i, j) in best.items():
        if ends[0] == ends[1] or chained[ends]:
            continue
        # "If not the second, then not the first" says the same.
        known = min(opposite[i], opposite[j]) >= 0
        same = best.get((head[opposite[j]], head[opposite[i]])) if known else None
        one = found[i, j]
        if same is None or _plainness(one, (i, j)) <= _plainness(found[same], same):
            kept.append(one)
    told = _by_conclusion(_without_contrapositives(kept))
    for first in sorted(set(head)):
        members = [i for i in range(len(facts)) if head[i] == first]
        others = [opposite[i] for i in members]
        known = min(others) >= 0 and len({head[i] for i in others}) == 1
        if len(members) > 1 and not (known and _denials(others, facts) < _denials(members, facts)):
            told.append(_together(members, found))
    return told


def _without_contrapositives(found: list[Implication]) -> list[Implication]:
    """Those that are more than the opposite of another: "if b, then a is 'x'" says what follows if a is 'y'."""
    told = {
        (one.condition.known_by, one.conclusion.column.key): one.conclusion.value
        for one in found
        if one.conclusion.is_value
    }

    def is_told(one: Implication) -> bool:
        value = told.get((one.conclusion.opposite, one.condition.column.key))
        return one.condition.is_value and value not in (None, one.condition.value)

    return [one for one in found if not is_told(one)]


def _by_conclusion(found: list[Implication]) -> list[Suggestion]:
    """The implications; values of one category with the same conclusion together."""
    together: dict[tuple[object, ...], list[Implication]] = {}
    for one in found:
        cause = one.condition.column.key if one.condition.is_value else id(one)
        together.setdefault((cause, one.conclusion), []).append(one)
    told = []
    for first, *rest in together.values():
        values = sorted(one.condition.value for one in (first, *rest))
        condition = phrases.among(first.condition.column, values) if rest else first.condition.relation
        relation = Implies(condition, first.conclusion.relation)
        rows = sum(one.rows for one in (first, *rest))
        expected = sum(one.rows * (1 - one.likely) for one in (first, *rest))
        told.append(Suggestion("implication", (str(relation),), rows, expected))
    return told


def _plainness(one: Implication, pair: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    return (not one.condition.holds) + (not one.conclusion.holds), pair


def _denials(members: list[int], facts: list[Fact]) -> tuple[int, int]:
    return sum(not facts[i].holds for i in members), min(members)


def _heads(found: dict[tuple[int, int], Implication], n_facts: int) -> list[int]:
    """For each fact, the first of those that it is connected with by implications that go both ways."""
    head = list(range(n_facts))
    for i, j in sorted(found):
        if i < j and (j, i) in found and head[i] != head[j]:
            low, high = sorted((head[i], head[j]))
            head = [low if one == high else one for one in head]
    return head


def _together(members: list[int], found: dict[tuple[int, int], Implication]) -> Suggestion:
    """Facts that hold in the same rows."""
    circle = list(zip(members, [*members[1:], members[0]], strict=True))
    if not all(pair in found for pair in circle):
        circle = [pair for pair in found if pair[0] in members and pair[1] in members]
    told = [found[pair] for pair in circle]
    summary = (
        f"{', '.join(str(one.condition.relation) for one in told[:-1])} and {told[-1].condition.relation} go together"
    )
    rows = max(one.rows for one in told)
    expected = max(one.rows * (1 - one.likely) for one in told)
    return Suggestion("implication", tuple(str(one.relation) for one in told), rows, expected, summary)
