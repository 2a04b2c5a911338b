"""Maps are proved again without kernels, and a map that was tampered with is caught."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.category_models import random_model, random_moves
from tests.support.small_maps import ATTACKERS, cell_corners, drawn, small_forest
from treeproof.check.maps import check_map
from treeproof.errors import SoundnessError
from treeproof.maps.stability_map import StabilityMap
from treeproof.results.verdicts import Status


@settings(max_examples=30, deadline=None, database=None)
@given(st.data())
def test_maps_of_tiny_models_are_proved_again(data: st.DataObject) -> None:
    ensemble, plain, smap = drawn(data)
    # Where an interval without 0 is narrow, each target is a search through all binades.
    narrow = any(high - low < 0.05 and not low <= 0 <= high for low, high in plain.intervals)
    huge = np.abs(ensemble.grid.cuts).max(initial=0.0) > 1e6
    if smap.n_boxes <= 40 and not narrow and not (huge and smap.grid.away.any()):
        assert check_map(ensemble, smap.attacker, smap) == smap.n_boxes - smap.counts[Status.OPEN]


@pytest.mark.parametrize("attacker", ATTACKERS, ids=repr)
def test_maps_of_a_forest_are_proved_again(attacker: tp.Attacker) -> None:
    clf, _, _ = small_forest(4, 2, classes=3)
    smap = StabilityMap.build(clf, attacker, voting="hard")
    assert check_map(tp.from_model(clf, voting="hard"), attacker, smap, sample=25) == min(25, smap.n_boxes)


def test_every_flipped_status_is_caught() -> None:
    clf, _, _ = small_forest(3, 2)
    smap = StabilityMap.build(clf, ATTACKERS[0], voting="hard")
    model = tp.from_model(clf, voting="hard")
    assert check_map(model, ATTACKERS[0], smap) == smap.n_boxes
    leaves = np.flatnonzero(smap.nodes[:, 0] < 0)
    for leaf in leaves[:40]:
        nodes = np.array(smap.nodes)
        nodes[leaf, 1] = -1 if nodes[leaf, 1] == -2 else -2
        with pytest.raises(SoundnessError, match="which it is not"):
            check_map(model, ATTACKERS[0], dataclasses.replace(smap, nodes=nodes))


def test_every_moved_cut_that_changes_a_status_is_caught() -> None:
    clf, _, _ = small_forest(3, 2)
    smap = StabilityMap.build(clf, ATTACKERS[0], voting="hard")
    model = tp.from_model(clf, voting="hard")
    rows = np.array(cell_corners(smap, 10**6))
    truth = smap.status(rows)
    feature = smap._cuts["feature"]
    caught = 0
    for node in np.flatnonzero(smap.nodes[:, 0] >= 0)[:60]:
        for step in (-1, 1):
            nodes = np.array(smap.nodes)
            moved = nodes[node, 0] + step
            if not 0 <= moved < len(feature) or feature[moved] != feature[nodes[node, 0]]:
                continue
            nodes[node, 0] = moved
            other = dataclasses.replace(smap, nodes=nodes)
            if (other.status(rows) == truth).all():
                continue
            caught += 1
            with pytest.raises(SoundnessError):
                check_map(model, ATTACKERS[0], other)
    assert caught > 10


def test_overlapping_or_missing_parts_are_caught() -> None:
    clf, _, _ = small_forest(3, 2)
    smap = StabilityMap.build(clf, ATTACKERS[0], voting="hard")
    model = tp.from_model(clf, voting="hard")
    for change in (lambda nodes: nodes[: len(nodes) - 2], lambda nodes: np.concatenate((nodes, nodes[-2:]))):
        with pytest.raises(SoundnessError, match="not a tree"):
            check_map(model, ATTACKERS[0], dataclasses.replace(smap, nodes=change(np.array(smap.nodes))))


@pytest.mark.parametrize("seed", range(4))
def test_maps_of_categories_are_proved_again_also_from_a_file(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    for _ in range(4):
        model, attacker = random_model(random), tp.Attacker(random_moves(random), budget=random.choice((None, 1, 2)))
        smap = StabilityMap.build(model, attacker, n_jobs=1)
        smap.save(tmp_path / "map.tpm")
        again = StabilityMap.load(tmp_path / "map.tpm")
        assert check_map(model, attacker, again, sample=10, seed=0) == min(10, smap.n_boxes)
