"""Symbolic attacks for people: real intervals with open and closed ends, printed as in the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeproof._kernels.symbolic.records import POST, PRE
from treeproof.numbers.doubles import FloatArray
from treeproof.symbolic.compiled import Boxes, CompiledAnalysis
from treeproof.symbolic.shifted_grid import MISSING_CELL, ShiftedGrid


@dataclass(frozen=True, slots=True)
class Range:
    """Real numbers from `low` to `high`; `missing` adds the missing value, and an empty range has nothing else.

    >>> print(Range(9.0, 10.0), Range(-math.inf, 5.0), Range(0.0, 1.0, low_open=False))
    (9, 10] (-∞, 5] [0, 1]
    """

    low: float
    high: float
    low_open: bool = True
    high_open: bool = False
    missing: bool = False

    def __str__(self) -> str:
        if self.low > self.high:
            return "{NaN}"
        text = (
            f"{'(' if self.low_open else '['}{_number(self.low)}, {_number(self.high)}{')' if self.high_open else ']'}"
        )
        return text + " ∪ {NaN}" if self.missing else text


@dataclass(frozen=True, slots=True)
class SymbolicAttack:
    """Instances of the pre-image, and the post-image that an attack of this cost can take them to.

    >>> print(SymbolicAttack((Range(10.0, 11.0),), (Range(9.0, 10.0),), 1))
    ⟨(10, 11]⟩ ▷ ⟨(9, 10]⟩_1
    """

    pre: tuple[Range, ...]
    post: tuple[Range, ...]
    cost: int

    def __str__(self) -> str:
        pre, post = (", ".join(map(str, image)) for image in (self.pre, self.post))
        return f"⟨{pre}⟩ ▷ ⟨{post}⟩_{self.cost}"


def _number(x: float) -> str:
    if math.isinf(x):
        return "+∞" if x > 0 else "-∞"
    return repr(int(x)) if x == int(x) and abs(x) < 1e16 else repr(x)


def costs_of(boxes: Boxes, compiled: CompiledAnalysis) -> Any:
    """What each attack costs: the features whose two images share nothing are paid for."""
    low, high = boxes[..., 0], boxes[..., 1]
    apart = (low[:, POST] > high[:, PRE]) | (low[:, PRE] > high[:, POST])
    return (apart * compiled.threat.cost).sum(axis=1)


def ends_of(grid: ShiftedGrid, first: Any, last: Any, f: int) -> tuple[FloatArray, FloatArray]:
    """The real numbers (low, high] that the cells `first` to `last` of feature f stand for; NaN where only it is left.

    At the ends of what the model takes these are infinite; a domain's own lower end belongs to its cell.
    """
    at, n = int(grid.start[f]), int(grid.last[f])
    shown = grid.shown[at : at + n + 1]
    below = np.concatenate(([math.nan, -math.inf if grid.open_ended[f, 0] else grid.bottom[f]], shown[1:n]))
    above = np.concatenate(([math.nan], shown[1:n], [math.inf if grid.open_ended[f, 1] else shown[n]]))
    return below[np.where(last == MISSING_CELL, 0, np.maximum(first, 1))], above[last]


def symbolic_attacks(boxes: Boxes, compiled: CompiledAnalysis) -> list[SymbolicAttack]:
    """Attacks on cells as attacks on real numbers."""
    costs = costs_of(boxes, compiled).tolist()
    images = [
        [_ranges(compiled.grid, boxes[:, image, f, 0], boxes[:, image, f, 1], f) for f in range(boxes.shape[2])]
        for image in (PRE, POST)
    ]
    return [
        SymbolicAttack(tuple(column[i] for column in images[0]), tuple(column[i] for column in images[1]), cost)
        for i, cost in enumerate(costs)
    ]


def _ranges(grid: ShiftedGrid, first: Any, last: Any, f: int) -> list[Range]:
    low, high = ends_of(grid, first, last, f)
    closed = (first <= MISSING_CELL + 1) & (not grid.open_ended[f, 0])
    return [
        Range(math.inf, -math.inf, missing=True)
        if math.isnan(a)
        else Range(a, b, not includes, math.isinf(b), cell == MISSING_CELL)
        for a, b, includes, cell in zip(low.tolist(), high.tolist(), closed.tolist(), first.tolist(), strict=True)
    ]
