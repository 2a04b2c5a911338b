"""Maps are checked without kernels and without a search: their proofs hold, and no other does."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.category_models import random_model, random_moves
from tests.support.prover import _Prover
from tests.support.small_maps import ATTACKERS, cell_corners, drawn, small_forest
from treeproof.check.maps import OPEN, STABLE, Map, MapQuestion, check_boxes
from treeproof.check.objects import check_map, map_content
from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import check_header
from treeproof.check.rules import Rejected
from treeproof.errors import SoundnessError
from treeproof.maps.stability_map import StabilityMap
from treeproof.results.verdicts import Status


def proved(smap: StabilityMap, folder: Path) -> Path:
    smap.prove(folder / "map.tpp")
    return folder / "map.tpp"


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=150, deadline=None, database=None)
@given(st.data())
def test_proofs_of_maps_of_many_tiny_models_hold(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    ensemble, attacker, smap = drawn(data)
    if smap.n_boxes <= 200:
        file = proved(smap, tmp_path_factory.mktemp("maps"))
        without = ProofFile.open(file).without
        checked = check_map(ensemble, smap.attacker, smap, proofs=file)
        assert checked + len(without) == smap.n_boxes - smap.counts[Status.OPEN]
        # From each of many doubles, a move that cannot be 0 may lead to another one; for that there is no proof.
        assert not without or any(not low <= 0 <= high for low, high in attacker.intervals)


@pytest.mark.parametrize("attacker", ATTACKERS, ids=repr)
def test_proofs_of_maps_of_a_forest_hold(attacker: tp.Attacker, tmp_path: Path) -> None:
    clf, _, _ = small_forest(4, 2, classes=3)
    smap, model = StabilityMap.build(clf, attacker, voting="hard"), tp.from_model(clf, voting="hard")
    file = proved(smap, tmp_path)
    assert check_map(model, attacker, smap, proofs=file) == smap.n_boxes
    assert check_map(model, attacker, smap, sample=5, proofs=file) == min(5, smap.n_boxes)
    assert check_map(model, attacker, smap) == 0
    smap.save(tmp_path / "map.tpm")
    question, proofs = MapQuestion(Map.open(tmp_path / "map.tpm")), ProofFile.open(file)
    check_header(question, proofs)
    assert sum(len(found.checked) for _, found in check_boxes(question, proofs)) == smap.n_boxes


def some_map(tmp_path: Path, attacker: tp.Attacker = ATTACKERS[0]) -> tuple[tp.Ensemble, StabilityMap, Path]:
    clf, _, _ = small_forest(3, 2)
    smap = StabilityMap.build(clf, attacker, voting="hard")
    return tp.from_model(clf, voting="hard"), smap, proved(smap, tmp_path)


def rejected(model: tp.Ensemble, smap: StabilityMap, file: Path) -> set[int]:
    """The boxes whose proofs do not hold, whatever the file says that it is about."""
    question = MapQuestion(map_content(model, smap.attacker, smap))
    return {node for node, found in check_boxes(question, ProofFile.open(file)) if not found.checked}


def test_every_flipped_status_is_caught(tmp_path: Path) -> None:
    model, smap, file = some_map(tmp_path)
    assert not rejected(model, smap, file)
    for leaf in np.flatnonzero(smap.nodes[:, 0] < 0)[:40].tolist():
        nodes = np.array(smap.nodes)
        nodes[leaf, 1] = -1 if nodes[leaf, 1] == -2 else -2
        other = dataclasses.replace(smap, nodes=nodes)
        assert rejected(model, other, file) == {leaf}
        with pytest.raises(SoundnessError, match="not the same map"):
            check_map(model, smap.attacker, other, proofs=file)


def test_every_moved_cut_that_changes_a_status_is_caught(tmp_path: Path) -> None:
    model, smap, file = some_map(tmp_path)
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
            try:
                assert rejected(model, other, file)
            except Rejected as error:
                assert "outside of its box" in str(error)
    assert caught > 10


def test_overlapping_or_missing_parts_are_caught(tmp_path: Path) -> None:
    model, smap, _ = some_map(tmp_path)
    for change in (lambda nodes: nodes[: len(nodes) - 2], lambda nodes: np.concatenate((nodes, nodes[-2:]))):
        with pytest.raises(SoundnessError, match="not a tree"):
            check_map(model, smap.attacker, dataclasses.replace(smap, nodes=change(np.array(smap.nodes))))


def test_proofs_for_another_attacker_or_model_are_caught(tmp_path: Path) -> None:
    model, smap, file = some_map(tmp_path)
    with pytest.raises(SoundnessError, match="not the same attacker"):
        check_map(model, tp.Attacker((-0.05, 0.0), budget=2), smap, proofs=file)
    clf, _, _ = small_forest(3, 2, seed=1)
    with pytest.raises(SoundnessError, match="not the same model"):
        check_map(tp.from_model(clf, voting="hard"), smap.attacker, smap, proofs=file)
    with pytest.raises(SoundnessError, match="intervals, costs and a budget"):
        check_map(model, tp.Attacker.lp(2, 0.1), smap, proofs=file)


def mutations(payload: bytes, random: Random) -> bytes:
    """The steps of a proof with a byte changed, left out or put in, or a double moved by a little."""
    changed, at = bytearray(payload), random.randrange(2, len(payload))
    kind = random.randrange(4)
    if kind == 0:
        changed[at] = random.choice([changed[at] ^ (1 << random.randrange(8)), random.randrange(10)])
    elif kind == 1:
        del changed[at]
    elif kind == 2:
        changed.insert(at, random.randrange(10))
    elif at + 8 <= len(payload):
        (value,) = struct.unpack("<d", payload[at : at + 8])
        changed[at : at + 8] = struct.pack("<d", float(np.nextafter(value, random.choice([-np.inf, np.inf]))))
    return bytes(changed)


def check_mutations(attacker: tp.Attacker, folder: Path, n: int) -> int:
    """Holds proofs, mutated or of other boxes, against larger boxes and other statuses; returns how many hold."""
    random = Random(repr(attacker))
    model, smap, file = some_map(folder, attacker)
    question, proofs, prover = (
        MapQuestion(map_content(model, attacker, smap)),
        ProofFile.open(file),
        _Prover(model, attacker),
    )
    boxes = [one for one in question.map.boxes() if one[2] != OPEN]
    accepted = 0
    for _ in range(n):
        node, box, status = random.choice(boxes)
        payload = proofs.payload(node if random.random() < 0.8 else random.choice(boxes)[0])
        for _ in range(random.randrange(3)):
            payload = mutations(payload, random)
        if random.random() < 0.7:
            f = random.randrange(len(box))
            ends = sorted(random.choice([*(cut for g, cut in question.map.cuts if g == f), *box[f]]) for _ in range(2))
            box = (*box[:f], (min(ends[0], box[f][0]), max(ends[1], box[f][1])), *box[f + 1 :])
        status = status if random.random() < 0.8 else 1 - status
        reader = Reader(payload)
        try:
            question.check(box, status, reader)
        except Rejected:
            continue
        accepted += 1
        assert prover.is_stable(list(box)) if status == STABLE else prover.is_unstable(list(box)), (box, status)
    return accepted


@pytest.mark.parametrize("attacker", [ATTACKERS[0], ATTACKERS[5]], ids=repr)
def test_no_mutated_proof_of_a_false_claim_holds(attacker: tp.Attacker, tmp_path: Path) -> None:
    assert check_mutations(attacker, tmp_path, 300) > 20


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("attacker", ATTACKERS, ids=repr)
def test_no_proof_of_many_mutations_of_a_false_claim_holds(attacker: tp.Attacker, tmp_path: Path) -> None:
    assert check_mutations(attacker, tmp_path, 1500) > 20


@pytest.mark.parametrize("seed", range(4))
def test_proofs_of_maps_of_categories_hold_also_from_a_file(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    for _ in range(4):
        model, attacker = random_model(random), tp.Attacker(random_moves(random), budget=random.choice((None, 1, 2)))
        smap = StabilityMap.build(model, attacker, n_jobs=1)
        smap.save(tmp_path / "map.tpm")
        again = StabilityMap.load(tmp_path / "map.tpm")
        decided = smap.n_boxes - smap.counts[Status.OPEN]
        assert check_map(model, attacker, again, proofs=proved(smap, tmp_path)) == decided


def test_proofs_that_are_too_long_are_left_out(tmp_path: Path) -> None:
    model, smap, _ = some_map(tmp_path)
    smap.prove(tmp_path / "short.tpp", proof_limit=9)
    proofs = ProofFile.open(tmp_path / "short.tpp")
    n_short = check_map(model, smap.attacker, smap, proofs=tmp_path / "short.tpp")
    assert 0 < n_short < smap.n_boxes and len(proofs.without) == smap.n_boxes - n_short


def small_map(folder: Path) -> tuple[bytearray, list[int]]:
    """The bytes of a map, and where its parts begin: model, attacker, starts, ends, padding, nodes."""
    clf, _, _ = small_forest(2, 2)
    StabilityMap.build(clf, tp.Attacker.linf(0.03), voting="hard").save(folder / "map.tpm")
    data = bytearray((folder / "map.tpm").read_bytes())
    _, _, d, n_cuts, n_nodes, model, attacker = struct.unpack("<8sIIQQQQ", data[:48])
    places = [160]
    for size in (model, attacker, 8 * (d + 1), 8 * (2 * d + n_cuts)):
        places.append(places[-1] + size)
    return data, [*places, len(data) - 8 * n_nodes]


def opened(data: bytearray, folder: Path) -> MapQuestion:
    """The map of bytes whose checksum is made to fit."""
    data[128:160] = hashlib.sha256(data[160:]).digest()
    (folder / "other.tpm").write_bytes(data)
    return MapQuestion.of(folder / "other.tpm")


def test_every_byte_of_a_small_map_is_looked_at(tmp_path: Path) -> None:
    """A changed byte is refused, or it is one of seconds and visited boxes, or proofs are of another map."""
    data, places = small_map(tmp_path)
    own = opened(data, tmp_path).hashes()
    for at in [*range(160), *range(places[1] - 40, len(data))]:
        if 48 <= at < 64 or 128 <= at < 160:  # seconds, boxes visited, checksum
            continue
        changed = data.copy()
        changed[at] ^= 1
        try:
            assert opened(changed, tmp_path).hashes() != own, at
        except Rejected:
            continue


def test_starts_of_cuts_take_no_memory_that_the_file_does_not_have(tmp_path: Path) -> None:
    data, places = small_map(tmp_path)
    for numbers in ([0, 2**40], [0, 2**62], [0, -1], [1, 1]):
        changed = data.copy()
        changed[places[2] : places[2] + 16] = struct.pack("<qq", *numbers)
        with pytest.raises(Rejected):
            opened(changed, tmp_path)


def test_unknown_fields_of_the_model_of_a_map_are_refused(tmp_path: Path) -> None:
    data, places = small_map(tmp_path)
    model = data[places[0] : places[1]]
    for other, said in ((model[:-1] + b', "transform": "log1p"}', "unknown field"), (model + b" ", None)):
        changed = data[:160] + other + data[places[1] : places[4]]
        changed[32:40] = struct.pack("<Q", len(other))
        changed += bytes(-len(changed) % 64) + data[places[5] :]
        if said is None:
            opened(changed, tmp_path)
        else:
            with pytest.raises(Rejected, match=said):
                opened(changed, tmp_path)
