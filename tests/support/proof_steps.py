"""Proofs taken apart into steps, changed in some way, and put together again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from treeproof.check.proof_bytes import Reader
from treeproof.check.rules import CLOSED, CUT_LEFT, CUT_RIGHT, DECIDED, DROP, KEEP_LEFT, KEEP_RIGHT, SPEND, WEIGH
from treeproof.verification.proofs import CLAIM, number

SPLIT = 1


def signed(value: int) -> bytes:
    """A whole number of either sign."""
    return number(2 * value if value >= 0 else -2 * value - 1)


def double(value: float) -> bytes:
    """The eight bytes of a double."""
    return struct.pack("<d", value)


def _rising(numbers: list[int]) -> bytes:
    return b"".join(number(max(b - a - 1, 0)) for a, b in zip([-1, *numbers], numbers, strict=False))


def _running(numbers: list[int]) -> bytes:
    return b"".join(signed(b - a) for a, b in zip([0, *numbers], numbers, strict=False))


@dataclass
class Pair:
    """What a tree reaches in the pieces of a column."""

    tree: int
    ends: list[int]
    reached: list[int]

    def content(self) -> bytes:
        """All but the tree."""
        return number(len(self.ends)) + _rising(self.ends) + _running(self.reached)


@dataclass
class ColumnWeights:
    """Cuts of a column, levels between them, and trees."""

    column: int
    cuts: list[int]
    levels: list[int]
    pairs: list[Pair]

    def content(self) -> bytes:
        """All but the column."""
        trees = list(zip([-1, *(pair.tree for pair in self.pairs)], self.pairs, strict=False))
        pairs = b"".join(number(max(pair.tree - last - 1, 0)) + pair.content() for last, pair in trees)
        return number(len(self.cuts)) + _rising(self.cuts) + _running(self.levels) + number(len(self.pairs)) + pairs


@dataclass
class RawWeights:
    """Weights as they are written."""

    exponent: int
    rate: float
    rounds: int
    columns: list[ColumnWeights]

    @classmethod
    def read(cls, reader: Reader) -> RawWeights:
        """The next ones."""
        exponent, rate, rounds, columns, f = reader.signed(), reader.double(), reader.number(), [], -1
        for _ in range(reader.number()):
            f += 1 + reader.number()
            cuts = _risen(reader)
            levels = _run(reader, len(cuts) + 1)
            pairs, tree = [], -1
            for _ in range(reader.number()):
                tree += 1 + reader.number()
                ends = _risen(reader)
                pairs.append(Pair(tree, ends, _run(reader, len(ends) + 1)))
            columns.append(ColumnWeights(f, cuts, levels, pairs))
        return cls(exponent, rate, rounds, columns)

    def content(self) -> bytes:
        """How they are written; what does not rise is written as if it did."""
        columns = list(zip([-1, *(one.column for one in self.columns)], self.columns, strict=False))
        return b"".join(
            [
                signed(self.exponent) + double(self.rate) + number(self.rounds) + number(len(columns)),
                *(number(max(one.column - last - 1, 0)) + one.content() for last, one in columns),
            ]
        )


def _risen(reader: Reader) -> list[int]:
    numbers, last = [], -1
    for _ in range(reader.number()):
        last += 1 + reader.number()
        numbers.append(last)
    return numbers


def _run(reader: Reader, n: int) -> list[int]:
    numbers, last = [], 0
    for _ in range(n):
        last += reader.signed()
        numbers.append(last)
    return numbers


@dataclass
class Step:
    """What is done with a box, and with its parts."""

    op: int
    column: int = 0
    cell: int = 0
    rate: float = 0.0
    weights: RawWeights | None = None
    parts: list[Step] = field(default_factory=list)

    @classmethod
    def read(cls, reader: Reader) -> Step:
        """The next one, with all that follows from it."""
        step = cls(reader.op())
        if CUT_LEFT <= step.op <= KEEP_RIGHT:
            step.column, step.cell = reader.cut()
        elif step.op in (WEIGH, DROP):
            step.weights = RawWeights.read(reader)
        elif step.op == SPEND:
            step.rate = reader.double()
        n = 0 if step.op in (CLOSED, SPEND, DECIDED) else 2 if step.op in (CUT_LEFT, CUT_RIGHT) else 1
        step.parts = [cls.read(reader) for _ in range(n)]
        return step

    def content(self) -> bytes:
        """How it is written, whatever it is."""
        own = number(self.op)
        if CUT_LEFT <= self.op <= KEEP_RIGHT:
            own += number(max(self.column, 0)) + number(max(self.cell, 0))
        elif self.weights is not None and self.op in (WEIGH, DROP):
            own += self.weights.content()
        elif self.op == SPEND:
            own += double(self.rate)
        return own + b"".join(part.content() for part in self.parts)

    def all(self) -> Iterator[Step]:
        """It, and all that follows from it."""
        yield self
        for part in self.parts:
            yield from part.all()


@dataclass
class Proof:
    """A claim with one label, and a tree for each other class."""

    label: int
    extra: list[tuple[int, float]]
    trees: list[Step]

    @classmethod
    def read(cls, content: bytes) -> Proof:
        """A claim that is not split."""
        reader = Reader(content)
        assert reader.number() == CLAIM
        label = reader.number()
        assert reader.number() == 0, "no further cuts"
        trees = []
        while not reader.is_done:
            trees.append(Step.read(reader))
        return cls(label, [], trees)

    def content(self) -> bytes:
        """How it is written."""
        extra = b"".join(number(f) + double(cut) for f, cut in self.extra)
        trees = b"".join(tree.content() for tree in self.trees)
        return number(CLAIM) + number(self.label) + number(len(self.extra)) + extra + trees

    def steps(self) -> list[Step]:
        """All of them."""
        return [step for tree in self.trees for step in tree.all()]


# --- changes ----------------------------------------------------------------------------------------------------------

Change = Callable[[Random, Proof], bytes]
"""Changes a proof, which it may spoil, and writes it."""


def _changed_step(change: Callable[[Random, Step], None], *ops: int) -> Change:
    """Changes one step, of these kinds if there is any."""

    def changed(random: Random, proof: Proof) -> bytes:
        if proof.trees:
            steps = proof.steps()
            change(random, random.choice([step for step in steps if step.op in ops] or steps))
        return proof.content()

    return changed


def _end(random: Random, step: Step) -> None:
    step.op, step.rate, step.parts = random.choice((CLOSED, CLOSED, SPEND, DECIDED)), random.random(), []


def _drop(random: Random, step: Step) -> None:
    if step.parts:
        other = deepcopy(random.choice(step.parts))
        step.__dict__.update(other.__dict__)


def _move_cut(random: Random, step: Step) -> None:
    step.cell += random.choice((-1, 1, 1, -2, 5, 2**40))


def _move_column(random: Random, step: Step) -> None:
    step.column += random.choice((-1, 1, 2**40))


def _turn(_random: Random, step: Step) -> None:
    turned = {CUT_LEFT: CUT_RIGHT, CUT_RIGHT: CUT_LEFT, KEEP_LEFT: KEEP_RIGHT, KEEP_RIGHT: KEEP_LEFT}
    step.op = turned.get(step.op, step.op)


def _swap(_random: Random, step: Step) -> None:
    step.parts.reverse()


def _forget_a_side(random: Random, step: Step) -> None:
    if step.op in (CUT_LEFT, CUT_RIGHT):
        step.op = random.choice((KEEP_LEFT, KEEP_RIGHT))
        step.parts = [random.choice(step.parts)]


def _cut_again(random: Random, step: Step) -> None:
    cut = Step(random.choice((CUT_LEFT, CUT_RIGHT)), random.randrange(3), random.randrange(4))
    cut.parts = [deepcopy(step), deepcopy(step)]
    step.__dict__.update(cut.__dict__)


def _other_op(random: Random, step: Step) -> None:
    step.op = random.choice((*range(10), 10**6))


def _weigh(random: Random, step: Step) -> None:
    """Puts weights before a step, out of nothing."""
    columns = []
    for f in sorted(random.sample(range(3), random.randint(1, 3))):
        cuts = sorted(random.sample(range(5), random.randint(0, 3)))
        levels = [random.randint(-4, 4) * 2**30 for _ in range(len(cuts) + 1)]
        trees = sorted(random.sample(range(4), random.randint(0, 4)))
        pairs = [Pair(tree, [], [random.randint(-4, 4) * 2**30]) for tree in trees]
        columns.append(ColumnWeights(f, cuts, levels, pairs))
    weights = RawWeights(random.randint(-5, 40), random.choice((0.0, 1.0, 1e30, -1.0)), random.randint(0, 5), columns)
    own = Step(random.choice((WEIGH, DROP)), weights=weights, parts=[deepcopy(step)])
    step.__dict__.update(own.__dict__)


def _change_weights(random: Random, step: Step) -> None:
    weights = step.weights
    if weights is None:
        step.rate = random.choice((0.0, step.rate * 2, step.rate / 2, -step.rate, float("nan"), 1e300))
        return
    what = random.choice(("exponent", "rate", "rounds", "level", "reached", "cut", "tree", "column", "end"))
    column = random.choice(weights.columns) if weights.columns else ColumnWeights(0, [0], [0], [])
    pair = random.choice(column.pairs) if column.pairs else Pair(0, [0], [0])
    much = random.choice((1, -1, 2**20, -(2**20), 2**40, -(2**40), 2**62, -(2**62)))
    if what == "exponent":
        weights.exponent += random.choice((-1, 1, 40, -40, 5000))
    elif what == "rate":
        weights.rate = random.choice((0.0, weights.rate * 2, weights.rate / 2, -1.0, 1e300, float("inf")))
    elif what == "rounds":
        weights.rounds = random.choice((0, 1, 50, 2**70))
    elif what == "level":
        column.levels[random.randrange(len(column.levels))] += much
    elif what == "reached":
        pair.reached[random.randrange(len(pair.reached))] += much
    elif what == "cut" and column.cuts:
        column.cuts[random.randrange(len(column.cuts))] += random.choice((-1, 1, 2**30))
    elif what == "end" and pair.ends:
        pair.ends[random.randrange(len(pair.ends))] += random.choice((-1, 1, 50))
    elif what == "tree" and random.random() < 0.5:
        column.pairs = [other for other in column.pairs if other is not pair]
    elif what == "tree":
        pair.tree += random.choice((1, 2**30))
    else:
        column.column += random.choice((-1, 1, 2**30))


def _other_label(random: Random, proof: Proof) -> bytes:
    proof.label = random.randrange(5)
    return proof.content()


def _further_cuts(random: Random, proof: Proof) -> bytes:
    proof.extra = [(random.randrange(4), random.uniform(-4, 4)) for _ in range(random.randint(1, 3))]
    return proof.content()


def _split(random: Random, proof: Proof) -> bytes:
    whole = proof.content()
    return number(SPLIT) + number(random.randrange(4)) + double(random.uniform(-4, 4)) + whole + whole


def _swap_trees(random: Random, proof: Proof) -> bytes:
    random.shuffle(proof.trees)
    return proof.content()


def _forget_a_tree(random: Random, proof: Proof) -> bytes:
    if proof.trees:
        proof.trees.pop(random.randrange(len(proof.trees)))
    return proof.content()


def _twice(_random: Random, proof: Proof) -> bytes:
    proof.trees += proof.trees
    return proof.content()


def _changed_bytes(random: Random, before: bytes) -> bytes:
    content = bytearray(before)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(content))
        what = random.randrange(4)
        if what == 0:
            content[at] ^= 1 << random.randrange(8)
        elif what == 1:
            content[at:at] = bytes([random.randrange(256)])
        elif what == 2:
            content[at] = random.choice((0, 8, 255))
        elif len(content) > 1:
            del content[at]
    return bytes(content)


def _truncated(random: Random, content: bytes) -> bytes:
    return content[: random.randrange(len(content))]


CUTS = (CUT_LEFT, CUT_RIGHT, KEEP_LEFT, KEEP_RIGHT)
CHANGES: dict[str, Change] = {
    "a box is closed without its parts": _changed_step(_end, *CUTS, WEIGH, DROP),
    "a step is left out": _changed_step(_drop, *CUTS, WEIGH, DROP),
    "a box ends otherwise": _changed_step(_end, CLOSED, SPEND, DECIDED),
    "a cut is moved": _changed_step(_move_cut, *CUTS),
    "a cut is one of another column": _changed_step(_move_column, *CUTS),
    "a step goes the other way": _changed_step(_turn, *CUTS),
    "parts are swapped": _changed_step(_swap, CUT_LEFT, CUT_RIGHT),
    "a side is forgotten": _changed_step(_forget_a_side, CUT_LEFT, CUT_RIGHT),
    "a box is cut once more": _changed_step(_cut_again, *range(9)),
    "a step is another one": _changed_step(_other_op, *range(9)),
    "weights from nowhere": _changed_step(_weigh, *range(9)),
    "weights are changed": _changed_step(_change_weights, WEIGH, DROP, SPEND),
    "another label": _other_label,
    "further cuts": _further_cuts,
    "split": _split,
    "trees are swapped": _swap_trees,
    "a tree is left out": _forget_a_tree,
    "trees stand twice": _twice,
    "bytes are changed": lambda random, proof: _changed_bytes(random, proof.content()),
    "it is cut off": lambda random, proof: _truncated(random, proof.content()),
    "nothing is changed": lambda _, proof: proof.content(),
}
BROKEN = ("a tree is left out", "trees stand twice", "it is cut off")
"""After these nothing is a proof, whatever it is about, unless nothing is left to prove."""


def changed(random: Random, content: bytes, name: str) -> bytes:
    """A proof, changed; only the bytes of proofs in parts, whose steps tests of parts change."""
    if content[0] == CLAIM:
        return CHANGES[name](random, Proof.read(content))
    if name == "nothing is changed":
        return content
    return _truncated(random, content) if name in BROKEN else _changed_bytes(random, content)
