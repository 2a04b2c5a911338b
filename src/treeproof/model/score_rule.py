"""How leaf scores become a label, operation by operation as the source library does it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, NamedTuple


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


class Member(NamedTuple):
    """One of several models whose scores are averaged: `sum of its trees / divisor * weight`."""

    n_trees: int
    divisor: float
    weight: float


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """How leaf scores become a label, operation by operation as the source library does it.

    `score = base + leaf_1 + leaf_2 + …` in `precision`, tree after tree; then divided by `divisor`;
    with `base_last` the base is added at the end instead. Then `decision` picks the class.

    With `members` the trees belong to several models, one after the other. In double, each member's trees are added
    up from 0, divided and multiplied as it says; these scores are added up from 0 in place of leaves. There is no base.
    """

    decision: Decision = Decision.ARGMAX
    precision: Literal["float64", "float32"] = "float64"
    divisor: float = 1.0
    base_last: bool = False
    cut: float = 0.0
    steepness: float = 1.0
    members: tuple[Member, ...] = ()
