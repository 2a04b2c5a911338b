"""Proofs read literally, and for tiny models every box that one closes looked through, cell by cell."""

from __future__ import annotations

import itertools
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.support.prices import price_table_of_box
from treeproof.model.ensemble import Ensemble
from treeproof.threat.threat import Threat

CLOSED, CUT_LEFT, CUT_RIGHT, KEEP_LEFT, KEEP_RIGHT, WEIGH, DROP, SPEND, DECIDED = range(9)
CLAIM, SPLIT, IDLE, CONTENT, VALID, VALID_CONTENT = range(6)
MOVED = 8
RULED_OUT, CUT, CASES, SUM = range(4)
Cells = tuple[int, ...]
NO_END: Mapping[int, int] = defaultdict(lambda: 2**31)
"""Any number of cells."""


class Reader:
    """Numbers of a proof, one after another; a proof that ends too soon is an IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        """A whole number from 0 on."""
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def signed(self) -> int:
        """A whole number of either sign."""
        number = self.number()
        return (number >> 1) ^ -(number & 1)

    def double(self) -> float:
        """A double."""
        self.at += 8
        return float(struct.unpack("<d", self.data[self.at - 8 : self.at])[0])

    def rising(self) -> list[int]:
        """How many numbers, and these, which rise."""
        numbers: list[int] = []
        for _ in range(self.number()):
            numbers.append(self.number() + (numbers[-1] + 1 if numbers else 0))
        return numbers

    def step(self) -> tuple[int, list[int]]:
        """A step and what it says, but for weights."""
        step = self.number()
        assert step <= DECIDED
        if step == SPEND:
            assert self.double() >= 0
        return step, [self.number(), self.number()] if CUT_LEFT <= step <= KEEP_RIGHT else []

    def chain(self) -> None:
        """Tests one after another."""
        forbids = self.number()
        assert forbids <= 2
        for _ in range(self.number()):
            self.number()
            assert self.number() < 4
            self.rising()
        if forbids == 2:
            end = self.number() + self.at
            self.reason()
            assert self.at == end

    def reason(self) -> None:
        """Why there are no such pairs of valid rows, but for how many things a fact leaves to choose from."""
        waiting = 1
        while waiting:
            kind = self.number()
            waiting += {RULED_OUT: -1, CUT: 1, SUM: -1}[kind]
            if kind == CUT:
                assert self.number() < 2
                self.number(), self.double()
            for _ in range((self.number(), self.number())[1] if kind == SUM else 0):  # after the rate
                self.number(), self.signed()

    def weights(self, n_trees: int = 2**31, n_cells: Mapping[int, int] = NO_END) -> None:
        """Weights, of trees and cells that there are."""
        assert abs(self.signed()) < 2000
        assert self.double() >= 0
        assert self.number() > 0
        f = -1
        for _ in range(self.number()):
            f += 1 + self.number()
            cuts = self.rising()
            assert cuts[-1] < n_cells[f]
            assert all(
                abs(level) < 2**60 for level in itertools.accumulate(self.signed() for _ in range(len(cuts) + 1))
            )
            tree = -1
            for _ in range(self.number()):
                tree += 1 + self.number()
                pieces = self.rising()
                assert tree < n_trees
                assert pieces[-1] < len(cuts)
                assert len([self.signed() for _ in range(len(pieces) + 1)]) > 1


class Claim:
    """All that the attacker can make of a row of a tiny model: vectors of cells, and their labels."""

    def __init__(self, ensemble: Ensemble, threat: Threat, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        self.n_trees = ensemble.n_trees
        prices = price_table_of_box(threat, ensemble, low, high, x=x)
        self.cells = [sorted(c for g, c in prices.exact if g == f) for f in range(ensemble.n_features)]
        self.n_cells = [len(ensemble.grid.cuts_of(f)) + 1 for f in range(ensemble.n_features)]
        vectors = [cells for cells in itertools.product(*self.cells) if prices.affordable(cells)]
        rows = np.array([_row(ensemble, cells) for cells in vectors])
        self.labels: dict[Cells, int] = dict(zip(vectors, ensemble.predict_index(rows).tolist(), strict=True))

    def inside(self, box: list[tuple[int, int]]) -> Iterator[int]:
        """The labels in a box."""
        for cells, label in self.labels.items():
            if all(first <= cell <= last for cell, (first, last) in zip(cells, box, strict=True)):
                yield label


def _row(ensemble: Ensemble, cells: Cells) -> Any:
    """A row of these cells: the highest doubles."""
    ends = [np.append(ensemble.grid.cuts_of(f), np.inf)[cell] for f, cell in enumerate(cells)]
    return np.where(np.array(cells) < 0, np.nan, np.minimum(ends, ensemble.value_high)).tolist()


def look_through(claim: Claim, proof: bytes, wanted: set[int]) -> Counter[int]:
    """Walks the trees of a claim; AssertionError where one closes a box that holds what it must not. Counts steps."""
    reader, steps = Reader(proof), Counter[int]()
    assert reader.number() == 0, "a claim"
    label = reader.number()
    assert reader.number() == 0, "no further cuts"
    for other in sorted(wanted - {label}):
        waiting = [[(-1, n - 1) for n in claim.n_cells]]
        while waiting:
            box, (step, cut_at) = waiting.pop(), reader.step()
            steps[step] += 1
            if cut_at:
                f, cut = cut_at
                assert box[f][0] <= cut < box[f][1], "the cut is in the box"
                left, right = box.copy(), box.copy()
                left[f], right[f] = (box[f][0], cut), (cut + 1, box[f][1])
                if step in (KEEP_LEFT, KEEP_RIGHT):
                    assert other not in claim.inside(right if step == KEEP_LEFT else left)
                    waiting.append(left if step == KEEP_LEFT else right)
                else:
                    waiting += [right, left] if step == CUT_LEFT else [left, right]
            elif step in (WEIGH, DROP):
                reader.weights(claim.n_trees, dict(enumerate(claim.n_cells)))
                waiting.append(box)
            elif step == DECIDED:
                assert not (wanted - {label}) & set(claim.inside(box))
            else:
                assert other not in claim.inside(box)
    assert reader.at == len(proof), "all is read"
    return steps


def skip_claim(reader: Reader, n_classes: int) -> None:
    """Reads a claim that is about all other classes, whatever it is about."""
    assert [reader.number(), reader.number() < n_classes, reader.number()] == [0, True, 0]
    skip_trees(reader, n_classes - 1)


def skip_trees(reader: Reader, waiting: int) -> None:
    """Reads so many trees."""
    while waiting:
        step, _ = reader.step()
        waiting += step in (CUT_LEFT, CUT_RIGHT)
        waiting -= step in (CLOSED, SPEND, DECIDED)
        if step in (WEIGH, DROP):
            reader.weights()


def skip_part(reader: Reader, n_classes: int, n_wanted: int) -> int:
    """Reads a part, but for those that it is cut into; the attacker wants so many classes, 0: any other one."""
    kind = reader.number()
    others = n_wanted or n_classes - 1
    if kind == SPLIT:
        reader.number(), reader.double()
    elif kind == MOVED:
        assert len({reader.number(), reader.number()}) == 2
        for _ in range(reader.number()):
            reader.number(), reader.double(), reader.double()
        skip_trees(reader, 2 * others)
    elif kind != IDLE:
        assert kind in (CLAIM, CONTENT, VALID, VALID_CONTENT)
        assert reader.number() < n_classes
        for _ in range(reader.number()):
            reader.number(), reader.double()
        for _ in range(reader.number() if kind in (VALID, VALID_CONTENT) else 0):
            reader.chain()
        skip_trees(reader, n_classes - n_wanted if kind in (CONTENT, VALID_CONTENT) else others)
    return kind


def skip_parts(reader: Reader, n_classes: int, n_wanted: int) -> list[int]:
    """Reads what proves a neighbourhood; returns the kinds of its parts."""
    kinds, waiting = [], 1
    while waiting:
        kinds.append(skip_part(reader, n_classes, n_wanted))
        waiting += 1 if kinds[-1] == SPLIT else -1
    return kinds


def parts_of(proof: bytes, n_classes: int, n_wanted: int) -> list[bytes]:
    """Cuts and parts of a neighbourhood, one after another; the attacker wants so many classes, 0: any other one."""
    reader, parts, waiting = Reader(proof), [], 1
    while waiting:
        begin, kind = reader.at, skip_part(reader, n_classes, n_wanted)
        waiting += 1 if kind == SPLIT else -1
        parts.append(proof[begin : reader.at])
    assert reader.at == len(proof), "all is read"
    return parts
