"""Checks the proofs of a result, row by row."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from treeproof.check.claims import NO_SCORES, Grid, Place, Region, chain_leaves, is_idle
from treeproof.check.columns import Column, Size
from treeproof.check.model_file import Model, hash_of
from treeproof.check.one_hot import View, Views
from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import ProofFile
from treeproof.check.rules import Leaf, Rejected, check_tree

FORMATS = {"model": ("treeproof-ensemble", 2), "result": ("treeproof-verification", 4)}
PROVED = 0
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

    def add(self, other: Checked) -> None:
        """What is known about other rows, too."""
        self.checked += other.checked
        self.rejected |= other.rejected
        self.unchecked |= other.unchecked
        self.boxes += other.boxes
        self.counterexamples += other.counterexamples


BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)
"""What reading may end in, if something is not what it should be."""


class Question:
    """What a result says was asked, as files of models, attackers and results say it."""

    reader: Callable[[bytes], Reader] = Reader

    @classmethod
    def of(cls, model: dict[str, Any], result: dict[str, Any]) -> Question:
        """The question in the objects of two files; Rejected if they are no such objects."""
        try:
            return cls(model, result)
        except BROKEN as error:
            raise Rejected(f"the model or the result cannot be read: {error!r}") from None

    def __init__(self, model: dict[str, Any], result: dict[str, Any]) -> None:
        for what, given in (("model", model), ("result", result)):
            if (given.get("format"), given.get("version")) != FORMATS[what]:
                raise Rejected("the {} is no {} of version {}".format(what, *FORMATS[what]))
        self.model, self.result = Model.of(model), result
        if not model["feature_names"]:
            model = {**model, "feature_names": result["feature_names"]}
        self.content = model
        """The model's file, with the names that the result has for its columns."""
        self.attacker = result["attacker"]
        if {result["n_features"], *map(len, result["X"])} != {self.model.n_features}:
            raise Rejected("the result is about rows of another model")
        per_row = [result["y"], result["predicted"], result["stability"], *result["resilience"]]
        if {len(one) for one in per_row} != {len(result["X"])} or len(result["epsilons"]) != len(result["resilience"]):
            raise Rejected("the result has lists of other lengths than it has rows")
        self.views = Views(self.model, model, self.attacker, result)
        classes = model["classes"]
        self.goal = frozenset(classes.index(label) for label in self.attacker.get("goal") or ())
        self._classes = {_key(label): number for number, label in enumerate(classes)}

    def row(self, number: int, name: str = "X") -> list[float]:
        """A row as the model sees it, or what its counterexample is."""
        return [math.nan if value is None else float(value) for value in self.result[name][number]]

    def label(self, number: int) -> int:
        """The number of the class that the result says the model predicts."""
        return self._classes[_key(self.result["predicted"][number])]

    def is_attacked(self, number: int) -> bool:
        """Whether the row is one of those that somebody attacks."""
        actors = self.result.get("actors")
        return actors is None or _key(self.result["y"][number]) in {_key(actor) for actor in actors}

    def proved(self, number: int) -> list[int]:
        """What the result calls proved about a row: 0 for the row itself, k for its k-th neighbourhood."""
        if not self.is_attacked(number):
            return []
        outcomes = [self.result["stability"], *self.result["resilience"]]
        return [which for which, outcome in enumerate(outcomes) if outcome[number] == PROVED]

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


def _key(label: Any) -> Any:
    """A label, told from others that are equal, such as 1 and True."""
    return type(label) is bool, label


def check_rows(question: Question, proofs: ProofFile, rows: Iterable[int]) -> Iterator[tuple[int, Checked]]:
    """Checks what the result calls proved about each of these rows."""
    for row in rows:
        found = Checked()
        try:
            open_claims, found.boxes = _check_row(question, proofs, row)
        except Rejected as error:
            found.rejected[row] = str(error)
        except BROKEN as error:
            found.rejected[row] = f"the proof cannot be read: {error!r}"
        else:
            if not open_claims:
                found.checked.append(row)
            else:
                found.unchecked[row] = proofs.without.get(row, f"there is no proof of {open_claims}")
        yield row, found


def check_header(question: Any, proofs: ProofFile) -> None:
    """Rejects proofs about something else than a question, of rows or of a map."""
    if proofs.header.get("version") != 1:
        raise Rejected(f"proofs of version {proofs.header.get('version')!r} are not known")
    for name, value in question.hashes().items():
        if proofs.header.get(name) != value:
            raise Rejected(f"the proofs are about another question: not the same {name}")


def _check_row(question: Question, proofs: ProofFile, row: int) -> tuple[list[int], int]:
    """What is proved about a row by the result and by nothing here, and how many boxes were closed."""
    x, claimed = question.row(row), question.proved(row)
    if question.model.label(x) != question.label(row):
        raise Rejected("the model gives it another label than the result says")
    if max(claimed, default=0) > 0 and _key(question.result["y"][row]) != _key(question.result["predicted"][row]):
        raise Rejected("it is called resilient, but its label is wrong")
    view, own = question.views.of(x)
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
    if 0 not in known and view.relations.broken(x):
        # It is no neighbour of itself, and the attacker finds it as it is.
        known.clear()
    return [which for which in claimed if not _follows(view, which, known)], boxes


def _follows(view: View, which: int, known: set[int]) -> bool:
    """Whether a neighbourhood lies in one that is known."""
    return any(all(map(_is_within, view.sizes[which], view.sizes[other])) for other in known)


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
        part, op = waiting.pop(), reader.part()
        if op == SPLIT:
            f, cut = reader.number(), reader.double()
            if f >= len(asked.x):
                raise Rejected(f"there is no column {f}")
            low, high = part[f] or (-math.inf, math.inf)
            below = (*part[:f], (low, min(high, cut)), *part[f + 1 :])
            above = (*part[:f], (max(low, math.nextafter(cut, math.inf)), high), *part[f + 1 :])
            waiting += [above, below]
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
    region = _region(asked, view.columns, view.grid, part)
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
    extra: dict[int, list[float]] = {}
    for _ in range(n_extra):
        extra.setdefault(reader.number(), []).append(reader.double())
    wanted = every - goal if is_content else goal or every - {label}
    grid = Grid(view.model, extra) if extra else view.grid
    chains = [reader.chain() for _ in range(reader.number())] if has_chains else []
    columns = [column.at_rest for column in view.columns] if is_content else view.columns
    region = _region(asked, columns, grid, part)
    if region is None:
        return sum(check_tree_of_nothing(reader) for _ in wanted)

    spans = [
        column.span(x, size, ends) for column, x, size, ends in zip(columns, asked.x, asked.sizes, part, strict=True)
    ]

    def is_ruled_out(cells: Sequence[int]) -> bool:
        return bool(view.relations) and not view.relations.may_hold(view.where(grid, cells, spans))

    place = Place(grid, region, [_chain(grid, region.cells, is_ruled_out, *chain) for chain in chains], is_ruled_out)
    return sum(check_tree(place.claim(label, other, wanted), reader) for other in sorted(wanted))


def _chain(
    grid: Grid,
    cells: Sequence[int],
    is_ruled_out: Callable[[Sequence[int]], bool],
    forbids: bool,
    tests: Sequence[tuple[int, int, bool]],
) -> list[Leaf]:
    """A tree of tests one after another. If it forbids rows that pass none, these must break a relation."""
    if any(f >= len(cells) for f, _, _ in tests):
        raise Rejected("a condition is about no column")
    missing = [2 << len(cuts) for cuts in grid.cuts]
    tests = [(f, passes | missing[f] if gone else passes & ~missing[f], gone) for f, passes, gone in tests]
    leaves, left = chain_leaves(tests, cells)
    if left is None:
        return leaves
    if not forbids:
        return [*leaves, Leaf(0, NO_SCORES, left)]
    if not is_ruled_out([left.get(f, own) for f, own in enumerate(cells)]):
        raise Rejected("a condition does not follow from one relation")
    return leaves


def check_tree_of_nothing(reader: Reader) -> int:
    """A part without neighbours: there is nothing to prove."""
    if reader.op() != 0:
        raise Rejected("a part without neighbours has more than one box")
    return 1


def _region(asked: Asked, columns: Sequence[Column], grid: Grid, part: Part) -> Region | None:
    """What cells cost from the neighbours of a part; None if there are none."""
    prices: list[list[tuple[Fraction, int]]] = []
    for f, column in enumerate(columns):
        found = column.cells(asked.x[f], asked.sizes[f], part[f], grid.cuts[f])
        if not found and not math.isnan(asked.x[f]):
            return None
        prices.append(found)
    return Region(prices, asked.view.purses)
