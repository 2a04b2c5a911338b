"""Files of proofs are what docs/proof_format.md says: read here by the page alone, byte by byte."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.proof_files import ProofFiles, proof_files
from tests.support.proof_reader import Reader, skip_parts
from treeproof.check import rules
from treeproof.check.clashes import CASES, CUT, RULED_OUT, SUM
from treeproof.check.maps import MOVED
from treeproof.check.rows import CLAIM, CONTENT, IDLE, SPLIT, VALID, VALID_CONTENT

PAGE = (Path(__file__).parents[2] / "docs" / "proof_format.md").read_text("utf-8")


def records(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """The kind, the number, the place and the content of each record."""
    assert data[:5] == b"TPP1\n"
    at, end = 5, struct.unpack("<Q", data[-24:-16])[0]
    while at < end:
        kind, number, length = struct.unpack("<BQQ", data[at : at + 17])
        yield kind, number, at + 17, data[at + 17 : at + 17 + length]
        at += 17 + length
    assert at == end


def index_of(data: bytes) -> dict[str, Any]:
    """The index, which must be that of the records."""
    place, length, end = struct.unpack("<QQ8s", data[-24:])
    assert end == b"TPPEND\n\0" and place + length + 24 == len(data)
    index = json.loads(zlib.decompress(data[place : place + length]))
    assert index.keys() == {"header", "rows", "without"}
    rows, without = {}, {}
    for kind, number, at, content in records(data):
        if kind == 0:
            assert json.loads(content) == index["header"]
        elif kind == 1:
            rows[str(number)] = [at, len(content)]
        else:
            assert kind == 2
            without[str(number)] = content.decode()
    assert (rows, without) == (index["rows"], index["without"])
    return dict(index)


def hash_of(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def kinds_in(files: ProofFiles) -> Counter[int]:
    """The kinds of all parts of a file, which is read to its last byte."""
    data, model, result = (
        files.proofs.read_bytes(),
        *(json.loads(path.read_text("utf-8")) for path in (files.model, files.result)),
    )
    index, kinds = index_of(data), Counter[int]()
    rows = [float("nan") if value is None else value for row in result["X"] for value in row]
    kept = {name: value for name, value in model.items() if name not in ("origin", "decided")}
    kept["columns"] = [{name: one for name, one in column.items() if name != "name"} for column in model["columns"]]
    assert index["header"] == {
        "version": 1,
        "treeproof": tp.__version__,
        "model": hash_of(kept),
        "attacker": hash_of(result["attacker"]),
        "relations": hash_of(result["relations"]),
        "epsilons": hash_of(result["epsilons"]),
        "rows": hashlib.sha256(struct.pack(f"<{len(rows)}d", *rows)).hexdigest(),
    }
    for at, length in index["rows"].values():
        reader = Reader(zlib.decompress(data[at : at + length]))
        for _ in range(reader.number()):
            assert reader.number() <= len(result["epsilons"])
            kinds.update(skip_parts(reader, len(model["classes"]), len(result["attacker"].get("goal", ()))))
        assert reader.at == len(reader.data)
    return kinds


QUESTIONS: dict[str, tuple[dict[str, Any], set[int]]] = {
    "one label": ({}, {CLAIM}),
    "several labels": (
        {"attacker": tp.Attacker({"age": (-0.01, 0.01)}), "epsilon": {"income": 0.3}},
        {CLAIM, SPLIT, IDLE},
    ),
    "a goal": (
        {"attacker": tp.Attacker({"age": (-0.03, 0.03)}, goal=["yes"]), "epsilon": {"income": 0.2}},
        {CLAIM, SPLIT, CONTENT},
    ),
    "relations": ({"relations": ["age <= 0.8 or income >= 0.2", "debt <= age + 1"]}, {VALID}),
    "sums of columns": ({"relations": ["age + income + debt == 1.5"], "attacker": tp.Attacker.linf(0.1)}, {VALID}),
    "distances": ({"attacker": tp.Attacker.lp(2, 0.05)}, {CLAIM}),
    "a limit": ({"proof_limit": 1}, set()),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_files_are_what_the_page_says(tmp_path: Path, name: str) -> None:
    words, kinds = QUESTIONS[name]
    assert set(kinds_in(proof_files(tmp_path, **words))) >= kinds


def test_files_of_maps_are_what_the_page_says(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 2)).round(2)
    forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, X.sum(axis=1) > 1)
    smap = tp.StabilityMap.build(forest, tp.Attacker.linf(0.05), progress=False)
    smap.save(tmp_path / "map.tpm")
    smap.prove(tmp_path / "boxes.tpp")
    data, kinds = (tmp_path / "boxes.tpp").read_bytes(), Counter[int]()
    index = index_of(data)
    assert index["header"].keys() == {"version", "treeproof", "model", "attacker", "map"}
    for at, length in index["rows"].values():
        reader = Reader(zlib.decompress(data[at : at + length]))
        assert (reader.number(), reader.number()) == (1, 0)
        kinds.update(skip_parts(reader, 2, 0))
        assert reader.at == len(reader.data)
    assert set(kinds) >= {CLAIM, MOVED}


def test_the_page_names_all_steps_and_parts() -> None:
    steps = ["CLOSED", "CUT_LEFT", "CUT_RIGHT", "KEEP_LEFT", "KEEP_RIGHT", "WEIGH", "DROP", "SPEND", "DECIDED"]
    parts = {"CLAIM": CLAIM, "SPLIT": SPLIT, "IDLE": IDLE, "CONTENT": CONTENT, "VALID": VALID, "MOVED": MOVED}
    for word in steps:
        assert re.search(rf" {getattr(rules, word)} {word}\b", PAGE)
    reasons = {"RULED_OUT": RULED_OUT, "CUT": CUT, "CASES": CASES, "SUM": SUM}
    for word, code in {**parts, **reasons, "VALID_CONTENT": VALID_CONTENT}.items():
        assert f"| {code} {word} |" in PAGE
