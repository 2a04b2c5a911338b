"""Proofs that a search wrote hold for the checker, and for no other question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Checked, Question, check_header, check_rows
from treeproof.check.rules import Rejected
from treeproof.importers.native import as_text

ATTACKERS = {
    "L∞": tp.Attacker.linf(0.03),
    "L0": tp.Attacker.l0(2),
    "L2": tp.Attacker.lp(2, 0.1),
    "one-sided, costs": tp.Attacker((0.0, 0.2), costs=[1 + f % 3 for f in range(13)], budget=3),
    "steps, groups": tp.Attacker(
        {f: tp.steps(-0.1, 0.1, 0.05) for f in range(6)}, budget=2, groups={"few": [0, 1, 2]}, budgets={"few": 1}
    ),
}


def asked(folder: Path, model: Any, attacker: tp.Attacker) -> tuple[Question, ProofFile, int]:
    """A question, its proofs, and how many rows it has."""
    X, y = load_wine(return_X_y=True)
    rows = minmax_scale(X)[::9]
    result = tp.verify(
        model, rows, y[::9], attacker, epsilon=0.05, n_jobs=1, progress=False, proofs=folder / "proofs.tpp"
    )
    result.to_json(folder / "result.json")
    content = json.loads((folder / "result.json").read_text("utf-8"))
    question = Question(json.loads(as_text(tp.from_model(model))), content)
    return question, ProofFile.open(folder / "proofs.tpp"), len(rows)


def trained(kind: Any) -> Any:
    X, y = load_wine(return_X_y=True)
    return kind(n_estimators=10, random_state=0).fit(minmax_scale(X), y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKERS)
@pytest.mark.parametrize("kind", [RandomForestClassifier, GradientBoostingClassifier])
def test_proofs_of_a_search_hold(tmp_path: Path, kind: Any, name: str) -> None:
    question, proofs, n = asked(tmp_path, trained(kind), ATTACKERS[name])
    check_header(question, proofs)
    found = Checked()
    for _, one in check_rows(question, proofs, range(n)):
        found.add(one)
    assert not found.rejected
    assert set(found.unchecked) <= set(proofs.without)
    assert len(found.checked) > n // 2


@pytest.mark.slow
def test_proofs_are_about_one_question_only(tmp_path: Path) -> None:
    question, proofs, n = asked(tmp_path, trained(RandomForestClassifier), ATTACKERS["L∞"])
    proved = [row for row in range(n) if question.proved(row)]
    other = {**question.result, "attacker": json.loads(json.dumps(question.attacker).replace("0.03", "0.3"))}
    stronger = Question(question.model.content, other)
    with pytest.raises(Rejected, match="attacker"):
        check_header(stronger, proofs)
    # Even if nobody looked at the header: what is not proved against a stronger attacker is rejected.
    rows, labels = (np.array(question.result[name])[proved] for name in ("X", "predicted"))
    strong = tp.verify(trained(RandomForestClassifier), rows, labels, tp.Attacker.linf(0.3), n_jobs=1, progress=False)
    unstable = np.flatnonzero(strong.stability == tp.Outcome.REFUTED)
    broken = [proved[i] for i in unstable]
    assert broken
    for _, one in check_rows(stronger, proofs, broken):
        assert one.rejected
