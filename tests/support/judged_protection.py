"""What to protect, against brute force over all sets of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.explained import Units, holding, least_cost
from tests.support.judged_reasons import Columns
from tests.support.made_rows import AllPairs, Labels, plain_flips
from tests.support.random_blocks import Block
from tests.support.relation_questions import Question

Row = tuple[bool, set[Units]]
"""Whether a row is right, and what changes where it flips."""


def judge(found: tp.Protection, columns: Columns, rows: Sequence[Row], costs: dict[Any, int], where: str) -> None:
    """AssertionError unless the columns are the cheapest that reach the goal, and the share is what they reach."""
    prices = [costs.get(name, 1) for name in columns.names]
    protected = frozenset(map(columns.names.index, found.columns))
    where = f"{where}: {found.columns!r} for {found.cost}, share {found.share}"
    holds = Fraction(holding(rows, protected), len(rows))
    assert found.share.lower <= float(holds) <= found.share.upper, f"{where}: {float(holds)} hold"
    best = least_cost(rows, prices, Fraction(found.goal))
    assert best is not None, f"{where}: nothing is enough"
    assert sum(prices[unit] for unit in protected) == found.cost, where
    assert found.least <= best[0] <= found.cost, f"{where}: {best} is the best, said to cost {found.least} at least"
    assert found.exact, f"{where}: open"
    assert found.cost == best[0], f"{where}: {best} is cheaper"
    assert holds >= Fraction(found.goal), f"{where}: only {float(holds)} hold"
    for names, share in found.curve:
        some = frozenset(map(columns.names.index, names))
        true = holding(rows, some) / len(rows)
        assert share.lower <= true <= share.upper, f"{where}: curve, {names!r} gives {true}, said to be {share}"


def _ask(random: Random, columns: Columns, rows: Sequence[Row], where: str, counts: Counter[str], **words: Any) -> None:
    """One question about rows whose flips are known."""
    n, ceiling = len(rows), sum(right for right, _ in rows)
    wanted = random.randint(1, n)
    goal = (wanted - 0.5) / n
    costs = {name: random.randint(1, 4) for name in columns.names if random.random() < 0.5}
    words |= {"to": goal, "costs": costs or None}
    try:
        found = tp.protect(**words)
    except tp.InvalidInput as error:
        assert wanted > ceiling, f"{where}: refused, but {ceiling} of {n} rows can hold: {error}"
        counts["goals out of reach"] += 1
        return
    judge(found, columns, rows, costs, f"{where}, goal {goal}, costs {costs}")
    counts["protections"] += 1
    counts["protections that need columns"] += bool(found.columns)


def judge_block(asked: Block, random: Random) -> Counter[str]:
    """Rows of a block: robust, or resilient in its first neighbourhood."""
    counts: Counter[str] = Counter()
    ensemble, columns = asked.ensemble, Columns.of(asked.ensemble)
    eps = asked.neighbourhoods[0] if random.random() < 0.5 else None
    labels, rows = Labels(ensemble), []
    picked = asked.rows[:6]
    for x, y in zip(picked, asked.labels[:6], strict=True):
        right = bool(labels.of_row(x) == y)
        flips = plain_flips(ensemble, asked.attacker, x, eps or (0.0,) * len(x), labels)
        rows.append((right, flips))
    _ask(
        random, columns, rows, f"eps={eps}", counts, model=ensemble, X=np.array(picked), y=list(asked.labels[:6]),
        attacker=as_attacker(asked.attacker), epsilon=None if eps is None else list(eps),
    )  # fmt: skip
    return counts


def judge_question(asked: Question, random: Random) -> Counter[str]:
    """Rows of a question that keep its relations, with everything that its attacker makes of them enumerated."""
    counts: Counter[str] = Counter()
    every = [AllPairs(asked, x) for x in asked.X]
    every = [pairs for pairs in every if pairs.complete and pairs.is_valid(pairs.x)]
    if not every:
        return counts
    rows = [(random.random() < 0.9, pairs.explained().flips) for pairs in every]
    classes = asked.ensemble.classes.tolist()
    y = []
    for pairs, (right, _) in zip(every, rows, strict=True):
        own = pairs.labels.of_row(pairs.x)
        y.append(own if right else next(label for label in classes if label != own))
    _ask(
        random, Columns.of(asked.ensemble, asked.relations), rows, "question", counts, model=asked.model,
        X=np.array([pairs.x for pairs in every]), y=y, attacker=asked.attacker, relations=asked.given or None,
        voting=asked.voting,
    )  # fmt: skip
    return counts
