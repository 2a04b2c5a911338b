"""The .tpm file: what is read is what was written, and nothing else is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.small_maps import ATTACKERS, small_forest
from treeproof.errors import InvalidInput
from treeproof.maps.map_file import _HEAD, MAGIC
from treeproof.maps.stability_map import StabilityMap
from treeproof.results.verdicts import Status


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[StabilityMap, Path]:
    clf, _, _ = small_forest()
    smap = StabilityMap.build(clf, ATTACKERS[0], voting="hard", domain=(-1, 2))
    path = tmp_path_factory.mktemp("map") / "m.tpm"
    smap.save(path)
    return smap, path


def test_what_is_loaded_is_what_was_saved(saved: tuple[StabilityMap, Path]) -> None:
    smap, path = saved
    clf, X, y = small_forest()
    other = StabilityMap.load(path, model=tp.from_model(clf, voting="hard"), attacker=ATTACKERS[0])
    assert (other.nodes == smap.nodes).all() and other.attacker == smap.attacker
    assert isinstance(other.nodes, np.memmap)
    assert other.counts == smap.counts and other.visited == smap.visited
    assert (other.status(X) == smap.status(X)).all()
    assert other.resilience(X, y, 0.01) == smap.resilience(X, y, 0.01)
    assert other.explain(X[0]) == smap.explain(X[0])
    assert other.volume() == smap.volume()
    assert path.stat().st_size / smap.n_boxes <= 64


def test_a_stopped_map_goes_on_from_its_file(tmp_path: Path) -> None:
    clf, X, _ = small_forest(9, 4)
    smap = StabilityMap.build(clf, ATTACKERS[0], max_boxes=500)
    smap.save(tmp_path / "part.tpm")
    rest = StabilityMap.build(clf, ATTACKERS[0], resume=StabilityMap.load(tmp_path / "part.tpm"))
    assert rest.complete and (rest.status(X) == StabilityMap.build(clf, ATTACKERS[0]).status(X)).all()


def test_saving_replaces_a_file_whole_or_not_at_all(saved: tuple[StabilityMap, Path], tmp_path: Path) -> None:
    smap, _ = saved
    target = tmp_path / "m.tpm"
    target.write_text("old")
    smap.save(target)
    assert StabilityMap.load(target).n_boxes == smap.n_boxes
    assert [file.name for file in tmp_path.iterdir()] == ["m.tpm"]
    with pytest.raises(InvalidInput, match="cannot write"):
        smap.save(tmp_path / "no" / "m.tpm")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_flipped_bit_is_noticed(saved: tuple[StabilityMap, Path], data: st.DataObject) -> None:
    _, path = saved
    content = bytearray(path.read_bytes())
    # The time it took and the number of boxes visited are remarks that nothing depends on.
    remarks = range(8 + 4 + 4 + 4 * 8, 8 + 4 + 4 + 4 * 8 + 16)
    at = data.draw(st.integers(0, len(content) - 1).filter(lambda i: i not in remarks))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    bad = path.with_name("flipped.tpm")
    bad.write_bytes(content)
    with pytest.raises(InvalidInput):
        StabilityMap.load(bad)


def test_truncated_and_foreign_files_are_refused(saved: tuple[StabilityMap, Path], tmp_path: Path) -> None:
    _, path = saved
    content = path.read_bytes()
    bad = tmp_path / "bad.tpm"
    for size in (0, 1, 7, 8, _HEAD.size - 1, _HEAD.size, len(content) // 2, len(content) - 1):
        bad.write_bytes(content[:size])
        with pytest.raises(InvalidInput, match="cut off|not a stability map|damaged"):
            StabilityMap.load(bad)
    bad.write_bytes(content + b"\0")
    with pytest.raises(InvalidInput, match="bytes instead of"):
        StabilityMap.load(bad)
    bad.write_bytes(b"PK\x03\x04" + content)
    with pytest.raises(InvalidInput, match="not a stability map"):
        StabilityMap.load(bad)
    bad.write_bytes(MAGIC + (99).to_bytes(4, "little") + content[12:])
    with pytest.raises(InvalidInput, match="version 99"):
        StabilityMap.load(bad)
    with pytest.raises(InvalidInput, match="cannot read"):
        StabilityMap.load(tmp_path / "none.tpm")


def test_maps_of_another_model_or_attacker_are_refused(saved: tuple[StabilityMap, Path]) -> None:
    _, path = saved
    other, _, _ = small_forest(seed=1)
    with pytest.raises(InvalidInput, match="another model"):
        StabilityMap.load(path, model=tp.from_model(other, voting="hard"))
    clf, _, _ = small_forest()
    with pytest.raises(InvalidInput, match="another model"):
        StabilityMap.load(path, model=tp.from_model(clf, voting="soft"))
    with pytest.raises(InvalidInput, match="another attacker"):
        StabilityMap.load(path, attacker=ATTACKERS[1])


def test_the_same_trees_under_other_names_are_refused_if_the_attacker_goes_by_names(tmp_path: Path) -> None:
    """Swapped names leave thresholds, cuts and fingerprint as they are, but change which feature is the dear one."""
    import dataclasses

    clf, _, _ = small_forest()
    ensemble = dataclasses.replace(tp.from_model(clf), feature_names=("a", "b", "c", "d"))
    swapped = dataclasses.replace(ensemble, feature_names=("b", "a", "c", "d"))
    attacker = tp.Attacker((-0.05, 0.05), costs={"a": 2, "b": 1, "c": 9, "d": 9}, budget=1)
    smap = StabilityMap.build(ensemble, attacker)
    smap.save(tmp_path / "m.tpm")
    assert ensemble.fingerprint == swapped.fingerprint
    rows = np.random.default_rng(0).random((500, 4))
    assert (StabilityMap.build(swapped, attacker).status(rows) != smap.status(rows)).any()
    for refused in (
        lambda: StabilityMap.load(tmp_path / "m.tpm", model=swapped),
        lambda: StabilityMap.build(swapped, attacker, resume=smap),
    ):
        with pytest.raises(InvalidInput, match="features of other names"):
            refused()
    assert StabilityMap.load(tmp_path / "m.tpm", model=ensemble).ensemble is ensemble


def test_nodes_that_are_no_tree_are_refused_even_with_a_right_checksum(
    saved: tuple[StabilityMap, Path], tmp_path: Path
) -> None:
    import dataclasses

    smap, _ = saved
    for node, entry in [((0, 1), 0), ((0, 1), 10**6), ((0, 0), 10**6), ((-1, 1), -9), ((-1, 0), -5), ((0, 1), 2)]:
        nodes = np.array(smap.nodes)
        nodes[node] = entry
        dataclasses.replace(smap, nodes=nodes).save(tmp_path / "bad.tpm")
        with pytest.raises(InvalidInput, match="not a tree"):
            StabilityMap.load(tmp_path / "bad.tpm")


def test_fingerprints_tell_models_apart_and_survive_a_file(tmp_path: Path) -> None:
    clf, _, _ = small_forest()
    one = tp.from_model(clf, voting="hard")
    tp.save_model(one, tmp_path / "m.json")
    assert tp.load_model(tmp_path / "m.json").fingerprint == one.fingerprint
    assert tp.from_model(clf, voting="soft").fingerprint != one.fingerprint
    assert tp.from_model(small_forest(seed=2)[0], voting="hard").fingerprint != one.fingerprint


def test_status_is_an_enum_that_reads_well() -> None:
    assert [str(status) for status in Status] == ["stable", "unstable", "open"]
