"""Proofs that no attack is cheaper: those of a search hold, and no other price does."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.fuzz_local import as_attacker
from tests.support.applicants import applicants
from tests.support.random_blocks import block
from tests.support.relation_questions import question
from treeproof.check.__main__ import main
from treeproof.check.attacks import question_of
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Checked, check_header, check_rows
from treeproof.check.rules import Rejected
from treeproof.importers.native import as_text

ATTACKERS = {
    "L0": (tp.Attacker.l0(2), False),
    "costs, a free column": (tp.Attacker((-1.0, 0.5), costs=[0, 2, 3, 4], budget=5), False),
    "costs, a budget": (tp.Attacker((-1.0, 0.5), costs=[1, 2, 3, 4], budget=4), True),
    "groups": (tp.Attacker.l0(3, groups={"petal": [2, 3]}, budgets={"petal": 1}), True),
    "groups that do not bind": (tp.Attacker.l0(1, groups={"petal": [2, 3]}, budgets={"petal": 1}), False),
    "rules": (
        tp.Attacker.rules([tp.Rule(2, change=(-0.5, 0.5)), tp.Rule(3, change=(-0.5, 0.5), cost=2)], domain=(0, 8)),
        False,
    ),
    "a goal": (tp.Attacker.l0(2, goal=[2]), False),
    "L1": (tp.Attacker.lp(1, 1.0), False),
    "L2, a radius": (tp.Attacker.lp(2, 0.3), True),
    "L2, one way": (tp.Attacker.lp(2, 0.3, features=[0, 3], up=[0]), False),
    "L2, steps": (tp.Attacker.lp(2, 0.3, step=0.1, scale=[1, 2, 3, 4]), False),
}


def model_and_rows() -> tuple[Any, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return tp.from_model(RandomForestClassifier(7, max_depth=4, random_state=0).fit(X, y)), X[::11]


def check(model: dict[str, Any], said: dict[str, Any], path: Path, rows: list[int] | None = None) -> Checked:
    """What the checker says about these rows, or all that are called exact."""
    try:
        question, proofs, found = question_of(model, said), ProofFile.open(path), Checked()
    except Rejected as error:
        if rows is None:
            raise
        return Checked(rejected=dict.fromkeys(rows, str(error)))
    check_header(question, proofs)
    for _, one in check_rows(question, proofs, question.proved_rows if rows is None else rows):
        found.add(one)
    return found


def other_prices(price: Any) -> list[Any]:
    """Prices that are not the right one."""
    if price is None:
        return [1, 1.0]
    if isinstance(price, int):
        return [None, price + 1, price - 1, price + 7, float(price), True, -1]
    return [None, price * (1 + 1e-11), price * (1 - 1e-11), 2 * price, 1, -price]


@pytest.mark.parametrize("name", ATTACKERS)
def test_only_the_cheapest_price_is_accepted(tmp_path: Path, name: str) -> None:
    model, rows = model_and_rows()
    attacker, within = ATTACKERS[name]
    path = tmp_path / "proofs.tpp"
    found = tp.cheapest_attack(model, rows, attacker, within=within, proofs=path)
    content, said = json.loads(as_text(model)), json.loads(found.to_json())
    checked = check(content, said, path)
    assert len(checked.checked) == len(rows), checked
    for row in range(len(rows)):
        for price in other_prices(said["price"][row]):
            prices = [*said["price"][:row], price, *said["price"][row + 1 :]]
            assert row in check(content, {**said, "price": prices}, path, [row]).rejected, (row, price)


def test_other_attacks_rows_models_and_attackers_are_not_accepted(tmp_path: Path) -> None:
    model, rows = model_and_rows()
    path, content = tmp_path / "proofs.tpp", json.loads(as_text(model))
    said = json.loads(tp.cheapest_attack(model, rows, tp.Attacker.l0(2), proofs=path).to_json())
    assert set(check(content, {**said, "attacked": said["X"]}, path).rejected) == set(range(len(rows)))
    far = [[9.0] * 4] * len(rows)
    assert set(check(content, {**said, "attacked": far}, path).rejected) == set(range(len(rows)))
    for changed in (
        {"X": said["attacked"]},
        {"attacker": json.loads(tp.Attacker.l0(3).to_json())},
        {"relations": ["column(0) <= column(1)"]},
        {"price": said["price"][1:]},
        {"version": 2},
    ):
        with pytest.raises(Rejected):
            check(content, {**said, **changed}, path)
    result = tp.verify(model, rows, model.predict(rows), tp.Attacker.l0(2).without_limits)
    with pytest.raises(Rejected, match="not the same epsilons"):
        check(content, json.loads(result.to_json()), path)


def test_proofs_of_a_result_are_none_of_cheapest_attacks(tmp_path: Path) -> None:
    model, rows = model_and_rows()
    attacker = tp.Attacker.l0(1)
    tp.verify(model, rows, model.predict(rows), attacker, proofs=tmp_path / "proofs.tpp")
    found = tp.cheapest_attack(model, rows, attacker, within=True)
    with pytest.raises(tp.InvalidInput, match="another question: not the same claim"):
        tp.check_proofs(model, found, tmp_path / "proofs.tpp")


def test_prices_are_those_of_all_rows_there_are(tmp_path: Path) -> None:
    """On a grid of whole numbers everything can be tried: what the checker accepts is the least price."""
    rng = np.random.default_rng(5)
    for trial in range(6):
        X = rng.integers(0, 4, size=(60, 3)).astype(float)
        y = (X @ rng.integers(-2, 3, size=3) + rng.integers(-1, 2, size=60) > 0).astype(int)
        if len(set(y)) < 2:
            continue
        model = tp.from_model(RandomForestClassifier(5, max_depth=3, random_state=trial).fit(X, y))
        costs = rng.integers(1, 4, size=3).tolist()
        attacker = tp.Attacker((-3.0, 3.0), costs=costs, domain=(0.0, 3.0), step=1, budget=9)
        rows = X[:4]
        said = json.loads(tp.cheapest_attack(model, rows, attacker, proofs=tmp_path / "proofs.tpp").to_json())
        every = np.array(list(itertools.product(range(4), repeat=3)), dtype=float)
        labels = model.predict(every)
        for row, x in enumerate(rows):
            prices = ((every != x) @ np.array(costs))[labels != model.predict(x[None])[0]].tolist()
            for price in (None, *range(1, 8)):
                changed = {**said, "price": [*said["price"][:row], price, *said["price"][row + 1 :]]}
                holds = row in check(json.loads(as_text(model)), changed, tmp_path / "proofs.tpp", [row]).checked
                assert holds == (price == (min(prices) if prices else None))


def test_categories_missing_values_and_relations(tmp_path: Path) -> None:
    model, path = applicants(), tmp_path / "proofs.tpp"
    rows = np.array([[3.0, 6.0, 1.0, 30.0, 1.0], [2.0, np.nan, 0.0, 40.0, 2.0], [np.nan, 5.0, 2.0, 50.0, 3.0]])
    attacker = tp.Attacker(
        {"income": (-4.0, 4.0), "months": (-9.0, 9.0), "purpose": tp.ANY},
        costs={"income": 3, "purpose": 5},
        blank={"income": 4},
        fill={"income": 2},
        budget=9,
    )
    for relations in (None, ["income <= 2.75"], ["purpose == 'car' or income >= 2", "income + months <= 12"]):
        found = tp.cheapest_attack(model, rows, attacker, relations=relations, proofs=path)
        content, said = json.loads(as_text(model)), json.loads(found.to_json())
        assert found.exact.all() and not (checked := check(content, said, path)).rejected
        assert set(checked.unchecked) <= set(ProofFile.open(path).without)
        assert len(checked.checked) >= (3 if relations is None else 1), checked
        for row, price in enumerate(said["price"]):
            for other in other_prices(price):
                prices = [*said["price"][:row], other, *said["price"][row + 1 :]]
                assert row not in check(content, {**said, "price": prices}, path, [row]).checked


def test_the_program_checks_files_of_attacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, rows = model_and_rows()
    files = [str(tmp_path / name) for name in ("model.json", "attacks.json", "proofs.tpp")]
    tp.save_model(model, files[0])
    found = tp.cheapest_attack(model, rows, tp.Attacker.lp(2, 1.0), proofs=files[2])
    found.to_json(files[1])
    assert main(files) == 0
    said = capsys.readouterr().out
    assert f"checked    {len(rows)} of {len(rows)} rows" in said
    assert f" {len(rows)} counterexamples" in said
    assert tp.check_proofs(*files, progress=False).checked == tuple(range(len(rows)))


def test_rows_without_time_are_not_exact_and_need_no_proof(tmp_path: Path) -> None:
    model, rows = model_and_rows()
    found = tp.cheapest_attack(model, rows, tp.Attacker.l0(2), proofs=tmp_path / "proofs.tpp", timeout=0)
    assert not found.exact.any()
    assert tp.check_proofs(model, found, tmp_path / "proofs.tpp", progress=False).checked == ()


def test_proofs_that_are_too_long_are_left_out(tmp_path: Path) -> None:
    model, rows = model_and_rows()
    found = tp.cheapest_attack(model, rows, tp.Attacker.lp(2, 1.0), proofs=tmp_path / "proofs.tpp", proof_limit=1)
    assert found.exact.all()
    checked = tp.check_proofs(model, found, tmp_path / "proofs.tpp", progress=False)
    assert not checked.rejected and "a proof is longer than the limit" in checked.unchecked.values()
    with pytest.raises(tp.InvalidInput, match="no proofs are written"):
        tp.cheapest_attack(model, rows, tp.Attacker.lp(2, 1.0), proof_limit=1)


def test_attacks_at_no_price_need_no_proof(tmp_path: Path) -> None:
    model, rows = model_and_rows()
    found = tp.cheapest_attack(model, rows, tp.Attacker((-3.0, 3.0), costs=0), proofs=tmp_path / "proofs.tpp")
    said, own = json.loads(found.to_json()), json.loads(as_text(model))
    assert said["price"] == [0] * len(rows)
    assert check(own, said, tmp_path / "proofs.tpp").checked == list(range(len(rows)))


def other_prices_are_rejected(model: Any, found: tp.CheapestAttacks, path: Path) -> int:
    """All proofs hold, and none for another price; how many there are."""
    content, said = json.loads(as_text(model)), json.loads(found.to_json())
    checked = check(content, said, path)
    assert not checked.rejected
    assert set(checked.unchecked) <= set(ProofFile.open(path).without)
    for row in np.flatnonzero(found.exact).tolist():
        for price in other_prices(said["price"][row]):
            prices = [*said["price"][:row], price, *said["price"][row + 1 :]]
            assert row not in check(content, {**said, "price": prices}, path, [row]).checked, (row, price)
    return len(checked.checked)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("within", [False, True])
def test_random_questions(tmp_path: Path, within: bool) -> None:
    path, n_checked = tmp_path / "proofs.tpp", 0
    for number in range(40):
        asked = block(15, number)
        with contextlib.suppress(tp.InvalidInput):  # all moves are free
            attacker, rows = as_attacker(asked.attacker), np.array(asked.rows[:3])
            found = tp.cheapest_attack(asked.ensemble, rows, attacker, within=within, proofs=path)
            n_checked += other_prices_are_rejected(asked.ensemble, found, path)
    assert n_checked > 90


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("within", [False, True])
def test_random_questions_under_relations(tmp_path: Path, within: bool) -> None:
    path, n_checked = tmp_path / "proofs.tpp", 0
    for number in range(25):
        asked = question(number)
        words = {"voting": asked.voting} if asked.voting else {}
        with contextlib.suppress(tp.InvalidInput):  # all moves are free, or no row is valid
            found = tp.cheapest_attack(
                asked.model, np.array(asked.X), asked.attacker, within=within, relations=asked.given or None,
                proofs=path, timeout=5.0, **words,
            )  # fmt: skip
            n_checked += other_prices_are_rejected(asked.ensemble, found, path)
    assert n_checked > 40
