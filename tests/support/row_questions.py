"""Random questions about one row of three columns: relations, attackers of many kinds, and a neighbourhood."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from tests.support.made_up import attacker_content, model_content, result_content, stump
from treeproof.check.evidence import Reach
from treeproof.check.rows import Question
from treeproof.check.rules import Rejected

VALUES = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, math.nan)
"""What columns are, and become."""
ORDERS = ("<=", ">=", "<", ">", "==", "!=")
NAMES = ("a", "b", "c")


def some_relation(random: Random) -> str:
    """Comparisons of columns and sums of them, and what follows from what."""

    def compared() -> str:
        if random.random() < 0.1:
            return f"{random.choice(NAMES)} is {random.choice(['missing', 'present'])}"
        columns = random.sample(NAMES, random.choice([1, 2, 2, 2, 3]))
        terms = (f"{random.choice([1, 1, 2, 0.5, -1, -2])} * {column}" for column in columns)
        return f"{' + '.join(terms)} {random.choice(ORDERS)} {random.choice([0, 0.5, 1, -1, 2])}"

    words = random.choice(["{}", "{}", "{} or {}", "implies({}, {})", "not ({} and {})"])
    return words.format(compared(), compared())


def some_attacker(random: Random) -> dict[str, Any]:
    """Intervals, lists, distances, steps, blanks and filled values."""

    def given(values: list[Any], share: float = 0.6) -> Any:
        pairs = [[name, random.choice(values)] for name in NAMES if random.random() < share]
        return {"by_feature": pairs} if pairs else None

    ways = [[-0.5, 0.5], [0, 1], [-1, 0], [0.5, 1.0], [None, None], [-1, -0.5], {"values": [0, 1, 0.5]}]
    fields: dict[str, Any] = {"domain": {"all": [-1, 2]}}
    if random.random() < 0.2:
        radius = random.choice([0.5, 1.0, 1.5])
        fields |= {"power": random.choice([1, 2]), "radius": radius}
        ways = [[-radius, radius]]
    else:
        fields |= {"budget": random.choice([None, 1, 2]), "costs": {"all": random.choice([1, 2])}}
        fields |= {"fill": given([1], 0.2), "blank": given([1], 0.2)}
    fields |= {"step": given([0.5, 1, "0.25"], 0.2)}
    return attacker_content(**fields, intervals=given(ways) or {"all": ways[0] if "power" in fields else [0, 0]})


def some_question(random: Random) -> tuple[Question, Reach, Any] | None:
    """Something about one row, with a neighbourhood; None if it makes no sense."""
    texts = [some_relation(random) for _ in range(random.randint(1, 3))]
    near = [[name, random.choice([0.5, 1.0])] for name in NAMES if random.random() < 0.4]
    if random.random() < 0.2:
        texts.append(random.choice(["one_of(a, b)", "at_most_one(a, b)"]))
        near = [["c", 0.5]]
    trees = [stump(f, [1.0, 0.0], [0.0, 1.0], cut) for f, cut in enumerate((0.25, 0.75, 0.25))]
    x = [None if math.isnan(value) else value for value in random.choices(VALUES, k=3)]
    asked = {"relations": texts, "epsilons": [{"by_feature": near}], "resilience": [[0]]}
    model, result = model_content(trees, ["no", "yes"], 3), result_content(x, "no", some_attacker(random), **asked)
    try:
        question = Question.of(model, result)
        return question, Reach(model, question.attacker, texts), {"by_feature": near}
    except Rejected:
        return None
