"""Proofs under relations: every one that a search writes holds, and none holds for what is false."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.relation_questions import question
from treeproof.check import rows
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Question, check_header, check_rows
from treeproof.check.rules import Rejected
from treeproof.results.verdicts import Outcome

GROUP = "one_of(car, radio, other, name='purpose')"
SINGLE = ("implies(loans == 0, amount == 0)", "any_of(age >= 30, income <= 0.8)", "not (age > 60 and loans > 3)")


def _asked(tmp_path: Path, result: Any, ensemble: tp.Ensemble) -> Question:
    """What a result says was asked."""
    result.to_json(tmp_path / "result.json")
    tp.save_model(ensemble, tmp_path / "model.json")
    return Question(*(json.loads((tmp_path / f"{name}.json").read_text()) for name in ("model", "result")))


def _checked(tmp_path: Path, model: Any, X: Any, y: Any, attacker: tp.Attacker, **words: Any) -> tuple[int, set[str]]:
    """How many rows have something proved and checked, and why others are not; nothing is rejected."""
    ensemble = tp.from_model(model)
    result = tp.verify(ensemble, X, y, attacker, n_jobs=1, proofs=tmp_path / "proofs.tpp", **words)
    asked, proofs = _asked(tmp_path, result, ensemble), ProofFile.open(tmp_path / "proofs.tpp")
    check_header(asked, proofs)
    n_checked, reasons = 0, set()
    for row, found in check_rows(asked, proofs, range(len(X))):
        assert not found.rejected
        reasons |= set(found.unchecked.values())
        n_checked += bool(found.checked and asked.proved(row))
    return n_checked, reasons


@pytest.fixture(scope="module", name="loans")
def _loans() -> tuple[pd.DataFrame, Any]:
    """Applicants with a purpose, some of which break relations; and who pays back."""
    rng = np.random.default_rng(0)
    n = 400
    purpose, loans = rng.integers(0, 3, n), rng.integers(0, 5, n)
    X = pd.DataFrame({name: 1.0 * (purpose == k) for k, name in enumerate(["car", "radio", "other"])})
    X = X.assign(age=1.0 * rng.integers(18, 80, n), income=rng.random(n).round(3), loans=1.0 * loans)
    X = X.assign(amount=np.where(loans == 0, 0, rng.random(n)))
    X = X.assign(limit=X.amount + 0.3 * rng.random(n))
    y = (X.income + 0.3 * X.radio - 0.4 * X.amount + X.age / 200 > 0.6).to_numpy()
    X.loc[351, ["car", "radio"]] = 1.0  # two purposes
    X.loc[352, ["loans", "amount"]] = 0.0, 0.7
    return X, y


ATTACKERS = {
    "members": tp.Attacker.linf(0.05),
    "two members": tp.Attacker.l0(2),
    "named": tp.Attacker({"purpose": tp.ANY, "age": (-5, 5), "amount": (-0.1, 0.1)}, budget=2),
    "dear": tp.Attacker({"purpose": tp.ANY, "income": (-0.1, 0.1)}, costs={"purpose": 2}, budget=2),
    "distances": tp.Attacker.lp(2, 0.1),
}


@pytest.mark.parametrize("relations", [SINGLE, (GROUP,), (GROUP, *SINGLE), (GROUP, "amount <= limit", *SINGLE)])
@pytest.mark.parametrize("attacker", ATTACKERS)
def test_every_proved_applicant_is_checked(
    tmp_path: Path, loans: tuple[pd.DataFrame, Any], relations: tuple[str, ...], attacker: str
) -> None:
    """Groups by name and by members, conditions on single columns, and an order between two; rows that break them."""
    if GROUP not in relations and "purpose" in str(ATTACKERS[attacker]):
        pytest.skip("no group to name")
    X, y = loans
    kinds = (RandomForestClassifier(10, max_depth=6, random_state=0), GradientBoostingClassifier(n_estimators=15))
    for model in kinds:
        model.fit(X[:340], y[:340])
        words: dict[str, Any] = {"relations": list(relations), "epsilon": {"income": 0.01}}
        found, reasons = _checked(tmp_path, model, X[340:370], y[340:370], ATTACKERS[attacker], **words)
        assert found or attacker == "two members"
        assert not reasons


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 6))
def test_random_questions_are_checked_and_refuted_rows_have_no_proof(tmp_path: Path, first: int) -> None:
    """A proof of something else, under more relations or for a poorer attacker, is none for a row that is refuted."""
    n_refuted = 0
    for seed in range(first, first + 6):
        asked, random = question(seed), Random(seed)
        X = np.array(asked.X)
        words: dict[str, Any] = {"epsilon": asked.epsilon, "timeout": 20.0, "n_jobs": 1}
        labels, path = asked.ensemble.predict(X), tmp_path / f"{seed}.tpp"
        try:
            result = tp.verify(asked.ensemble, X, labels, asked.attacker, relations=asked.given, proofs=path, **words)
        except tp.InvalidInput:
            continue
        known = _asked(tmp_path, result, asked.ensemble)
        for _, found in check_rows(known, ProofFile.open(path), range(len(X))):
            assert not found.rejected, seed
            assert not found.unchecked, seed
        outcomes = np.array([known.result["stability"], *known.result["resilience"]])
        false = np.flatnonzero((outcomes == Outcome.REFUTED).any(axis=0)).tolist()
        # All rows are called proved, and the proofs are those of other questions.
        known.result["stability"] = [Outcome.PROVED] * len(X)
        known.result["resilience"] = [[Outcome.PROVED] * len(X)] * (len(outcomes) - 1)
        n_refuted += len(false)
        for k, other in enumerate(_others(asked, random)):
            forged = tmp_path / f"{seed}.{k}.tpp"
            try:
                tp.verify(asked.ensemble, X, labels, proofs=forged, **{**words, **other})
            except tp.InvalidInput:
                continue
            proofs: Any = ProofFile.open(forged)
            for row, found in check_rows(known, proofs, false):
                assert not found.checked, (seed, other)
                for _ in range(20 if row in proofs.rows else 0):
                    _, again = next(check_rows(known, _Changed(proofs, random), [row]))
                    assert not again.checked, (seed, other)
    assert n_refuted


class _Changed:
    """Proofs in which some bytes are others."""

    def __init__(self, proofs: ProofFile, random: Random) -> None:
        self.rows, self.without, self._proofs, self._random = proofs.rows, proofs.without, proofs, random

    def payload(self, row: int) -> bytes:
        """What proves a row, changed."""
        data, random = bytearray(self._proofs.payload(row)), self._random
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(data))
            data[at : at + random.choice((0, 1, 1, 1))] = [random.choice((0, 1, 2, 3, 4, random.randrange(256)))]
        return bytes(data)


def test_a_row_that_breaks_relations_keeps_its_own_label(tmp_path: Path) -> None:
    """Where all valid rows have another label, an invalid row has an attack, whatever is proved of the valid ones."""
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0] * 5, "b": [0.0, 1.0] * 10})
    model = DecisionTreeClassifier(max_depth=1).fit(X, X.a > 1.5)
    attacker, relations = tp.Attacker({"a": (-2.0, 2.0)}), ["a >= 2"]
    row = pd.DataFrame({"a": [1.0], "b": [0.0]})
    ensemble = tp.from_model(model)
    result = tp.verify(ensemble, row, [False], attacker, relations=relations, n_jobs=1)
    assert result.stability[0] == Outcome.REFUTED
    other = tp.verify(
        ensemble, row + 1.0, [True], attacker, relations=relations, n_jobs=1, proofs=tmp_path / "proofs.tpp"
    )
    assert other.stability[0] == Outcome.PROVED
    asked, proofs = _asked(tmp_path, result, ensemble), ProofFile.open(tmp_path / "proofs.tpp")
    asked.result["stability"] = [Outcome.PROVED]
    _, found = next(check_rows(asked, proofs, [0]))
    assert found.rejected == {0: "the row itself is not of class 1"}


@pytest.mark.parametrize(
    ("attacker", "epsilon", "relations"),
    [
        ({"groups": [{"name": "g", "columns": ["car", "age"], "budget": 1}]}, {"all": 0.0}, [GROUP]),
        ({"intervals": {"by_feature": [["purpose", [None, None]], ["car", [-1, 1]]]}}, {"all": 0.0}, [GROUP]),
        ({}, {"all": 1.0}, [GROUP]),
        ({"intervals": {"by_feature": [["age", [-1, 1]]]}}, {"all": 0.0}, [GROUP.replace("purpose", "age")]),
        ({}, {"all": 0.0}, [GROUP, "at_most_one(car, age)"]),
    ],
)
def test_groups_that_are_more_than_one_thing_are_refused(
    tmp_path: Path, loans: tuple[pd.DataFrame, Any], attacker: Any, epsilon: Any, relations: list[str]
) -> None:
    """No result says so, unless somebody has changed it."""
    X, y = loans
    ensemble = tp.from_model(DecisionTreeClassifier(max_depth=3).fit(X, y))
    result = tp.verify(ensemble, X[:2], y[:2], tp.Attacker({"age": (-1, 1)}), relations=[GROUP], epsilon=0.1)
    asked = _asked(tmp_path, result, ensemble)
    changed = {
        **asked.result,
        "attacker": {**asked.attacker, **attacker},
        "epsilons": [epsilon],
        "relations": relations,
    }
    with pytest.raises(Rejected, match=r"group"):
        Question(asked.model.content, changed)


def _others(asked: Any, random: Random) -> list[dict[str, Any]]:
    """Questions that are easier to prove."""
    names = [name for name in asked.names if name in asked.words.numbers]
    name, most = random.choice(names), random.randint(0, asked.words.most)
    bound = f"{name} {random.choice(('<=', '>=', '!='))} {float(most * asked.unit)}"
    nobody = tp.Attacker({names[0]: (0.0, 0.0)}, domain=asked.attacker.domain, budget=0)
    return [
        {"attacker": asked.attacker, "relations": [*asked.given, bound]},
        {"attacker": nobody, "relations": [*asked.given, bound]},
        {"attacker": nobody, "relations": [bound]},
    ]


@pytest.mark.slow
def test_sums_that_add_up_are_proved_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Net and tax are the gross income, and tax is a quarter of it at least: what follows from both is proved, too."""
    rng = np.random.default_rng(5)
    net, tax = rng.integers(10, 40, 300), rng.integers(5, 30, 300)
    tax = np.maximum(tax, -(-net // 3))
    X = pd.DataFrame({"net": 1.0 * net, "tax": 1.0 * tax, "gross": 1.0 * (net + tax)})
    y = (X.net - 0.6 * X.tax + rng.normal(0, 3, 300) > 12).to_numpy()
    relations = ["net + tax == gross", "4*tax >= gross", "net >= 2*tax or gross >= 30"]
    attacker = tp.Attacker(dict.fromkeys(X.columns, (-3, 3)), budget=2, step=dict.fromkeys(X.columns, 1))
    reasons: list[int] = []
    check = rows.check_clash

    def noted(pairs: Any, steps: Any) -> None:
        reasons.append(len(steps._data))
        check(pairs, steps)

    monkeypatch.setattr(rows, "check_clash", noted)
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:250], y[:250])
    for epsilon in (None, {"net": 2.0, "gross": 2.0}):
        asked: dict[str, Any] = {"relations": relations, "epsilon": epsilon}
        found, missing = _checked(tmp_path, model, X[250:], model.predict(X[250:]), attacker, **asked)
        assert found > 5
        assert not missing
    assert max(reasons) > 1


def test_money_that_must_be_spent_twice_is_not_there(tmp_path: Path) -> None:
    """A row that breaks relations must change two columns to be valid, and somebody who pays for one cannot."""
    asked = question(3882)
    X = np.array(asked.X)[:1]
    words: dict[str, Any] = {"relations": asked.given, "epsilon": asked.epsilon}
    found, reasons = _checked(tmp_path, asked.ensemble, X, asked.ensemble.predict(X), asked.attacker, **words)
    assert (found, reasons) == (1, set())
