"""Checks the proofs of a result, row by row."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from treeproof.check.attackers import check_kind
from treeproof.check.claims import NO_SCORES, Grid, Place, Region, chain_leaves, is_idle
from treeproof.check.clashes import Pairs, check_clash
from treeproof.check.columns import ANY, Column, Size
from treeproof.check.doubles import parted
from treeproof.check.fields import RESULT, check
from treeproof.check.model_file import Model, check_model, hash_of, names_of, renamed
from treeproof.check.one_hot import View, Views
from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import ProofFile
from treeproof.check.rules import MOST_CELLS, Leaf, Rejected, check_tree, held

PROVED, MOST_SIZES = 0, 2**28
CLAIM, SPLIT, IDLE, CONTENT, VALID, VALID_CONTENT = range(6)
Part: TypeAlias = "tuple[tuple[float, float] | None, ...]"
"""Per column the ends of the doubles that neighbours of a part have; None: any."""


@dataclass
class Checked:
    """The rows whose proofs hold, those whose do not, and those with something that has no proof here; and why."""

    checked: list[int] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)
    unchecked: dict[int, str] = field(default_factory=dict)
    boxes: int = 0
    counterexamples: int = 0
    outcomes: dict[int, list[int]] = field(default_factory=dict)
    """What is known by now of rows that are not rejected, and of each of their neighbourhoods."""

    def add(self, other: Checked) -> None:
        """What is known about other rows, too."""
        self.checked += other.checked
        self.rejected |= other.rejected
        self.unchecked |= other.unchecked
        self.boxes += other.boxes
        self.counterexamples += other.counterexamples
        self.outcomes |= other.outcomes


BROKEN = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError),
    struct.error,
)
"""What reading may end in, if something is not what it should be."""


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Rejects what cannot be read."""
    try:
        yield
    except BROKEN as error:
        raise Rejected(f"{what} cannot be read: {error!r}") from None


class Question:
    """What a result says was asked, as files of models, attackers and results say it."""

    table: ClassVar = RESULT
    per_row: ClassVar = (
        *("y", "predicted", "stability", "refuted", "neighbour", "attacked", "neighbour_label", "attacked_label"),
        *("price", "exact"),
    )
    reader: Callable[[bytes], Reader] = Reader

    @classmethod
    @readable("the model or the result")
    def of(cls, model: dict[str, Any], result: dict[str, Any]) -> Question:
        """The question in the objects of two files; Rejected if they are no such objects."""
        check_model(model, "the model")
        check(result, cls.table, "the result")
        return cls(model, result)

    def __init__(self, model: dict[str, Any], result: dict[str, Any]) -> None:
        self.model, self.result = Model.of(model), result
        names = result["feature_names"]
        named = names_of(model)
        if names is not None and (len({*names}) != len(model["columns"]) or (named and names != named)):
            raise Rejected("the result has other names of columns than the model")
        model = {**model, "columns": renamed(model["columns"], named or names or ())}
        self.content = model
        """The model's file, with the names that the result has for its columns."""
        self.attacker = result["attacker"]
        check_kind(self.attacker)
        rows = (row for name in ("X", "neighbour", "attacked") for row in result.get(name, ()))
        if {result["n_features"], *map(len, rows)} != {self.model.n_features}:
            raise Rejected("the result is about rows of another model")
        per_row = [*(result[name] for name in self.per_row if name in result), *result["resilience"]]
        if {len(one) for one in per_row} != {len(result["X"])} or len(result["epsilons"]) != len(result["resilience"]):
            raise Rejected("the result has lists of other lengths than it has rows")
        if len(result["epsilons"]) ** 2 * self.model.n_features > MOST_SIZES:
            raise Rejected("the result has too many neighbourhoods for so many columns; ask about fewer at a time")
        self.views = Views(model, self.model, self.attacker, result)
        self._classes = {key_of(label): number for number, label in enumerate(model["classes"])}
        if len(self._classes) < self.model.n_classes:
            raise Rejected("two classes of the model have the same label")
        if not {*map(key_of, result["y"]), *(self._actors or ())} <= self._classes.keys():
            raise Rejected("the result has labels that the model does not have")
        self.goal = frozenset(self._classes[key_of(label)] for label in self.attacker.get("goal") or ())

    def row(self, number: int, name: str = "X") -> list[float]:
        """A row as the model sees it, or what its counterexample is."""
        return [math.nan if value is None else float(value) for value in self.result[name][number]]

    def view(self, number: int) -> tuple[View, list[float]]:
        """What is asked about a row, and the row in it."""
        return self.views.of(self.row(number))

    def check_said(self, number: int) -> int:
        """How many attacks work that the result says of a row; Rejected if something else does not hold.

        What only a proof can show, and counterexamples of results, are not looked at.
        """
        if not self.views.accepts(self.row(number)):
            raise Rejected("the model does not take it, or it lies outside of the attacker's domain")
        if self.model.label(self.row(number)) != self.label(number):
            raise Rejected("the model gives it another label than the result says")
        if max(self.proved(number), default=0) > 0 and not self.is_correct(number):
            raise Rejected("it is called resilient, but its label is wrong")
        return 0

    def is_correct(self, number: int) -> bool:
        """Whether the result says that the model is right about a row."""
        return bool(key_of(self.result["y"][number]) == key_of(self.result["predicted"][number]))

    def label(self, number: int) -> int:
        """The number of the class that the result says the model predicts."""
        return self.class_of(self.result["predicted"][number])

    def class_of(self, label: Any) -> int:
        """The number of the class with a label."""
        return self._classes[key_of(label)]

    def said(self, number: int) -> list[int]:
        """The outcomes that the result has for a row, and for each of its neighbourhoods."""
        return [outcomes[number] for outcomes in (self.result["stability"], *self.result["resilience"])]

    def is_attacked(self, number: int) -> bool:
        """Whether the row is one of those that somebody attacks."""
        return self._actors is None or key_of(self.result["y"][number]) in self._actors

    @cached_property
    def _actors(self) -> set[Any] | None:
        actors = self.result.get("actors")
        return None if actors is None else set(map(key_of, actors))

    def proved(self, number: int) -> list[int]:
        """What the result calls proved about a row: 0 for the row itself, k for its k-th neighbourhood."""
        if not self.is_attacked(number):
            return []
        return [which for which, outcome in enumerate(self.said(number)) if outcome == PROVED]

    @property
    def proved_rows(self) -> list[int]:
        """The rows of which the result calls anything proved."""
        return [row for row in range(len(self.result["X"])) if self.proved(row)]

    def hashes(self) -> dict[str, str]:
        """What a file of proofs says it is about."""
        rows = b"".join(
            struct.pack("<d", math.nan if value is None else value) for row in self.result["X"] for value in row
        )
        return {
            "model": self.model.hash,
            "attacker": hash_of(self.attacker),
            "relations": hash_of(self.result.get("relations") or []),
            "epsilons": hash_of(self.result["epsilons"]),
            "rows": hashlib.sha256(rows).hexdigest(),
        }


def key_of(label: Any) -> Any:
    """A label, told from others that are equal, such as 1 and True."""
    return type(label) is bool, label


def check_rows(question: Question, proofs: ProofFile, rows: Iterable[int]) -> Iterator[tuple[int, Checked]]:
    """Checks what the result calls proved about each of these rows."""
    for row in rows:
        found = Checked()
        try:
            _check_row(question, proofs, row, found)
        except Rejected as error:
            found.rejected[row] = str(error)
        yield row, found


@readable("what the proofs are about")
def check_header(question: Any, proofs: ProofFile) -> None:
    """Rejects proofs about something else than a question, of rows or of a map."""
    hashes = question.hashes()
    for name in [*hashes, *sorted(proofs.header.keys() - hashes.keys() - {"version", "treeproof"})]:
        if proofs.header.get(name) != hashes.get(name):
            raise Rejected(f"the proofs are about another question: not the same {name}")


@readable("the proof")
def _check_row(question: Question, proofs: ProofFile, row: int, found: Checked) -> None:
    """Checks one row, and notes what was found."""
    attacks = question.check_said(row)
    view, own = question.view(row)
    known, boxes = set(), 0
    if row in proofs.rows:
        reader = question.reader(proofs.payload(row))
        for _ in range(reader.number()):
            which = reader.number()
            if which >= len(view.sizes):
                raise Rejected(f"there is no neighbourhood {which}")
            reader.begin(which)
            asked = Asked(view, own, view.sizes[which], question.goal, which == 0)
            boxes += _check_parts(asked, reader)
            known.add(which)
        if not reader.is_done:
            raise Rejected("something follows the proof")
    if 0 not in known and view.relations.broken(question.row(row)):
        # It is no neighbour of itself, and the attacker finds it as it is.
        known.clear()
    found.counterexamples, found.boxes = attacks, boxes
    left = [k for k in question.proved(row) if not any(is_inside(view.sizes, k, other) for other in known)]
    if left:
        found.unchecked[row] = proofs.without.get(row, f"there is no proof of {left}")
    else:
        found.checked.append(row)


def is_inside(sizes: Sequence[Sequence[Size]], which: int, other: int) -> bool:
    """Whether a neighbourhood lies in another one."""
    return all(map(_is_within, sizes[which], sizes[other]))


def _is_within(size: Size, other: Size) -> bool:
    if isinstance(size, tuple) or isinstance(other, tuple):
        return size == other or (not isinstance(size, tuple) and size == 0)
    return size <= other


@dataclass(frozen=True)
class Asked:
    """What a claim is about."""

    view: View
    x: list[float]
    """The row on the columns of the view."""
    sizes: Sequence[Size]
    goal: frozenset[int]
    is_itself: bool
    """Whether it is about the row itself."""


def _check_parts(asked: Asked, reader: Reader) -> int:
    """A neighbourhood, cut in two again and again; returns how many boxes of its parts were closed."""
    waiting: list[Part] = [(None,) * len(asked.x)]
    boxes = 0
    while waiting:
        part, op = held(waiting, len(asked.x)).pop(), reader.part()
        if op == SPLIT:
            f, cut = reader.number(), reader.double()
            if f >= len(asked.x):
                raise Rejected(f"there is no column {f}")
            below, above = parted(part[f] or ANY, cut)
            waiting += [(*part[:f], side, *part[f + 1 :]) for side in (above, below)]
        elif op == IDLE:
            boxes += _check_idle(asked, part)
        elif op in (CLAIM, CONTENT, VALID, VALID_CONTENT):
            boxes += _check_claim(asked, part, reader, op >= VALID, op in (CONTENT, VALID_CONTENT))
        else:
            raise Rejected(f"there is no part {op}")
    return boxes


def _check_idle(asked: Asked, part: Part) -> int:
    """A part where attacks change nothing."""
    view, x, sizes = asked.view, asked.x, asked.sizes
    region = region_of(asked, view.columns, view.grid, part)
    if region is not None:
        still = frozenset(
            f
            for f, column in enumerate(view.columns)
            if region.cells[f] and column.is_still(x[f], sizes[f], part[f], view.grid.cuts[f])
        )
        if not is_idle(view.grid, region, still):
            raise Rejected("attacks change something where they are said to change nothing")
    return 1


def _check_claim(asked: Asked, part: Part, reader: Reader, has_chains: bool, is_content: bool) -> int:
    """A part from which only one label is reached, or none that is wanted; or whose neighbours have wanted labels.

    For the latter the attacker is one who moves nothing and wants all other labels.
    """
    view, goal = asked.view, asked.goal
    every = frozenset(range(view.model.n_classes))
    label, n_extra = reader.number(), reader.number()
    if label not in every or (label in goal) != is_content:
        raise Rejected(f"class {label} is no label of such a part")
    if asked.is_itself and label != view.model.label(asked.x):
        raise Rejected(f"the row itself is not of class {label}")  # which matters if it is not valid
    if n_extra > MOST_CELLS:
        raise Rejected(f"there are {n_extra:,} further cuts")
    extra: dict[int, list[float]] = {}
    for _ in range(n_extra):
        extra.setdefault(reader.number(), []).append(reader.double())
    wanted = every - goal if is_content else goal or every - {label}
    grid = Grid(view.model, extra) if extra else view.grid
    reader.cells = 2 + max(map(len, grid.cuts))
    chains = [reader.chain() for _ in range(reader.number())] if has_chains else []
    columns = [column.at_rest for column in view.columns] if is_content else view.columns
    region = region_of(asked, columns, grid, part)
    if region is None:
        return sum(check_tree_of_nothing(reader) for _ in wanted)

    valid = Valid(asked, grid, columns, part, region)
    reader.columns, reader.trees = len(columns), len(view.model.trees) + len(chains)
    place = Place(grid, region, [_chain(valid, region.cells, *chain) for chain in chains], valid.rules_out)
    return sum(check_tree(place.claim(label, other, wanted), reader) for other in sorted(wanted))


@dataclass(frozen=True)
class Valid:
    """Which rows are valid in a part of a neighbourhood, and around it."""

    asked: Asked
    grid: Grid
    columns: Sequence[Column]
    part: Part
    region: Region

    @cached_property
    def _spans(self) -> tuple[tuple[float, float], ...]:
        """Per column ends between which it is after an attack."""
        of = zip(self.columns, self.asked.x, self.asked.sizes, self.part, strict=True)
        return tuple(column.span(x, size, part) for column, x, size, part in of)

    def rules_out(self, cells: Sequence[int]) -> bool:
        """Whether all rows of some cells break one relation."""
        view, x = self.asked.view, self.asked.x
        return bool(view.relations) and not view.relations.may_hold(view.where(self.grid, cells, self._spans, x))

    def pairs(self, cells: Sequence[int]) -> Pairs:
        """The rows of these cells, and the neighbours that attacks make them of; the row itself need not be valid."""
        asked = self.asked
        of = zip(self.columns, asked.x, asked.sizes, self.part, strict=True)
        near = [None if math.isnan(x) else column.neighbours(x, size, part) for column, x, size, part in of]
        masks = [0 if each is None else each.cells(cuts) for each, cuts in zip(near, self.grid.cuts, strict=True)]
        spans = tuple(ANY if each is None else (each.low, each.high) for each in near)
        own = tuple((0, fact) for fact in asked.view.relations.facts)
        others = tuple(None if asked.is_itself else (1, fact) for _, fact in own)
        paid = tuple(price or Fraction(0) for price in self.region.least(cells))
        sides = (cells, masks), (self._spans, spans)
        return Pairs(asked.view, self.grid, self.columns, asked.x, paid, *sides, own + others)


def _chain(
    valid: Valid, cells: Sequence[int], reason: bytes | None, tests: Sequence[tuple[int, int, bool]]
) -> list[Leaf]:
    """A tree of tests one after another. If rows that pass none are forbidden, the reason must hold for them."""
    if any(f >= len(cells) for f, _, _ in tests):
        raise Rejected("a condition is about no column")
    missing = [2 << len(cuts) for cuts in valid.grid.cuts]
    tests = [(f, passes | missing[f] if gone else passes & ~missing[f], gone) for f, passes, gone in tests]
    leaves, left = chain_leaves(tests, cells)
    if left is None:
        return leaves
    if reason is None:
        return [*leaves, Leaf(0, NO_SCORES, left)]
    check_clash(valid.pairs([left.get(f, own) for f, own in enumerate(cells)]), Reader(reason))
    return leaves


def check_tree_of_nothing(reader: Reader) -> int:
    """A part without neighbours: there is nothing to prove."""
    if reader.op() != 0:
        raise Rejected("a part without neighbours has more than one box")
    return 1


def region_of(asked: Asked, columns: Sequence[Column], grid: Grid, part: Part) -> Region | None:
    """What cells cost from the neighbours of a part; None if there are none."""
    prices: list[list[tuple[Fraction, int]]] = []
    for f, column in enumerate(columns):
        found = column.cells(asked.x[f], asked.sizes[f], part[f], grid.cuts[f])
        if not found and not math.isnan(asked.x[f]):
            return None
        prices.append(found)
    return Region(prices, asked.view.purses)
