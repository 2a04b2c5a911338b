"""A small model, a result and its proofs, as files."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp

NAMES = ("age", "income", "debt")


class ProofFiles(NamedTuple):
    """Where the files are."""

    model: Path
    result: Path
    proofs: Path

    def changed(self, which: str, folder: Path, **fields: Any) -> ProofFiles:
        """The same files but for fields of the model or the result."""
        file: Path = getattr(self, which)
        target = folder / file.name
        target.write_text(json.dumps(json.loads(file.read_text("utf-8")) | fields), "utf-8")
        return self._replace(**{which: target})


def proof_files(folder: Path, **question: Any) -> ProofFiles:
    """Verifies 12 rows of a forest with 5 trees, of which most are proved, and one neighbourhood of each."""
    files = ProofFiles(folder / "model.json", folder / "result.json", folder / "proofs.tpp")
    rng = np.random.default_rng(0)
    X = rng.random((60, len(NAMES))).round(2)
    y = np.where(X[:, 0] + X[:, 1] > 1, "yes", "no")
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    ensemble = tp.from_model(forest).named(NAMES)
    tp.save_model(ensemble, files.model)
    asked: dict[str, Any] = {"attacker": tp.Attacker.linf(0.03), "epsilon": 0.01, **question}
    result = tp.verify(ensemble, X[:12], y[:12], progress=False, proofs=files.proofs, **asked)
    result.to_json(files.result)
    return files


def rewritten(files: ProofFiles, target: Path, change: Any) -> ProofFiles:
    """The same files with other proofs: `change` gets the payload of each row and gives it back, or a reason."""
    data = files.proofs.read_bytes()
    at, length = struct.unpack("<QQ", data[-24:-8])
    index = json.loads(zlib.decompress(data[at : at + length]))
    out, rows, without = b"TPP1\n", {}, {}
    for row, (start, size) in index["rows"].items():
        payload = change(int(row), zlib.decompress(data[start : start + size]))
        if isinstance(payload, str):
            without[row] = payload
        else:
            record = zlib.compress(payload)
            rows[row] = (len(out), len(record))
            out += record
    content = zlib.compress(json.dumps({"header": index["header"], "rows": rows, "without": without}).encode())
    target.write_bytes(out + content + struct.pack("<QQ", len(out), len(content)) + b"TPPEND\n\0")
    return files._replace(proofs=target)


def read_proofs(path: Path) -> tuple[dict[str, Any], dict[int, bytes], dict[int, str]]:
    """The header of a proof file, what proves rows, and why others have no proof."""
    data = path.read_bytes()
    at, length, end = struct.unpack("<QQ8s", data[-24:])
    assert data.startswith(b"TPP1\n") and end == b"TPPEND\n\0", f"{path} is no proof file, or not whole"
    index = json.loads(zlib.decompress(data[at : at + length]))
    proofs = {int(row): zlib.decompress(data[start : start + n]) for row, (start, n) in index["rows"].items()}
    return index["header"], proofs, {int(row): reason for row, reason in index["without"].items()}
