"""Proof files: as their format says, whole or not at all, and gone on with after any end."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support import toys
from tests.support.proof_files import read_proofs
from treeproof.errors import InvalidInput
from treeproof.results.proof_file import ProofFile, header_of

HEADER = {"version": 1, "treeproof": "x", "model": "m", "attacker": "a", "relations": "r", "epsilons": "e", "rows": "s"}


def written(path: Path, rows: range, **settings: Any) -> ProofFile:
    """A file with proofs for some rows, all but each third."""
    with ProofFile(path, HEADER, **settings) as file:
        for row in rows:
            if row % 3:
                file.add(row, zlib.compress(b"proof %d" % row), None)
            else:
                file.add(row, None, f"none of {row}")
        return file


def finished(path: Path, rows: range, **settings: Any) -> None:
    """The same, whole."""
    with ProofFile(path, HEADER, **settings) as file:
        for row in rows:
            if not file.has(row):
                file.add_all({row: (zlib.compress(b"proof %d" % row), None) if row % 3 else (None, f"none of {row}")})
        file.finish()


def test_a_file_has_records_an_index_and_a_tail(tmp_path: Path) -> None:
    path = tmp_path / "proofs.tpp"
    finished(path, range(7))
    data = path.read_bytes()
    assert data[:5] == b"TPP1\n"
    assert data[-8:] == b"TPPEND\n\0"
    at, length = struct.unpack("<QQ", data[-24:-8])
    assert at + length == len(data) - 24
    index = json.loads(zlib.decompress(data[at : at + length]))
    assert index["header"] == HEADER
    assert index["without"] == {"0": "none of 0", "3": "none of 3", "6": "none of 6"}
    start, n = index["rows"]["4"]
    assert zlib.decompress(data[start : start + n]) == b"proof 4"
    assert read_proofs(path) == (
        HEADER,
        {row: b"proof %d" % row for row in (1, 2, 4, 5)},
        {row: f"none of {row}" for row in (0, 3, 6)},
    )


def test_a_file_that_is_not_finished_does_not_take_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "proofs.tpp"
    path.write_text("old")
    written(path, range(7))
    assert path.read_text() == "old"
    assert (tmp_path / "proofs.tpp.part").exists()
    path.chmod(0o600)
    finished(path, range(2))
    assert path.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "proofs.tpp.part").exists()
    assert read_proofs(path)[1] == {1: b"proof 1"}, "without resume, it is begun again"


def test_work_goes_on_wherever_it_was_ended(tmp_path: Path) -> None:
    path, part = tmp_path / "proofs.tpp", tmp_path / "proofs.tpp.part"
    finished(path, range(7))
    whole = read_proofs(path)
    written(path, range(5))
    data = part.read_bytes()
    header = len(b"TPP1\n") + 17 + len(json.dumps(HEADER))
    for end in range(header, len(data) + 1, 7):
        part.write_bytes(data[:end])
        finished(path, range(7), resume=True)
        assert read_proofs(path) == whole, end
    finished(path, range(9), resume=True)
    assert read_proofs(path)[1].keys() == {1, 2, 4, 5, 7, 8}, "a whole file can be gone on with, too"


def test_what_is_proved_later_counts(tmp_path: Path) -> None:
    path = tmp_path / "proofs.tpp"
    with ProofFile(path, HEADER) as file:
        file.add(3, zlib.compress(b"stability"), "no resilience")
    with ProofFile(path, HEADER, resume=True) as file:
        file.add(3, zlib.compress(b"both"), None)
    finished(path, range(0), resume=True)
    assert read_proofs(path)[1:] == ({3: b"both"}, {})


def test_proofs_of_something_else_are_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "proofs.tpp"
    written(path, range(3))
    with pytest.raises(InvalidInput, match=r"proofs.tpp.part holds proofs of something else \(attacker\)"):
        ProofFile(path, HEADER | {"attacker": "b"}, resume=True)
    with ProofFile(path, HEADER | {"treeproof": "y"}, resume=True) as file:
        assert file.has(1), "versions of treeproof may differ"
    (tmp_path / "proofs.tpp.part").write_text("something")
    with pytest.raises(InvalidInput, match="holds no proofs; start again without resume"):
        ProofFile(path, HEADER, resume=True)


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot write .*is not a folder"):
        ProofFile(tmp_path / "nowhere" / "proofs.tpp", HEADER)
    with pytest.raises(InvalidInput, match="cannot write .*: it is no file"):
        ProofFile(os.devnull, HEADER)


def test_the_header_has_hashes_of_what_files_say(tmp_path: Path) -> None:
    X, y = toys.sample()
    X[0, 0] = np.nan
    model = tp.from_model(toys.forest().fit(X, y))
    attacker = tp.Attacker.linf(0.25)
    header = header_of(model, attacker, (), (0.5,), X)
    tp.save_model(model, tmp_path / "model.json")
    content = json.loads((tmp_path / "model.json").read_text())
    for name in ("origin", "decided"):
        content.pop(name, None)
    for column in content["columns"]:
        column.pop("name", None)
    attacker.to_json(tmp_path / "attacker.json")
    values = [0x7FF8000000000000 if v != v else struct.unpack("<Q", struct.pack("<d", v))[0] for v in X.ravel()]
    assert header == {
        "version": 1,
        "treeproof": tp.__version__,
        "model": sha(content),
        "attacker": sha(json.loads((tmp_path / "attacker.json").read_text())),
        "relations": sha([]),
        "epsilons": sha(json.loads(tp.verify(model, X, y, attacker, epsilon=0.5, max_seconds=0).to_json())["epsilons"]),
        "rows": hashlib.sha256(struct.pack(f"<{len(values)}Q", *values)).hexdigest(),
    }
    assert header_of(model, attacker, (), (0.5,), -X)["rows"] != header["rows"]


def sha(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
