"""Random attackers of every kind on the models of `category_models`, and all that matters of what they can do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

import treeproof as tp
from treeproof.check.columns import Column
from treeproof.check.objects import Reach, columns_of
from treeproof.model.ensemble import Ensemble

VALUES: dict[str, list[Any]] = {
    "a": ["red", "green", "blue", "grey", "black"],
    "b": [0.0, 0.25, 0.3, 0.5, 0.6, 0.75, 1.0],
    "c": [0, 1, 2, 4, 7],
    "d": [0.0, 0.25, 0.3, 0.5, 0.6, 0.75, 1.0],
}
DOMAIN = {"b": (0, 1), "d": (0, 1)}


def random_attacker(random: Random) -> tp.Attacker:
    """Moves, costs, blanks, fills, groups and a goal, or rules, all by the way."""
    words = _words(random)
    rules = [rule for _ in range(random.randint(1, 4)) if (rule := _rule(random)) is not None]
    if rules and random.random() < 0.25:
        step = {name: _step(random, name, rules) for name in "bd" if random.random() < 0.5}
        return tp.Attacker.rules(rules, budget=random.randint(0, 5), domain=DOMAIN, step=step or None, **words)
    moves: dict[str, Any] = {}
    costs: dict[str, Any] = {name: random.randint(0, 3) for name in VALUES if random.random() < 0.5}
    for name, values in VALUES.items():
        kind = random.choice(["still", "still", "any", "values", "matrix", "interval", "steps"])
        if kind == "any":
            moves[name] = tp.ANY
        elif kind == "values":
            moves[name] = tp.values(*random.sample(values, 3))
        elif kind == "matrix":
            pairs = itertools.permutations(values, 2)
            costs[name] = {pair: random.randint(0, 3) for pair in random.sample(list(pairs), 6)}
        elif kind in ("interval", "steps") and name in "bd":
            ends = (-random.choice([0, 0.1, 0.2, 0.3]), random.choice([0.1, 0.25, 0.3]))
            moves[name] = ends if kind == "interval" else tp.steps(*ends, random.choice(["0.1", "0.05"]))
    if not moves:
        moves["b"] = (-0.1, 0.1)
        costs.pop("b", None)
    budget = random.choice([None, 0, 1, 2, 3, 4])
    unseen = moves.get("a") == tp.ANY and random.random() < 0.3
    return tp.Attacker(moves, costs=costs or 1, budget=budget, domain=DOMAIN, unseen=unseen, **words)


def _words(random: Random) -> dict[str, Any]:
    words: dict[str, Any] = {}
    for what in ("blank", "fill"):
        if columns := [name for name in VALUES if random.random() < 0.25]:
            words[what] = {name: random.randint(0, 2) for name in columns}
    if random.random() < 0.4:
        words |= {"groups": {"g": random.sample("abcd", 2)}, "budgets": {"g": random.randint(0, 3)}}
    if random.random() < 0.4:
        words["goal"] = random.choice(["no", "yes"])
    return words


def _rule(random: Random) -> tp.Rule | None:
    name, cost = random.choice("abcd"), random.randint(1, 2)
    if name in "ac":
        return tp.Rule(name, when=set(random.sample(VALUES[name], 2)), to=random.choice(VALUES[name]), cost=cost)
    low, high = sorted((random.choice([-0.2, -0.1, 0, 0.1]), random.choice([-0.1, 0.05, 0.1, 0.2])))
    when = sorted((random.choice([0, 0.2, 0.25, 0.5]), random.choice([0.3, 0.5, 0.75, 1.0])))
    return tp.Rule(name, when=tuple(when), change=(low, high), cost=cost) if low or high else None


def _step(random: Random, name: str, rules: list[tp.Rule]) -> str:
    """A step that every rule of a column leads by at least once."""
    changes = [rule.change for rule in rules if rule.column == name and rule.change is not None]
    is_coarse = all(low <= Fraction(-1, 10) or high >= Fraction(1, 10) for low, high in changes)
    return random.choice(["0.1", "0.05"]) if is_coarse else "0.05"


def random_row(random: Random) -> list[float]:
    """Values beside, on and between the thresholds, some of them missing."""
    numbers = [0.1, 0.2, 0.25, 0.3, 0.5, 0.55, 0.7, 0.75, 0.9, math.nan]
    codes = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, math.nan]
    own = [0.0, 1.0, 2.0, 4.0, 7.0, math.nan]
    return [random.choice(each) for each in (codes, numbers, own, numbers)]


def _candidates(column: Column, f: int, x: float) -> list[float]:
    """Values of a column, enough to reach each of its cells at the least price."""
    if f in (0, 2):
        return [*map(float, range(6) if f == 0 else VALUES["c"]), math.nan]
    found = {*VALUES["b"], *(float(np.nextafter(cut, 9)) for cut in (0.25, 0.5, 0.75))}
    origin = Fraction(0 if math.isnan(x) else repr(x))
    found |= {float(origin + Fraction(k, 100)) for k in range(-100, 101)}
    if column.ends is None and not math.isnan(x):
        found |= {x + end for end in column.reach}
    return [*(value for value in found if 0 <= value <= 1), math.nan]


def labels_in_reach(model: Ensemble, attacker: tp.Attacker, x: list[float], near: list[float]) -> set[Any]:
    """The labels of all rows that the attacker can make of a neighbour of x."""
    return labels_for_prices(
        model,
        attacker,
        lambda column, f: {*_candidates(column, f, x[f]), *_candidates(column, f, near[f])},
        lambda column, f, value: column.price(x[f], near[f], value),
    )


def labels_for_prices(
    model: Ensemble,
    attacker: tp.Attacker,
    values: Callable[[Column, int], Iterable[float]],
    price_of: Callable[[Column, int, float], Fraction | None],
) -> set[Any]:
    """The labels of all rows of such values, of each column and its number, whose prices the attacker can pay."""
    reach = Reach(model, attacker)
    options = []
    for f, column in enumerate(reach.columns):
        cheapest: dict[Any, tuple[Fraction, float]] = {}
        for value in values(column, f):
            price = price_of(column, f, value)
            cell = None if math.isnan(value) else int(np.searchsorted(model.grid.cuts_of(f), value))
            if price is not None and (cell not in cheapest or price < cheapest[cell][0]):
                cheapest[cell] = price, value
        options.append(list(cheapest.values()))
    rows = [
        [value for _, value in chosen]
        for chosen in itertools.product(*options)
        if reach.plain.can_pay({f: price for f, (price, _) in enumerate(chosen)})
    ]
    return set(model.predict(np.array(rows)).tolist())


def is_unstable(model: Ensemble, attacker: tp.Attacker, x: list[float], near: list[float]) -> bool:
    """Whether the attacker gets from a neighbour of x to another label, or to one that it wants."""
    own, labels = model.predict(np.array([near])).tolist()[0], labels_in_reach(model, attacker, x, near)
    return own not in attacker.goal and bool(labels & set(attacker.goal)) if attacker.goal else labels != {own}


def random_sets(random: Random) -> dict[str, Any]:
    """Values of the two categories that may stand for each other: any, one set or two."""
    sets = {}
    for name in random.choice(["a", "c", "ac"]):
        first, second, third, fourth, _ = random.sample(VALUES[name], 5)
        one, several = tp.values(first, second, third), [tp.values(first, second), tp.values(third, fourth)]
        sets[name] = random.choice([tp.ANY, one, several])
    return sets


def alike_rows(x: list[float], sets: dict[str, Any]) -> list[list[float]]:
    """The rows that differ from x in nothing but values that may stand for its own."""
    values = [[own] for own in x]
    for name, given in sets.items():
        f = "abcd".index(name)
        known = VALUES[name]
        own = known[int(x[f])] if f == 0 and x[f] < len(known) else x[f]
        named = [known] if given == tp.ANY else [one.values for one in (given if isinstance(given, list) else [given])]
        mine = next((one for one in named if own in one), None)
        if mine is not None:
            values[f] = [float(known.index(value) if f == 0 else value) for value in mine]
    return [list(row) for row in itertools.product(*values)]


def some_neighbours(
    model: Ensemble, attacker: tp.Attacker, x: list[float], sizes: list[float], random: Random
) -> list[list[float]]:
    """Neighbours of x, at the ends of its neighbourhood and beside thresholds: up to 100 of them."""
    values = []
    for f, column in enumerate(columns_of(model, attacker)):
        ends = {x[f], min(x[f] + sizes[f], 1.0), max(x[f] - sizes[f], 0.0)} if sizes[f] else {x[f]}
        inside = ends | set(_candidates(column, f, x[f])) if sizes[f] else ends
        values.append([value for value in inside if column.is_near(x[f], value, sizes[f])])
    rows = [list(row) for row in itertools.product(*values)]
    random.shuffle(rows)
    return rows[:100]
