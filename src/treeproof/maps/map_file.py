"""The `.tpm` file of a stability map: compact, checked, read whole. docs/map_format.md describes it."""

from __future__ import annotations

import hashlib
import math
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import as_path, write_parts
from treeproof.importers.native import as_text, load_bytes
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.attacker import Attacker

if TYPE_CHECKING:
    from treeproof.maps.stability_map import StabilityMap

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


def write_map(path: str | os.PathLike[str], smap: StabilityMap) -> None:
    """Writes the file whole or not at all."""
    grid = smap.grid
    model = as_text(smap.ensemble).encode()
    attacker = smap.attacker.to_json().encode()
    offsets = np.ascontiguousarray(grid.bounds.offsets, dtype="<i8")
    ends = np.concatenate((grid.low, grid.high, grid.bounds.cuts)).astype("<f8")
    front = model + attacker + offsets.tobytes() + ends.tobytes()
    front += _padding(_HEAD.size + len(front))
    nodes = np.ascontiguousarray(smap.nodes, dtype="<i4")
    body = memoryview(nodes.reshape(-1).view(np.uint8).data)
    digest = hashlib.sha256(front)
    digest.update(body)
    head = _HEAD.pack(
        MAGIC, VERSION, len(grid.low), len(grid.bounds.cuts), len(nodes), len(model), len(attacker),
        smap.seconds, smap.visited, smap.ensemble.fingerprint, hashlib.sha256(attacker).digest(),
        digest.digest(),
    )  # fmt: skip
    write_parts(as_path(path), [head, front, body])


def read_map(path: str | os.PathLike[str], max_bytes: int) -> MapContent:
    """Reads and checks a file; anything but a whole, unchanged map of this version is refused.

    The content is read once, into memory: what was checked is what is used, whatever happens to the file later.
    """
    file = as_path(path)
    sizes, raw = _read_whole(file, max_bytes)
    if hashlib.sha256(raw).digest() != sizes.checksum:
        raise InvalidInput(f"{file} is damaged: its checksum does not fit")
    try:
        content = _content(sizes, raw)
    except (ValueError, TypeError, OverflowError, RecursionError, KeyError) as error:
        raise InvalidInput(f"{file} is damaged: {error}") from None
    attacker_print = hashlib.sha256(raw[sizes.model : sizes.model + sizes.attacker]).digest()
    if (content.ensemble.fingerprint, attacker_print) != (sizes.model_print, sizes.attacker_print):
        raise InvalidInput(f"{file} is damaged: its model or attacker is not the one it was made for")
    check_nodes(content.nodes, sizes.cuts, file)
    return content


class _Head(NamedTuple):
    """What the head of a file says about the rest: sizes, remarks, fingerprints."""

    features: int
    cuts: int
    nodes: int
    model: int
    attacker: int
    seconds: float
    visited: int
    model_print: bytes
    attacker_print: bytes
    checksum: bytes

    @property
    def front(self) -> int:
        """The number of bytes between the head and the nodes."""
        size = self.model + self.attacker + 8 * (self.features + 1) + 8 * (2 * self.features + self.cuts)
        return size + len(_padding(_HEAD.size + size))

    @property
    def rest(self) -> int:
        """The number of bytes behind the head."""
        return self.front + 8 * self.nodes


def _read_whole(file: Path, max_bytes: int) -> tuple[_Head, bytearray]:
    """The sizes that the head of a file names, and all that follows it; no memory is taken on the head's word alone."""
    try:
        with file.open("rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise InvalidInput(f"{file} is not a file")
            head = source.read(_HEAD.size)
            sizes = _sizes(head, file)
            there = os.fstat(source.fileno()).st_size - _HEAD.size
            if there != sizes.rest:
                found, said = _HEAD.size + there, _HEAD.size + sizes.rest
                raise InvalidInput(f"{file} has {found} bytes instead of {said}; it is cut off or damaged")
            if there > max_bytes:
                raise InvalidInput(
                    f"max_bytes is {max_bytes}, and {file} has {there} bytes of content",
                    argument="max_bytes",
                    way_out="StabilityMap.load(…, max_bytes=…) reads more",
                )
            raw = bytearray(there)
            if source.readinto(raw) != there:
                raise InvalidInput(f"{file} was cut off while it was read")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from None
    except MemoryError:
        raise InvalidInput(f"{file} does not fit into memory: {sizes.rest} bytes") from None
    return sizes, raw


def _sizes(head: bytes, file: Path) -> _Head:
    if head[: len(MAGIC)] != MAGIC:
        raise InvalidInput(f"{file} is not a stability map")
    if len(head) < _HEAD.size:
        raise InvalidInput(f"{file} is cut off after {len(head)} bytes; save the map again")
    _, version, *numbers = _HEAD.unpack(head)
    if version != VERSION:
        raise InvalidInput(f"{file} has version {version}; this treeproof reads version {VERSION}")
    sizes = _Head(*numbers)
    if not 0 <= sizes.seconds < math.inf or sizes.visited >= 2**62:
        raise InvalidInput(f"{file} is damaged: its map took {sizes.seconds} seconds and {sizes.visited} boxes")
    return sizes


def _content(sizes: _Head, raw: bytearray) -> MapContent:
    """What the bytes mean, or ValueError and its like if they mean nothing."""
    d, at = sizes.features, sizes.model + sizes.attacker
    ensemble = load_bytes(bytes(raw[: sizes.model]), voting=None)
    attacker = Attacker.from_json(bytes(raw[sizes.model : at]).decode())
    offsets = np.frombuffer(raw, "<i8", d + 1, at).astype(np.int64)
    ends = np.frombuffer(raw, "<f8", 2 * d + sizes.cuts, at + 8 * (d + 1)).astype(np.float64)
    nodes = np.frombuffer(raw, "<i4", 2 * sizes.nodes, sizes.front).reshape(-1, 2)
    nodes.flags.writeable = False
    low, high = ends[:d], ends[d : 2 * d]
    if ensemble.n_features != d or offsets[0] != 0 or offsets[-1] != sizes.cuts or (np.diff(offsets) < 0).any():
        raise InvalidInput("its sizes do not fit")
    if any(raw[at + 8 * (3 * d + 1 + sizes.cuts) : sizes.front]):
        raise InvalidInput("there is something between its cuts and its nodes")
    threat = attacker.bind(ensemble)
    threat.require_plain("a map")
    if not ((threat.domain_low <= low) & (low <= high) & (high <= threat.domain_high)).all():
        raise InvalidInput("the space it maps is empty, or is not within the attacker's domain")
    return MapContent(ensemble, attacker, low, high, Grid(ends[2 * d :], offsets), nodes, sizes.seconds, sizes.visited)


def check_nodes(nodes: npt.NDArray[np.int32], n_cuts: int, file: Path) -> None:
    """Refuses what is not one tree: every node but the first must be half of exactly one pair, behind its parent."""
    n = len(nodes)
    cut, child = nodes[:, 0], nodes[:, 1]
    inner = cut >= 0
    at = child[inner]
    leaves_fit = ((cut[~inner] == -1) & (child[~inner] >= -3) & (child[~inner] < 0)).all()
    inner_fit = (cut[inner] < n_cuts).all() and (at > np.flatnonzero(inner)).all() and (at % 2 == 1).all()
    if n % 2 == 0 or not leaves_fit or not inner_fit or (at >= n - 1).any():
        raise InvalidInput(f"{file} is damaged: its nodes are not a tree")
    if 2 * len(at) + 1 != n or (np.bincount(at // 2, minlength=n // 2) != 1).any():
        raise InvalidInput(f"{file} is damaged: its nodes are not a tree")
