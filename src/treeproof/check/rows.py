"""Checks the proofs of a result, row by row: `python -m treeproof.check MODEL RESULT PROOFS`."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from treeproof.check.attackers import columns_of, purses_of, sizes_of
from treeproof.check.claims import Grid, Place, Region
from treeproof.check.columns import Column, Size
from treeproof.check.model_file import Model, hash_of
from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import ProofFile
from treeproof.check.rules import Rejected, check_tree

PROVED = 0
CLAIM, SPLIT = 0, 1


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


class Question:
    """What a result says was asked, as files of models, attackers and results say it."""

    def __init__(self, model: dict[str, Any], result: dict[str, Any]) -> None:
        self.model, self.result = Model.of(model), result
        self.attacker = result["attacker"]
        if result["n_features"] != self.model.n_features:
            raise Rejected("the result is about rows of another model")
        classes = model["classes"]
        self.goal = frozenset(classes.index(label) for label in self.attacker.get("goal") or ())
        self._classes = {_key(label): number for number, label in enumerate(classes)}

    @cached_property
    def columns(self) -> list[Column]:
        """What the attacker can do to each column."""
        return columns_of(self.model.content, self.attacker)

    @cached_property
    def purses(self) -> list[tuple[Fraction, frozenset[int]]]:
        """What it may spend."""
        return purses_of(self.model.content, self.attacker, self.columns)

    @cached_property
    def sizes(self) -> list[list[Size]]:
        """ε of each column: 0 for the row itself, and then of each neighbourhood."""
        around = [sizes_of(self.model.content, epsilon) for epsilon in self.result["epsilons"]]
        return [[0.0] * self.model.n_features, *around]

    @cached_property
    def grid(self) -> Grid:
        """The cells of the model's own tests."""
        return Grid(self.model, {})

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
    if question.result.get("relations"):
        for row in rows:
            yield row, Checked(unchecked={row: "proofs under relations are not checked yet"})
        return
    for row in rows:
        found = Checked()
        try:
            open_claims, found.boxes = _check_row(question, proofs, row)
        except Rejected as error:
            found.rejected[row] = str(error)
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
            raise Rejected(f"the proofs are about something else: {name}")


def _check_row(question: Question, proofs: ProofFile, row: int) -> tuple[list[int], int]:
    """What is proved about a row by the result and by nothing here, and how many boxes were closed."""
    x, claimed = question.row(row), question.proved(row)
    if question.model.label(x) != question.label(row):
        raise Rejected("the model gives it another label than the result says")
    known, boxes = set(), 0
    if row in proofs.rows:
        reader = Reader(proofs.payload(row))
        for _ in range(reader.number()):
            which = reader.number()
            if which >= len(question.sizes):
                raise Rejected(f"there is no neighbourhood {which}")
            boxes += _check_part(question, x, question.sizes[which], reader, (None,) * len(x), which == 0)
            known.add(which)
        if not reader.is_done:
            raise Rejected("something follows the proof")
    return [which for which in claimed if not _follows(question, which, known)], boxes


def _follows(question: Question, which: int, known: set[int]) -> bool:
    """Whether a neighbourhood lies in one that is known."""
    own = question.sizes[which]
    return any(all(map(_is_within, own, question.sizes[other])) for other in known)


def _is_within(size: Size, other: Size) -> bool:
    if isinstance(size, tuple) or isinstance(other, tuple):
        return size == other or (not isinstance(size, tuple) and size == 0)
    return size <= other


def _check_part(
    question: Question,
    x: list[float],
    sizes: list[Size],
    reader: Reader,
    part: tuple[tuple[float, float] | None, ...],
    is_itself: bool,
) -> int:
    """A part of the neighbourhood: cut in two, or with one label; returns how many boxes were closed."""
    op = reader.number()
    if op == SPLIT:
        f, cut = reader.number(), reader.double()
        if f >= len(x):
            raise Rejected(f"there is no column {f}")
        low, high = part[f] or (-math.inf, math.inf)
        below = (*part[:f], (low, min(high, cut)), *part[f + 1 :])
        above = (*part[:f], (max(low, math.nextafter(cut, math.inf)), high), *part[f + 1 :])
        return _check_part(question, x, sizes, reader, below, False) + _check_part(
            question, x, sizes, reader, above, False
        )
    if op != CLAIM:
        raise Rejected(f"there is no part {op}")
    label, n_extra = reader.number(), reader.number()
    if label >= question.model.n_classes:
        raise Rejected(f"there is no class {label}")
    extra: dict[int, list[float]] = {}
    for _ in range(n_extra):
        extra.setdefault(reader.number(), []).append(reader.double())
    wanted = question.goal or frozenset(range(question.model.n_classes)) - {label}
    if label in question.goal:
        # Nobody attacks a row that has a label he wants; of its neighbours that says nothing.
        if not (is_itself and question.model.label(x) == label):
            raise Rejected("neighbours with labels that the attacker wants are no proof")
        return 0
    grid = Grid(question.model, extra) if extra else question.grid
    region = _region(question, grid, x, sizes, part)
    if region is None:
        return sum(check_tree_of_nothing(reader) for _ in wanted)
    place = Place(grid, region)
    return sum(check_tree(place.claim(label, other, wanted), reader) for other in sorted(wanted))


def check_tree_of_nothing(reader: Reader) -> int:
    """A part without neighbours: there is nothing to prove."""
    if reader.op() != 0:
        raise Rejected("a part without neighbours has more than one box")
    return 1


def _region(
    question: Question, grid: Grid, x: list[float], sizes: list[Size], part: tuple[tuple[float, float] | None, ...]
) -> Region | None:
    """What cells cost from the neighbours of a part; None if there are none."""
    prices: list[list[tuple[Fraction, int]]] = []
    for f, column in enumerate(question.columns):
        found = column.cells(x[f], sizes[f], part[f], grid.cuts[f])
        if not found and not math.isnan(x[f]):
            return None
        prices.append(found)
    return Region(prices, question.purses)
