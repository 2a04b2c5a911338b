"""Moves from one range of doubles into another, decided exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from treeproof.numbers.doubles import FloatArray, add_down, add_up

Run: TypeAlias = tuple[Fraction, Fraction, int]


def some_move(
    box: tuple[float, float], cell: tuple[float, float], interval: tuple[float, float]
) -> tuple[float, float] | None:
    """Doubles z in box and w in cell with `interval[0] <= w - z <= interval[1]` exactly, or None if there are none.

    Where the interval holds 0, or is at least as wide as the steps between the doubles involved, the ends
    decide: differences w - z grow from the least to the greatest in steps no wider than the interval. A
    narrower interval can fall between all differences, so doubles of equal step are solved as progressions.
    """
    (z_low, z_high), (w_low, w_high), (low, high) = box, cell, interval
    # Keep only what can take part: w in [z_low + low, z_high + high], z in [w_low - high, w_high - low].
    w_low, w_high = max(w_low, float(add_up(z_low, low))), min(w_high, float(add_down(z_high, high)))
    if w_low > w_high:
        return None
    z_low, z_high = max(z_low, float(add_up(w_low, -high))), min(z_high, float(add_down(w_high, -low)))
    if z_low > z_high:
        return None
    for z, w in ((z_low, w_low), (z_high, w_high), (z_low, w_high), (z_high, w_low)):
        if _within(w, z, low, high):
            return z, w
    for z_run in _runs(z_low, z_high):
        for w_run in _runs(w_low, w_high):
            move = _move_between_runs(z_run, w_run, low, high)
            if move is not None:
                return move
    return None


def shortest_moves(
    own: FloatArray,
    low: FloatArray,
    high: FloatArray,
    first: FloatArray,
    last: FloatArray,
    least: FloatArray | float,
    most: FloatArray | float,
) -> tuple[FloatArray, FloatArray]:
    """Doubles z in [low, high] and w in [first, last], which share none, with `least <= w - z <= most`, entry by entry.

    Each z is as near to `own`, which is in [low, high], as can be, and w to z; NaN: there is no such move.
    """
    # Only what can take part.
    first, last = np.maximum(first, add_up(low, least)), np.minimum(last, add_down(high, most))
    low, high = np.maximum(low, add_up(first, -most)), np.minimum(high, add_down(last, -least))
    z = np.clip(own, low, high)
    near = np.where(first > high, first, last)
    w = np.clip(near, np.maximum(first, add_up(z, least)), np.minimum(last, add_down(z, most)))
    some = (low <= high) & (first <= last)
    fits = some & (first <= w) & (w <= last) & (add_up(z, least) <= w) & (w <= add_down(z, most))
    z, w = np.where(fits, z, np.nan), np.where(fits, w, np.nan)
    intervals = np.broadcast_to(least, z.shape), np.broadcast_to(most, z.shape)
    for at in zip(*np.nonzero(some & ~fits), strict=True):
        box, cell, interval = ((float(a[at]), float(b[at])) for a, b in ((low, high), (first, last), intervals))
        z[at], w[at] = some_move(box, cell, interval) or (math.nan, math.nan)
    return z, w


def _within(w: float, z: float, low: float, high: float) -> bool:
    return float(add_up(z, low)) <= w <= float(add_down(z, high))


def _runs(low: float, high: float) -> list[Run]:
    """The doubles from low to high as progressions (first, step, last index), one for each size of step."""
    runs: list[Run] = []
    while low <= high:
        if low >= 0:
            # From low upwards the step is spacing(low) until the next power of two.
            step = Fraction(float(np.spacing(abs(low))))
            end = Fraction(2) ** (math.frexp(low)[1]) if abs(low) >= 2.0**-1022 else Fraction(2) ** -1022
        else:
            # From a negative low upwards the step is the one just above it, down to the power of two below |low|.
            step = Fraction(math.nextafter(low, math.inf)) - Fraction(low)
            mantissa, exponent = math.frexp(low)
            end = -(Fraction(2) ** (exponent - 1)) if mantissa != -0.5 else -(Fraction(2) ** (exponent - 2))
            end = min(end, Fraction(0)) if -low > 2.0**-1022 else Fraction(0)
        last = min(Fraction(high), end)
        count = int((last - Fraction(low)) / step)
        runs.append((Fraction(low), step, count))
        after = Fraction(low) + count * step
        if after >= Fraction(high):
            break
        low = math.nextafter(float(after), math.inf)
    return runs


def _move_between_runs(z_run: Run, w_run: Run, low: float, high: float) -> tuple[float, float] | None:
    """Solves low <= w - z <= high for z, w of two progressions whose steps are powers of two."""
    (z0, z_step, z_last), (w0, w_step, w_last) = z_run, w_run
    step = min(z_step, w_step)
    z_stride, w_stride = int(z_step / step), int(w_step / step)
    # w - z = w0 - z0 + k * step with k = j * w_stride - i * z_stride, so k lies in [k_low, k_high].
    k_low = math.ceil((Fraction(low) - (w0 - z0)) / step)
    k_high = math.floor((Fraction(high) - (w0 - z0)) / step)
    if k_low > k_high:
        return None
    if z_stride == 1:
        j = max(0, -(-k_low // w_stride))
        if j > min(w_last, (k_high + z_last) // w_stride):
            return None
        i = max(0, j * w_stride - k_high)
    else:
        i = max(0, -(k_high // z_stride))
        if i > min(z_last, (w_last - k_low) // z_stride):
            return None
        j = max(0, k_low + i * z_stride)
    return float(z0 + i * z_step), float(w0 + j * w_step)
