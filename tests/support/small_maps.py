"""Maps that can be looked at cell by cell: of drawn models, and of forests of a few trees."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.oracles import OracleAttacker
from tests.support.strategies import attackers, tiny_ensembles
from tests.support.toys import sample
from treeproof.maps.stability_map import StabilityMap
from treeproof.model.ensemble import Ensemble

ATTACKERS = [
    tp.Attacker((-0.05, 0.0), budget=1),
    tp.Attacker.linf(0.03),
    tp.Attacker((-0.05, 0.1), costs=[1, 2, 3, 1], budget=3),
    tp.Attacker.l0(1),
    tp.Attacker.l0(2),
    tp.Attacker((0.02, 0.06), budget=1),
    tp.Attacker({0: (-0.1, 0.1), 2: (-0.1, 0.1)}),
    tp.Attacker((-0.1, 0.1), budget=0),
    tp.Attacker((-0.1, 0.1), budget=2, domain=(0, 1)),
]
"""On the four features of `small_forest`."""


def small_forest(n: int = 6, depth: int = 3, classes: int = 2, seed: int = 0) -> tuple[object, np.ndarray, np.ndarray]:
    """A fitted forest and its data."""
    X, y = sample(classes, seed, n=300)
    return RandomForestClassifier(n, max_depth=depth, random_state=seed).fit(X, y), X, y


def drawn(data: st.DataObject, several: bool | None = None) -> tuple[Ensemble, OracleAttacker, StabilityMap]:
    """A drawn model and interval attacker, and their map."""
    ensemble = data.draw(tiny_ensembles(several=several))
    anchor = [float(np.clip(0.25, *ends)) for ends in zip(ensemble.value_low, ensemble.value_high, strict=True)]
    plain = data.draw(attackers(ensemble.n_features, anchor).filter(lambda one: one.p is None))
    smap = StabilityMap.build(ensemble, as_attacker(plain), n_jobs=1)
    return ensemble, plain, smap


def cell_corners(smap: StabilityMap, most: int = 400) -> list[tuple[float, ...]]:
    """The lowest and the highest double of every fine cell, or of a part of them if there are many."""
    per_feature = []
    for f in range(smap.grid.n_features):
        cuts = smap.grid.bounds.cuts_of(f)
        firsts = np.concatenate(([smap.grid.low[f]], np.nextafter(cuts, np.inf)))
        lasts = np.append(cuts, smap.grid.high[f])
        per_feature.append(list(zip(firsts.tolist(), lasts.tolist(), strict=True)))
    cells = list(itertools.product(*per_feature))
    step = max(1, len(cells) // most)
    rows = []
    for i, cell in enumerate(cells[::step]):
        rows.append(tuple(ends[i % 2] for ends in cell))
        rows.append(tuple(ends[(i + f) % 2] for f, ends in enumerate(cell)))
    return rows


def blurred(smap: StabilityMap, x: tuple[float, ...]) -> bool:
    """Whether doubles of x's fine cell differ in what they can be moved to; only there a map may stay open."""
    grid = smap.grid
    return any(not grid.sure[grid.start[f] + int(grid.bounds.cells_of(f, [value])[0])] for f, value in enumerate(x))


def in_domain(plain: OracleAttacker, x: tuple[float, ...]) -> bool:
    """Whether x lies in the attacker's domain."""
    return plain.domain is None or all(low <= v <= high for v, (low, high) in zip(x, plain.domain, strict=True))
