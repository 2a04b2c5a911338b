"""Proofs for people to read."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import treeproof as tp
from tests.support.applicants import applicants
from tests.support.proof_files import ProofFiles, proof_files
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Question
from treeproof.check.rules import CLOSED, DECIDED, DROP, WEIGH
from treeproof.check.shown import show_proof
from treeproof.importers.native import as_text

BEGIN = 5
"""Bytes of a proof before its first box: claims, neighbourhood, part, label, further cuts."""


def question(files: ProofFiles) -> Question:
    return Question.of(json.loads(files.model.read_text("utf-8")), json.loads(files.result.read_text("utf-8")))


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> ProofFiles:
    """Proofs with cuts, by spending and by weights."""
    folder = tmp_path_factory.mktemp("hard")
    files = ProofFiles(folder / "model.json", folder / "result.json", folder / "proofs.tpp")
    rng = np.random.default_rng(0)
    X = rng.random((200, 6)).round(3)
    y = (X.sum(axis=1) > 3).astype(int)
    ensemble = tp.from_model(GradientBoostingClassifier(n_estimators=40, max_depth=4, random_state=0).fit(X, y))
    tp.save_model(ensemble, files.model)
    attacker = tp.Attacker((-0.3, 0.3), costs={f: 1 + f % 2 for f in range(6)}, budget=2)
    tp.verify(ensemble, X[:60], y[:60], attacker, epsilon=0.01, progress=False, proofs=files.proofs).to_json(
        files.result
    )
    return files


def test_a_small_proof_names_columns_labels_and_sums(tmp_path: Path) -> None:
    files = proof_files(tmp_path)
    asked, proofs = question(files), ProofFile.open(files.proofs)
    row = next(row for row in asked.proved_rows if asked.proved(row) == [0, 1])
    lines = show_proof(asked, proofs, row)
    assert lines[0] == "the row itself:"
    label, other = ("yes", "no") if asked.result["predicted"][row] == "yes" else ("no", "yes")
    assert lines[1].startswith(f"  no attack makes it {other} in place of {label}; ")
    assert "neighbours within ε = 0.01:" in lines
    assert lines[-1].startswith("holds: ")
    assert any("the trees' best" in line and " < " in line for line in lines)


def test_every_step_has_words(hard: ProofFiles) -> None:
    asked, proofs = question(hard), ProofFile.open(hard.proofs)
    said = [line for row in asked.proved_rows for line in show_proof(asked, proofs, row)]
    assert sum(line.startswith("holds: ") for line in said) == len(asked.proved_rows) > 5
    assert not any("step " in line or "it is not:" in line for line in said)
    text = "\n".join(said)
    for words in ("column 0 <= ", "all that money can buy", "is left, as "):
        assert words in text, words


def test_depth_leaves_out_what_is_deeper(hard: ProofFiles) -> None:
    asked, proofs = question(hard), ProofFile.open(hard.proofs)
    row = max(proofs.rows, key=lambda row: proofs.rows[row][1])
    whole, some = show_proof(asked, proofs, row), show_proof(asked, proofs, row, 1)
    assert len(some) < len(whole)
    assert any(line.endswith(": …") for line in some)
    assert [line for line in some if not line.endswith("…")] == [line for line in whole if line in some]
    assert max(len(line) - len(line.lstrip()) for line in some) <= 6


def test_a_proof_that_does_not_hold_is_shown_up_to_there(hard: ProofFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, proofs = question(hard), ProofFile.open(hard.proofs)
    row = max(proofs.rows, key=lambda row: proofs.rows[row][1])
    begin = proofs.payload(row)[:BEGIN]
    monkeypatch.setattr(ProofFile, "payload", lambda self, row: begin + bytes([CLOSED]))
    *_, closed, last = show_proof(asked, proofs, row)
    assert closed.startswith("  closed: it is not: ")
    assert " >= " in closed
    assert last.startswith("rejected: a box may give ")


def test_weights_and_labels_have_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = proof_files(tmp_path)
    asked, proofs = question(files), ProofFile.open(files.proofs)
    row = asked.proved_rows[0]
    begin = b"\1\0" + proofs.payload(row)[2:BEGIN]
    # Exponent, rate, rounds; one column, the second, with one segment at level 0; one tree, the first, of one piece.
    weights = b"\0" + bytes(8) + b"\0" + b"\1\1\0\0" + b"\1\0\0\0"
    steps = bytes([DROP]) + weights + bytes([WEIGH]) + weights
    for end, said in ((CLOSED, "  closed: "), (DECIDED, "  decided: "), (77, "  step 77")):
        monkeypatch.setattr(ProofFile, "payload", lambda self, row, end=end: begin + steps + bytes([end]))
        lines = show_proof(asked, proofs, row)
        assert lines[2] == "  leaves are left out by weights: 1 tree with shares by income"
        assert lines[3] == "  weights: 1 tree with shares by income"
        assert lines[4].startswith(said)


def test_parts_without_neighbours_are_said_to_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = proof_files(tmp_path)
    asked, proofs = question(files), ProofFile.open(files.proofs)
    row = asked.proved_rows[0]
    whole = proofs.payload(row)
    # All neighbours are on one side of a cut far away.
    split = b"\1" + whole[1:2] + b"\1\0" + struct.pack("<d", 1e9)
    assert whole[0] == 1
    monkeypatch.setattr(ProofFile, "payload", lambda self, row: split + whole[2:] + b"\0\0\0\0")
    *_, before, last = show_proof(asked, proofs, row)
    assert before == "  no neighbours are here"
    assert last.startswith("holds: ")


def test_categories_have_their_values(tmp_path: Path) -> None:
    model, proofs = applicants(), tmp_path / "proofs.tpp"
    attacker = tp.Attacker({"purpose": tp.ANY, "income": (-0.2, 0.2)}, blank={"purpose": 1}, unseen=True)
    row = np.array([[2.0, 6.0, 1.0, 30.0, 1.0]])
    result = tp.verify(model, row, model.predict(row), attacker, proofs=proofs)
    said = show_proof(Question.of(json.loads(as_text(model)), json.loads(result.to_json())), ProofFile.open(proofs), 0)
    assert any("purpose is car or radio or tv or a value never seen or missing" in line for line in said), said
