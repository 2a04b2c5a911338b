"""Exported proofs: the problem says what the claim says, its proof holds, and broken ones do not."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import treeproof as tp
from tests.support.pseudo_boolean import is_refuted, problem_of
from treeproof.check.claims import Grid, Place, Region
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Question
from treeproof.check.rules import Claim
from treeproof.verification import pseudo_boolean
from treeproof.verification.pseudo_boolean import Problem, export_row

ATTACKERS = {
    "distance": tp.Attacker.linf(0.1),
    "costs": tp.Attacker((-0.1, 0.1), costs={0: 1, 1: 2, 2: 1, 3: 2}, budget=2),
    "norm": tp.Attacker.lp(2, 0.15),
    "groups": tp.Attacker((-0.1, 0.15), budget=3, groups={"a": [0, 1]}, budgets={"a": 1}),
}


def asked(folder: Path, model: Any, attacker: tp.Attacker) -> tuple[Question, ProofFile]:
    """A few rows, verified with proofs."""
    X, y = data()
    ensemble = tp.from_model(model.fit(X, y))
    tp.save_model(ensemble, folder / "model.json")
    proofs, result = folder / "proofs.tpp", folder / "result.json"
    tp.verify(ensemble, X[:40], y[:40], attacker, epsilon=0.02, n_jobs=1, progress=False, proofs=proofs).to_json(result)
    files = [json.loads(path.read_text()) for path in (folder / "model.json", result)]
    return Question(*files), ProofFile.open(proofs)


def data() -> tuple[Any, Any]:
    X = np.random.default_rng(0).random((300, 4)).round(2)
    return X, (X[:, 0] + X[:, 1] > 1).astype(int) + (X[:, 2] > 0.8)


def models() -> dict[str, Any]:
    return {
        "forest": RandomForestClassifier(12, max_depth=3, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=12, max_depth=3, random_state=0),
    }


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    """Problems and proofs of all rows that can be exported."""
    paths: list[Path] = []
    for model, attacker in itertools.product(models().values(), ATTACKERS.values()):
        folder = tmp_path_factory.mktemp("exported")
        question, proofs = asked(folder, model, attacker)
        for row, which in itertools.product(proofs.rows, (0, 1)):
            # Neighbours with several labels are more than one claim.
            with contextlib.suppress(tp.InvalidInput):
                paths += export_row(question, proofs, row, which, str(folder / f"{row}-{which}"))
    assert len(paths) > 200
    return list(zip(paths[::2], paths[1::2], strict=True))


@pytest.mark.slow
def test_exported_proofs_hold(exported: list[tuple[Path, Path]]) -> None:
    sizes = []
    for problem, proof in exported:
        assert is_refuted(problem.read_text(), proof.read_text()), proof
        sizes.append(proof.read_text().count("pol"))
    assert max(sizes) > 3  # not all are done with one box


@pytest.mark.slow
def test_broken_proofs_do_not_hold(exported: list[tuple[Path, Path]]) -> None:
    texts = [(problem.read_text(), proof.read_text()) for problem, proof in exported]
    # Propagation alone closes most boxes of such small models, but not all.
    unsummed = [(problem, re.sub("pol .* ;", "pol 1 ;", proof)) for problem, proof in texts]
    assert not all(itertools.starmap(is_refuted, unsummed))
    for problem, proof in texts:
        *others, needed = problem.splitlines()
        looser = re.sub(r">= .* ;$", f">= {-(10**40)} ;", needed)
        assert not is_refuted("\n".join([*others, looser]), proof)
        assert not is_refuted(problem, proof.replace("conclusion UNSAT", "conclusion SAT"))


@pytest.mark.slow
def test_veripb_accepts_them(exported: list[tuple[Path, Path]]) -> None:
    veripb = shutil.which("veripb")
    if veripb is None:
        pytest.skip("veripb is not installed; PyPI has no package of that name")
    for problem, proof in exported:
        done = subprocess.run([veripb, str(problem), str(proof)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


WIDE = [
    tp.Attacker((-0.5, 0.5), costs={0: 1, 1: 2, 2: 1, 3: 2}, budget=2),
    tp.Attacker.lp(2, 0.5),
    tp.Attacker((-0.5, 0.5), budget=3, groups={"a": [0, 1]}, budgets={"a": 1}),
]


def claims(folder: Path) -> list[Claim]:
    """Claims about a tiny model, true and false ones."""
    X, y = data()
    ensemble = tp.from_model(RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y))
    tp.save_model(ensemble, folder / "model.json")
    model = json.loads((folder / "model.json").read_text())
    found = []
    for attacker in WIDE:
        result = tp.verify(ensemble, X[:3], y[:3], attacker, n_jobs=1, progress=False)
        result.to_json(folder / "result.json")
        question = Question(model, json.loads((folder / "result.json").read_text()))
        grid = Grid(question.model, {})
        for row in range(3):
            view, x = question.views.of(question.row(row))
            prices = [column.cells(x[f], 0.0, None, grid.cuts[f]) for f, column in enumerate(view.columns)]
            place, label = Place(grid, Region(prices, view.purses)), question.label(row)
            wanted = frozenset(range(3)) - {label}
            found += [place.claim(label, other, wanted) for other in sorted(wanted)]
    return found


def solves(problem: Problem, cells: tuple[int, ...]) -> bool:
    """Whether a vector of cells, with the leaves and prices that it has, is a solution."""
    claim, values = problem.claim, {}
    for name in problem.names:
        x, kind, number, rest = re.match(r"\* x(\d+): (column|tree) (\d+) (.*)", name).groups()  # type: ignore[union-attr]
        f = int(number)
        amount = int(re.findall(r"\d+", rest)[0])
        if kind == "tree":
            masks = claim.trees[f][amount].cells
            values[int(x)] = all(mask >> cells[g] & 1 for g, mask in masks.items())
        elif "cell" in rest:
            values[int(x)] = cells[f] >= amount
        else:
            values[int(x)] = claim.least(f, 1 << cells[f]) >= amount  # type: ignore[operator]
    return all(
        sum(factor * values[x] for x, factor in one.terms.items()) >= one.least for one in problem_of(problem.text)
    )


def test_problems_say_what_claims_say(tmp_path: Path) -> None:
    answers = set()
    for claim in claims(tmp_path):
        problem = Problem(claim)
        for cells in itertools.product(*problem.cells):
            prices = [claim.least(f, 1 << cell) or 0 for f, cell in enumerate(cells)]
            can_pay = all(sum(prices[f] for f in purse.columns) <= purse.budget for purse in claim.purses)
            leads = [
                leaf.lead
                for tree in claim.trees
                for leaf in tree
                if all(mask >> cells[f] & 1 for f, mask in leaf.cells.items())
            ]
            assert len(leads) == len(claim.trees)
            wins = claim.constant + sum(leads) >= claim.needed
            assert solves(problem, cells) == (can_pay and wins)
            answers.add((can_pay, wins))
    assert len(answers) == 4


def test_what_has_no_proof_is_refused(tmp_path: Path) -> None:
    question, proofs = asked(tmp_path, models()["forest"], ATTACKERS["distance"])
    without = next(row for row in range(40) if row not in proofs.rows)
    with pytest.raises(tp.InvalidInput, match=f"no proof of row {without}"):
        export_row(question, proofs, without, 0, str(tmp_path / "out"))
    with pytest.raises(tp.InvalidInput, match="no proof of neighbourhood 7, but of 0"):
        export_row(question, proofs, next(iter(proofs.rows)), 7, str(tmp_path / "out"))


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = tp.Attacker.linf(0.1, goal=[1])
    question, proofs = asked(tmp_path, models()["forest"], goal)
    content = next(row for row in proofs.rows if question.label(row) in question.goal)
    with pytest.raises(tp.InvalidInput, match=f"row {content} has a label that the attacker wants"):
        export_row(question, proofs, content, prefix=tmp_path / "out")
    question, proofs = asked(tmp_path, models()["forest"], ATTACKERS["costs"])
    question.result["relations"] = ["column(0) <= 1"]
    with pytest.raises(tp.InvalidInput, match="under relations"):
        export_row(question, proofs, next(iter(proofs.rows)), prefix=tmp_path / "out")
    del question.result["relations"]
    # Of three classes, the last one is too large.
    exported = [pseudo_boolean.export_claim(*claim) for claim in claims_of(question, proofs)]

    def some(*_: Any) -> pseudo_boolean.Export:
        if not exported:
            raise tp.InvalidInput("the proof has more boxes")
        return exported.pop()

    exported = exported[:1]
    monkeypatch.setattr(pseudo_boolean, "export_claim", some)
    with pytest.raises(tp.InvalidInput, match="more boxes"):
        export_row(question, proofs, next(iter(proofs.rows)), prefix=tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def claims_of(question: Question, proofs: ProofFile) -> list[Any]:
    return pseudo_boolean._claims_of(question, proofs, next(iter(proofs.rows)), None)
