"""Neighbourhoods with several labels: proofs of their parts hold, and no part that is false is ever accepted."""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.any_attacker import random_attacker, random_row, random_sets
from tests.support.category_models import random_model
from tests.support.naive_proofs import double, naive_proof, number
from tests.support.proof_claims import question_about
from tests.support.proof_reader import CLAIM, CONTENT, IDLE, SPLIT, parts_of
from tests.support.random_blocks import Block
from tests.support.walls import stairs, walled_block
from treeproof.check import rows
from treeproof.check.claims import Place
from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Asked, Checked, Question, check_header, check_rows
from treeproof.check.rules import Rejected
from treeproof.errors import InvalidInput
from treeproof.threat.attacker_file import content_of
from treeproof.verification import forks
from treeproof.verification.local_search import Local
from treeproof.verification.part_proofs import PartProofs
from treeproof.verification.proofs import PAIRS, TOO_LONG

MIB = 2**20
Ends = tuple[float, float] | None
Part = tuple[Ends, ...]


# --- end to end ------------------------------------------------------------------------------------------------------


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many parts of each kind were checked."""
    met: Counter[str] = Counter()
    idle, claim = rows._check_idle, rows._check_claim

    def check_idle(*asked: Any) -> int:
        met["idle"] += 1
        return idle(*asked)

    def check_claim(*asked: Any) -> int:
        met["content" if asked[-1] else "claim"] += 1
        return claim(*asked)

    monkeypatch.setattr(rows, "_check_idle", check_idle)
    monkeypatch.setattr(rows, "_check_claim", check_claim)
    return met


def check_all(path: Path, model: tp.Ensemble, X: Any, attacker: tp.Attacker, **words: Any) -> tp.Verification:
    """Verifies rows and checks the proofs of all that are proved, from files alone."""
    result = tp.verify(model, X, model.predict(np.array(X)), attacker, proofs=path / "proofs.tpp", **words)
    tp.save_model(model, path / "model.json")
    result.to_json(path / "result.json")
    question = Question(*(json.loads((path / f"{name}.json").read_text()) for name in ("model", "result")))
    proofs, checked = ProofFile.open(path / "proofs.tpp"), Checked()
    check_header(question, proofs)
    for _, found in check_rows(question, proofs, range(len(X))):
        checked.add(found)
    assert not checked.rejected, (attacker, words)
    assert not checked.unchecked, (attacker, words)
    return result


def check_blocks(path: Path, seed: int, numbers: range) -> None:
    for n in numbers:
        asked = walled_block(seed, n)
        check_all(path, asked.ensemble, asked.rows, as_attacker(asked.attacker), epsilon=list(asked.neighbourhoods[0]))


@pytest.mark.parametrize("few_leaves", [2, 64])
def test_proofs_of_neighbourhoods_with_walls_hold(
    few_leaves: int, tmp_path: Path, kinds: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "FEW_LEAVES", few_leaves)
    check_blocks(tmp_path, 31, range(6))
    assert kinds["claim"] > 100
    assert kinds["idle"] > 15


@pytest.mark.long
@pytest.mark.slow
def test_proofs_of_many_neighbourhoods_with_walls_hold(tmp_path: Path, kinds: Counter[str]) -> None:
    check_blocks(tmp_path, 35, range(120))
    assert min(kinds["claim"], kinds["idle"]) > 1000


def narrow_block(n: int) -> Block:
    """Moves by one distance, or by distances that are closer together than doubles."""
    asked, random = walled_block(77, n), Random(f"narrow {n}")

    def narrow(interval: tuple[float, float]) -> tuple[float, float]:
        if random.random() < 0.4:
            return interval
        least = random.choice([0.1, 1.0, 0.3, 2.0, 3e-16, 0.7])
        most = least + random.choice([0, 0, 1e-16, 5e-16]) * least
        return random.choice([(least, most), (-most, -least)])

    intervals = tuple(map(narrow, asked.attacker.intervals))
    eps = tuple(random.choice([0.0, 1e-15, 1e-14, 0.2, 1.0]) for _ in intervals)
    return replace(asked, attacker=replace(asked.attacker, intervals=intervals, p=None), neighbourhoods=(eps,))


def check_narrow(path: Path, numbers: range) -> None:
    for n in numbers:
        asked = narrow_block(n)
        check_all(path, asked.ensemble, asked.rows, as_attacker(asked.attacker), epsilon=list(asked.neighbourhoods[0]))


def test_proofs_hold_where_not_all_cells_between_others_can_be_reached(tmp_path: Path) -> None:
    check_narrow(tmp_path, range(10, 20))


@pytest.mark.long
@pytest.mark.slow
def test_many_proofs_hold_where_not_all_cells_between_others_can_be_reached(tmp_path: Path) -> None:
    check_narrow(tmp_path, range(20, 150))


def check_any(path: Path, numbers: range) -> None:
    """Attackers of every kind: categories, sets of values, steps, matrices, missing values, goals."""
    for n in numbers:
        random = Random(f"parts {n}")
        model, attacker = random_model(random), random_attacker(random)
        X = np.array([random_row(random) for _ in range(12)])
        sets = random_sets(random) if random.random() < 0.7 else {}
        epsilon = {"b": random.choice([0.1, 0.3, 1.0]), "d": random.choice([0.1, 0.3, 1.0]), **sets}
        try:
            check_all(path, model, X, attacker, epsilon=epsilon)
        except InvalidInput:
            continue  # a row that the attacker's domain does not hold


def test_proofs_against_attackers_of_every_kind_hold(tmp_path: Path, kinds: Counter[str]) -> None:
    check_any(tmp_path, range(16))
    assert kinds["claim"] > 50
    assert kinds["content"] > 5
    assert kinds["idle"] > 0


@pytest.mark.long
@pytest.mark.slow
def test_proofs_against_many_attackers_of_every_kind_hold(tmp_path: Path, kinds: Counter[str]) -> None:
    check_any(tmp_path, range(16, 200))
    assert min(kinds.values()) > 30


def test_a_long_flight_of_stairs_has_a_short_proof(tmp_path: Path, kinds: Counter[str]) -> None:
    attacker = tp.Attacker([(0, 0), (-1, 1), (0, 0)])
    for effect, low, parts in ((1.0, -2.0, {"idle": 2, "claim": 1}), (0.25, -0.5, {"claim": 122, "idle": 120})):
        kinds.clear()
        result = check_all(tmp_path, stairs(100, effect), [[50.0, 0.0, low]], attacker, epsilon=[30.0, 0.0, 1.0])
        assert result.resilience_by_epsilon[0].tolist() == [tp.Outcome.PROVED]
        assert all(kinds[kind] <= most for kind, most in parts.items()), kinds


def test_proofs_that_are_too_long_in_all_are_left_out() -> None:
    ensemble = stairs(40, 0.25)
    threat = tp.Attacker([(0, 0), (-1, 1), (0, 0)]).bind(ensemble)
    asked = np.array([[20.0, 0.0, -0.5]]), np.array([15.0, 0.0, 1.0])
    whole = Local(ensemble, threat, proof_limit=MIB).decide(*asked).proofs[0]
    assert isinstance(whole, bytes)
    for limit, expected in ((len(whole), whole), (len(whole) - 1, TOO_LONG)):
        assert Local(ensemble, threat, proof_limit=limit).decide(*asked).proofs == (expected,)


def test_parts_are_put_together_whatever_order_they_come_in() -> None:
    one, two = np.array([0]), np.array([1])
    proofs = PartProofs(2, MIB)
    below, above = proofs.split(two, np.array([3]), np.array([0.5]))
    last = proofs.split(below, np.array([2]), np.array([-1.0]))[1]
    proofs.prove(above, [b"above"])
    proofs.prove(one, [b"all"])
    proofs.prove(last, [b"last"])
    assert proofs.proof(1) == PAIRS, "a part has no proof yet"
    proofs.leave_idle(last - 1)
    expected = [bytes([SPLIT, 3]), double(0.5), bytes([SPLIT, 2]), double(-1.0), bytes([IDLE]), b"last", b"above"]
    assert proofs.proof(1) == b"".join(expected)
    assert proofs.proof(0) == b"all"


# --- what is true, by all pairs --------------------------------------------------------------------------------------


def about(question: Question, x: list[float]) -> Asked:
    """What claims about the neighbourhood of a row are about."""
    view, own = question.views.of(x)
    return Asked(view, own, view.sizes[1], question.goal, False)


@dataclass
class Case:
    """A row of a small model, and the cells of all pairs (z, w)."""

    question: Question
    x: list[float]
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]
    labels: dict[tuple[int, ...], int]

    @property
    def about(self) -> Asked:
        """What claims about its neighbourhood are about."""
        return about(self.question, self.x)

    def labels_in(self, part: Part) -> set[tuple[int, int]]:
        """The labels before and after attacks on neighbours of a part, which is cut at thresholds of the model."""
        inside = []
        for ends, cuts in zip(part, self.question.model.cuts, strict=True):
            low, high = ends or (-math.inf, math.inf)
            # The cells of the part, and the one of missing values.
            cells = {c for c in range(len(cuts) + 1) if low <= [*cuts, math.inf][c] and [-math.inf, *cuts][c] < high}
            inside.append(cells | {oracles.NAN_CELL})
        return {
            (self.labels[z], self.labels[w])
            for z, w in self.pairs
            if all(cell in cells for cell, cells in zip(z, inside, strict=True))
        }

    def is_idle(self, part: Part) -> bool:
        """Whether attacks on these neighbours change no label."""
        return all(before == after for before, after in self.labels_in(part))

    def is_safe(self, part: Part) -> bool:
        """Whether no attack on these neighbours is a success."""
        goal = self.question.goal
        return all(
            after not in goal or before in goal if goal else before == after for before, after in self.labels_in(part)
        )

    def has(self, part: Part, label: int, is_content: bool) -> bool:
        """Whether a claim about these neighbours is true."""
        goal, found = self.question.goal, self.labels_in(part)
        if is_content:
            return all(before in goal for before, _ in found)
        return all(after not in goal if goal else after == label for _, after in found)


def cases(asked: Block, goal: list[int]) -> list[Case]:
    """The rows of a block that have few pairs. With a goal, the attacker wants these classes."""
    ensemble = asked.ensemble
    attacker = json.loads(json.dumps(content_of(as_attacker(asked.attacker))))
    attacker["goal"] = [ensemble.classes.tolist()[k] for k in goal]
    eps, n = asked.neighbourhoods[0], ensemble.n_features
    question, found = question_about(ensemble, attacker, asked.rows[:8], [list(eps)]), []
    index = {label: k for k, label in enumerate(ensemble.classes.tolist())}
    for x in asked.rows[:8]:
        try:
            options = [oracles.moves(ensemble, asked.attacker, x, eps, f) for f in range(n)]
        except NotImplementedError:
            continue
        if math.prod(map(len, options)) <= 3000:
            pairs = oracles.attacks(ensemble, asked.attacker, x, eps)
            labels = {cells: index[oracles.label_of_cells(ensemble, cells)] for cells in itertools.chain(*pairs)}
            found.append(Case(question, list(x), pairs, labels))
    return found


def random_part(case: Case, random: Random) -> Part:
    """Cut at thresholds of some columns."""
    part: list[Ends] = []
    for cuts in case.question.model.cuts:
        if not cuts or random.random() < 0.3:
            part.append(None)
            continue
        ends = [-math.inf, *cuts, math.inf]
        first, last = sorted(random.sample(range(len(ends)), 2))
        part.append((math.nextafter(ends[first], math.inf) if first else -math.inf, ends[last]))
    return tuple(part)


def accepts(check: Any, *asked: Any) -> bool:
    try:
        check(*asked)
    except Rejected:
        return False
    return True


def naive_claim(case: Case, part: Part, label: int, is_content: bool) -> bytes | None:
    """What proves a claim about a part, without its kind; None: it is false."""
    question, n = case.question, case.question.model.n_classes
    wanted = frozenset(range(n)) - question.goal if is_content else question.goal or frozenset(range(n)) - {label}
    view = case.about.view
    columns = [column.at_rest for column in view.columns] if is_content else view.columns
    region = rows.region_of(case.about, columns, view.grid, part)
    head = number(label) + number(0)
    if region is None:
        return head + bytes(len(wanted))
    place = Place(view.grid, region)
    trees = [naive_proof(place.claim(label, other, wanted)) for other in sorted(wanted)]
    return None if None in trees else head + b"".join(tree for tree in trees if tree is not None)


def check_random_parts(seed: int, numbers: range) -> Counter[str]:
    met: Counter[str] = Counter()
    for n in numbers:
        asked, random = walled_block(seed, n), Random(f"{seed} {n}")
        for goal in ([], [random.randrange(len(asked.ensemble.classes))]):
            for case, _ in itertools.product(cases(asked, goal), range(6)):
                part = random_part(case, random)
                truth = case.is_idle(part)
                idle = accepts(rows._check_idle, case.about, part)
                assert truth or not idle, (n, part)
                met[f"idle {truth} {idle}"] += 1
                label = random.randrange(case.question.model.n_classes)
                is_content = label in case.question.goal
                claim = naive_claim(case, part, label, is_content)
                if claim is not None:
                    reader = Reader(claim)
                    rows._check_claim(case.about, part, reader, False, is_content)
                    assert reader.is_done
                    assert case.has(part, label, is_content), (n, part, label)
                met[f"{'content' if is_content else 'claim'} {claim is not None}"] += 1
    return met


def test_no_part_is_accepted_that_is_false() -> None:
    met = check_random_parts(36, range(12))
    assert min(met[name] for name in ("idle True True", "idle False False", "claim True", "content True")) > 30
    assert min(met[name] for name in ("claim False", "content False")) > 30


@pytest.mark.long
@pytest.mark.slow
def test_no_part_of_many_is_accepted_that_is_false() -> None:
    check_random_parts(37, range(80))


# --- mutations -------------------------------------------------------------------------------------------------------


def mutated(parts: list[bytes], case: Case, others: list[bytes], random: Random) -> bytes:
    """A proof with one part gone, one cut moved, one part called idle or content, or something put in its place."""
    parts, i = parts.copy(), random.randrange(len(parts))
    kind = parts[i][0]
    match random.choice(["drop", "twice", "idle", "other", "move", "swap", "label", "kind"]):
        case "drop":
            del parts[i]
        case "twice":
            parts.insert(i, parts[i])
        case "idle":
            parts[i] = bytes([IDLE])
        case "other":
            parts[i] = random.choice(others)
        case "swap":
            j = random.randrange(len(parts))
            parts[i], parts[j] = parts[j], parts[i]
        case "move" if kind == SPLIT:
            f = random.randrange(len(case.x))
            cuts = case.question.model.cuts[f] or [0.0]
            parts[i] = bytes([SPLIT, f]) + double(random.choice(cuts))
        case "label" if kind in (CLAIM, CONTENT):
            parts[i] = parts[i][:1] + bytes([random.randrange(case.question.model.n_classes)]) + parts[i][2:]
        case _:
            parts[i] = bytes([random.choice([CLAIM, IDLE, CONTENT])]) + parts[i][1:]
    return b"".join(parts)


class Judge:
    """Notes every part that the checker accepts, and holds it against all pairs."""

    def __init__(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        self.case = case
        idle, claim = rows._check_idle, rows._check_claim

        def check_idle(asked: Asked, part: Part) -> int:
            boxes = idle(asked, part)
            assert self.case.is_idle(part)
            return boxes

        def check_claim(asked: Asked, part: Part, reader: Any, has_chains: bool, is_content: bool) -> int:
            label = reader.number()
            reader._at -= 1
            boxes = claim(asked, part, reader, has_chains, is_content)
            assert self.case.has(part, label, is_content)
            return boxes

        monkeypatch.setattr(rows, "_check_idle", check_idle)
        monkeypatch.setattr(rows, "_check_claim", check_claim)

    def accepts(self, proof: bytes) -> bool:
        """Whether all of a proof is accepted."""
        reader = Reader(proof)
        is_accepted = accepts(rows._check_parts, self.case.about, reader)
        if is_accepted and reader.is_done:
            assert self.case.is_safe((None,) * len(self.case.x))
        return is_accepted and reader.is_done


def check_mutations(seed: int, numbers: range, n_each: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    met: Counter[str] = Counter()
    for n in numbers:
        asked, random = walled_block(seed, n), Random(f"{seed} {n}")
        threat = as_attacker(asked.attacker).bind(asked.ensemble)
        found = cases(asked, [])
        if not found:
            continue
        decided = Local(asked.ensemble, threat, proof_limit=MIB).decide(
            np.array([case.x for case in found]), np.array(asked.neighbourhoods[0])
        )
        proved = {
            i: parts_of(proof, asked.ensemble.n_classes, 0)
            for i, proof in enumerate(decided.proofs)
            if decided.outcome[i] == tp.Outcome.PROVED and isinstance(proof, bytes) and proof[0] != CLAIM
        }
        others = [part for parts in proved.values() for part in parts]
        for parts, (i, case), _ in itertools.product(proved.values(), enumerate(found), range(n_each)):
            with monkeypatch.context() as patched:
                judge = Judge(case, patched)
                if parts is proved.get(i):
                    assert judge.accepts(b"".join(parts))
                proof = mutated(parts, case, others, random)
                is_accepted = judge.accepts(proof)
                met["accepted" if is_accepted else "rejected"] += 1
                assert not is_accepted or i in proved or decided.outcome[i] == tp.Outcome.PROVED
    return met


def test_mutated_parts_are_rejected_unless_they_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    met = check_mutations(31, range(12), 10, monkeypatch)
    assert met["rejected"] > 300
    assert met["accepted"] > 10


@pytest.mark.long
@pytest.mark.slow
def test_many_mutated_parts_are_rejected_unless_they_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_mutations(38, range(70), 12, monkeypatch)["rejected"] > 1500


# --- by hand ---------------------------------------------------------------------------------------------------------


def stairs_question(goal: list[int], x: list[float] | None = None) -> Asked:
    """Column 0 has stairs and cannot be moved; column 1 adds 0.25, where column 2 is above 0."""
    model = stairs(3, 1.0)
    attacker = json.loads(json.dumps(content_of(tp.Attacker([(0, 0), (-1, 1), (0, 0)]))))
    some = [[1.0, 0.0, -0.5]]
    return about(question_about(model, attacker | {"goal": goal}, some, [[3.0, 0.0, 1.0]]), x or some[0])


def test_attacks_change_nothing_where_what_they_change_is_not_asked() -> None:
    asked = stairs_question([])
    assert not accepts(rows._check_idle, asked, (None, None, None))
    assert accepts(rows._check_idle, asked, (None, None, (-math.inf, 0.0)))
    assert not accepts(rows._check_idle, asked, (None, None, (-math.inf, math.nextafter(0.0, 1.0))))
    # No neighbours are there.
    assert accepts(rows._check_idle, asked, (None, None, (2.0, 3.0)))


def test_a_value_that_is_missing_tells_no_leaves_apart() -> None:
    for nan_left, expected in ((True, True), (False, False)):
        asked = stairs_question([], [1.0, 0.0, math.nan])
        for t, tree in enumerate(asked.view.model.trees):
            asked.view.model.trees[t] = [node._replace(nan_left=nan_left) for node in tree]
        assert accepts(rows._check_idle, asked, (None,) * 3) == expected


@pytest.mark.parametrize("column", [3, 2**40])
def test_cuts_of_columns_that_there_are_not_are_rejected(column: int) -> None:
    asked = stairs_question([])
    reader = Reader(number(SPLIT) + number(column) + struct.pack("<d", 0.0) + bytes([IDLE, IDLE]))
    with pytest.raises(Rejected, match=f"there is no column {column}"):
        rows._check_parts(asked, reader)


def test_kinds_of_parts_that_there_are_not_are_rejected() -> None:
    asked = stairs_question([])
    with pytest.raises(Rejected, match="there is no part 6"):
        rows._check_parts(asked, Reader(b"\6"))


def test_wanted_labels_are_content_and_others_are_claims() -> None:
    for goal, kind, label, expected in (
        ([], CONTENT, 0, "class 0 is no label of such a part"),
        ([1], CONTENT, 0, "class 0 is no label of such a part"),
        ([1], CLAIM, 1, "class 1 is no label of such a part"),
        ([1], CLAIM, 2, "class 2 is no label of such a part"),
    ):
        asked = stairs_question(goal)
        with pytest.raises(Rejected, match=expected):
            rows._check_parts(asked, Reader(bytes([kind, label, 0, 0, 0])))


def test_many_cuts_need_no_deep_stack() -> None:
    asked = stairs_question([])
    cuts = b"".join(bytes([SPLIT, 2]) + double(-k / 1500) for k in range(1500))
    reader = Reader(cuts + bytes([IDLE]) * 1501)
    with pytest.raises(Rejected, match="attacks change something"):
        rows._check_parts(asked, reader)


def test_no_neighbour_is_left_out_at_a_cut() -> None:
    asked = stairs_question([])
    for cut, expected in ((0.0, [True, False]), (math.nextafter(0.0, 1.0), [False, False]), (0.5, [False, True])):
        reader = Reader(number(SPLIT) + number(2) + double(cut) + bytes([IDLE, IDLE]))
        assert not accepts(rows._check_parts, asked, reader)
        ends = [(-math.inf, cut), (math.nextafter(cut, math.inf), math.inf)]
        assert [accepts(rows._check_idle, asked, (None, None, end)) for end in ends] == expected
