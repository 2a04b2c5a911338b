"""A model as its file says it, for the checker: trees, labels in the library's arithmetic, leads as whole numbers."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import accumulate, chain
from operator import add, lt
from typing import Any, NamedTuple

from treeproof.check.fields import MODEL, check
from treeproof.check.rules import Rejected

DECISIONS, CODED = ("argmax", "cut", "softmax", "sigmoid"), ("coded", "unseen", "by_text")
NAMES = ("origin", "decided")
"""Fields of a model file that change no answer, as the names of columns."""
LARGEST_POWER = 600
"""Beyond it, sigmoids are too flat to tell anything apart."""
MOST_BITS = 2**16
"""Of the unit of all scores."""
MOST_TREES = 2**18
"""Nothing is said about what the sums of more trees round to."""


def _single(number: float) -> float:
    """The nearest float32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


PRECISIONS: dict[str, Callable[[float], float]] = {"float64": float, "float32": _single}
"""What libraries add up in, and how doubles are rounded to it."""


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
        leaves: dict[tuple[float, ...], Node] = {}
        trees = [_nodes(tree, leaves) for tree in content["trees"]]
        model = cls(len(content["columns"]), len(content["classes"]), trees, content["base"], content["rule"], content)
        model._check_rule()
        model._check_nodes()
        return model

    def _check_rule(self) -> None:
        """Rejects rules for which the lemma on rounding says nothing."""
        rule, n = self.rule, len(self.base)
        members = rule.get("members", ())
        above_0 = [rule["divisor"], rule["steepness"], *(member["divisor"] for member in members)]
        if not min(above_0) > 0 or any(member["weight"] < 0 for member in members):
            raise Rejected("the model's rule is none")
        if (n, self.n_classes) != (1, 2) if rule["decision"] == "cut" else n != self.n_classes:
            raise Rejected(f"the model has {n} scores for {self.n_classes} classes")
        is_plain = rule["decision"] in ("argmax", "cut") and rule["precision"] == "float64" and not any(self.base)
        counts = [member["n_trees"] for member in members]
        if members and not (is_plain and min(counts) >= 1 and sum(counts) == len(self.trees)):
            raise Rejected("the model's members are not its trees")

    def _check_nodes(self) -> None:
        """Rejects scores that the library does not hold, and tests that are none."""
        rounded = PRECISIONS[self.rule["precision"]]
        for scores in (tuple(map(float, self.base)), *self._scores):
            if len(scores) != len(self.base) or not all(math.isfinite(one) and rounded(one) == one for one in scores):
                raise Rejected(f"{scores} are no scores of the model")
        for tree in self.trees:
            for f, cuts, *_ in tree:
                if f >= self.n_features or not all(map(lt, (-math.inf, *cuts), (*cuts, math.inf))):
                    raise Rejected(f"a test of column {f} at {cuts} is none")

    @cached_property
    def _scores(self) -> set[tuple[float, ...]]:
        """The scores of all leaves."""
        return {node.scores for tree in self.trees for node in tree if node.feature < 0}

    @cached_property
    def hash(self) -> str:
        """What tells models with other answers apart."""
        kept = {name: value for name, value in self.content.items() if name not in NAMES}
        return hash_of(kept | {"columns": renamed(self.content["columns"], ())})

    @cached_property
    def fingerprint(self) -> str:
        """What results and maps call the model: SHA-256 of its arrays and rule, without names."""
        content, rule, n = self.content, self.rule, len(self.base)
        digest, roots = hashlib.sha256(), list(accumulate(map(len, self.trees[:-1]), initial=0))
        columns, known = content["columns"], categories_of(content)
        if known:
            said = [(f, tuple(one["values"]), *(one[name] for name in CODED)) for f, one in known.items()]
            digest.update(repr(said).encode())
        members = [(one["n_trees"], float(one["divisor"]), float(one["weight"])) for one in rule.get("members", ())]
        classes = list(map(float if content["class_dtype"] == "float64" else lambda one: one, content["classes"]))
        words = DECISIONS.index(rule["decision"]), rule["precision"], float(rule["divisor"]), rule["base_last"]
        ends = float(rule["cut"]), float(rule["steepness"]), classes, self.n_features
        digest.update(repr((*words, *ends, *members)).encode())
        nodes = [(root, node) for root, tree in zip(roots, self.trees, strict=True) for node in tree]
        further = [node.cuts[1:] for _, node in nodes]
        arrays: list[tuple[str, Any]] = [
            ("i", [node.feature for _, node in nodes]),
            ("d", [node.cuts[0] if node.cuts else 0.0 for _, node in nodes]),
            ("i", [root + node.left if node.cuts else -1 for root, node in nodes]),
            ("i", [root + node.right if node.cuts else -1 for root, node in nodes]),
            ("?", [node.nan_left for _, node in nodes]),
            ("d", [score for _, node in nodes for score in node.scores or (0.0,) * n]),
            *(("i", roots), ("d", self.base)),
            *(("d", [column[end] + 0.0 for column in columns]) for end in ("low", "high")),
            ("?", [column["missing"] for column in columns]),
        ]
        if any(further):
            starts = list(accumulate(map(len, further), initial=0))
            arrays += [("i", starts), ("d", list(chain.from_iterable(further)))]
        for place, (kind, numbers) in enumerate(arrays):
            digest.update(repr((len(nodes), n) if place == 5 else (len(numbers),)).encode())
            digest.update(struct.pack(f"<{len(numbers)}{kind}", *numbers))
        return digest.hexdigest()

    @cached_property
    def cuts(self) -> list[list[float]]:
        """Per column the distinct cuts of all tests, rising."""
        found: list[set[float]] = [set() for _ in range(self.n_features)]
        for tree in self.trees:
            for f, cuts, *_ in tree:
                if f >= 0:
                    found[f].update(cuts)
        return [sorted(some) for some in found]

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
        rule, rounded = self.rule, PRECISIONS[self.rule["precision"]]
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
        return class_of(rule, scores)

    # --- leads -------------------------------------------------------------------------------------------------------

    @cached_property
    def _factors(self) -> list[Fraction]:
        """Per tree what its scores are multiplied by, before sums are divided."""
        members = self.rule.get("members", ())
        factors = [Fraction(one["weight"]) / Fraction(one["divisor"]) for one in members for _ in range(one["n_trees"])]
        return factors or [Fraction(1)] * len(self.trees)

    @cached_property
    def _terms(self) -> dict[Fraction, dict[float, Fraction]]:
        """Per factor of a tree what a score of a leaf adds up to, exactly."""
        scores = {score for scores in self._scores for score in scores}
        return {factor: {score: Fraction(score) * factor for score in scores} for factor in set(self._factors)}

    @cached_property
    def _divisor(self) -> Fraction:
        return Fraction(self.rule["divisor"])

    @cached_property
    def _offsets(self) -> list[Fraction]:
        """What sums begin with or end with besides leaves, before they are divided: bases, and the cut at the end."""
        base = [Fraction(one) * (self._divisor if self.rule["base_last"] else 1) for one in self.base]
        return [*base, Fraction(self.rule["cut"]) * self._divisor if self.rule["decision"] == "cut" else Fraction(0)]

    @cached_property
    def _bases(self) -> list[Fraction]:
        *base, cut = self._offsets
        return [Fraction(0), base[0] - cut] if self.rule["decision"] == "cut" else base

    @cached_property
    def unit(self) -> int:
        """Times this number all leads are whole."""
        numbers, unit = [*self._bases, *(number for terms in self._terms.values() for number in terms.values())], 1
        for denominator in {number.denominator for number in numbers}:
            unit = math.lcm(unit, denominator)
            if unit.bit_length() > MOST_BITS:
                raise Rejected("the scores of the model have no unit that could be counted in")
        return unit

    @cached_property
    def _whole(self) -> list[dict[float, int]]:
        """Per tree what a score of a leaf adds up to, in whole units."""
        known = {
            factor: {score: number.numerator * (self.unit // number.denominator) for score, number in terms.items()}
            for factor, terms in self._terms.items()
        }
        return [known[factor] for factor in self._factors]

    def lead(self, tree: int, scores: Sequence[float], other: int, label: int) -> int:
        """By how much a leaf of a tree puts a class ahead of another, in whole units."""
        whole = self._whole[tree]
        if self.rule["decision"] == "cut":
            return whole[scores[0]] * (other - label)
        return whole[scores[other]] - whole[scores[label]]

    def constant(self, other: int, label: int) -> int:
        """By how much a class is ahead of another before any tree."""
        return int((self._bases[other] - self._bases[label]) * self.unit)

    def needed(self, other: int, label: int) -> int:
        """The least lead with which a class may win against another."""
        if self._is_whole:
            return 0 if other < label else 1
        return -math.floor(self._margin * self.unit)

    @cached_property
    def _most(self) -> list[list[int]]:
        """Per tree and score what its leaves add at most, on either side of 0, in whole units."""
        return [
            [
                max(abs(whole[one]) for one in own)
                for own in zip(*{node.scores for node in tree if node.scores}, strict=True)
            ]
            for tree, whole in zip(self.trees, self._whole, strict=True)
        ]

    @cached_property
    def _apart(self) -> Fraction:
        """No sum begins or ends farther from 0 without any tree."""
        *base, cut = self._offsets
        return max(map(abs, base)) + abs(cut)

    @cached_property
    def _largest(self) -> Fraction:
        """No sum is farther from 0 at any time, but for rounding."""
        return Fraction(sum(map(max, self._most)), self.unit) + self._apart

    @cached_property
    def _step(self) -> Fraction:
        """The share of a number by which it is rounded at most."""
        return Fraction(1, 2**53 if self.rule["precision"] == "float64" else 2**24)

    @cached_property
    def _is_whole(self) -> bool:
        """Whether no sum is ever rounded, so that equal scores are equal and others are not."""
        rule = self.rule
        plain = rule["decision"] in ("argmax", "cut") and not rule.get("members")
        # A base that is added to a rounded quotient may round two equal scores apart.
        divided = self._divisor != 1 and (
            (rule["base_last"] and any(self.base)) or not Fraction(1, 2**60) < self._divisor < 2**60
        )
        whole = self.unit == 1 and all(number.denominator == 1 for number in self._offsets)
        return plain and whole and not divided and self._largest < Fraction(1, 100) / self._step

    @cached_property
    def _margin(self) -> Fraction:
        """A lead that no rounding of the library undoes; more than any lead where sums may overflow."""
        rule, step, largest, divisor = self.rule, self._step, self._largest, self._divisor
        members, single = rule.get("members", ()), rule["precision"] == "float32"
        raw = Fraction(max(abs(score) for scores in self._scores for score in scores)) * len(self.trees)
        parts = [raw / Fraction(member["divisor"]) for member in members]
        # Each sum is rounded by its own size only, and adding 0 rounds nothing.
        of_classes = list(zip(*self._most, strict=True))
        own = Fraction(max(map(sum, of_classes)), self.unit) + self._apart
        n_added = len(self.trees) if members else max(sum(most > 0 for most in column) for column in of_classes)
        flat = Fraction(rule["steepness"]) * own / divisor if rule["decision"] == "sigmoid" else 0
        too_large = max(largest, largest / divisor, raw, *parts) > 2 ** (120 if single else 1000)
        if too_large or len(self.trees) > MOST_TREES or flat >= LARGEST_POWER or rule["steepness"] > 2**60:
            return 3 * largest + 1
        # Quotients and products below all normal numbers are rounded by the least of all numbers.
        smallest = Fraction(1, 2 ** (149 if single else 1074))
        least = smallest * (divisor + sum(1 + Fraction(member["weight"]) for member in members))
        margin = 2 * (n_added + 8) * step * own + 2 * least
        if rule["decision"] == "softmax":
            margin += 32 * step * divisor
        elif rule["decision"] == "sigmoid":
            margin += Fraction(64 * math.exp(flat)) * step / Fraction(rule["steepness"]) * divisor
        return margin


def check_model(content: dict[str, Any], where: str) -> None:
    """Rejects what is no content of a model's file, and columns and classes that are none or more than one."""
    check(content, MODEL, where)
    columns, names = content["columns"], names_of(content)
    if not columns or not content["trees"] or len(set(names)) not in (0, len(columns)):
        raise Rejected(f"{where} has no columns or trees, or columns without a name of their own")
    if not all(column["low"] <= column["high"] for column in columns):
        raise Rejected(f"a column of {where} has no values")
    numbers = [one["values"] for one in categories_of(content).values() if not one["coded"]]
    if not all(len(set(map(float, values))) == len(values) for values in numbers):
        raise Rejected(f"a category of {where} has a number twice")
    kinds: dict[str, set[type]] = {"bool": {bool}, "int64": {int}, "float64": {int, float}, "str": {str}}
    if not {*map(type, content["classes"])} <= kinds[content["class_dtype"]]:
        raise Rejected(f"the classes of {where} are not of the type that it says")
    if content.get("decided", {"class": 0})["class"] >= len(content["classes"]):
        raise Rejected(f"{where} has decided about none of its classes")


def names_of(model: Mapping[str, Any]) -> list[str]:
    """The names of the columns of a model's file, if they have any."""
    return [column["name"] for column in model["columns"] if "name" in column]


def renamed(columns: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The columns of a model's file with these names, or without."""
    plain = [{name: value for name, value in column.items() if name != "name"} for column in columns]
    return [{**column, "name": name} for column, name in zip(plain, names, strict=True)] if names else plain


def categories_of(model: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The categories of a model's file by the positions of their columns."""
    return {f: column["category"] for f, column in enumerate(model["columns"]) if "category" in column}


def hash_of(content: Any) -> str:
    """SHA-256 of an object as JSON with sorted names and no blanks."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _nodes(tree: dict[str, Any], leaves: dict[tuple[float, ...], Node]) -> list[Node]:
    """The nodes of a tree; every one but the first is the child of exactly one. Leaves with the same scores are one."""
    more, scores = dict(tree.get("more", ())), iter(tree["scores"])
    nodes = []
    for number, (f, cut, left, right, nan_left) in enumerate(
        zip(tree["feature"], tree["threshold"], tree["left"], tree["right"], tree["nan_left"], strict=True)
    ):
        if f < 0:
            if (f, cut, left, right, nan_left) != (-1, 0, -1, -1, False):
                raise Rejected("a leaf of the model has a test")
            own = tuple(map(float, next(scores)))
            if own not in leaves:
                leaves[own] = Node(-1, (), -1, -1, False, own)
            nodes.append(leaves[own])
        else:
            nodes.append(Node(f, (float(cut), *map(float, more.get(number, ()))), left, right, nan_left, ()))
    children = [child for node in nodes if node.feature >= 0 for child in (node.left, node.right)]
    of_tests = {number for number in more if 0 <= number < len(nodes) and nodes[number].feature >= 0}
    if sorted(children) != list(range(1, len(nodes))) or not nodes or len(of_tests) < len(tree.get("more", ())):
        raise Rejected("a tree of the model is none")
    if next(scores, None) is not None:
        raise Rejected("a tree of the model has scores of no leaf")
    return nodes


def class_of(rule: Mapping[str, Any], scores: list[float]) -> int:
    """The number of the class that the library picks by its final scores; `rule` as in a model file."""
    rounded = PRECISIONS[rule["precision"]]
    if rule["decision"] == "cut":
        return int(scores[0] > rule["cut"])
    if rule["decision"] == "softmax":
        powers = [rounded(math.exp(rounded(score - max(scores)))) for score in scores]
        total = rounded(reduce(add, powers))  # one after the other, as `sum` need not
        scores = [rounded(power / total) for power in powers]
    elif rule["decision"] == "sigmoid":
        scores = [rounded(_sigmoid(rule["steepness"] * score)) for score in scores]
    return scores.index(max(scores))


def _sigmoid(x: float) -> float:
    try:
        return 1.0 / (1.0 + math.exp(-x))
    except OverflowError:
        return 0.0
