"""The exact cut on a score: up to it a library's own functions of the score give one label, and above it the other.

What a library does to a score (a sigmoid, a calibration, a comparison with a threshold) is monotone, but for rounding.
Bisection over floating-point numbers with the library's own functions finds the cut. Then thousands of numbers around
it, at every distance, are compared, since functions such as exp need not be monotone in their last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import UnsupportedModel
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import from_ordinal, ordinal

_WAYS = 64  # each step of the search asks about so many numbers at once
_NEAREST = 1024  # numbers on either side of the cut that are all compared


class Cut(NamedTuple):
    """The second class is the label above `value`; if `falling`, once the score has the other sign."""

    value: float
    falling: bool


def exact_cut(is_second: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]], ensemble: Ensemble, what: str) -> Cut:
    """The cut of `is_second`, which says for scores (n,) whether the label is the second class.

    `what` names the decision in an error: where rounding makes it change more than once, no cut is exact.
    """
    line = _Line(np.dtype(ensemble.rule.precision))
    reach = _reach(ensemble)
    low, high = line.place(-reach), line.place(reach)
    first, last = is_second(line.scores([low, high])).tolist()
    falling = first and not last

    def above(places: list[int]) -> npt.NDArray[np.bool_]:
        found = np.asarray(is_second(line.scores(places)))
        return ~found if falling else found

    if first == last:
        constant = [line.place(score) for score in np.linspace(-reach, reach, 8 * _NEAREST)]
        _check(above(constant), np.full(len(constant), first), what)
        return Cut(float(line.scores([low if first else high])[0]), False)
    bottom, top = low, high
    while high - low > 1:
        step = max((high - low) // _WAYS, 1)
        places = [*range(low, high, step), high]
        found = above(places)
        rise = int(np.argmax(found))
        _check(found, np.arange(len(found)) >= rise, what)
        low, high = places[rise - 1], places[rise]
    around = _around(line, low, reach, bottom, top)
    _check(above(around), np.array([place >= high for place in around]), what)
    score = line.scores([high if falling else low])[0]
    return Cut(float(-score if falling else score), falling)


def _check(found: npt.NDArray[np.bool_], expected: npt.NDArray[np.bool_], what: str) -> None:
    if (found != expected).any():
        raise UnsupportedModel(
            f"{what}: by rounding, the label changes more than once where the score passes the cut, "
            "so that no cut on the score is exact; choose a threshold a little beside it"
        )


def _reach(ensemble: Ensemble) -> float:
    """A number beyond the score of every row, either way."""
    per_node = np.zeros(ensemble.n_nodes)
    leaves = ensemble.feature < 0
    per_node[leaves] = np.abs(ensemble.leaf_shares).max(axis=1)[ensemble.leaf[leaves]]
    sums = float(np.maximum.reduceat(per_node, ensemble.roots).sum())
    base = float(np.abs(ensemble.base.astype(np.float64)).max())
    # Rounding adds much less than another half of it all.
    return 1.5 * (sums / ensemble.rule.divisor + base + base / ensemble.rule.divisor) + 1.0


def _around(line: _Line, cut: int, reach: float, bottom: int, top: int) -> list[int]:
    """The nearest numbers on either side of the cut, and others at every distance."""
    near = range(cut - _NEAREST, cut + _NEAREST + 2)
    distances = reach * 2.0 ** -np.arange(0.0, 200.0, 0.125)
    centre = float(line.scores([cut])[0])
    far = [line.place(score) for score in np.concatenate((centre - distances, centre + distances))]
    return [place for place in sorted({*near, *far}) if bottom <= place <= top]


class _Line:
    """The numbers of a floating-point type in their order, each with a whole number for its place."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def place(self, score: float) -> int:
        """The place of the number nearest to this one."""
        if self.dtype == np.float64:
            return int(ordinal(score))
        bits = int((np.float32(score) + np.float32(0)).view(np.int32))
        return -(2**31) - bits if bits < 0 else bits

    def scores(self, places: list[int]) -> npt.NDArray[Any]:
        """The numbers at these places."""
        if self.dtype == np.float64:
            return from_ordinal(np.array(places, dtype=np.int64))
        k = np.array(places, dtype=np.int64)
        return np.where(k < 0, -(2**31) - k, k).astype(np.int32).view(np.float32)
