"""Reasons, smallest reasons, contrastive sets and ranges against brute force, by their definitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.explained import Explained, drop_order
from tests.support.made_rows import AllPairs, Anybody, Labels, moved_units, plain_rows, units_of
from tests.support.random_blocks import Block
from tests.support.relation_questions import Question
from tests.support.stated_relations import OneHot
from treeproof.model.ensemble import Ensemble
from treeproof.results.verdicts import Outcome

KINDS = ("reason", "smallest", "contrastive")


@dataclass(frozen=True)
class Columns:
    """The units of a model with relations, and what they are called."""

    ensemble: Ensemble
    units: tuple[tuple[int, ...], ...]
    names: list[Any]

    @classmethod
    def of(cls, ensemble: Ensemble, relations: Sequence[Any] = ()) -> Columns:
        """With one-hot groups by their names."""
        names: list[Any] = list(ensemble.feature_names or range(ensemble.n_features))
        units = units_of([str(name) for name in names], relations)
        called = {}
        for one in relations:
            if isinstance(one, OneHot):
                called[tuple(map(names.index, one.names))] = one.group or " or ".join(one.names)
        return cls(ensemble, units, [called.get(unit, names[unit[0]]) for unit in units])

    def dropped(self, wanted: Sequence[Any] | None) -> list[int]:
        """The order in which units are dropped."""
        return drop_order(self.ensemble, self.units, [self.names.index(name) for name in wanted or ()])

    def some_order(self, random: Random) -> list[Any] | None:
        """An order that a user may give, or none."""
        return None if random.random() < 0.5 else random.sample(self.names, random.randint(1, len(self.names)))


@dataclass(frozen=True)
class Judge:
    """One row, and all that can become of it."""

    columns: Columns
    labels: Labels
    x: Sequence[float]
    explained: Explained
    complete: bool
    """Whether it is all."""

    def judge(self, kind: str, one: tp.Explanation, wanted: Sequence[Any] | None, counts: Counter[str]) -> None:
        """AssertionError unless an explanation is what its kind says."""
        where = f"{kind} of x={list(self.x)!r}, order {wanted!r}: {one.columns!r}, minimal {one.minimal}"
        counts[kind] += 1
        assert one.label == self.explained.label, where
        assert one.outcome == Outcome.PROVED, f"{where}: {one.outcome}"
        if not one.minimal:
            counts["OPEN" if self.complete else "open with continuous columns"] += 1
        kept = frozenset(map(self.columns.names.index, one.columns))
        assert list(one.columns) == [self.columns.names[unit] for unit in sorted(kept)], f"{where}: not in order"
        if kind == "contrastive":
            self._contrastive(one, kept, where)
            return
        bad = [made for made in self.explained.made if not made.moved & kept and self.explained.is_flip(made.label)]
        assert not bad, f"{where}: not sufficient, see {bad[0]}"
        if not one.minimal:
            return
        if kind == "reason" and self.complete:
            expected = self.explained.reason(self.columns.dropped(wanted))
            assert kept == expected, f"{where}: expected {[self.columns.names[unit] for unit in sorted(expected)]}"
        elif kind == "smallest":
            smallest = self.explained.smallest
            assert len(kept) == smallest if self.complete else len(kept) >= smallest, f"{where}: {smallest} are enough"

    def _contrastive(self, one: tp.Explanation, kept: frozenset[int], where: str) -> None:
        fewest = self.explained.fewest_changes
        if one.minimal and not kept:
            assert fewest is None, f"{where}: {fewest} can flip it"
            assert one.changed is None, where
            return
        given = one.changed if hasattr(one.changed, "columns") else np.array([one.changed])
        row = self.columns.ensemble.check_rows(given)[0].tolist()
        assert self.labels.of_row(row) == one.changed_label, f"{where}: {row!r} has another label"
        assert self.explained.is_flip(one.changed_label), f"{where}: {row!r}"
        assert moved_units(self.columns.units, self.x, row) == kept, f"{where}: {row!r}"
        if self.complete:
            assert self.explained.can_flip(kept), f"{where}: nothing that flips it is found"
            assert not one.minimal or len(kept) == fewest, f"{where}: {fewest} can flip it"
        elif one.minimal and fewest is not None:
            assert len(kept) <= fewest, f"{where}: {fewest} can flip it"


# --- anybody ---------------------------------------------------------------------------------------------------------


def judge_anybody(
    model: Any, worlds: Sequence[Anybody], relations: Sequence[Any], random: Random, kinds: Sequence[str], **words: Any
) -> Counter[str]:
    """Explanations of rows of one model without an attacker; the worlds differ in the row only."""
    counts: Counter[str] = Counter()
    columns = Columns.of(worlds[0].ensemble, relations)
    domain = {columns.ensemble.feature_names[f] if columns.ensemble.feature_names else f: ends
              for f, ends in worlds[0].domain.items()}  # fmt: skip
    missing = [columns.ensemble.feature_names[f] if columns.ensemble.feature_names else f for f in worlds[0].missing]
    words |= {"relations": [one.given() for one in relations] or None}
    words |= {"domain": domain or None, "missing": missing or None}
    X = np.array([world.x for world in worlds])
    for kind in kinds:
        wanted = columns.some_order(random) if kind == "reason" else None
        inflate = kind == "reason" and "inflate" in kinds
        more = {"inflate": True} if inflate else {}
        if kind == "inflate":
            continue
        found = tp.explain(model, X, kind=kind, order=wanted, **more, **words)
        for world, one in zip(worlds, found, strict=True):
            Judge(columns, world.labels, world.x, world.explained, world.complete).judge(kind, one, wanted, counts)
            if inflate and one.minimal:
                _check_ranges(columns, world, one)
                counts["ranges"] += len(one.columns)
            counts["rows"] += 1
    return counts


def _check_ranges(columns: Columns, world: Anybody, one: tp.Explanation) -> None:
    """Every range and set is exactly as wide as the definition says."""
    where = f"ranges of x={list(world.x)!r}: {dict(one.ranges)!r}"
    kept = frozenset(map(columns.names.index, one.columns))
    expected = world.inflation.ranges(kept)
    assert set(one.ranges) == set(one.columns), where
    mine: dict[int, list[tuple[float, ...]]] = {}
    for unit, values in expected.items():
        given = one.ranges[columns.names[unit]]
        if unit in world.inflation.numbers:
            (f,) = columns.units[unit]
            if unit in world.inflation.missing:
                assert math.isnan(given.low), f"{where}: {columns.names[unit]} is missing"
                mine[unit] = values
                continue
            low, high = (_within(world, f, end) for end in (given.low, given.high))
            mine[unit] = [value for value in world.values[unit] if low <= value[0] <= high]
            if world.complete:
                ends = min(values)[0], max(values)[0]
                assert (low, high) == ends, f"{where}: {columns.names[unit]} is {ends} by definition"
        else:
            mine[unit] = [_double(columns, world, unit, value) for value in given]
            if world.complete:
                assert [str(value) for value in mine[unit]] == [str(value) for value in sorted(values)] or (
                    {str(value) for value in mine[unit]} == {str(value) for value in values}
                ), f"{where}: {columns.names[unit]} is {values} by definition"
    assert world.inflation.is_sufficient(mine), f"{where}: not sufficient"


def _within(world: Anybody, f: int, end: float) -> float:
    """An end of a range, drawn in to what the model takes."""
    low, high = world.domain.get(f, (-math.inf, math.inf))
    taken = oracles.taken(world.ensemble, f)
    return min(max(end, low, taken.first), high, taken.last)


def _double(columns: Columns, world: Anybody, unit: int, value: Any) -> tuple[float, ...]:
    """The doubles of a value of a category or group, as rows have them."""
    features = columns.units[unit]
    if value is None:
        return (math.nan,)
    category = dict(columns.ensemble.categories).get(features[0])
    if category is None or len(features) > 1:
        return tuple(float(world.names[f] == value) for f in features)
    if not category.coded:
        return (float(value),)
    return (float(category.values.index(value)) if value in category.values else world.x[features[0]],)


def judge_block(asked: Block, random: Random, n_rows: int, kinds: Sequence[str]) -> Counter[str]:
    """Rows of a block: what anybody could do, in some domain, and what its attacker could."""
    ensemble, counts = asked.ensemble, Counter[str]()
    rows = asked.rows[:n_rows]
    missing = [f for f in range(ensemble.n_features) if ensemble.may_be_missing.any() and random.random() < 0.3]
    domain = {}
    for f in range(ensemble.n_features):
        if random.random() < 0.4:
            values = [x[f] for x in rows if not math.isnan(x[f])]
            ends = sorted([*values, *oracles.thresholds(ensemble, f), 0.0])
            domain[f] = min([*values, random.choice(ends)]), max([*values, random.choice(ends)])
    worlds = [Anybody(ensemble, x, domain, missing) for x in rows]
    counts += judge_anybody(ensemble, worlds, [], random, kinds)
    labels, columns = Labels(ensemble), Columns.of(ensemble)
    attacker = as_attacker(asked.attacker)
    for kind in kinds:
        if kind == "inflate":
            continue
        wanted = columns.some_order(random) if kind == "reason" else None
        found = tp.explain(ensemble, np.array(rows), kind=kind, order=wanted, attacker=attacker)
        for x, one in zip(rows, found, strict=True):
            try:
                world = plain_rows(ensemble, asked.attacker, x, labels)
            except NotImplementedError:
                continue
            Judge(columns, labels, x, world, True).judge(kind, one, wanted, counts)
            counts["rows against attackers"] += 1
    return counts


def judge_question(asked: Question, random: Random, kinds: Sequence[str]) -> Counter[str]:
    """Rows of a question: with its relations against anybody, and against its attacker."""
    counts: Counter[str] = Counter()
    every = [AllPairs(asked, x) for x in asked.X]
    valid = [pairs for pairs in every if pairs.is_valid(pairs.x)]
    words: dict[str, Any] = {"voting": asked.voting} if asked.voting else {}
    columns = Columns.of(asked.ensemble, asked.relations)
    if valid:
        X = np.array([pairs.x for pairs in valid])
        for kind in kinds:
            if kind == "inflate":
                continue
            wanted = columns.some_order(random) if kind == "reason" else None
            found = tp.explain(
                asked.model, X, kind=kind, order=wanted, attacker=asked.attacker, relations=asked.given or None,
                **words,
            )  # fmt: skip
            for pairs, one in zip(valid, found, strict=True):
                judge = Judge(columns, pairs.labels, pairs.x, pairs.explained(), pairs.complete)
                judge.judge(kind, one, wanted, counts)
                counts["rows against attackers"] += 1
    names, bits = asked.names, {name for one in asked.relations for name in getattr(one, "names", ())}
    numbers = [name for name in asked.words.numbers if name not in bits]
    domain = {names.index(name): (float(-asked.unit), float((asked.words.most + 1) * asked.unit)) for name in numbers}
    domain = {f: ends for f, ends in domain.items() if random.random() < 0.8}
    missing = [names.index(name) for name in asked.words.missing if random.random() < 0.3]
    worlds = [Anybody(asked.ensemble, tuple(x), domain, missing, asked.relations) for x in asked.X]
    # With no step, all columns are the doubles that they are.
    worlds = [world for world in worlds if world.is_valid(world.x)]
    if worlds:
        counts += judge_anybody(asked.model, worlds, asked.relations, random, kinds, **words)
    return counts
