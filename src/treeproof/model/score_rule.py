"""How leaf scores become a label, operation by operation as the source library does it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal


class Decision(enum.IntEnum):
    """What the library compares to pick a class; ties go to the lowest class."""

    ARGMAX = 0
    """The largest score."""
    CUT = 1
    """One score: class 1 where it is above `cut`, else class 0."""
    SOFTMAX = 2
    """The largest softmax probability, rounded as the library rounds it."""
    SIGMOID = 3
    """The largest one-against-rest sigmoid probability, rounded likewise."""


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """How leaf scores become a label, operation by operation as the source library does it.

    `score = base + leaf_1 + leaf_2 + …` in `precision`, tree after tree; then divided by `divisor`;
    with `base_last` the base is added at the end instead. Then `decision` picks the class.
    """

    decision: Decision = Decision.ARGMAX
    precision: Literal["float64", "float32"] = "float64"
    divisor: float = 1.0
    base_last: bool = False
    cut: float = 0.0
    steepness: float = 1.0
