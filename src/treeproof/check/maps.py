"""Proves every box of a stability map again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from treeproof.check.objects import drawn
from treeproof.check.prover import Range, _Prover
from treeproof.errors import SoundnessError
from treeproof.importers import as_ensemble
from treeproof.results.verdicts import Status
from treeproof.threat.attacker import Attacker


def check_map(model: Any, attacker: Attacker, smap: Any, sample: int | None = None, seed: int | None = None) -> int:
    """Proves every box of a stability map again (or a random `sample` of them), and that the boxes tile the space.

    A sample is drawn as by `check_verification`. Uses only doubles and plain walks of the trees. Raises SoundnessError
    with the first box that does not hold; returns how many boxes were proved. Nothing is claimed about OPEN boxes, so
    nothing is checked.
    """
    ensemble = as_ensemble(model)
    prover = _Prover(ensemble, attacker)
    decided = [(box, status) for box, status in _tiles(smap) if status != Status.OPEN]
    if sample is not None:
        decided = [decided[i] for i in drawn(len(decided), sample, seed).tolist()]
    for box, status in decided:
        holds = prover.is_stable(box) if status == 0 else prover.is_unstable(box)
        if not holds:
            raise SoundnessError(f"the map calls this box {('stable', 'unstable')[status]}, which it is not: {box!r}")
    return len(decided)


def _tiles(smap: Any) -> Iterator[tuple[list[Range], int]]:
    """Every box of the map with its status; refuses a tree whose boxes overlap, are empty or do not fill the space."""
    grid = smap.grid
    counts = np.diff(grid.bounds.offsets)
    feature = np.repeat(np.arange(len(counts)), counts).tolist()
    value, nodes = grid.bounds.cuts.tolist(), np.asarray(smap.nodes).tolist()
    space = [(float(low), float(high)) for low, high in zip(grid.low, grid.high, strict=True)]
    seen = np.zeros(len(nodes), dtype=bool)
    waiting: list[tuple[int, list[Range]]] = [(0, space)]
    while waiting:
        node, box = waiting.pop()
        if not 0 <= node < len(nodes) or seen[node]:
            raise SoundnessError(f"the map is not a tree: node {node} is missing or has two parents")
        seen[node] = True
        cut, child = nodes[node]
        if cut < 0:
            yield box, -1 - child
            continue
        f = feature[cut]
        low, high = box[f]
        if not low <= value[cut] < high:
            raise SoundnessError(f"the map cuts feature {f} at {value[cut]}, outside its box from {low} to {high}")
        left, right = box.copy(), box.copy()
        left[f], right[f] = (low, value[cut]), (math.nextafter(value[cut], math.inf), high)
        waiting += [(child, left), (child + 1, right)]
    if not seen.all():
        raise SoundnessError(f"the map is not a tree: node {int(np.argmin(seen))} cannot be reached")
