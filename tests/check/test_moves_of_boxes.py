"""Unstable boxes of maps: a move that all rows of a box have, on models of one test per column, against brute force."""

from __future__ import annotations

import itertools
import json
import math
import struct
from fractions import Fraction
from random import Random
from typing import Any

import pytest

import treeproof as tp
from treeproof.check.columns import Column
from treeproof.check.maps import MOVED, UNSTABLE, Box, Map, MapQuestion, _leads
from treeproof.check.proof_bytes import Reader
from treeproof.check.rules import Rejected
from treeproof.importers.native import as_text
from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.threat.attacker_file import content_of

LABEL_0, LABEL_1 = 0, 1
INF = math.inf


def question(attacker: tp.Attacker, weights: tuple[int, int] = (2, 1)) -> MapQuestion:
    """Two columns, each of which votes for class 1 above 0.5."""
    builder = EnsembleBuilder(n_features=2, classes=[0, 1])
    for feature, weight in enumerate(weights):
        builder.add_tree(
            feature=[feature, LEAF, LEAF],
            threshold=[0.5, 0, 0],
            left=[1, LEAF, LEAF],
            right=[2, LEAF, LEAF],
            scores=[[0, 0], [weight, 0], [0, weight]],
        )
    model = json.loads(as_text(builder.build()))
    ends = struct.pack("<6d", 0.0, 0.0, 1.0, 1.0, 0.5, 0.5)
    return MapQuestion(
        Map.of(model, content_of(attacker), struct.pack("<3q", 0, 1, 2), ends, struct.pack("<2i", -1, -2))
    )


def proof(moves: dict[int, tuple[float, float]], before: int = LABEL_0, after: int = LABEL_1) -> Reader:
    content, last = bytes([1, 0, MOVED, before, after, len(moves)]), -1
    for f, to in moves.items():
        content += bytes([f - last - 1]) + struct.pack("<dd", *to)
        last = f
    return Reader(content + bytes(2))  # the trees of both labels are one box each


def holds(asked: MapQuestion, box: Box, reader: Reader) -> bool:
    try:
        asked.check(box, UNSTABLE, reader)
    except Rejected:
        return False
    return reader.is_done


BOX: Box = ((0.25, 0.5), (0.0, 1.0))
ABOVE = math.nextafter(0.5, 1)


@pytest.mark.parametrize(
    ("attacker", "moves", "expected"),
    [
        (tp.Attacker.linf(0.375), {0: (ABOVE, 1.0)}, True),
        (tp.Attacker.linf(0.375), {0: (ABOVE, 0.625)}, True),
        (tp.Attacker.linf(0.375), {0: (0.625, 0.625)}, True),
        (tp.Attacker.linf(0.375), {0: (math.nextafter(0.625, 1), 1.0)}, False),  # 0.25 does not reach it
        (tp.Attacker.linf(0.375), {0: (0.5, 1.0)}, False),  # 0.5 has the label of the box
        (tp.Attacker.linf(0.375), {0: (1.0, ABOVE)}, False),
        (tp.Attacker.linf(0.375), {0: (ABOVE, 2.0)}, True),
        (tp.Attacker.linf(0.375, domain=(0, 1)), {0: (ABOVE, 2.0)}, False),
        (tp.Attacker((0.5, 0.75)), {0: (ABOVE, 1.0)}, True),
        (tp.Attacker((0.5, 0.75)), {0: (ABOVE, math.nextafter(1.0, 0))}, False),  # from 0.5 nothing leads there
        (tp.Attacker((0.5, 0.75)), {1: (0.75, 0.8)}, False),
        (tp.Attacker((-0.5, 0.5), budget=1), {0: (ABOVE, 0.75), 1: (0.5, 0.5)}, False),  # two moves
        (tp.Attacker((-0.5, 0.5), budget=2), {0: (ABOVE, 0.75), 1: (0.5, 0.5)}, True),
        (tp.Attacker((-0.5, 0.5), costs=[2, 1], budget=1), {0: (ABOVE, 0.75)}, False),
        (tp.Attacker((-0.5, 0.5), costs=[2, 1], budget=2), {0: (ABOVE, 0.75)}, True),
        (tp.Attacker({1: (-1, 1)}), {0: (ABOVE, 0.75)}, False),  # the column cannot be moved
        (tp.Attacker.l0(1), {0: (0.75, 0.75)}, True),
        (tp.Attacker.l0(1), {}, False),
    ],
)
def test_a_move_breaks_a_box_only_if_each_row_has_it(
    attacker: tp.Attacker, moves: dict[int, Any], expected: bool
) -> None:
    assert holds(question(attacker), BOX, proof(moves)) is expected


def test_labels_before_and_after_are_checked() -> None:
    asked = question(tp.Attacker.l0(1))
    assert not holds(asked, BOX, proof({0: (0.75, 0.75)}, LABEL_1, LABEL_0))
    assert not holds(asked, BOX, proof({0: (0.75, 0.75)}, LABEL_0, LABEL_0))
    assert not holds(asked, BOX, proof({0: (0.75, 0.75)}, LABEL_0, 2))
    assert not holds(asked, ((0.25, ABOVE), (0.0, 1.0)), proof({0: (0.75, 0.75)}))
    assert not holds(asked, BOX, proof({2: (0.75, 0.75)}))


def test_moves_lead_from_each_double_to_some_double() -> None:
    """On doubles that are so far apart that all of them can be tried."""
    random, seen = Random(0), {True: 0, False: 0}
    for _ in range(4000):
        scale = random.choice([2.0**52, 2.0**53, 2.0**54])
        numbers = [scale]
        for _ in range(12):
            numbers.append(math.nextafter(numbers[-1], INF))
        low, high = sorted(random.choices(numbers, k=2))
        first, last = sorted(random.choices(numbers, k=2))
        reach = tuple(sorted(random.choice([-6, -3, -1.5, -0.5, 0.25, 1, 1.5, 2, 3.5, 7]) for _ in range(2)))
        column = Column((0.0, 2.0**60), reach)
        starts = [number for number in numbers if low <= number <= high]
        ends = [number for number in numbers if first <= number <= last]
        moves = itertools.product(starts, ends)
        reached = {z for z, w in moves if Fraction(reach[0]) <= Fraction(w) - Fraction(z) <= Fraction(reach[1])}
        if _leads(column, (low, high), (first, last)):
            assert reached == set(starts), (low, high, first, last, reach)
        seen[_leads(column, (low, high), (first, last))] += 1
    assert min(seen.values()) > 200
