"""Cheapest attacks as their file says them: that they work and cost what is said, and that nothing cheaper does."""

from __future__ import annotations

from typing import Any, ClassVar

from treeproof.check.evidence import Reach
from treeproof.check.fields import ATTACKS as TABLE
from treeproof.check.one_hot import View, Views
from treeproof.check.results import ITSELF, changes_label
from treeproof.check.rows import Question, readable
from treeproof.check.rules import Rejected

ATTACKS = "treeproof-attacks"
CLOSE = 1e-12
"""Of Lp norms it is said that none is smaller by more than this share."""
MOST_KEPT = 8
"""So many views are kept at a time; each has all leaves of the model."""


class Attacks(Question):
    """What a file of cheapest attacks says: each row is stable against who has less than the price of its attack."""

    table: ClassVar = TABLE

    def __init__(self, model: dict[str, Any], result: dict[str, Any]) -> None:
        as_result = {"y": result["predicted"], "stability": result["exact"], "resilience": [], "epsilons": []}
        super().__init__(model, {**result, **as_result})
        self._views: dict[Any, Views] = {}

    def proved(self, number: int) -> list[int]:
        """The row itself, if it is said that no attack is cheaper. None is cheaper than one at no price."""
        return [0] if self.result["exact"][number] is True and self.result["price"][number] != 0 else []

    @property
    def proved_rows(self) -> list[int]:
        """The rows whose attack is said to be the cheapest, or that are said to have none."""
        return [row for row, exact in enumerate(self.result["exact"]) if exact is True]

    def hashes(self) -> dict[str, str]:
        """What a file of proofs says it is about."""
        hashes = super().hashes()
        del hashes["epsilons"]
        return {**hashes, "claim": "no attack is cheaper"}

    def view(self, number: int) -> tuple[View, list[float]]:
        """The row, and the attacker who can pay for less than its attack, or for all he is said to if it has none."""
        price = self.result["price"][number]
        if price not in self._views:
            if len(self._views) >= MOST_KEPT:
                self._views.clear()
            self._views[price] = Views(self.content, self.model, self._who_pays(price, 1), self.result)
        return self._views[price].of(self.row(number))

    def check_said(self, number: int) -> int:
        """Whether there is an attack, which works and costs no more than is said, or the row is rejected."""
        super().check_said(number)
        price = self.result["price"][number]
        if price is None:
            if self.result["attacked"][number] != self.result["X"][number]:
                raise Rejected("it has no attack, but is changed by one")
            return 0
        x, attacked = self.row(number), self.row(number, "attacked")
        reach = Reach(self.content, self._who_pays(price, 0), self.result.get("relations") or ())
        if not (changes_label(self, x, attacked) and reach.holds(reach.around(ITSELF), x, x, attacked)):
            raise Rejected("its attack does not work, or costs more than the result says")
        return 1

    def _who_pays(self, price: Any, less: int) -> dict[str, Any]:
        """The attacker who can pay a price, or only less than that."""
        if price is None:
            return {**self.attacker}
        if self.attacker["power"] is None:
            most = self.attacker["budget"]
            if type(price) is not int or not 0 <= price <= (price if most is None else most):
                raise Rejected(f"nobody pays {price!r}")
            return {**self.attacker, "budget": max(price - less, 0)}
        radius = self.attacker["radius"]
        if type(price) is not float or not 0 < price <= radius:
            raise Rejected(f"nothing is {price!r} away")
        return {**self.attacker, "radius": price * (1 - CLOSE) if less else min(price * (1 + CLOSE), radius)}


@readable("the model or the result")
def question_of(model: dict[str, Any], result: dict[str, Any]) -> Question:
    """What was asked, by a file of results or of cheapest attacks; Rejected if it is neither."""
    is_attacks = type(result) is dict and result.get("format") == ATTACKS
    question = (Attacks if is_attacks else Question).of(model, result)
    if result["fingerprint"] != question.model.fingerprint:
        raise Rejected("the result is about another model: not the same fingerprint")
    return question
