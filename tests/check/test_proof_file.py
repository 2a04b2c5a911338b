"""Files of proofs are read within limits: bombs, numbers written in several ways, and places that overlap nothing."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from treeproof.check import rules
from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import SMALL, ProofFile
from treeproof.check.rules import Rejected

HEADER = {"version": 1, "treeproof": "x", "model": "0" * 64, "attacker": "0" * 64}


def written(folder: Path, index: Any, record: bytes = b"") -> Path:
    text = index if isinstance(index, bytes) else json.dumps(index).encode()
    content = zlib.compress(text)
    path = folder / "proofs.tpp"
    path.write_bytes(b"TPP1\n" + record + content + struct.pack("<QQ", 5 + len(record), len(content)) + b"TPPEND\n\0")
    return path


def index(**fields: Any) -> dict[str, Any]:
    return {"header": HEADER, "rows": {}, "without": {}} | fields


def test_an_index_is_read(tmp_path: Path) -> None:
    found = ProofFile.open(written(tmp_path, index(rows={"3": [5, 2]}, without={"4": "why"}), b"xx"))
    assert (found.rows, found.without) == ({3: (5, 2)}, {4: "why"})


@pytest.mark.parametrize(
    "fields",
    [
        {"more": 1},
        {"rows": {"01": [5, 0]}},
        {"rows": {"１": [5, 0]}},
        {"rows": {"1": [5.0, 0]}},
        {"rows": {"1": [5, True]}},
        {"rows": {"1": [5]}},
        {"rows": {"9" * 5000: [5, 0]}},
        {"rows": [[5, 0]]},
        {"without": {"1": 5}},
        {"header": {**HEADER, "more": 1}},
        {"header": {**HEADER, "version": True}},
        {"header": {**HEADER, "model": "0"}},
        {"header": []},
    ],
)
def test_an_index_in_another_form_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        ProofFile.open(written(tmp_path, index(**fields)))


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    text = json.dumps(index()).replace('"rows": {}', '"rows": {"1": [5, 0], "1": [5, 1]}')
    with pytest.raises(Rejected, match="stands twice"):
        ProofFile.open(written(tmp_path, text.encode()))


def test_an_index_that_is_much_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="too large"):
        ProofFile.open(written(tmp_path, b" " * (SMALL + 1)))


def test_cells_that_there_are_not_make_no_masks() -> None:
    """Each of 20,000 cuts above a million would be a mask of as many bits."""
    cuts = bytes([0x80, 0x9C, 0x01]) + bytes([0x80, 0x80, 0x3C]) + bytes(20_000)
    weights = bytes([0]) + struct.pack("<d", 0.0) + bytes([0, 1, 0]) + cuts + bytes(30_000)
    reader = Reader(weights)
    reader.cells = 2**15
    with pytest.raises(Rejected, match="there is no cell"):
        reader.weights()


def test_parts_that_wait_are_counted() -> None:
    assert rules.held([1, 2], 3) == [1, 2]
    with pytest.raises(Rejected, match="too many parts waiting"):
        rules.held([1, 2], rules.MOST_HELD)
