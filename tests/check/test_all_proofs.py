"""The most that can be proved at all: no row has a proof and a counterexample.

Proofs are made from the checker's own rules, down to single cells, for whatever they accept; counterexamples by brute
force and the definitions. Attackers have steps, distances, blanks and goals; rows keep relations, or break them.
"""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest

from tests.support.made_up import Proofs, stump
from tests.support.naive_proofs import double, number
from tests.support.row_questions import VALUES, some_question
from treeproof.check.claims import Place
from treeproof.check.evidence import Reach
from treeproof.check.results import ITSELF, changes_label
from treeproof.check.rows import IDLE, SPLIT, VALID, VALID_CONTENT, Asked, Part, Question, Valid, check_rows, region_of
from treeproof.check.rules import CLOSED, CUT_LEFT, DECIDED, Box, Claim, Rejected


def tree_of(claim: Claim) -> bytes | None:
    """A tree of boxes that proves a claim, if single cells can be closed or decided."""
    parts, waiting = [], [Box(claim)]
    while waiting:
        box = waiting.pop()
        f = next((f for f, mask in enumerate(box.cells) if mask & (mask - 1)), None)
        if box.is_closed or claim.is_too_dear(box.cells):
            parts.append(number(CLOSED))
        elif f is not None:
            cell = (box.cells[f] & -box.cells[f]).bit_length() - 1
            left = box.copy()
            left.keep(f, (2 << cell) - 1)
            box.keep(f, ~((2 << cell) - 1))
            waiting += [box, left]
            parts.append(number(CUT_LEFT) + number(f) + number(cell))
        elif claim.keeps_label([leaves[0] for leaves in box.trees]):
            parts.append(number(DECIDED))
        else:
            return None
    return b"".join(parts)


def part_of(asked: Asked, part: Part, random: Random, depth: int) -> bytes:
    """A proof of a part; if there is none, one that may not hold."""
    if depth and random.random() < 0.5:
        f, cut = random.randrange(len(part)), random.choice(VALUES[:-1])
        low, high = part[f] or (-math.inf, math.inf)
        halves = (low, min(high, cut)), (max(low, math.nextafter(cut, math.inf)), high)
        found = [part_of(asked, (*part[:f], half, *part[f + 1 :]), random, depth - 1) for half in halves]
        return number(SPLIT) + number(f) + double(cut) + b"".join(found)
    view, every = asked.view, frozenset(range(asked.view.model.n_classes))
    for label in every:
        is_content = label in asked.goal
        columns = [column.at_rest for column in view.columns] if is_content else view.columns
        wanted = every - asked.goal if is_content else asked.goal or every - {label}
        start = number(VALID_CONTENT if is_content else VALID) + number(label) + number(0) + number(0)
        region = region_of(asked, columns, view.grid, part)
        if region is None:
            return start + number(CLOSED) * len(wanted)
        place = Place(view.grid, region, [], Valid(asked, view.grid, columns, part, region).rules_out)
        trees = [tree_of(place.claim(label, other, wanted)) for other in sorted(wanted)]
        if None not in trees:
            return start + b"".join(tree for tree in trees if tree is not None)
    return number(IDLE)


def with_model(question: Question, random: Random) -> Question | None:
    """The same with random scores and maybe a goal, and the label that the model gives the row."""
    scores = [[random.choice([0.0, 0.0, 0.5, 1.0, -1.0]) for _ in range(2)] for _ in range(6)]
    trees = [stump(f, *scores[2 * f : 2 * f + 2], random.choice([0.0, 0.25, 0.75])) for f in range(3)]
    trees = [{**tree, "nan_left": [random.random() < 0.5, False, False]} for tree in trees]
    attacker = {**question.attacker, **({"goal": ["yes"]} if random.random() < 0.3 else {})}
    model, result = {**question.content, "trees": trees}, {**question.result, "attacker": attacker}
    try:
        label = [["no", "yes"][Question(model, result).model.label(question.row(0))]]
        return Question(model, {**result, "y": label, "predicted": label})
    except Rejected:
        return None


def has_counterexample(question: Question, reach: Reach, epsilon: object) -> bool:
    """Whether a neighbour, valid or the row itself, has a valid row among its attacks that gets another label."""
    x, around = tuple(question.row(0)), reach.around(ITSELF if epsilon is None else epsilon)
    valid = [row for row in itertools.product(VALUES, repeat=3) if not reach.relations.broken(row)]
    near = [x, *(row for row in valid if epsilon is not None and around.holds(x, row))]
    pairs = ((z, w) for z in near for w in valid if changes_label(question, list(z), list(w)))
    return any(reach.holds(around, x, z, w) for z, w in pairs)


def check_questions(seed: int, n: int) -> tuple[int, int]:
    """How many things were proved in n questions, and how many have a counterexample."""
    random, proved, refuted = Random(seed), 0, 0
    for _ in range(n):
        found = some_question(random)
        question = None if found is None else with_model(found[0], random)
        if found is None or question is None:
            continue
        (view, own), claims = question.view(0), []
        for which in range(2):
            asked = Asked(view, own, view.sizes[which], question.goal, which == 0)
            if random.random() < 0.8:
                claims.append(number(which) + part_of(asked, (None,) * len(own), random, random.randrange(3)))
        proofs = Proofs(number(len(claims)) + b"".join(claims))
        for which, epsilon in enumerate((None, found[2])):
            question.result |= {"stability": [2 * which], "resilience": [[2 - 2 * which]]}
            ((_, checked),) = check_rows(question, proofs, [0])  # type: ignore[arg-type]
            is_false = has_counterexample(question, found[1], epsilon)
            assert not (is_false and checked.checked), (seed, question.result, question.content["trees"])
            proved += bool(checked.checked)
            refuted += is_false
    return proved, refuted


def test_nothing_has_a_proof_and_a_counterexample() -> None:
    proved, refuted = check_questions(2, 6)
    assert proved and refuted


@pytest.mark.long
@pytest.mark.slow
def test_nothing_of_many_things_has_a_proof_and_a_counterexample() -> None:
    proved, refuted = check_questions(1, 100)
    assert proved > 50 and refuted > 10
