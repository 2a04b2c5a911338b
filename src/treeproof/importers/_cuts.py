"""The cut on a score: up to it a library's own functions of the score give one label, and above it the other.

What a library does to a score before it compares is monotone, but for rounding. A difference, a quotient, a line
between two points and a comparison stay monotone when they are rounded: a cut behind these alone is exact, once the
ends of all lines are compared (`bends`). Of exp nobody proves as much. So the cut, which bisection over floating-point
numbers finds with the library's own functions, is always checked: the numbers next to it, and some at every distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import UnsupportedModel
from treeproof.importers._responses import Bends, Responses, Scores
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import from_ordinal, ordinal

_WAYS = 64  # each step of the search asks about so many numbers at once
NEAREST = 1024
"""So many numbers on either side of a cut are all compared."""
_PER_OCTAVE = 4  # further away, so many distances are in each power of two

Places = npt.NDArray[np.int64]
IsSecond = Callable[[Scores], npt.NDArray[np.bool_]]


class Cut(NamedTuple):
    """The second class is the label above `value`; if `falling`, once the score has the other sign."""

    value: float
    falling: bool


def exact_cut(is_second: IsSecond, ensemble: Ensemble, what: str) -> Cut:
    """The cut of `is_second`, which says for scores (n,) of this ensemble whether the label is the second class.

    `what` names the decision in an error: where rounding makes it change more than once, no cut is exact.
    """
    responses: Responses | None = ensemble.responses
    bends = () if responses is None else responses.bends
    return checked_cut(is_second, np.dtype(ensemble.rule.precision), _reach(ensemble), what, bends)


def checked_cut(is_second: IsSecond, dtype: np.dtype[Any], reach: float, what: str, bends: Sequence[Bends] = ()) -> Cut:
    """The same for scores of a type of number, from -reach to reach."""
    line = _Line(dtype)
    bottom, top = (int(place) for place in line.places(np.array([-reach, reach])))
    first, last = is_second(line.scores([bottom, top])).tolist()
    falling = first and not last

    def above(places: Any) -> npt.NDArray[np.bool_]:
        found = np.asarray(is_second(line.scores(places)))
        return ~found if falling else found

    ends = np.concatenate([np.zeros(0, dtype=np.int64), *(_ends(line, bend, bottom, top) for bend in bends)])
    if first == last:
        constant = np.concatenate((ends, line.places(np.linspace(-1.0, 1.0, 8 * NEAREST) * reach)))
        _check(above(constant), np.full(len(constant), first), what)
        return Cut(float(line.scores([bottom if first else top])[0]), False)
    low, high = bottom, top
    while high - low > 1:
        step = max((high - low) // _WAYS, 1)
        places = [*range(low, high, step), high]
        found = above(places)
        rise = int(np.argmax(found))
        _check(found, np.arange(len(found)) >= rise, what)
        low, high = places[rise - 1], places[rise]
    around = np.concatenate((ends, _around(line, low, reach)))
    around = around[(around >= bottom) & (around <= top)]
    _check(above(around), around >= high, what)
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


def _around(line: _Line, cut: int, reach: float) -> Places:
    """The nearest numbers on either side of the cut, and others at every distance from it and from 0."""
    near = np.array(range(cut - NEAREST, cut + NEAREST + 2), dtype=np.int64)
    most = np.log2(reach)
    centre = float(line.scores([cut])[0])
    with np.errstate(over="ignore"):
        distances = np.exp2(most - np.arange(0.0, most + 1075.0, 1 / _PER_OCTAVE))
        far = [line.places(way * distances + start) for start in (0.0, centre) for way in (-1.0, 1.0)]
    return np.unique(np.concatenate((near, *far)))


def _ends(line: _Line, bend: Bends, bottom: int, top: int) -> Places:
    """The last number before, the first at and the first after each bend: between two of these is one line."""
    points = np.repeat(bend.points, 2)
    at = np.arange(len(points)) % 2 == 0
    low, high = np.full(len(points), bottom), np.full(len(points), top)
    for _ in range(64):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        made = bend.of(line.scores(middle)).astype(points.dtype)
        before = np.where(at, made < points, made <= points)
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return np.unique(np.concatenate((low, high)))


class _Line:
    """The numbers of a floating-point type in their order, each with a whole number for its place."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def places(self, scores: npt.NDArray[np.float64]) -> Places:
        """The places of the numbers nearest to these."""
        if self.dtype == np.float64:
            return np.asarray(ordinal(scores))
        with np.errstate(over="ignore"):
            bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)
        return np.asarray(np.where(bits < 0, -(2**31) - bits, bits))

    def scores(self, places: Any) -> npt.NDArray[Any]:
        """The numbers at these places."""
        k = np.asarray(places, dtype=np.int64)
        if self.dtype == np.float64:
            return from_ordinal(k)
        return np.where(k < 0, -(2**31) - k, k).astype(np.int32).view(np.float32)
