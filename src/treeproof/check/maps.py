"""Checks stability maps: that their boxes fill the space, and what proves each of them; see docs/map_format.md."""

from __future__ import annotations

import hashlib
import itertools
import math
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from treeproof.check.attackers import check_kind, columns_of, is_affordable, purses_of
from treeproof.check.claims import Grid, Place, Region
from treeproof.check.columns import Column, Near
from treeproof.check.doubles import cells_between, parted
from treeproof.check.fields import ATTACKER, LARGEST_MAP, check, parse
from treeproof.check.model_file import Model, check_model, hash_of
from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import CLAIM, SPLIT, Checked, readable
from treeproof.check.rules import Rejected, check_tree, held

MAGIC, HEAD = b"\x89TPMAP\r\n", struct.Struct("<8sIIQQQQdQ32s32s32s")
STABLE, UNSTABLE, OPEN = range(3)
LEFT_AGAIN = -1
"""In place of a node: a column is what it was before its parent."""
MOVED = 8
"""A part of a proof: one move changes the label of each row of a box."""
Range: TypeAlias = "tuple[float, float]"
"""The doubles from the first to the second, both included."""
Box: TypeAlias = "tuple[Range, ...]"


@dataclass(frozen=True)
class Map:
    """What a map file holds."""

    model: Mapping[str, Any]
    attacker: Mapping[str, Any]
    space: Box
    cuts: Sequence[tuple[int, float]]
    """Columns and doubles."""
    nodes: Sequence[tuple[int, int]]
    hash: str
    """What tells the trees of maps apart."""

    @classmethod
    def of(cls, model: Mapping[str, Any], attacker: Mapping[str, Any], starts: bytes, ends: bytes, nodes: bytes) -> Map:
        """A map with the cuts, the space and the nodes that these bytes are."""
        n, numbers = len(starts) // 8 - 1, [number for (number,) in struct.iter_unpack("<d", ends)]
        first = [start for (start,) in struct.iter_unpack("<q", starts)]
        if n != len(model["columns"]) or first[0] != 0 or first != sorted(first) or len(numbers) != 2 * n + first[-1]:
            raise Rejected("the sizes of the map do not fit")
        columns = [f for f in range(n) for _ in range(first[f], first[f + 1])]
        cuts = list(zip(columns, numbers[2 * n :], strict=True))
        if not all(one < other for one, other in itertools.pairwise(cuts)):
            raise Rejected("cuts of the map do not rise")
        return cls(
            model,
            attacker,
            tuple(zip(numbers[:n], numbers[n : 2 * n], strict=True)),
            cuts,
            list(struct.iter_unpack("<ii", nodes)),
            hashlib.sha256(starts + ends + nodes).hexdigest(),
        )

    @classmethod
    def open(cls, path: Path) -> Map:
        """The map of a file."""
        data = path.read_bytes() if path.stat().st_size <= LARGEST_MAP else b""
        if data[:8] != MAGIC or len(data) < HEAD.size:
            raise Rejected(f"{path.name} is no stability map")
        _, version, d, n_cuts, n_nodes, model, attacker, _, _, *prints, checksum = HEAD.unpack(data[: HEAD.size])
        if version != 1 or hashlib.sha256(data[HEAD.size :]).digest() != checksum:
            raise Rejected(f"{path.name} is damaged, or of another version")
        sizes = [model, attacker, 8 * (d + 1), 8 * (2 * d + n_cuts)]
        parts = [HEAD.size, *itertools.accumulate(sizes, initial=HEAD.size)][1:]
        front = parts[-1] + -parts[-1] % 64
        if front + 8 * n_nodes != len(data) or any(data[parts[-1] : front]):
            raise Rejected(f"{path.name} is cut off, or has more than a map")
        content = [data[begin:end] for begin, end in itertools.pairwise(parts)]
        said = [parse(part, f"what {path.name} holds") for part in content[:2]]
        check_model(said[0], f"the model of {path.name}")
        check(said[1], ATTACKER, f"the attacker of {path.name}")
        if prints != [bytes.fromhex(Model.of(said[0]).fingerprint), hashlib.sha256(content[1]).digest()]:
            raise Rejected(f"{path.name} is about another model or attacker than it holds")
        return cls.of(said[0], said[1], content[2], content[3], data[front:])

    def boxes(self) -> Iterator[tuple[int, Box, int]]:
        """Every box with its number and status; Rejected if they overlap, are empty or do not fill the space."""
        seen: set[int] = set()
        box, waiting = list(self.space), [(0, 0, self.space[0])]
        while waiting:
            # Deep trees of many columns are no reason to keep a box for each of their parts.
            node, f, box[f] = waiting.pop()
            if node == LEFT_AGAIN:
                continue
            if not 0 <= node < len(self.nodes) or node in seen:
                raise Rejected(f"the map is not a tree: node {node} is missing or has two parents")
            seen.add(node)
            cut, child = self.nodes[node]
            if cut == -1 and -3 <= child <= -1:
                yield node, tuple(box), -1 - child
            elif 0 <= cut < len(self.cuts):
                f, at = self.cuts[cut]
                (left,), (right,) = halves((box[f],), 0, at)
                waiting += [(LEFT_AGAIN, f, box[f]), (child, f, left), (child + 1, f, right)]
            else:
                raise Rejected(f"the map has no cut {cut}, or no status {child}")
        if len(seen) < len(self.nodes):
            raise Rejected("the map is not a tree: some node cannot be reached")


def halves(box: Box, f: int, cut: float) -> tuple[Box, Box]:
    """A box up to a cut of a column and above it; Rejected if one of them is empty."""
    if not (0 <= f < len(box) and box[f][0] <= cut < box[f][1]):
        raise Rejected(f"column {f} is cut at {cut}, outside of its box")
    below, above = parted(box[f], cut)
    return (*box[:f], below, *box[f + 1 :]), (*box[:f], above, *box[f + 1 :])


class MapQuestion:
    """What a map says."""

    def __init__(self, given: Map) -> None:
        self.map, self.model = given, Model.of(dict(given.model))
        check_kind(given.attacker)
        self._columns = columns_of(given.model, given.attacker)
        self._purses = purses_of(given.model, given.attacker, self._columns)
        self._grid = Grid(self.model, {})
        plain = {"intervals", "costs", "budget", "domain", "format", "version", "power", "radius"}
        if (
            given.attacker["power"] is not None
            or given.attacker.keys() - plain
            or not all(map(_is_plain, self._columns))
        ):
            raise Rejected("the attacker of a map has intervals, costs and a budget, and nothing else")
        for column, (low, high) in zip(self._columns, given.space, strict=True):
            if not column.domain[0] <= low <= high <= column.domain[1]:
                raise Rejected("the space of the map is empty, or beyond the attacker's domain")

    @classmethod
    @readable("the map")
    def of(cls, path: Path) -> MapQuestion:
        """What the map of a file says; Rejected if it is no such file."""
        return cls(Map.open(path))

    def hashes(self) -> dict[str, str]:
        """What a file of proofs says it is about."""
        return {"model": self.model.hash, "attacker": hash_of(self.map.attacker), "map": self.map.hash}

    @readable("the proof")
    def check(self, box: Box, status: int, reader: Reader) -> int:
        """Checks what proves a box; returns how many boxes of it were closed."""
        if (reader.number(), reader.number()) != (1, 0):
            raise Rejected("a box has one claim")
        waiting, closed = [box], 0
        while waiting:
            box, op = held(waiting, len(box)).pop(), reader.number()
            if op == SPLIT:
                waiting += reversed(halves(box, reader.number(), reader.double()))
            elif op == CLAIM and status == STABLE:
                label, n_extra = reader.number(), reader.number()
                if n_extra:
                    raise Rejected("boxes of maps have no cells of their own")
                prices = [
                    column.cells_from(Near(*ends), cuts)
                    for column, ends, cuts in zip(self._columns, box, self._grid.cuts, strict=True)
                ]
                closed += self._check_label(Region(prices, self._purses), label, reader)
            elif op == MOVED and status == UNSTABLE:
                before, after = reader.number(), reader.number()
                if before == after:
                    raise Rejected("a move keeps the label")
                moved = self._moved(box, reader)
                closed += self._check_label(self._unmoved(box), before, reader)
                closed += self._check_label(self._unmoved(moved), after, reader)
            else:
                raise Rejected(f"a box of the status {status} has no part {op}")
        if not reader.is_done:
            raise Rejected("something follows the proof")
        return closed

    def _check_label(self, region: Region, label: int, reader: Reader) -> int:
        """Checks that all rows of a region that can be paid for have a label."""
        classes = frozenset(range(self.model.n_classes))
        if label not in classes:
            raise Rejected(f"there is no class {label}")
        place, others = Place(self._grid, region), classes - {label}
        reader.columns, reader.trees = self.model.n_features, len(self.model.trees)
        reader.cells = 2 + max(map(len, self._grid.cuts))
        return sum(check_tree(place.claim(label, other, others), reader) for other in sorted(others))

    def _unmoved(self, box: Box) -> Region:
        """The rows of a box, without any attack."""
        cells = [cells_between(cuts, *ends) for ends, cuts in zip(box, self._grid.cuts, strict=True)]
        return Region([[(Fraction(0), mask)] for mask in cells], [])

    def _moved(self, box: Box, reader: Reader) -> Box:
        """Where a move leads that each row of a box has: some columns come into ranges."""
        moved, prices, f = list(box), {}, -1
        for _ in range(reader.number()):
            f += 1 + reader.number()
            to = reader.double(), reader.double()
            if f >= len(box) or not _leads(self._columns[f], box[f], to):
                raise Rejected(f"no move of column {f} leads from each row of a box to {to}")
            moved[f], prices[f] = to, Fraction(self._columns[f].cost)
        if not is_affordable(self._purses, prices):
            raise Rejected("a move costs more than the budget")
        return tuple(moved)


def _is_plain(column: Column) -> bool:
    """Whether all moves of a column have one price, and lead by a distance or to any value of a category."""
    others = column.matrix, column.step, column.blank, column.fill
    return not column.rules and all(one is None for one in others) and column.is_category == (column.ends is not None)


def _leads(column: Column, start: Range, to: Range) -> bool:
    """Whether from each double of a range a move leads to some double of another."""
    (low, high), (first, last), (least, most) = start, to, column.reach
    if column.reach == (0.0, 0.0) or not column.domain[0] <= first <= last <= column.domain[1]:
        return False
    if column.ends is not None:
        return any(first <= end <= last for end in column.ends)
    if not math.isinf(most) and Fraction(first) > Fraction(low) + Fraction(most):
        return False
    if not math.isinf(least) and Fraction(last) < Fraction(high) + Fraction(least):
        return False
    # So what each row reaches meets the range; it holds one of its ends, or is as wide as doubles are apart there.
    if first == last or math.isinf(most - least):
        return True
    return Fraction(most) - Fraction(least) >= max(math.ulp(first), math.ulp(last))


def check_boxes(
    question: MapQuestion, proofs: ProofFile | None, chosen: Collection[int] | None = None
) -> Iterator[tuple[int, Checked]]:
    """Checks what a map calls stable or unstable: all boxes, or those with `chosen` numbers; and that they tile it."""
    for _ in question.map.boxes():
        pass  # before anything is said about one of them
    for node, box, status in question.map.boxes():
        if status == OPEN or (chosen is not None and node not in chosen):
            continue
        found = Checked()
        if proofs is None or node not in proofs.rows:
            known = {} if proofs is None else proofs.without
            found.unchecked[node] = known.get(node, "there is no proof of it")
        else:
            try:
                found.boxes = question.check(box, status, Reader(proofs.payload(node)))
                found.checked.append(node)
            except Rejected as error:
                found.rejected[node] = str(error)
        yield node, found
