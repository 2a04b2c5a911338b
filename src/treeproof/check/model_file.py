"""A model as its file says it, for the checker: trees, labels in the library's arithmetic, leads as whole numbers."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from treeproof.check.rules import Rejected

NAMES = ("origin", "feature_names", "decided")
"""Fields of a model file that change no answer."""
LARGEST_POWER = 600.0
"""Beyond it, sigmoids are as flat as this."""


class Node(NamedTuple):
    """A test, or a leaf, whose `feature` is negative."""

    feature: int
    cuts: tuple[float, ...]
    """Numbers up to the first go left; the side changes at each."""
    left: int
    right: int
    nan_left: bool
    scores: tuple[float, ...]

    def goes_left(self, value: float) -> bool:
        """Which way a value goes."""
        return self.nan_left if math.isnan(value) else bisect_left(self.cuts, value) % 2 == 0


@dataclass(frozen=True)
class Model:
    """What a model file says."""

    n_features: int
    n_classes: int
    trees: list[list[Node]]
    base: list[float]
    rule: dict[str, Any]
    content: dict[str, Any]

    @classmethod
    def of(cls, content: dict[str, Any]) -> Model:
        """The model of the object in a file."""
        if content.get("format") != "treeproof-ensemble":
            raise Rejected(f"the model's format is {content.get('format')!r}")
        trees = [_nodes(tree) for tree in content["trees"]]
        return cls(content["n_features"], len(content["classes"]), trees, content["base"], content["rule"], content)

    @cached_property
    def hash(self) -> str:
        """What tells models with other answers apart."""
        kept = {name: value for name, value in self.content.items() if name not in NAMES}
        return hash_of(kept)

    @cached_property
    def cuts(self) -> list[list[float]]:
        """Per column the distinct cuts of all tests, rising."""
        found: list[set[float]] = [set() for _ in range(self.n_features)]
        for node in self._nodes():
            if node.feature >= 0:
                found[node.feature].update(node.cuts)
        return [sorted(some) for some in found]

    def _nodes(self) -> Iterator[Node]:
        for tree in self.trees:
            yield from tree

    # --- labels ------------------------------------------------------------------------------------------------------

    def label(self, row: Sequence[float]) -> int:
        """The number of the class of a row."""
        leaves = []
        for tree in self.trees:
            node = tree[0]
            while node.feature >= 0:
                node = tree[node.left if node.goes_left(row[node.feature]) else node.right]
            leaves.append(node.scores)
        return self.label_of(leaves)

    def label_of(self, leaves: Sequence[Sequence[float]]) -> int:
        """The number of the class for the scores of one leaf of each tree, in the library's arithmetic."""
        rule, rounded = self.rule, float if self.rule["precision"] == "float64" else _single
        parts = iter(rule.get("members", ()))
        part = next(parts, None)
        left_of_part = part["n_trees"] if part else 0
        total = [0.0] * len(self.base)
        scores = [0.0 if rule["base_last"] else base for base in self.base]
        for leaf in leaves:
            scores = [rounded(score + more) for score, more in zip(scores, leaf, strict=True)]
            left_of_part -= 1
            if part and left_of_part == 0:
                total = [a + b / part["divisor"] * part["weight"] for a, b in zip(total, scores, strict=True)]
                part = next(parts, None)
                left_of_part = part["n_trees"] if part else 0
                scores = [0.0] * len(self.base)
        scores = [rounded(score / rule["divisor"]) for score in (total if rule.get("members") else scores)]
        if rule["base_last"]:
            scores = [rounded(score + base) for score, base in zip(scores, self.base, strict=True)]
        return _class_of(rule, scores, rounded)

    # --- leads -------------------------------------------------------------------------------------------------------

    @cached_property
    def _shares(self) -> list[list[list[Fraction]]]:
        """Per tree and node what it adds to the scores before they are divided, exactly; one score per class."""
        factors = [
            Fraction(member["weight"]) / Fraction(member["divisor"])
            for member in self.rule.get("members", ())
            for _ in range(member["n_trees"])
        ] or [Fraction(1)] * len(self.trees)
        return [
            [self._per_class([Fraction(score) * factor for score in node.scores]) for node in tree]
            for tree, factor in zip(self.trees, factors, strict=True)
        ]

    def _per_class(self, scores: list[Fraction]) -> list[Fraction]:
        return [Fraction(0), *scores] if scores and self.rule["decision"] == "cut" else scores

    @cached_property
    def _bases(self) -> list[Fraction]:
        divisor = Fraction(self.rule["divisor"])
        base = [Fraction(one) * (divisor if self.rule["base_last"] else 1) for one in self.base]
        return [Fraction(0), base[0] - Fraction(self.rule["cut"]) * divisor] if self.rule["decision"] == "cut" else base

    @cached_property
    def unit(self) -> int:
        """Times this number all leads are whole."""
        numbers = [score for tree in self._shares for scores in tree for score in scores] + self._bases
        return math.lcm(*{number.denominator for number in numbers})

    @cached_property
    def whole(self) -> list[list[tuple[int, ...]]]:
        """Per tree and node what it adds to the score of each class, in whole units; nothing for tests."""
        parts = self.unit
        return [
            [tuple(score.numerator * (parts // score.denominator) for score in scores) for scores in tree]
            for tree in self._shares
        ]

    def constant(self, other: int, label: int) -> int:
        """By how much a class is ahead of another before any tree."""
        return int((self._bases[other] - self._bases[label]) * self.unit)

    def needed(self, other: int, label: int) -> int:
        """The least lead with which a class may win against another; see the lemma on rounding in docs/proofs.md."""
        if self._is_whole:
            return 0 if other < label else 1
        return -math.floor(self._margin * self.unit)

    @cached_property
    def _largest(self) -> Fraction:
        """No score is farther from 0 at any time."""
        trees = [max(abs(score) for scores in tree for score in scores) for tree in self.whole]
        return Fraction(sum(trees), self.unit) + max(abs(base) for base in self._bases)

    @cached_property
    def _step(self) -> Fraction:
        """The share of a number by which it is rounded at most."""
        return Fraction(1, 2**53 if self.rule["precision"] == "float64" else 2**24)

    @cached_property
    def _is_whole(self) -> bool:
        """Whether no sum is ever rounded, so that equal scores are equal and others are not."""
        plain = self.rule["decision"] in ("argmax", "cut") and not self.rule.get("members")
        return plain and self.unit == 1 and self._largest < Fraction(1, 100) / self._step

    @cached_property
    def _margin(self) -> Fraction:
        """A lead that no rounding of the library undoes."""
        rule, step, largest = self.rule, self._step, self._largest
        margin = 2 * (len(self.trees) + 8) * step * largest
        if rule["decision"] == "softmax":
            margin += 32 * step * Fraction(rule["divisor"])
        elif rule["decision"] == "sigmoid":
            flat = min(rule["steepness"] * float(largest) / rule["divisor"], LARGEST_POWER)
            margin += Fraction(64 * math.exp(flat)) * step / Fraction(rule["steepness"]) * Fraction(rule["divisor"])
        return margin


def hash_of(content: Any) -> str:
    """SHA-256 of an object as JSON with sorted names and no blanks."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _nodes(tree: dict[str, Any]) -> list[Node]:
    """The nodes of a tree; every one but the first is the child of exactly one before it."""
    more = dict(tree.get("more", ()))
    scores = iter(tree["scores"])
    nodes = []
    for number, (f, cut, left, right, nan_left) in enumerate(
        zip(tree["feature"], tree["threshold"], tree["left"], tree["right"], tree["nan_left"], strict=True)
    ):
        if f < 0:
            nodes.append(Node(-1, (), -1, -1, False, tuple(map(float, next(scores)))))
        else:
            nodes.append(Node(f, (float(cut), *map(float, more.get(number, ()))), left, right, nan_left, ()))
    children = [child for node in nodes if node.feature >= 0 for child in (node.left, node.right)]
    if sorted(children) != list(range(1, len(nodes))) or not nodes:
        raise Rejected("a tree of the model is none")
    return nodes


def _single(number: float) -> float:
    """The nearest float32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _class_of(rule: dict[str, Any], scores: list[float], rounded: Any) -> int:
    if rule["decision"] == "cut":
        return int(scores[0] > rule["cut"])
    if rule["decision"] == "softmax":
        powers = [rounded(math.exp(rounded(score - max(scores)))) for score in scores]
        total = 0.0
        for power in powers:
            total += power  # one after the other, as `sum` need not
        total = rounded(total)
        scores = [rounded(power / total) for power in powers]
    elif rule["decision"] == "sigmoid":
        scores = [rounded(_sigmoid(rule["steepness"] * score)) for score in scores]
    return scores.index(max(scores))


def _sigmoid(x: float) -> float:
    try:
        return 1.0 / (1.0 + math.exp(-x))
    except OverflowError:
        return 0.0
