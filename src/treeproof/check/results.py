"""Checks rows of a result: their labels, their counterexamples, and what proves them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from treeproof.check.evidence import Reach
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import PROVED, Checked, Question, check_rows, readable
from treeproof.check.rules import Rejected

REFUTED = 1
ITSELF = {"all": 0.0}
"""The neighbourhood of a row alone."""


def check_result(question: Question, proofs: ProofFile | None, rows: Iterable[int]) -> Iterator[tuple[int, Checked]]:
    """Checks everything that a result says about each of these rows."""
    evidence = Evidence(question)
    for row in rows:
        found = Checked()
        try:
            found.counterexamples += evidence.check(row)
        except Rejected as error:
            found.rejected[row] = str(error)
        else:
            if proofs is not None:
                found.add(next(check_rows(question, proofs, [row]))[1])
            elif question.proved(row):
                found.unchecked[row] = "there is no file of proofs"
        yield row, found


class Evidence:
    """What a result says about rows, but for what only a proof can show."""

    @readable("the result")
    def __init__(self, question: Question) -> None:
        self._question, self._result = question, question.result
        self._reach = Reach(question.content, question.attacker, self._result.get("relations") or ())
        self._around = [self._reach.around(epsilon) for epsilon in (ITSELF, *self._result["epsilons"])]
        self._broken = [frozenset(rows) for rows in self._result.get("broken") or ()]

    @readable("the result")
    def check(self, row: int) -> bool:
        """Whether the row has a counterexample; Rejected if that or something else does not hold."""
        question, result = self._question, self._result
        question.check_said(row)
        x, is_correct = question.row(row), question.is_correct(row)
        if list(self._reach.relations.broken(x)) != [number for number, rows in enumerate(self._broken) if row in rows]:
            raise Rejected("it breaks other relations than the result says")
        stability, resilience = result["stability"][row], [outcomes[row] for outcomes in result["resilience"]]
        has_witness = result["refuted"][row] is not None
        if not question.is_attacked(row):
            by_label = PROVED if is_correct else REFUTED
            if has_witness or any(one != by_label for one in [*resilience, *([stability] if is_correct else [])]):
                raise Rejected("it is not attacked, but does not count by its label alone")
            return False
        refuted = [0] if stability == REFUTED else []
        refuted += [k for k, outcome in enumerate(resilience, 1) if outcome == REFUTED and is_correct]
        if (has_witness or refuted) and not (has_witness and self._has_counterexample(row, x, refuted)):
            raise Rejected("it has no counterexample that holds")
        return has_witness

    def _has_counterexample(self, row: int, x: list[float], refuted: list[int]) -> bool:
        near, attacked = (self._question.row(row, name) for name in ("neighbour", "attacked"))
        if not changes_label(self._question, near, attacked):
            return False
        return any(self._reach.holds(self._around[k], x, near, attacked) for k in refuted)


def changes_label(question: Any, near: list[float], attacked: list[float]) -> bool:
    """Whether an attack changes a label, to one that the attacker wants if it has a goal."""
    before, after = question.model.label(near), question.model.label(attacked)
    return before not in question.goal and after in question.goal if question.goal else before != after
