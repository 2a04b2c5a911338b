"""Counterexamples worth showing: cut down to the moves that they need; and which features they move."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import differ
from treeproof.results.verification import Verification
from treeproof.visible import visible

Shows: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], npt.NDArray[np.bool_]]
"""Which rows x, neighbours z and attacked rows w within reach (n, n_features) are counterexamples."""


def shorten(
    ensemble: Ensemble,
    shows: Shows,
    x: FloatArray,
    neighbour: FloatArray,
    attacked: FloatArray,
    together: Sequence[Sequence[int]] = (),
) -> tuple[FloatArray, FloatArray]:
    """Counterexamples (n, n_features) without needless moves: neighbours and attacked rows.

    The search returns the first counterexample that it meets, which may move features that do not matter. Here moves
    are undone one by one as long as what is left is one, too, which then needs all of its moves. Undoing a move always
    stays within the attacker's reach. Some features only change `together`.
    """
    units = [*map(list, together), *([f] for f in range(x.shape[1]) if not any(f in some for some in together))]
    pairs = _Pairs(ensemble, shows, x, neighbour.copy(), attacked.copy(), units)
    if len(x):
        pairs.shorten()
    return pairs.neighbour, pairs.attacked


@dataclass(eq=False)
class _Pairs:
    """Counterexamples: rows x, their neighbours, and the neighbours after an attack, all (n, n_features)."""

    ensemble: Ensemble
    shows: Shows
    x: FloatArray
    neighbour: FloatArray
    attacked: FloatArray
    units: list[list[int]]
    """Features that change together."""

    def shorten(self) -> None:
        """Undoes moves until every one that is left is needed; features that few nodes test go first."""
        tested = np.bincount(self.ensemble.feature[self.ensemble.feature >= 0], minlength=self.x.shape[1])
        order = sorted(self.units, key=lambda unit: int(tested[unit].sum()))
        shorter = True
        while shorter:
            shorter = False
            for attack in (True, False):
                changed = np.asarray(differ(*self._ends(attack)).any(axis=0))
                for unit in order:
                    if changed[unit].any():
                        shorter |= self._undo(unit, attack)

    def _ends(self, attack: bool) -> tuple[FloatArray, FloatArray]:
        """Rows before and after the attack, or the step."""
        return (self.neighbour, self.attacked) if attack else (self.x, self.neighbour)

    def _undo(self, unit: list[int], attack: bool) -> bool:
        """Undoes the attack on some features, or the step in them and any attack on them, wherever that is enough."""
        # A step alone is not undone under an attack, which need not reach as far from x itself.
        ends = self._ends(attack)
        there = np.asarray(differ(ends[0][:, unit], ends[1][:, unit]).any(axis=1))
        if attack and there.any():
            # The only move is needed: without it nothing happens.
            there[there] = differ(self.neighbour[there], self.attacked[there]).sum(axis=1) > len(unit)
        tried = np.flatnonzero(there)
        if not len(tried):
            return False
        near, far = self.neighbour[tried], self.attacked[tried]
        if not attack:
            near[:, unit] = self.x[tried][:, unit]
        far[:, unit] = near[:, unit]
        works = self.shows(self.x[tried], near, far)
        self.neighbour[tried[works]], self.attacked[tried[works]] = near[works], far[works]
        return bool(works.any())


@dataclass(frozen=True)
class MovedFeature:
    """How counterexamples move one feature."""

    feature: int
    count: int
    """The number of counterexamples that move it."""
    up: int
    """The number of those that raise it."""
    median: float
    """Half of the moves are at most this far; NaN where `most_often` says what happens."""
    largest: float
    most_often: str = ""
    """What most counterexamples change a category to, or that they make values missing or fill them in."""


def moved_features(result: Verification, rows: npt.NDArray[np.bool_] | None = None) -> list[MovedFeature]:
    """Which features the counterexamples of a result move, the most often moved first.

    Only the attack counts, not the step to a neighbour. With `rows` (n,), only those rows' counterexamples count.
    """
    counted = result.has_witness if rows is None else result.has_witness & rows
    near, far = result.neighbour[counted], result.attacked[counted]
    categories = dict(result.categories)
    found = []
    for f in range(result.X.shape[1]):
        moved = differ(near[:, f], far[:, f])
        moves = (far[:, f] - near[:, f])[moved]
        if len(moves) and f in categories:
            value, count = Counter(categories[f].value_of(number) for number in far[moved, f].tolist()).most_common(1)[
                0
            ]
            to = f"to {visible(value)}" + (f", {count} of {len(moves)}" if count < len(moves) else "")
            found.append(MovedFeature(f, len(moves), 0, math.nan, math.nan, to))
        elif len(moves) and (words := _blanks_and_fills(near[moved, f], far[moved, f])):
            found.append(MovedFeature(f, len(moves), 0, math.nan, math.nan, words))
        elif len(moves):
            far_moved = np.abs(moves[~np.isnan(moves)])
            found.append(
                MovedFeature(f, len(moves), int((moves > 0).sum()), float(np.median(far_moved)), float(far_moved.max()))
            )
    return sorted(found, key=lambda moved: -moved.count)


def _blanks_and_fills(near: FloatArray, far: FloatArray) -> str:
    """That moves of a column fill in missing values, or make values missing; "" if fewer than half do."""
    counts = {"filled in": int(np.isnan(near).sum()), "made missing": int(np.isnan(far).sum())}
    for what, count in counts.items():
        if 2 * count >= len(near):
            return what + (f", {count} of {len(near)}" if count < len(near) else "")
    return ""
