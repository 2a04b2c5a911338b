"""The .tpm file: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import hashlib
import math
import struct
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.columns import with_names
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
    assert not isinstance(other.nodes, np.memmap) and not other.nodes.flags.writeable
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

    clf, _, _ = small_forest()
    ensemble = with_names(tp.from_model(clf), "abcd")
    swapped = with_names(ensemble, "bacd")
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


# --- files that somebody edited ----------------------------------------------------------------------------------


HEAD = ("magic", "version", "features", "cuts", "nodes", "model", "attacker", "seconds", "visited")
SIZES = HEAD[2:7]


def parts_of(content: bytes) -> tuple[dict[str, Any], dict[str, bytearray]]:
    """The fields of the head, and the sections of the body."""
    head = dict(zip((*HEAD, "of_model", "of_attacker", "checksum"), _HEAD.unpack(content[: _HEAD.size]), strict=True))
    lengths = {
        "model": head["model"],
        "attacker": head["attacker"],
        "offsets": 8 * (head["features"] + 1),
        "ends": 16 * head["features"],
        "cuts": 8 * head["cuts"],
    }
    at, body = _HEAD.size, {}
    for name, length in lengths.items():
        body[name] = bytearray(content[at : at + length])
        at += length
    nodes = len(content) - 8 * head["nodes"]
    body["padding"], body["nodes"] = bytearray(content[at:nodes]), bytearray(content[nodes:])
    return head, body


def sealed(head: dict[str, Any], body: dict[str, bytearray]) -> bytes:
    """A file of these parts whose checksums fit, as somebody would write it who wants it to be believed."""
    rest = b"".join(body.values())
    own = {
        "of_attacker": hashlib.sha256(body["attacker"]).digest(),
        "checksum": hashlib.sha256(rest).digest(),
    }
    return _HEAD.pack(*(head | own).values()) + rest


def refused_or_right(file: Path, right: StabilityMap, rows: np.ndarray) -> None:
    """A changed file is one line of InvalidInput, or a map whose questions at least have answers."""
    try:
        smap = StabilityMap.load(file)
    except InvalidInput as error:
        assert "\n" not in str(error)
        return
    smap.status(np.clip(rows, smap.grid.low, smap.grid.high))
    assert smap.ensemble.fingerprint == right.ensemble.fingerprint and smap.n_boxes == right.n_boxes


NUMBERS = st.one_of(
    st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**61, 2**63 - 1, 2**63, 2**64 - 1])
)
DOUBLES = st.one_of(st.floats(), st.sampled_from([math.nan, math.inf, -math.inf, 1.8e308, -0.0, 5e-324]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_edited_files_are_refused_in_one_line(saved: tuple[StabilityMap, Path], data: st.DataObject) -> None:
    """Checksums fit, so that only the checks of the content stand between the file and the kernels."""
    smap, path = saved
    head, body = parts_of(path.read_bytes())
    rows = np.random.default_rng(0).random((50, 4))
    what = data.draw(st.sampled_from(["size", "moved size", "remark", "offsets", "ends", "cuts", "nodes", "length"]))
    if what == "size":
        name = data.draw(st.sampled_from(SIZES))
        head[name] = data.draw(NUMBERS) % (2**32 if name == "features" else 2**64)
    elif what == "moved size":  # the sum stays what it was
        one, other = data.draw(st.permutations(["cuts", "nodes", "model", "attacker"]))[:2]
        n = data.draw(st.integers(1, 64)) * 8
        scale = {"cuts": 8, "nodes": 8, "model": 1, "attacker": 1}
        head[one], head[other] = head[one] + n // scale[one], max(0, head[other] - n // scale[other])
    elif what == "remark":
        head["seconds"], head["visited"] = data.draw(DOUBLES), data.draw(NUMBERS)
    elif what == "length":
        name = data.draw(st.sampled_from(sorted(body)))
        at = data.draw(st.integers(0, len(body[name])))
        if data.draw(st.booleans()):
            del body[name][at : at + data.draw(st.integers(1, 64))]
        else:
            body[name][at:at] = bytes(data.draw(st.integers(1, 64)))
    else:
        kind = {"offsets": "<q", "ends": "<d", "cuts": "<d", "nodes": "<i"}[what]
        size = struct.calcsize(kind)
        at = data.draw(st.integers(0, len(body[what]) // size - 1))
        values = {
            "<q": st.integers(-(2**63), 2**63 - 1),
            "<d": DOUBLES,
            "<i": st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from([2**31 - 1, -(2**31), -4, -1, 0])),
        }[kind]
        struct.pack_into(kind, body[what], at * size, data.draw(values))
    bad = path.with_name("edited.tpm")
    bad.write_bytes(sealed(head, body))
    refused_or_right(bad, smap, rows)


def test_a_child_at_the_end_of_int32_is_refused_without_taking_memory(saved: tuple[StabilityMap, Path]) -> None:
    _, path = saved
    head, body = parts_of(path.read_bytes())
    nodes = np.frombuffer(body["nodes"], "<i4").reshape(-1, 2)
    inner = int(np.flatnonzero(nodes[:, 0] >= 0)[-1])
    struct.pack_into("<i", body["nodes"], 8 * inner + 4, 2**31 - 1)
    bad = path.with_name("far.tpm")
    bad.write_bytes(sealed(head, body))
    tracemalloc.start()
    with pytest.raises(InvalidInput, match="not a tree"):
        StabilityMap.load(bad)
    assert tracemalloc.get_traced_memory()[1] < 10**8
    tracemalloc.stop()


@pytest.mark.parametrize("end", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [0, 5])
def test_ends_that_are_no_numbers_are_refused(saved: tuple[StabilityMap, Path], end: float, at: int) -> None:
    _, path = saved
    head, body = parts_of(path.read_bytes())
    struct.pack_into("<d", body["ends"], 8 * at, end)
    bad = path.with_name("ends.tpm")
    bad.write_bytes(sealed(head, body))
    with pytest.raises(InvalidInput, match="damaged"):
        StabilityMap.load(bad)


def test_a_file_of_holes_is_not_read(saved: tuple[StabilityMap, Path], tmp_path: Path) -> None:
    """Half a terabyte that takes no space on disk, with sizes that fit."""
    _, path = saved
    head, body = parts_of(path.read_bytes())
    head["nodes"] = 2**36
    holes = tmp_path / "holes.tpm"
    holes.write_bytes(sealed(head, body))
    with holes.open("r+b") as file:
        file.truncate(path.stat().st_size - len(body["nodes"]) + 8 * 2**36)
    with pytest.raises(InvalidInput, match=r"max_bytes is 4294967296, and .* has 5497558.* bytes"):
        StabilityMap.load(holes)
    with pytest.raises(InvalidInput, match="max_bytes is 10,"):
        StabilityMap.load(path, max_bytes=10)
    with pytest.raises(InvalidInput, match="is not a file|cannot read"):
        StabilityMap.load(tmp_path)


def spoil(path: Path, how: str) -> None:
    """Changes a file in its place, as a broken disk or another program would."""
    content = path.read_bytes()
    with path.open("r+b") as file:
        if how == "truncated":
            file.truncate(len(content) // 2)
        elif how == "emptied":
            file.truncate(0)
        elif how == "overwritten":
            nodes = np.full(4096, -1, dtype="<i4")  # every box is a stable one, or a node of its own
            file.seek(max(0, len(content) - nodes.nbytes))
            file.write(nodes.tobytes()[: len(content)])
        else:
            file.seek(_HEAD.size)
            file.write(np.random.default_rng(0).bytes(len(content) - _HEAD.size))


@pytest.mark.parametrize("how", ["truncated", "emptied", "overwritten", "random"])
def test_a_guard_does_not_notice_what_happens_to_the_file(how: str, tmp_path: Path) -> None:
    clf, X, y = small_forest(9, 4)
    path = tmp_path / "m.tpm"
    StabilityMap.build(clf, ATTACKERS[0]).save(path)
    smap = StabilityMap.load(path, clf)
    guard = tp.GuardedClassifier(clf, ATTACKERS[0], mode="map", stability_map=smap, abstain_label=-1).fit(X, y)
    expected = guard.predict(X)
    assert (expected == -1).any() and (expected != -1).any()
    answers: list[np.ndarray] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set() or len(answers) < 20:
            answers.append(guard.predict(X))

    thread = threading.Thread(target=ask)
    thread.start()
    spoil(path, how)
    done.set()
    thread.join(60)
    assert len(answers) >= 20 and all((one == expected).all() for one in answers)
    with pytest.raises(InvalidInput):
        StabilityMap.load(path)
