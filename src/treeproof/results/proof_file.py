"""Proof files (.tpp): a record for each row, written as it comes, and an index at the end; see docs/proof_format.md.

Each record says itself what it is, so that work can go on after it was ended at any moment. Until all of them are
there, they are in a file of another name.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof import __version__
from treeproof.errors import InvalidInput
from treeproof.files import as_path, obstacle
from treeproof.importers.native import as_text
from treeproof.model.columns import renamed
from treeproof.model.ensemble import Ensemble
from treeproof.model.kept import Kept
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verification_file import epsilon_to_json
from treeproof.threat.attacker import Attacker
from treeproof.threat.attacker_file import content_of
from treeproof.threat.relations import Relation

VERSION = 1
MAGIC, END = b"TPP1\n", b"TPPEND\n\0"
_HEAD, _TAIL = struct.Struct("<BQQ"), struct.Struct("<QQ8s")
# What a record is, after its kind, the number of a row and the length of the content.
HEADER, PROOF, WITHOUT = 0, 1, 2
Proofs: TypeAlias = "dict[int, tuple[bytes | None, str | None]]"
"""Per row what proves it, compressed, and the reason why something of that is missing."""

NAMES = ("origin", "decided")
"""Fields of a model file that change no answer."""
_HASHES: Kept[str] = Kept()


def header_of(
    ensemble: Ensemble, attacker: Attacker, relations: tuple[Relation, ...], epsilons: tuple[Any, ...], X: FloatArray
) -> dict[str, Any]:
    """What a proof file is about: hashes of all that the proofs depend on."""
    rows = np.where(np.isnan(X), np.nan, X).astype("<f8").tobytes()
    return {
        "version": VERSION,
        "treeproof": __version__,
        "model": _HASHES.get(ensemble, "model", lambda: _hash_of_model(ensemble)),
        "attacker": _hash_of(content_of(attacker)),
        "relations": _hash_of([str(relation) for relation in relations]),
        "epsilons": _hash_of([epsilon_to_json(epsilon) for epsilon in epsilons]),
        "rows": hashlib.sha256(rows).hexdigest(),
    }


def header_of_attacks(
    ensemble: Ensemble, attacker: Attacker, relations: tuple[Relation, ...], X: FloatArray
) -> dict[str, Any]:
    """What proofs are about that no attack is cheaper."""
    header = header_of(ensemble, attacker, relations, (), X)
    return {name: value for name, value in header.items() if name != "epsilons"} | {"claim": "no attack is cheaper"}


def _hash_of_model(ensemble: Ensemble) -> str:
    content = json.loads(as_text(replace(ensemble, columns=renamed(ensemble.columns, None))))
    return _hash_of({name: value for name, value in content.items() if name not in NAMES})


def header_of_map(ensemble: Ensemble, attacker: Attacker, grid: Any, nodes: npt.NDArray[Any]) -> dict[str, Any]:
    """What proofs of the boxes of a map are about."""
    starts = np.ascontiguousarray(grid.bounds.offsets, dtype="<i8").tobytes()
    ends = np.concatenate((grid.low, grid.high, grid.bounds.cuts)).astype("<f8").tobytes()
    tree = hashlib.sha256(starts + ends + np.ascontiguousarray(nodes, dtype="<i4").tobytes())
    own = header_of(ensemble, attacker, (), (), np.empty((0, ensemble.n_features)))
    return {name: own[name] for name in ("version", "treeproof", "model", "attacker")} | {"map": tree.hexdigest()}


def _hash_of(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class NoProofFile:
    """In place of a proof file, where nobody wants one."""

    def add_all(self, proofs: Proofs) -> None:
        """Nothing is written."""

    def finish(self) -> None:
        """There is nothing to finish."""

    def __enter__(self) -> NoProofFile:
        return self

    def __exit__(self, *problem: object) -> None:
        """There is nothing to close."""


class ProofFile(NoProofFile):
    """A proof file that is written row by row; inside `with`. It takes its place when it is finished."""

    def __init__(self, path: Any, header: dict[str, Any], *, resume: bool = False) -> None:
        """With `resume`, it goes on where one about the same was left."""
        self._path = Path(os.path.realpath(as_path(path)))
        problem = obstacle(self._path)
        if not problem and self._path.exists() and not self._path.is_file():
            problem = "it is no file, and proofs are put together in one"
        if problem:
            raise InvalidInput(f"cannot write {path}: {problem}", argument="proofs")
        self._part = self._path.with_name(f"{self._path.name}.part")
        self._header = header
        self._rows: dict[int, tuple[int, int]] = {}
        self._without: dict[int, str] = {}
        if resume and not self._part.exists() and self._path.is_file():
            shutil.copyfile(self._path, self._part)
        goes_on = resume and self._part.exists()
        try:
            self._out = self._part.open("r+b" if goes_on else "wb")
        except OSError as error:
            raise InvalidInput(f"cannot write {self._part}: {error.strerror}", argument="proofs") from None
        if goes_on:
            self._go_on()
        else:
            _begin(self._out, header)

    def _go_on(self) -> None:
        """Takes over what the file holds, but for what is not whole."""
        about, end = None, len(MAGIC)
        for kind, row, start, content in _records(self._out):
            if kind == HEADER:
                about = json.loads(content)
            elif kind == PROOF:
                self._rows[row] = start, len(content)
                self._without.pop(row, None)
            else:
                self._without[row] = content.decode()
            end = start + len(content)
        for name in (name for name in self._header if name != "treeproof"):
            if about is None or about.get(name) != self._header[name]:
                self._out.close()
                what = "no proofs" if about is None else f"proofs of something else ({name})"
                raise InvalidInput(f"{self._part} holds {what}; start again without resume, or name another file")
        self._out.seek(end)
        self._out.truncate()

    def has(self, row: int) -> bool:
        """Whether the row has a proof, or it is known why it has none."""
        return row in self._rows or row in self._without

    def add(self, row: int, proof: bytes | None, reason: str | None) -> None:
        """Writes what proves a row, already compressed, or the reason why something of that is missing."""
        try:
            if proof is not None:
                self._rows[row] = _write(self._out, PROOF, row, proof), len(proof)
                self._without.pop(row, None)
            if reason is not None:
                self._without[row] = reason
                _write(self._out, WITHOUT, row, reason.encode())
            # Whoever knows that the row is proved must find its proof here.
            self._out.flush()
        except OSError as error:
            raise InvalidInput(f"cannot write {self._part}: {error.strerror}", argument="proofs") from None

    def add_all(self, proofs: Proofs) -> None:
        """Does so for several rows."""
        for row, (proof, reason) in proofs.items():
            self.add(row, proof, reason)

    def finish(self) -> None:
        """Writes the index and gives the file its name."""
        _end(self._out, self._header, self._rows, self._without)
        self._out.close()
        if self._path.exists():
            shutil.copymode(self._path, self._part)
        os.replace(self._part, self._path)

    def __enter__(self) -> ProofFile:
        return self

    def __exit__(self, *problem: object) -> None:
        self._out.close()


def whole_file(header: dict[str, Any], proofs: Proofs) -> bytes:
    """All of a proof file at once."""
    out, rows = io.BytesIO(), {}
    _begin(out, header)
    for row, (proof, _) in proofs.items():
        if proof is not None:
            rows[row] = _write(out, PROOF, row, proof), len(proof)
    _end(out, header, rows, {row: reason for row, (_, reason) in proofs.items() if reason is not None})
    return out.getvalue()


def _begin(out: BinaryIO, header: dict[str, Any]) -> None:
    """Writes what comes before proofs."""
    out.write(MAGIC)
    _write(out, HEADER, 0, json.dumps(header).encode())


def _end(out: BinaryIO, header: dict[str, Any], rows: dict[int, tuple[int, int]], without: dict[int, str]) -> None:
    """Writes the index."""
    index = {
        "header": header,
        "rows": {str(row): rows[row] for row in sorted(rows)},
        "without": {str(row): without[row] for row in sorted(without)},
    }
    content, at = zlib.compress(json.dumps(index).encode()), out.tell()
    out.write(content + _TAIL.pack(at, len(content), END))


def _write(out: BinaryIO, kind: int, row: int, content: bytes) -> int:
    """Writes a record; where its content begins."""
    out.write(_HEAD.pack(kind, row, len(content)))
    start = out.tell()
    out.write(content)
    return start


def _records(file: BinaryIO) -> Iterator[tuple[int, int, int, bytes]]:
    """The kind, the row, the place and the content of every record that is whole."""
    if file.read(len(MAGIC)) != MAGIC:
        return
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        kind, row, length = _HEAD.unpack(head)
        if kind not in (HEADER, PROOF, WITHOUT):  # it is the index
            return
        start, content = file.tell(), file.read(length)
        if len(content) < length:
            return
        yield kind, row, start, content
