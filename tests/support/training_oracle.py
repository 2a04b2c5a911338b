"""Training under attack by the book: every attack of every row listed one by one, every score of a grid tried.

Shares no code with treeproof's training: a row is the list of points the attacker can turn it into, an invariant is an
inequality between losses, and the best scores are found by trying all pairs of multiples of 1/60. With at most 6 rows
of weight 1 every mean is such a multiple, so the grid holds the true optimum.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.support import oracles
from tests.support.oracles import OracleAttacker, Span

GRID = np.arange(61) / 60
A, B = np.meshgrid(GRID, GRID, indexing="ij")
SLACK = 1e-9

Point = tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """What the attacker can still turn a row into at some node, and per head whether it counts there."""

    label: int
    points: tuple[Point, ...]
    here: tuple[bool, ...]
    at_least: tuple[tuple[float, ...], ...]
    """Per head the losses that leaves it reaches must not fall below."""
    at_most: tuple[tuple[float, ...], ...]

    def side(self, f: int, threshold: float, right: bool) -> tuple[Point, ...]:
        return tuple(z for z in self.points if (z[f] > threshold) == right)


@dataclass
class Book:
    """Walks along a trained tree and holds every split against all others."""

    tree: Any
    n_classes: int
    max_depth: int
    min_leaf: int
    invariants: bool
    ends: list[set[float]] = field(default_factory=list)
    """Per feature what rows are and where their reaches end: thresholds between two neighbours are all the same one."""
    splits: int = field(default=0)
    invariants_met: int = field(default=0)

    @property
    def n_heads(self) -> int:
        return 1 if self.n_classes == 2 else self.n_classes

    def target(self, row: Row, head: int) -> int:
        return row.label if self.n_heads == 1 else int(row.label == head)

    def own(self, row: Row) -> int:
        return 0 if self.n_heads == 1 else row.label

    def start(self, X: np.ndarray, labels: list[int], attacker: OracleAttacker, eps: float) -> list[Row]:
        everyone = (True,) * self.n_heads
        nothing = ((),) * self.n_heads
        self.ends = [_ends(column, attacker, eps, f) for f, column in enumerate(X.T.tolist())]
        values = _values_that_matter(X, attacker, eps, self.tree)
        return [
            Row(label, _attacks(tuple(x), attacker, eps, values), everyone, nothing, nothing)
            for x, label in zip(X.tolist(), labels, strict=True)
        ]

    def check(self, rows: list[Row], node: int = 0, depth: int = 0) -> None:
        """The node's split is as good as any; a leaf has none that gains."""
        now = sum(self.loss(rows, h, self.tree.scores[node][h]) for h in range(self.n_heads))
        stops = depth == self.max_depth or self.count(rows) < 2 or now == 0
        best = math.inf if stops else self.best(rows)
        if self.tree.feature[node] < 0:
            assert best >= now - SLACK, f"node {node} is a leaf of loss {now}, a split has {best}"
            return
        f, threshold = int(self.tree.feature[node]), float(self.tree.threshold[node])
        left, right = (int(self.tree.left[node]), int(self.tree.right[node]))
        scores = (self.tree.scores[left], self.tree.scores[right])
        taken = sum(self.split_loss(rows, f, threshold, h, scores[0][h], scores[1][h]) for h in range(self.n_heads))
        assert taken <= now - SLACK / 10
        assert abs(taken - best) <= SLACK, f"node {node}: loss {taken}, the best split has {best}"
        assert not math.isinf(taken), "the scores break an invariant"
        self.splits += 1
        for child, is_right in ((left, False), (right, True)):
            below = self.child(rows, f, threshold, scores, is_right)
            assert self.count(below) >= self.min_leaf
            self.check(below, child, depth + 1)

    def count(self, rows: list[Row]) -> int:
        return sum(row.here[self.own(row)] for row in rows)

    def loss(self, rows: list[Row], head: int, score: float) -> float:
        return sum((self.target(row, head) - score) ** 2 for row in rows if row.here[head])

    def split_loss(self, rows: list[Row], f: int, threshold: float, head: int, a: Any, b: Any) -> Any:
        """The loss under attack of scores a and b (numbers or grids); infinite where an invariant is broken."""
        total = np.zeros(np.shape(a))
        for row in rows:
            y = self.target(row, head)
            losses = [
                (y - score) ** 2
                for score, right in ((a, False), (b, True))
                if row.side(f, threshold, right)
            ]  # fmt: skip
            if row.here[head]:
                total = total + np.maximum.reduce(losses)
            for bound in row.at_least[head]:
                total = np.where(np.minimum.reduce(losses) < bound - SLACK / 100, math.inf, total)
            for bound in row.at_most[head]:
                total = np.where(np.maximum.reduce(losses) > bound + SLACK / 100, math.inf, total)
            self.invariants_met += len(row.at_least[head]) + len(row.at_most[head])
        return total

    def best(self, rows: list[Row]) -> float:
        """The least loss of any threshold of any feature with enough rows on both sides.

        Two thresholds between the same ends would leave a gap between them where no row is and no reach ends.
        """
        best = math.inf
        n_features = len(rows[0].points[0])
        for f in range(n_features):
            for threshold in sorted({z[f] for row in rows for z in row.points} & self.ends[f]):
                sides = [[row for row in rows if row.side(f, threshold, right)] for right in (False, True)]
                if not all(sides):
                    continue
                grids = [self.split_loss(rows, f, threshold, h, A, B) for h in range(self.n_heads)]
                total = float(sum(grid.min() for grid in grids))
                if total < best and self.enough(rows, f, threshold, grids):
                    best = total
        return best

    def enough(self, rows: list[Row], f: int, threshold: float, grids: list[np.ndarray]) -> bool:
        """Whether both sides keep `min_leaf` rows at one of the best pairs of scores."""
        choices = []
        for grid in grids:
            low = grid <= grid.min() + SLACK / 100
            choices.append([pair for pair in [(low & (A <= B)), (low & (A > B))] if pair.any()])
        for masks in itertools.product(*choices):
            scores = tuple(np.array([axis[mask][0] for mask in masks]) for axis in (A, B))
            counts = [self.count(self.child(rows, f, threshold, scores, right)) for right in (False, True)]
            if min(counts) >= self.min_leaf:
                return True
        return False

    def child(self, rows: list[Row], f: int, threshold: float, scores: Any, is_right: bool) -> list[Row]:
        """The rows that reach one child, where they count, and the invariants they leave behind."""
        below = []
        for row in rows:
            if not row.side(f, threshold, is_right):
                continue
            here, at_least, at_most = list(row.here), list(row.at_least), list(row.at_most)
            for h in range(self.n_heads):
                if not (here[h] and row.side(f, threshold, not is_right)):
                    continue
                y = self.target(row, h)
                losses = [(y - scores[0][h]) ** 2, (y - scores[1][h]) ** 2]
                worse_right = losses[1] > losses[0] or (losses[0] == losses[1] and y == 0)
                here[h] = worse_right == is_right
                other = losses[0] if worse_right else losses[1]
                if self.invariants and here[h]:
                    at_least[h] = (*at_least[h], other)
                elif self.invariants:
                    at_most[h] = (*at_most[h], other)
            if self.invariants or any(here):
                below.append(
                    replace(
                        row,
                        points=row.side(f, threshold, is_right),
                        here=tuple(here),
                        at_least=tuple(at_least),
                        at_most=tuple(at_most),
                    )
                )
        return below


def _near_and_reach(value: float, attacker: OracleAttacker, eps: float, f: int) -> tuple[Span, Span]:
    """The doubles within eps of the value, and those that a move leads to from there; inside the domain."""
    domain = Span(-oracles.LARGEST, oracles.LARGEST) if attacker.domain is None else Span(*attacker.domain[f])
    near = oracles.shifted(Span(value, value), -eps, eps).meet(domain)
    return near, oracles.shifted(near, *attacker.intervals[f]).meet(domain)


def _ends(column: list[float], attacker: OracleAttacker, eps: float, f: int) -> set[float]:
    spans = [span for value in column for span in _near_and_reach(value, attacker, eps, f)]
    return {*column, *(end for span in spans if not span.empty for end in span)}


def _values_that_matter(X: np.ndarray, attacker: OracleAttacker, eps: float, tree: Any) -> list[list[float]]:
    """Per feature the ends of all reaches, the rows' own values, and both sides of every threshold of the tree.

    Where an attack within the reach and a node's range exists, one with such a value does.
    """
    values = []
    for f in range(X.shape[1]):
        ends = _ends(X[:, f].tolist(), attacker, eps, f)
        cuts = {float(t) for g, t in zip(tree.feature, tree.threshold, strict=True) if g == f}
        ends |= cuts | {math.nextafter(cut, math.inf) for cut in cuts}
        values.append(sorted(end for end in ends if math.isfinite(end)))
    return values


def _attacks(x: Point, attacker: OracleAttacker, eps: float, values: list[list[float]]) -> tuple[Point, ...]:
    """Every attack on x, or on something within eps of it, that puts features on values that matter."""
    options = []
    for f, value in enumerate(x):
        near, reach = _near_and_reach(value, attacker, eps, f)
        free = [v for v in values[f] if near.first <= v <= near.last]
        moved = [v for v in values[f] if reach.first <= v <= reach.last and v not in free]
        options.append([*((v, 0) for v in free), *((v, attacker.costs[f]) for v in moved)])
    return tuple(
        tuple(value for value, _ in choice)
        for choice in itertools.product(*options)
        if sum(cost for _, cost in choice) <= attacker.limit
    )


def worst_loss(tree: Any, n_classes: int, attacker: OracleAttacker, x: Point, label: int, eps: float = 0.0) -> float:
    """The largest loss of a row at any leaf that an attack brings it, or something within eps of it, to."""
    values = _values_that_matter(np.array([x]), attacker, eps, tree)
    target = np.array([float(label)]) if n_classes == 2 else np.eye(n_classes)[label]
    return max(float(((target - _scores(tree, z)) ** 2).sum()) for z in _attacks(x, attacker, eps, values))


def _scores(tree: Any, z: Point) -> np.ndarray:
    node = 0
    while tree.feature[node] >= 0:
        node = int(tree.left[node] if z[tree.feature[node]] <= tree.threshold[node] else tree.right[node])
    return np.asarray(tree.scores[node])
