"""Sums of values that valid rows keep: which cells of a box they rule out.

A condition is that a weighted sum of values is at most a bound. Of each cell the least and the greatest value are known
that the row can have there; so the least sum over a box is known, and what is left for one value if all others are as
favourable as they can be. All of this is in doubles: what rounding may have changed is left to the caller, who asks
exactly whether a box holds a valid row. One value less another is never rounded to the wrong side of 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing
from treeproof._kernels.search.record import emit_keep, mark, take_back

ROUNDING = 2.0**-45
"""A share of all terms together that is more than what sums of up to a hundred of them are off by."""


class Sums(NamedTuple):
    """Conditions on sums. Those of number k have the terms [start[k], start[k + 1]): `weight` times the value of a
    `feature`; the sum is at most `bound[k]`, up to a share `rounding[k]` of all terms together. `low` and `high`
    (n_cells,) are the least and the greatest value of each cell; NaN in a cell without any. `missing` (n_features,) is
    the cell of missing values, of which a sum says nothing; -1: none. `box` (n_features,) CELLS is scratch.
    """

    start: Any
    feature: Any
    weight: Any
    bound: Any
    rounding: Any
    low: Any
    high: Any
    missing: Any
    box: Any


@borrowing
def _term(sums, region, k, least):
    """The least or the greatest that a term can be in the box."""
    f, weight = sums.feature[k], sums.weight[k]
    start, cells = region.ranges[f].start, sums.box[f]
    return weight * (sums.low[start + cells.low] if least == (weight > 0) else sums.high[start + cells.high])


@borrowing
def _says_nothing(sums, region, number):
    """Whether a value of a sum may be missing in the box."""
    for k in range(sums.start[number], sums.start[number + 1]):
        f = sums.feature[k]
        if region.ranges[f].own < 0 or sums.box[f].high == sums.missing[f]:
            return True
    return False


@borrowing
def _draw_in(sums, region, k, most, proof):
    """Takes the cells off an end of the box where a term is more than `most`; whether there were any."""
    f, weight = sums.feature[k], sums.weight[k]
    start, cells, drawn = region.ranges[f].start, sums.box[f], False
    if weight > 0:
        while cells.low <= cells.high and weight * sums.low[start + cells.high] > most:
            cells.high -= 1
            drawn = True
    else:
        while cells.low <= cells.high and weight * sums.high[start + cells.low] > most:
            cells.low += 1
            drawn = True
    if drawn and cells.low <= cells.high:
        emit_keep(proof, f, cells.high if weight > 0 else cells.low - 1, weight <= 0)
    return drawn


@borrowing
def _left_for(sums, region, number, own):
    """What all other terms leave for the term `own` of a sum at most; for all of them together if it is -1."""
    rest, size = 0.0, abs(sums.bound[number])
    for k in range(sums.start[number], sums.start[number + 1]):
        term = _term(sums, region, k, True)
        size += abs(term)
        if k != own:
            rest += term
    # What is too large to tell leaves everything.
    return sums.bound[number] - rest + size * sums.rounding[number] if size < np.inf else np.inf


@borrowing
def fit_sums(sums, region, proof):
    """Draws the box of the sums in to where it may hold valid rows; whether anything is left."""
    drawn = True
    while drawn:
        drawn = False
        for number in range(sums.bound.shape[0]):
            if _says_nothing(sums, region, number):
                continue
            if _left_for(sums, region, number, -1) < 0:
                return False
            for k in range(sums.start[number], sums.start[number + 1]):
                drawn |= _draw_in(sums, region, k, _left_for(sums, region, number, k), proof)
                if sums.box[sums.feature[k]].low > sums.box[sums.feature[k]].high:
                    return False
    return True


@borrowing
def point_fits_sums(sums, region, cells, proof):
    """Whether cells may hold a valid row; nothing of that is part of a proof."""
    began = mark(proof)
    for f in range(cells.shape[0] if sums.bound.shape[0] > 0 else 0):
        sums.box[f].low = sums.box[f].high = cells[f]
    fits = sums.bound.shape[0] == 0 or fit_sums(sums, region, proof)
    take_back(proof, began)
    return fits
