"""The two scores of least loss under attack, where the attacker picks the side of some rows.

There are two losses of a score s on a row with target 0 or 1. Squares: (target - s)², for scores in [0, 1]. Powers:
exp(-s) for target 1 and exp(s) for target 0, for scores of any sign. Both grow with the distance from what the target
wants, and both are convex: that is all that `solve_scores` needs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from treeproof._kernels.jit import entry, inner

SQUARES, POWERS = 0, 1


class Side(NamedTuple):
    """Weights of targets 1 and 0 on one side of a split, and the bounds of its score."""

    ones: Any
    zeros: Any
    low: Any
    high: Any


@inner
def clip(value, low, high):
    """The number of [low, high] closest to `value`."""
    return min(max(value, low), high)


@inner
def loss_at(loss, ones, zeros, score):
    """The loss of a score on targets 1 and 0 with these weights."""
    if loss == SQUARES:
        return ones * (1.0 - score) ** 2 + zeros * score**2
    return ones * math.exp(-score) + zeros * math.exp(score)


@inner
def best_score(loss, ones, zeros):
    """The score of least loss; not both weights are 0."""
    if loss == SQUARES:
        return ones / (ones + zeros)
    if ones <= 0.0:
        return -math.inf
    return math.inf if zeros <= 0.0 else 0.5 * math.log(ones / zeros)


@inner
def separate_scores(loss, left, right):
    """The best score of each side on its own, within its bounds; a side without weight copies the other."""
    in_left, in_right = left.ones + left.zeros, right.ones + right.zeros
    a = clip(best_score(loss, left.ones, left.zeros), left.low, left.high) if in_left > 0.0 else 0.0
    b = clip(best_score(loss, right.ones, right.zeros), right.low, right.high) if in_right > 0.0 else a
    if in_left <= 0.0:
        a = clip(b, left.low, left.high)
    return a, clip(b, right.low, right.high)


@entry
def solve_scores(loss, left, right, ones, zeros):
    """The scores (a, b) of least loss, where the attacker picks the side of the weights ones and zeros; and that loss.

    Where a <= b, the attacker sends target 1 left and target 0 right, and the loss falls apart into one convex function
    per score. Their sum is nowhere above the loss, so its minimum, if it has a <= b, is the minimum. Likewise for
    a >= b. If neither lies on its own side, the minimum of the convex loss lies between them, on a = b.
    """
    more_left = Side(left.ones + ones, left.zeros, left.low, left.high)
    more_right = Side(right.ones, right.zeros + zeros, right.low, right.high)
    a, b = separate_scores(loss, more_left, more_right)
    if a <= b:
        return (
            a,
            b,
            loss_at(loss, more_left.ones, more_left.zeros, a) + loss_at(loss, more_right.ones, more_right.zeros, b),
        )
    more_left = Side(left.ones, left.zeros + zeros, left.low, left.high)
    more_right = Side(right.ones + ones, right.zeros, right.low, right.high)
    a, b = separate_scores(loss, more_left, more_right)
    if a >= b:
        return (
            a,
            b,
            loss_at(loss, more_left.ones, more_left.zeros, a) + loss_at(loss, more_right.ones, more_right.zeros, b),
        )
    ones, zeros = left.ones + right.ones + ones, left.zeros + right.zeros + zeros
    score = clip(best_score(loss, ones, zeros), max(left.low, right.low), min(left.high, right.high))
    return score, score, loss_at(loss, ones, zeros, score)
