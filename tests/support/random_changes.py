"""Random questions about changes of rows, asked of treeproof and of the slow truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp
from tests.support.category_models import CODED, NUMBERS, random_model
from tests.support.changes import Column, Judged, all_changes, listed_column, number_column
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble

CUTS = (0.25, 0.5, 0.75)
ENDS = (-1.0, 2.0)


@dataclass
class Asked:
    """One question, and its columns as the slow truth has them."""

    model: Ensemble
    X: pd.DataFrame
    to: Any
    attacker: tp.Attacker
    relations: list[Any] | None
    epsilon: Any
    columns: list[Column]
    valid: Callable[[np.ndarray], bool]
    power: int | None

    def truth(self) -> list[Judged]:
        """All changes that give a wanted label."""
        wanted = [self.model.classes.tolist().index(label) for label in self.to]

        def is_wanted(rows: np.ndarray) -> np.ndarray:
            return np.isin(self.model.class_of_doubles(rows), wanted)

        return all_changes(self.columns, self.model.n_features, is_wanted, self.valid)

    def price(self, total: Any) -> float:
        """The price of a change from the sum of what its columns cost."""
        return float(total) if self.power is None or math.isinf(total) else float(total) ** (1 / self.power)


def with_categories(random: Random, resilient: bool) -> Asked:
    """A question about a coded category, a category of numbers, and two numbers, one of which may be missing."""
    model = random_model(random)
    x = [float(random.randrange(5)), random.choice((0.1, 0.3, 0.5, 0.6, 0.9, math.nan)),
         float(random.choice(NUMBERS.values)), random.choice((0.0, 0.25, 0.55, 1.0))]  # fmt: skip
    power = random.choice((None, None, 1, 2))
    stated = _either_or(random, "abcd", x) if random.random() < 0.6 else []
    near = {"b": random.choice((0.1, 0.25, 0.3)), "d": random.choice((0.0, 0.1, 0.2))} if resilient else {}
    alike: tuple[tuple[int, ...], ...] = ()
    if resilient and random.random() < 0.5:
        alike = random.choice((((0, 1),), ((0, 1), (2, 4)), ((0, 1, 2, 3, 4),)))
    epsilon: Any = None
    if resilient:
        sets = tuple(tp.values(*(CODED.values[code] for code in codes)) for codes in alike)
        epsilon = near | ({"a": sets[0] if len(sets) == 1 else sets} if sets else {})
    attacker, price = _attacker(random, power, x)
    columns = [
        listed_column(
            (0,), (x[0],), [(float(code),) for code in range(5)],
            lambda one: next(([(float(c),) for c in codes] for codes in alike if one[0] in codes), [one]), price["a"],
        ),
        number_column(1, x[1], [*CUTS, *_cuts(stated, "b")], near.get("b", 0.0), ENDS, price["b"], price["blank"]),
        listed_column((2,), (x[2],), [(float(one),) for one in NUMBERS.values], lambda one: [one], price["c"]),
        number_column(3, x[3], [*CUTS, *_cuts(stated, "d")], near.get("d", 0.0), ENDS, price["d"]),
    ]  # fmt: skip
    relations = [_as_relation(random, clause) for clause in stated] or None

    def valid(row: np.ndarray) -> bool:
        return not any(_breaks(clause, "abcd", row) for clause in stated)

    frame = pd.DataFrame({"a": [CODED.values[int(x[0])]], "b": [x[1]], "c": [x[2]], "d": [x[3]]})
    labels = model.classes.tolist()
    to = random.sample(labels, random.randint(1, len(labels) - 1))
    return Asked(model, frame, to, attacker, relations, epsilon, columns, valid, power)


Condition = tuple[str, str, Any]
"""A column, a sign and a value: `("b", "<=", 0.6)`, `("a", "!=", "red")`."""
OPPOSITE = {"<=": ">", ">": "<=", "!=": "==", "==": "!="}


def _either_or(random: Random, names: str, x: list[float]) -> list[list[Condition]]:
    """Relations that x keeps: each says that one of some conditions on single columns holds."""

    def condition() -> Condition:
        name = random.choice(["b", "b", "b", "d", "d", "d", *names[:1]])
        if name == "a":
            return name, random.choice(("!=", "!=", "==")), random.choice(CODED.values)
        return (
            name,
            random.choice(("<=", ">")),
            random.choice((0.1, 0.2, 0.25, 0.3, 0.4, 0.45, 0.55, 0.6, 0.7, 0.75, 0.85)),
        )

    stated = [[condition() for _ in range(random.choice((1, 2, 2, 2, 3)))] for _ in range(random.randint(1, 3))]
    return [clause for clause in stated if not _breaks(clause, names, np.array(x))]


def _breaks(clause: list[Condition], names: str, row: np.ndarray) -> bool:
    """Whether a row meets none of the conditions; one on a missing value is not known not to hold."""
    for name, sign, value in clause:
        own = row[names.index(name)]
        at = CODED.values.index(value) if name == "a" else value
        if math.isnan(own) or {"<=": own <= at, ">": own > at, "!=": own != at, "==": own == at}[sign]:
            return False
    return True


def _as_relation(random: Random, clause: list[Condition]) -> Any:
    """The same in treeproof's words: as a choice, or as what follows from something."""
    first, *others = [f"{name} {sign} {value!r}" for name, sign, value in clause]
    if not others or random.random() < 0.5:
        return " or ".join([first, *others])
    name, sign, value = clause[0]
    return tp.implies(f"{name} {OPPOSITE[sign]} {value!r}", " or ".join(others))


def _cuts(stated: list[list[Condition]], name: str) -> list[float]:
    """Where relations cut a column."""
    return [value for clause in stated for column, _, value in clause if column == name]


def _attacker(random: Random, power: int | None, x: list[float]) -> tuple[tp.Attacker, dict[str, Any]]:
    """An attacker, and what columns cost by his own words."""
    domain = {"b": ENDS, "d": ENDS}
    if power is not None:
        unit, up = random.choice((1.0, 0.5)), random.random() < 0.4
        attacker = tp.Attacker.lp(
            power, 1.0, features=["b", "d"], domain=domain, scale={"b": unit}, up=["d"] if up else None
        )

        def distance(f: int, its: float, only_up: bool) -> Callable[[float], Fraction | None]:
            def price(value: float) -> Fraction | None:
                if math.isnan(x[f]) or (only_up and value < x[f]):
                    return None
                return abs((Fraction(value) - Fraction(x[f])) / Fraction(its)) ** power

            return price

        never: Callable[[Any], None] = lambda _: None  # noqa: E731
        return attacker, {
            "a": never, "c": never, "b": distance(1, unit, False), "d": distance(3, 1.0, up), "blank": ()
        }  # fmt: skip
    costs = {name: random.randint(1, 3) for name in "abcd"}
    low, high = random.choice(((-3.0, 3.0), (0.0, 3.0), (-0.3, 0.4))), random.choice(((-3.0, 3.0), (0.0, 0.5)))
    moves = {"a": tp.ANY, "b": low, "c": tp.ANY, "d": high}
    if random.random() < 0.3:
        del moves[random.choice("acd")]
    blank, fill = random.choice((None, 2)), random.choice((None, 1))
    attacker = tp.Attacker(
        moves, costs=costs, domain=domain,
        blank=None if blank is None else {"b": blank}, fill=None if fill is None else {"b": fill},
    )  # fmt: skip

    def fee(name: str, f: int) -> Callable[[Any], Fraction | None]:
        def price(value: Any) -> Fraction | None:
            if name not in moves and not (name == "b" and math.isnan(x[f])):
                return None
            if isinstance(value, tuple):
                return Fraction(costs[name])
            if math.isnan(x[f]):
                return None if fill is None else Fraction(fill)
            move = moves[name]
            fits = Fraction(move[0]) <= Fraction(value) - Fraction(x[f]) <= Fraction(move[1])
            return Fraction(costs[name]) if fits else None

        return price

    gone = () if blank is None or math.isnan(x[1]) else ((math.nan, Fraction(blank)),)
    return attacker, {"a": fee("a", 0), "b": fee("b", 1), "c": fee("c", 2), "d": fee("d", 3), "blank": gone}


def with_numbers(random: Random, resilient: bool) -> Asked:
    """A question about two numbers, and relations between them that cut them beside where the model does."""
    builder = EnsembleBuilder(n_features=2, classes=[0, 1], feature_names=["b", "d"], handles_missing=True)
    for _ in range(random.randint(1, 3)):
        builder.add_tree(**_random_tree(random, builder.n_scores, (CUTS, CUTS), 3))
    model, x = builder.build(), [random.choice((0.0, 0.3, 0.5, 0.9, 1.1)) for _ in range(2)]
    near = {name: random.choice((0.05, 0.1, 0.2)) if resilient else 0.0 for name in "bd"}
    stated, power = _either_or(random, "bd", x), random.choice((None, 1, 2))
    fees = {name: random.randint(1, 3) for name in "bd"}
    ends = {"b": ENDS, "d": ENDS}
    attacker = tp.Attacker({"b": (-3, 3), "d": (-3, 3)}, costs=fees, domain=ends)
    if power is not None:
        attacker = tp.Attacker.lp(power, 1.0, domain=ends)

    def price(f: int, name: str) -> Callable[[float], Fraction]:
        if power is None:
            return lambda _: Fraction(fees[name])
        return lambda value: abs(Fraction(value) - Fraction(x[f])) ** power

    columns = [
        number_column(f, x[f], [*CUTS, *_cuts(stated, name)], near[name], ENDS, price(f, name))
        for f, name in enumerate("bd")
    ]
    relations = [_as_relation(random, clause) for clause in stated] or None

    def valid(row: np.ndarray) -> bool:
        return not any(_breaks(clause, "bd", row) for clause in stated)

    return Asked(
        model, pd.DataFrame([x], columns=["b", "d"]), [random.randrange(2)], attacker, relations,
        near if resilient else None, columns, valid, power,
    )  # fmt: skip


def with_groups(random: Random, resilient: bool) -> Asked:
    """A question about a one-hot group, a column of tenths, and one that moves in halves."""
    names = ["p_car", "p_radio", "p_other", "rate", "years"]
    builder = EnsembleBuilder(n_features=5, classes=[0, 1, 2][: random.choice((2, 3))], feature_names=names)
    for _ in range(random.randint(2, 8)):
        builder.add_tree(**_random_tree(random, builder.n_scores, GROUPED_CUTS, 1))
    model = builder.build()
    power = random.choice((None, 1))
    code = random.randrange(3)
    group: list[tuple[float, ...]] = [tuple(float(k == one) for k in range(3)) for one in range(3)]
    rate, years = random.choice((0.1, 0.3, 0.7)), random.choice((1.0, 2.5))
    rates, all_years = [k / 10 for k in range(11)], [k / 2 for k in range(11)]
    size, far = random.choice((0.1, 0.25)), random.choice((0.5, 0.7))
    alike = resilient and random.random() < 0.4
    fees = {"purpose": random.randint(1, 3), "rate": random.randint(1, 3), "years": random.randint(1, 3)}
    if power is None:
        attacker = tp.Attacker(
            {"purpose": tp.ANY, "rate": (-5, 5), "years": (0, 5)}, costs=fees, step={"rate": 0.1, "years": 0.5},
            domain={"rate": (0, 1), "years": (0, 5)},
        )  # fmt: skip
    else:
        attacker = tp.Attacker.lp(
            1, 1.0, features=["rate", "years"], step={"rate": 0.1, "years": 0.5},
            domain={"rate": (0, 1), "years": (0, 5)},
        )  # fmt: skip

    def price(name: str, own: float, up: bool) -> Callable[[Any], Fraction | None]:
        def its(value: Any) -> Fraction | None:
            if power is not None:
                return None if name == "purpose" else abs(Fraction(repr(value[0])) - Fraction(repr(own)))
            return None if up and value[0] < own else Fraction(fees[name])

        return its

    def within(values: list[float], distance: float) -> Callable[[Any], list[Any]]:
        exact, limit = Fraction, Fraction(repr(distance)) if resilient else Fraction(0)
        return lambda one: [(v,) for v in values if abs(exact(repr(v)) - exact(repr(one[0]))) <= limit]

    columns = [
        listed_column((0, 1, 2), group[code], group, lambda one: group if alike else [one],
                      price("purpose", 0.0, False)),
        listed_column((3,), (rate,), [(v,) for v in rates], within(rates, size), price("rate", rate, False)),
        listed_column((4,), (years,), [(v,) for v in all_years], within(all_years, far), price("years", years, True)),
    ]  # fmt: skip
    relations = [tp.one_of(*names[:3], name="purpose"), tp.implies("p_car == 1", "years >= 1")]

    def valid(row: np.ndarray) -> bool:
        return not (row[0] == 1 and row[4] < 1)

    epsilon = {"rate": size, "years": far} | ({"purpose": tp.ANY} if alike else {}) if resilient else None
    frame = pd.DataFrame([[*group[code], rate, years]], columns=names)
    to = random.sample(model.classes.tolist(), random.randint(1, model.n_classes - 1))
    return Asked(model, frame, to, attacker, relations, epsilon, columns, valid, power)


GROUPED_CUTS = ((0.5,), (0.5,), (0.5,), (0.25, 0.45, 0.75), (1.2, 2.2, 3.0))
"""Where trees cut the columns of `with_groups`."""


def _random_tree(
    random: Random, n_scores: int, cuts: Sequence[Sequence[float]], least_depth: int
) -> dict[str, list[Any]]:
    """A tree of up to three tests in a row, of columns with these cuts."""
    tree: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "left", "right", "scores")}

    def grow(depth: int) -> int:
        node = len(tree["feature"])
        f = random.randrange(len(cuts)) if depth else LEAF
        cut = random.choice(cuts[f]) if depth else 0.0
        for name, value in zip(tree, (f, cut, LEAF, LEAF, [random.gauss(0, 1) for _ in range(n_scores)]), strict=True):
            tree[name].append(value)
        if depth:
            tree["left"][node], tree["right"][node] = grow(depth - 1), grow(depth - 1)
        return node

    grow(random.randint(least_depth, 3))
    return tree
