"""What a stability map is about, as compiled code wants it: a model, an attacker, and the space to cut."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from treeproof._kernels.maps.tables import ATTACK, CELL, FEATURE, RANGE, Space
from treeproof.maps.fine_grid import FineGrid
from treeproof.model.ensemble import Ensemble
from treeproof.model.fields_only import FieldsOnly
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.threat import Threat

Int32Array = npt.NDArray[np.int32]
Records = npt.NDArray[np.void]
"""An array of records; `_kernels/maps/tables.py` says which there are. A box is a row of RANGE, one per feature."""

MAX_ATTACKS = 128
"""Sets of features that are looked at one by one; more are covered by fewer, larger ones."""
MAX_STEPS = 20_000
"""Steps of the search for these sets."""
NOWHERE = (2**30, -1)
"""What a fine cell reaches for certain, if there is no such cell."""


@dataclass(frozen=True, eq=False)
class Problem(FieldsOnly):
    """A model, an attacker and the space to cut; travels to workers."""

    ensemble: Ensemble
    threat: Threat
    grid: FineGrid

    @cached_property
    def movable(self) -> npt.NDArray[np.bool_]:
        """Features that an attack can bring into another coarse cell."""
        grid = self.grid
        leaves = (grid.reach_low < grid.own) | (grid.reach_high > grid.own)
        leaves &= grid.reach_low <= grid.reach_high
        return np.logical_or.reduceat(leaves, grid.start[:-1])

    @cached_property
    def attacks(self) -> list[list[int]]:
        """Sets of features such that every set the attacker can pay for lies in one of them."""
        costs = {int(f): int(self.threat.cost[f]) for f in np.flatnonzero(self.movable)}
        return [sorted(features) for features in attacked_sets(costs, int(self.threat.budget))]

    @cached_property
    def leaf_groups(self) -> Int32Array:
        """Per leaf a number that it shares with the leaves that nothing tells apart."""
        model, _ = self.ensemble.compiled
        if model.slack == 0 and self.ensemble.n_classes == 2:
            lead = model.value[:, 1] - model.value[:, 0]
            return np.unique(lead, return_inverse=True)[1].reshape(-1).astype(np.int32)
        return np.asarray(model.kind)

    @cached_property
    def space(self) -> Space:
        """The fine grid, the attacks and the comparison of scores as kernels want them."""
        grid, coarse = self.grid, self.ensemble.grid
        model, _ = self.ensemble.compiled
        features = np.zeros(grid.n_features, dtype=FEATURE)
        features["start"], features["coarse_start"] = grid.start[:-1], coarse.offsets[:-1]
        features["movable"], features["away"] = self.movable, grid.away
        features["irregular"] = [self._is_irregular(f) for f in range(grid.n_features)]
        fine_cuts = [np.searchsorted(grid.bounds.cuts_of(f), coarse.cuts_of(f)) for f in range(grid.n_features)]
        sizes = [len(features) for features in self.attacks]
        attacks = np.zeros(len(sizes), dtype=ATTACK)
        attacks["end"] = np.cumsum(sizes)
        attacks["first"] = attacks["end"] - sizes
        return Space(
            features,
            self._fine_cells(),
            np.concatenate(fine_cuts).astype(np.int32),
            model.nodes,
            model.more,
            attacks,
            np.array(list(itertools.chain(*self.attacks)), dtype=np.int32),
            model.offset,
            np.int64(model.slack),
            int(coarse.n_cells.max()),
        )

    def _is_irregular(self, f: int) -> bool:
        """Whether what all of a range of fine cells reaches does not follow from the first and the last of them."""
        mine = slice(self.grid.start[f], self.grid.start[f + 1])
        low, high = self.grid.reach_low[mine], self.grid.reach_high[mine]
        some = low <= high
        return (
            not self.grid.sure[mine].all()
            or (bool(some.any()) and not some.all())
            or bool((np.diff(low) < 0).any() or (np.diff(high) < 0).any())
        )

    def _fine_cells(self) -> Records:
        """The cells of the fine grid, with reach made monotone: a larger reach proves less, never more."""
        grid = self.grid
        some = grid.reach_low <= grid.reach_high
        cells = np.zeros(len(grid.own), dtype=CELL)
        cells["own"] = grid.own
        cells["hull_low"] = np.where(some, np.minimum(grid.own, grid.reach_low), grid.own)
        cells["hull_high"] = np.where(some, np.maximum(grid.own, grid.reach_high), grid.own)
        for f in range(grid.n_features):
            mine = cells[grid.start[f] : grid.start[f + 1]]
            mine["hull_low"] = np.minimum.accumulate(mine["hull_low"][::-1])[::-1]
            mine["hull_high"] = np.maximum.accumulate(mine["hull_high"])
        known = some & grid.sure & ~np.repeat(grid.gaps, grid.n_cells)
        cells["must_low"] = np.where(known, grid.reach_low, NOWHERE[0])
        cells["must_high"] = np.where(known, grid.reach_high, NOWHERE[1])
        return cells

    @property
    def whole(self) -> Records:
        """The box of all fine cells."""
        box = np.zeros(self.grid.n_features, dtype=RANGE)
        box["high"] = self.grid.n_cells - 1
        return box

    def reach(self, box: Records) -> Records:
        """The coarse cells that a box of fine cells holds or attacks on it may reach."""
        cells, start = self.space.cells, self.grid.start[:-1]
        coarse = np.empty(len(box), dtype=RANGE)
        coarse["low"] = cells["hull_low"][start + box["low"]]
        coarse["high"] = cells["hull_high"][start + box["high"]]
        return coarse

    @cached_property
    def ends(self) -> list[FloatArray]:
        """Per feature the ends of fine cells, outer ones cut off a little beyond the outermost cuts."""
        edges = []
        for f in range(self.grid.n_features):
            cuts = self.grid.bounds.cuts_of(f)
            first, last = (float(cuts[0]), float(cuts[-1])) if len(cuts) else (0.0, 0.0)
            margin = max(0.1 * (last / 2 - first / 2) * 2, 1e-3 * max(abs(first), abs(last)), 1e-300)
            low = max(float(self.grid.low[f]), first - margin)
            high = min(float(self.grid.high[f]), last + margin)
            edges.append(np.concatenate(([low], cuts, [high])))
        return edges

    def log_volumes(self, boxes: Records) -> FloatArray:
        """How large boxes (n, n_features) of fine cells are, for the order of work."""
        total = np.zeros(len(boxes))
        with np.errstate(over="ignore", divide="ignore"):
            for f, edges in enumerate(self.ends):
                total += np.log(np.maximum(edges[boxes["high"][:, f] + 1] - edges[boxes["low"][:, f]], 1e-300))
        return total


def attacked_sets(costs: dict[int, int], budget: int) -> list[list[int]]:
    """Few sets of features that hold every affordable set; the largest affordable ones, if there are not too many."""
    features = sorted(costs, key=lambda f: costs[f])
    if sum(costs.values()) <= budget:
        return [features] if features else []
    found: list[list[int]] = []
    rest = [sum(costs[f] for f in features[at:]) for at in range(len(features) + 1)]
    waiting: list[tuple[list[int], float, int, int]] = [([], math.inf, 0, budget)]
    for _ in range(MAX_STEPS):
        if not waiting or len(found) > MAX_ATTACKS:
            break
        chosen, skipped, at, left = waiting.pop()
        # A set is as large as can be if not even the cheapest feature left out can be paid for.
        if left - rest[at] >= skipped:
            continue
        if at == len(features) or costs[features[at]] > left:
            if skipped > left:
                found.append(chosen)
            continue
        f = features[at]
        if costs[f] > 0:
            waiting.append((chosen, min(skipped, costs[f]), at + 1, left))
        waiting.append(([*chosen, f], skipped, at + 1, left - costs[f]))
    if not waiting and len(found) <= MAX_ATTACKS:
        return found
    at_most, left = 0, budget
    for f in features:
        left -= costs[f]
        at_most += left >= 0
    n_groups = len(features)
    while n_groups > at_most and math.comb(n_groups, at_most) > MAX_ATTACKS:
        n_groups -= 1
    if n_groups <= at_most:
        return [features]
    groups = [features[i::n_groups] for i in range(n_groups)]
    return [list(itertools.chain(*some)) for some in itertools.combinations(groups, at_most)]
