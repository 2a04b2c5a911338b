"""Random tiny questions by the hundred thousand: what `strategies.py` draws, and larger trees, from a plain seed.

A block is one model and one attacker with many rows and a few neighbourhoods, because building a model costs more than
asking it. Block `number` of a seed is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tests.support import oracles
from tests.support.oracles import LARGEST, OracleAttacker
from tests.support.strategies import BASES, LABELS, MARGINS, REACHES, ROUNDED_MARGINS, THRESHOLDS, UNITS, VALUE_LIMITS
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, ScoreRule

ROWS = 32
Point = tuple[float, ...]


@dataclass(frozen=True)
class Block:
    """One model and one attacker; every row is asked about with ε = 0 and in every neighbourhood."""

    ensemble: Ensemble
    attacker: OracleAttacker
    rows: tuple[Point, ...]
    labels: tuple[Any, ...]
    """What the test set says; mostly what the model predicts for that row."""
    neighbourhoods: tuple[Point, ...]


class Shape(NamedTuple):
    """How large the models of one kind are."""

    features: tuple[int, int]
    cuts: tuple[int, int]
    trees: tuple[int, int]
    depth: int


SHAPES = {
    "tiny": Shape((1, 3), (1, 3), (1, 5), 3),
    "many trees": Shape((2, 3), (1, 3), (6, 16), 3),
    "wide": Shape((4, 5), (1, 1), (2, 9), 3),
    "many leaves": Shape((2, 2), (8, 11), (1, 3), 12),
    "comb": Shape((1, 2), (4, 12), (1, 4), 40),
    "corner": Shape((2, 4), (1, 1), (2, 4), 1),
}
"""Beyond what strategies.py draws: more trees than bits of doubt, more features than one can pay for, trees of more
leaves than a machine word has bits, trees that are one long chain, and models whose label changes only where every
feature is beyond its threshold, under attackers who can just pay for that, or just not."""

KINDS = ("tiny",) * 6 + ("many trees",) * 2 + ("wide",) * 2 + ("many leaves", "comb", "corner", "corner")


def block(seed: int, number: int) -> Block:
    """Block `number` of this seed."""
    random = Random(f"{seed}:{number}")
    kind = random.choice(KINDS)
    ensemble = _corner(random) if kind == "corner" else random_ensemble(random, kind)
    plain = _values(random, ensemble)
    far = [[abs(v - e) for v in plain[f][:2] for e in oracles.thresholds(ensemble, f)] for f in range(len(plain))]
    far = [[d for d in row if math.isfinite(d)] for row in far]
    attacker = _attacker(random, ensemble, far, plain)
    first = _row(random, ensemble, attacker, [row[:1] for row in plain])
    if (kind == "corner" or random.random() < 0.1) and not any(math.isnan(value) for value in first):
        attacker = _just_in_reach(random, ensemble, attacker, first)
    # Large cells times large cells are slow to enumerate, so that where models are large neighbourhoods are few.
    count = 1 if kind == "many leaves" else 2
    neighbourhoods = tuple(_neighbourhood(random, attacker, far) for _ in range(count))
    values = [
        _beside_the_edge(random, ensemble, attacker, neighbourhoods, f, plain[f]) for f in range(ensemble.n_features)
    ]
    rows = tuple(dict.fromkeys([first, *(_row(random, ensemble, attacker, values) for _ in range(ROWS - 1))]))
    predicted = ensemble.predict(np.array(rows)).tolist()
    classes = ensemble.classes.tolist()
    labels = tuple(random.choice(classes) if random.random() < 0.1 else label for label in predicted)
    return Block(ensemble, attacker, rows, labels, neighbourhoods)


# --- models ------------------------------------------------------------------------------------------------------


def random_ensemble(random: Random, kind: str) -> Ensemble:
    """A model of one of the SHAPES, with any score rule."""
    shape = SHAPES[kind]
    n_features = random.randint(*shape.features)
    n_classes = random.choice((2, 2, 3, 4))
    n_trees = random.randint(*shape.trees)
    rule, base, rows = _leaves(random, n_classes, n_trees)
    builder = EnsembleBuilder(
        n_features=n_features,
        classes=random.choice(LABELS)[:n_classes],
        rule=rule,
        base=base,
        handles_missing=random.random() < 0.3,
        value_limit=random.choice(VALUE_LIMITS),
    )
    pools = [_pool(random, random.randint(*shape.cuts)) for _ in range(n_features)]
    is_mixed = random.random() < 0.4
    for _ in range(n_trees):
        if kind in ("tiny", "many trees", "wide"):
            tree = _bushy_tree(random, pools, rows, shape.depth)
        else:
            tree = _full_tree(random, pools, rows, chain=kind == "comb")
        builder.add_tree(**tree, pieces=_pieces(random, pools, tree["feature"]) if is_mixed else None)
    return builder.build()


def _pieces(random: Random, pools: Sequence[Sequence[float]], feature: Sequence[int]) -> dict[int, Pieces]:
    """Several cuts for many of a tree's tests."""
    found = {}
    for node, f in enumerate(feature):
        if f >= 0 and len(pools[f]) > 1 and random.random() < 0.6:
            cuts = sorted(random.sample(pools[f], random.randint(2, len(pools[f]))))
            first = random.random() < 0.5
            found[node] = Pieces(tuple(cuts), tuple(first == (i % 2 == 0) for i in range(len(cuts) + 1)))
    return found


def _corner(random: Random) -> Ensemble:
    """One stump per feature; class 1 only where all features are on the far side, whichever that is."""
    n = random.randint(*SHAPES["corner"].features)
    rule = ScoreRule(decision=Decision.CUT, cut=n - 0.5, precision=random.choice(("float64", "float32")))
    builder = EnsembleBuilder(n_features=n, classes=[0, 1], rule=rule)
    for f in range(n):
        threshold = random.choice((round(random.uniform(-3, 3), 1), random.uniform(-3, 3)))
        builder.add_tree(
            feature=[f, LEAF, LEAF], threshold=[threshold, 0.0, 0.0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
            scores=random.choice(([0.0, 0.0, 1.0], [0.0, 1.0, 0.0])),
        )  # fmt: skip
    return builder.build()


def _leaves(random: Random, n_classes: int, n_trees: int) -> tuple[ScoreRule, Point, list[Point]]:
    """A score rule, the base scores and the score vectors that leaves may hold."""
    kind = random.choice(("hard", "soft", "margins", "margins", "ties"))
    if kind == "hard":
        one_hot = [tuple(float(i == k) for k in range(n_classes)) for i in range(n_classes)]
        return ScoreRule(), (0.0,) * n_classes, one_hot
    if kind == "soft":
        rest = (0.0,) * (n_classes - 2)
        shares = [(a / 10, (10 - a) / 10, *rest) for a in (0, 1, 3, 4, 5, 7)]
        rows = shares + [row[::-1] for row in shares] + [(1 / n_classes,) * n_classes]
        return ScoreRule(divisor=float(n_trees)), (0.0,) * n_classes, rows
    if kind == "ties":
        # Two leaves may move all classes by the same amount: then only rounding tells them apart.
        parts = [random.choice((0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.9)) for _ in range(n_classes)]
        rows = [(part,) * n_classes for part in parts] + [tuple(parts[k:] + parts[:k]) for k in range(n_classes)]
        base = tuple(random.choice((0.0, 0.1)) for _ in range(n_classes))
        return ScoreRule(divisor=random.choice((1.0, float(n_trees)))), base, list(dict.fromkeys(rows))
    decision = random.choice((Decision.ARGMAX, Decision.SOFTMAX, Decision.SIGMOID))
    if n_classes == 2:
        decision = random.choice((Decision.CUT, Decision.CUT, decision))
    n_scores = 1 if decision == Decision.CUT else n_classes
    rule = ScoreRule(
        decision=decision,
        precision=random.choice(("float64", "float32")),
        divisor=random.choice((1.0, 1.0, float(n_trees))),
        base_last=random.random() < 0.5,
        cut=random.choice((0.0, 0.0, 0.3, -0.1)),
        steepness=random.choice((1.0, 2.5)),
    )
    number = np.dtype(rule.precision).type
    pool = ROUNDED_MARGINS if decision in (Decision.SOFTMAX, Decision.SIGMOID) else MARGINS
    row, other = (tuple(float(number(random.choice(pool))) for _ in range(n_scores)) for _ in range(2))
    # Rotated or negated, so that no class is ahead from the start; the other row keeps things uneven.
    turned = [row[k:] + row[:k] for k in range(n_scores)] if n_scores > 1 else [row, (-row[0],)]
    base = tuple(float(number(random.choice(BASES))) for _ in range(n_scores))
    return rule, base, list(dict.fromkeys([*turned, other]))


def _pool(random: Random, count: int) -> list[float]:
    """The few thresholds that all trees share in one feature; some one double apart."""
    pool: set[float] = set()
    for _ in range(count):
        # Where a feature has many thresholds, some are not special, as in real trees.
        value = random.choice(THRESHOLDS) if count <= 3 or random.random() < 0.5 else round(random.uniform(-3, 3), 1)
        pool.add(value)
        neighbour = random.choice((None, None, math.inf, -math.inf))
        if neighbour is not None and math.isfinite(math.nextafter(value, neighbour)):
            pool.add(math.nextafter(value, neighbour))
    return sorted(pool)


class _Tree:
    """The arrays of one tree for EnsembleBuilder.add_tree, node by node."""

    def __init__(self, random: Random, rows: Sequence[Point]) -> None:
        self.random = random
        self.rows = rows
        self.arrays: dict[str, list[Any]] = {
            name: [] for name in ("feature", "threshold", "left", "right", "scores", "nan_left")
        }

    def add(self, feature: int, threshold: float, row: Point) -> int:
        entry = (feature, threshold, LEAF, LEAF, row, self.random.random() < 0.5)
        for name, value in zip(self.arrays, entry, strict=True):
            self.arrays[name].append(value)
        return len(self.arrays["feature"]) - 1

    def add_leaf(self, sibling: int | None = None) -> int:
        """A leaf; with another row than its sibling if that is a leaf too, or the split would be idle."""
        beside_leaf = sibling is not None and self.arrays["feature"][sibling] == LEAF
        taken = self.arrays["scores"][sibling] if beside_leaf else None
        return self.add(LEAF, 0.0, self.random.choice([row for row in self.rows if row != taken] or list(self.rows)))

    def join(self, node: int, left: int, right: int) -> int:
        self.arrays["left"][node], self.arrays["right"][node] = left, right
        return node


def _bushy_tree(random: Random, pools: Sequence[Sequence[float]], rows: Sequence[Point], depth: int) -> dict[str, Any]:
    """Any splits in any order; some can never be taken."""
    splits = [(f, e) for f, pool in enumerate(pools) for e in pool]
    tree = _Tree(random, rows)

    def grow(level: int, sibling: int | None = None) -> int:
        lowest = -1 if level == 0 else -1 - len(splits) // 3
        choice = random.randint(lowest, len(splits) - 1) if level < depth else -1
        if choice < 0:
            return tree.add_leaf(sibling)
        node = tree.add(*splits[choice], rows[0])
        left = grow(level + 1)
        return tree.join(node, left, grow(level + 1, left))

    grow(0)
    return tree.arrays


def _full_tree(random: Random, pools: Sequence[Sequence[float]], rows: Sequence[Point], chain: bool) -> dict[str, Any]:
    """Splits until nearly every cell has a leaf of its own; as a chain, one side of each split is a leaf."""
    tree = _Tree(random, rows)

    def grow(box: list[tuple[int, int]], sibling: int | None = None) -> int:
        wide = [f for f, (low, high) in enumerate(box) if low < high]
        if not wide or (not chain and random.random() < 0.01):
            return tree.add_leaf(sibling)
        f = random.choice(wide)
        low, high = box[f]
        upwards = random.random() < 0.5
        cut = (low if upwards else high - 1) if chain else (low + high - 1) // 2
        node = tree.add(f, pools[f][cut], rows[0])
        below, above = box.copy(), box.copy()
        below[f], above[f] = (low, cut), (cut + 1, high)
        left = tree.add_leaf() if chain and upwards else grow(below)
        right = tree.add_leaf(left) if chain and not upwards else grow(above, left)
        return tree.join(node, left, right)

    grow([(0, len(pool)) for pool in pools])
    return tree.arrays


# --- points ------------------------------------------------------------------------------------------------------


def _steps(random: Random, value: float) -> float:
    """The value, or one double beside it, or a few: sums are rounded to doubles that lie wider apart."""
    where = random.choice((math.inf, -math.inf))
    for _ in range(random.choice((0, 0, 0, 1, 1, 1, 2, 3))):
        value = math.nextafter(value, where)
    return max(min(value, LARGEST), -LARGEST)


def _values(random: Random, ensemble: Ensemble) -> list[list[float]]:
    """Per feature some values: on a threshold, one double beside it, a reach away from it, or elsewhere."""
    values = []
    for f in range(ensemble.n_features):
        anchors = [*oracles.thresholds(ensemble, f)] * 3 + [0.0, 0.25, -3.0]
        row = []
        for _ in range(4):
            value = random.choice(anchors)
            if random.random() < 0.4:
                value += random.choice((*REACHES, 1e105, 1e155)) * random.choice((1.0, -1.0))
            row.append(_steps(random, value))
        values.append(row)
    return values


def _beside_the_edge(
    random: Random, ensemble: Ensemble, attacker: OracleAttacker, eps: Sequence[Point], f: int, plain: list[float]
) -> list[float]:
    """More values of one feature: from where an attack, or a neighbour's attack, ends just at a threshold."""
    low, high = attacker.intervals[f]
    if attacker.p is not None:
        high = attacker.radius * (1.0 if attacker.scale is None else attacker.scale[f])
        low = -high
    reaches = [end for end in (low, high) if math.isfinite(end)]
    reaches += [end + sign * one[f] for end in (*reaches, 0.0) for one in eps for sign in (1, -1)]
    edges = [e - reach for e in oracles.thresholds(ensemble, f) for reach in reaches]
    edges = [value for value in edges if math.isfinite(value)]
    if not edges:
        return plain
    return [*plain, *(_steps(random, random.choice(edges)) for _ in range(4))]


def _row(random: Random, ensemble: Ensemble, attacker: OracleAttacker, values: list[list[float]]) -> Point:
    """A row of these values, inside the domain; some with a NaN if the model takes it."""
    x = []
    for f, choices in enumerate(values):
        low, high = float(ensemble.value_low[f]), float(ensemble.value_high[f])
        if attacker.domain is not None:
            low, high = max(low, attacker.domain[f][0]), min(high, attacker.domain[f][1])
        x.append(min(max(random.choice(choices), low), high))
    if ensemble.may_be_missing.any() and random.random() < 0.3:
        x[random.randrange(len(x))] = math.nan
    return tuple(x)


# --- attackers and neighbourhoods --------------------------------------------------------------------------------


def _reach(random: Random, distances: Sequence[float]) -> float:
    return random.choice(distances) if distances and random.random() < 0.6 else random.choice(REACHES)


def _interval(random: Random, distances: Sequence[float]) -> tuple[float, float]:
    """One feature's interval of perturbations: every shape there is."""
    reach, other = _reach(random, distances), _reach(random, distances)
    shapes = [
        (-reach, reach),
        (-reach, 0.0),
        (0.0, reach),
        (-other, reach),
        (min(reach, other), max(reach, other)),
        (-max(reach, other), -min(reach, other)),
        (0.0, 0.0),
        random.choice(((-math.inf, math.inf), (0.0, math.inf), (-math.inf, -reach))),
    ]
    return random.choice(shapes)


def _attacker(
    random: Random, ensemble: Ensemble, far: Sequence[Sequence[float]], values: Sequence[Sequence[float]]
) -> OracleAttacker:
    """Attackers of every kind; some with a domain. `far` are reaches worth trying per feature."""
    n = ensemble.n_features
    everywhere = [d for row in far for d in row]
    domain = None
    if random.random() < 0.3:
        domain = tuple(_range_around(random, ensemble, f, random.choice(values[f])) for f in range(n))
    kind = random.choice(("costs", "costs", "costs", "one each", "l0", "linf", "lp", "lp"))
    if kind == "costs":
        intervals = tuple(_interval(random, far[f]) for f in range(n))
        costs = tuple(random.randint(0, 3) for _ in range(n))
        return OracleAttacker(intervals, costs, random.choice((None, 0, 1, 2, 3, 4, 1, 2)), domain=domain)
    if kind == "one each":
        return OracleAttacker((_interval(random, everywhere),) * n, (1,) * n, random.randint(1, n), domain=domain)
    if kind == "l0":
        return OracleAttacker(((-math.inf, math.inf),) * n, (1,) * n, random.randint(0, 2), domain=domain)
    reach = _reach(random, everywhere)
    if kind == "linf":
        return OracleAttacker(((-reach, reach),) * n, (1,) * n, None, domain=domain)
    p = random.randint(1, 3)
    if random.random() < 0.15:
        reach = random.choice((1e110, 1e160, LARGEST))  # to the power p more than a double can hold
    touched = tuple((0.0, 0.0) if random.random() < 0.25 else (-math.inf, math.inf) for _ in range(n))
    return OracleAttacker(touched, (1,) * n, None, p, reach, domain, _scale(random, n))


def _just_in_reach(random: Random, ensemble: Ensemble, attacker: OracleAttacker, x: Point) -> OracleAttacker:
    """An Lp attacker whose radius is the least that brings all features of x over a threshold, or one double less."""
    p, n = random.randint(1, 3), ensemble.n_features
    everything = ((-math.inf, math.inf),) * n
    attacker = OracleAttacker(everything, (1,) * n, None, p, 1.0, attacker.domain, _scale(random, n))
    total = Fraction(0)
    for f, value in enumerate(x):
        cuts = oracles.thresholds(ensemble, f)
        if cuts:
            e = random.choice(cuts)
            beyond = e if value > e else min(math.nextafter(e, math.inf), LARGEST)
            total += attacker.power(f, Fraction(beyond) - Fraction(value))
    if not 1e-290 < total < 1e290:  # beyond, a root of its nearest double is no start for the search
        return attacker
    radius = float(total) ** (1 / p)
    while Fraction(radius) ** p < total:
        radius = math.nextafter(radius, math.inf)
    while radius > 0 and Fraction(math.nextafter(radius, 0.0)) ** p >= total:
        radius = math.nextafter(radius, 0.0)
    if random.random() < 0.25:
        radius = math.nextafter(radius, 0.0)
    return replace(attacker, radius=radius)


def _scale(random: Random, n: int) -> Point | None:
    """A unit for each feature, or none."""
    return tuple(random.choice(UNITS) for _ in range(n)) if random.random() < 0.5 else None


def _range_around(random: Random, ensemble: Ensemble, f: int, value: float) -> tuple[float, float]:
    """A range that holds the value, cut to what the model takes."""
    value = min(max(value, float(ensemble.value_low[f])), float(ensemble.value_high[f]))
    rooms = (0.0, 0.1, 0.3, 1.0, 1e16, math.inf, math.inf)
    return value - random.choice(rooms), value + random.choice(rooms)


def _neighbourhood(random: Random, attacker: OracleAttacker, far: Sequence[Sequence[float]]) -> Point:
    """ε per feature: nothing, a step of one double, the distance to a threshold or what is left of it, everything."""
    eps = []
    for distances, (low, high) in zip(far, attacker.intervals, strict=True):
        reaches = [abs(r) for r in (low, high) if math.isfinite(r)] if attacker.p is None else [attacker.radius]
        left = [abs(d - r) for d in distances for r in reaches]
        pool = [*distances, *left, *(math.nextafter(d, math.inf) for d in left if d < LARGEST)]
        choice = random.random()
        if choice < 0.25:
            eps.append(0.0)
        elif choice < 0.3:
            eps.append(math.inf)
        else:
            eps.append(_reach(random, pool))
    return tuple(eps)
