"""The `.tpm` file of a stability map: compact, checked, memory-mapped. docs/map_format.md describes it."""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import as_path, write_parts
from treeproof.importers.native import as_text, load_bytes
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.attacker import Attacker

MAGIC = b"\x89TPMAP\r\n"
VERSION = 1
# magic, version, features, cuts, nodes, bytes of the model, bytes of the attacker, seconds, boxes visited, model's
# fingerprint, attacker's fingerprint, checksum of all that follows this head
_HEAD = struct.Struct("<8sIIQQQQdQ32s32s32s")
_ALIGN = 64


@dataclass(frozen=True, eq=False)
class MapContent:
    """All that a map file holds."""

    ensemble: Ensemble
    attacker: Attacker
    low: FloatArray
    high: FloatArray
    bounds: Grid
    nodes: npt.NDArray[np.int32]
    seconds: float
    visited: int


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _ALIGN)


def write_map(path: str | os.PathLike[str], content: MapContent) -> None:
    """Writes the file whole or not at all."""
    model = as_text(content.ensemble).encode()
    attacker = content.attacker.to_json().encode()
    offsets = np.ascontiguousarray(content.bounds.offsets, dtype="<i8")
    ends = np.concatenate((content.low, content.high, content.bounds.cuts)).astype("<f8")
    front = model + attacker + offsets.tobytes() + ends.tobytes()
    front += _padding(_HEAD.size + len(front))
    nodes = np.ascontiguousarray(content.nodes, dtype="<i4")
    body = memoryview(nodes.reshape(-1).view(np.uint8).data)
    digest = hashlib.sha256(front)
    digest.update(body)
    head = _HEAD.pack(
        MAGIC, VERSION, len(content.low), len(content.bounds.cuts), len(nodes), len(model), len(attacker),
        content.seconds, content.visited, content.ensemble.fingerprint, hashlib.sha256(attacker).digest(),
        digest.digest(),
    )  # fmt: skip
    write_parts(as_path(path), [head, front, body])


def read_map(path: str | os.PathLike[str]) -> MapContent:
    """Reads and checks a file; anything but a whole, unchanged map of this version is refused."""
    file = as_path(path)
    try:
        raw = np.memmap(file, dtype=np.uint8, mode="r") if file.stat().st_size else np.empty(0, dtype=np.uint8)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from None
    head = bytes(raw[: _HEAD.size])
    if head[: len(MAGIC)] != MAGIC:
        raise InvalidInput(f"{file} is not a stability map")
    if len(head) < _HEAD.size:
        raise InvalidInput(f"{file} is cut off after {len(head)} bytes; save the map again")
    _, version, n_features, n_cuts, n_nodes, model_size, attacker_size, seconds, visited, print_, other, checksum = (
        _HEAD.unpack(head)
    )
    if version != VERSION:
        raise InvalidInput(f"{file} has version {version}; this treeproof reads version {VERSION}")
    front_size = model_size + attacker_size + 8 * (n_features + 1) + 8 * (2 * n_features + n_cuts)
    front_size += len(_padding(_HEAD.size + front_size))
    expected = _HEAD.size + front_size + 8 * n_nodes
    if len(raw) != expected:
        raise InvalidInput(f"{file} has {len(raw)} bytes instead of {expected}; it is cut off or damaged")
    if hashlib.sha256(raw[_HEAD.size :].data).digest() != checksum:
        raise InvalidInput(f"{file} is damaged: its checksum does not fit")
    at = _HEAD.size
    model, attacker = (bytes(raw[at : at + model_size]), bytes(raw[at + model_size : at + model_size + attacker_size]))
    at += model_size + attacker_size
    offsets = np.frombuffer(bytes(raw[at : at + 8 * (n_features + 1)]), dtype="<i8").astype(np.int64)
    at += 8 * (n_features + 1)
    ends = np.frombuffer(bytes(raw[at : at + 8 * (2 * n_features + n_cuts)]), dtype="<f8").astype(np.float64)
    nodes = raw[_HEAD.size + front_size :].view("<i4").reshape(-1, 2)
    ensemble = load_bytes(model, voting=None)
    if ensemble.fingerprint != print_ or hashlib.sha256(attacker).digest() != other:
        raise InvalidInput(f"{file} is damaged: its model or attacker is not the one it was made for")
    if ensemble.n_features != n_features or offsets[0] != 0 or offsets[-1] != n_cuts:
        raise InvalidInput(f"{file} is damaged: its sizes do not fit")
    check_nodes(nodes, n_cuts, file)
    return MapContent(
        ensemble,
        Attacker.from_json(attacker.decode()),
        ends[:n_features],
        ends[n_features : 2 * n_features],
        Grid(ends[2 * n_features :], offsets),
        nodes,
        seconds,
        visited,
    )


def check_nodes(nodes: npt.NDArray[np.int32], n_cuts: int, file: Path) -> None:
    """Refuses what is not one tree: every node but the first must be half of exactly one pair, behind its parent."""
    n = len(nodes)
    cut, child = nodes[:, 0], nodes[:, 1]
    inner = cut >= 0
    at = child[inner]
    leaves_fit = ((cut[~inner] == -1) & (child[~inner] >= -3) & (child[~inner] < 0)).all()
    inner_fit = (cut[inner] < n_cuts).all() and (at > np.flatnonzero(inner)).all() and (at % 2 == 1).all()
    if n % 2 == 0 or not leaves_fit or not inner_fit or (len(at) and at.max() + 1 >= n):
        raise InvalidInput(f"{file} is damaged: its nodes are not a tree")
    if 2 * len(at) + 1 != n or (np.bincount(at // 2, minlength=n // 2) != 1).any():
        raise InvalidInput(f"{file} is damaged: its nodes are not a tree")
