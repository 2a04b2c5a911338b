"""A tiny reader of pseudo-Boolean problems and proofs, for tests: only the few rules that exported proofs use.

It is ours, and no substitute for VeriPB itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Terms = dict[int, int]
"""Factors of variables."""


@dataclass
class Constraint:
    """A sum of variables times factors is at least something."""

    terms: Terms
    least: int

    def plus(self, other: Constraint) -> Constraint:
        """Both added up."""
        terms = {x: self.terms.get(x, 0) + other.terms.get(x, 0) for x in self.terms | other.terms}
        return Constraint({x: factor for x, factor in terms.items() if factor}, self.least + other.least)

    def times(self, factor: int) -> Constraint:
        """All of it, so many times."""
        assert factor > 0
        return Constraint({x: own * factor for x, own in self.terms.items()}, self.least * factor)

    def without(self, x: int) -> Constraint:
        """What is left whatever a variable is."""
        terms = {other: factor for other, factor in self.terms.items() if other != x}
        return Constraint(terms, self.least - max(self.terms.get(x, 0), 0))

    def divided(self, divisor: int) -> Constraint:
        """Factors of literals and the bound divided, and rounded up."""
        assert divisor > 0
        behind = sum(factor for factor in self.terms.values() if factor < 0)
        terms = {x: -(-abs(factor) // divisor) * (1 if factor > 0 else -1) for x, factor in self.terms.items()}
        least = -(-(self.least - behind) // divisor) + sum(factor for factor in terms.values() if factor < 0)
        return Constraint(terms, least)

    def negation(self) -> Constraint:
        """What holds where this does not."""
        return Constraint({x: -factor for x, factor in self.terms.items()}, 1 - self.least)


def constraint_of(text: str) -> Constraint:
    """A line such as `1 x1 2 ~x3 >= 1 ;`."""
    left, right = text.rstrip(" ;").split(">=")
    terms: Terms = {}
    least = int(right)
    words = left.split()
    assert len(words) % 2 == 0, text
    for factor, literal in zip(map(int, words[::2]), words[1::2], strict=True):
        match = re.fullmatch(r"(~?)x([1-9]\d*)", literal)
        assert match, text
        if match[1]:
            factor, least = -factor, least - factor
        terms[int(match[2])] = terms.get(int(match[2]), 0) + factor
    return Constraint({x: factor for x, factor in terms.items() if factor}, least)


@dataclass
class Checker:
    """All constraints so far, the first ones those of the problem."""

    known: list[Constraint] = field(default_factory=list)

    def is_contradicted(self, extra: Constraint) -> bool:
        """Whether unit propagation comes to a contradiction from everything known and one more."""
        value: dict[int, bool] = {}
        changed = True
        while changed:
            changed = False
            for one in (*self.known, extra):
                most = sum(factor * value[x] if x in value else max(factor, 0) for x, factor in one.terms.items())
                if most < one.least:
                    return True
                for x, factor in one.terms.items():
                    if x not in value and most - abs(factor) < one.least:
                        value[x] = factor > 0
                        changed = True
        return False

    def polish(self, words: list[str]) -> Constraint:
        """Sums, multiples, weakening and division in reverse Polish notation."""
        stack: list[Constraint | int] = []
        for word in words:
            if word == "+":
                second, first = stack.pop(), stack.pop()
                stack.append(self._constraint(first).plus(self._constraint(second)))
            elif word in ("*", "d", "w"):
                number, first = stack.pop(), self._constraint(stack.pop())
                assert isinstance(number, int)
                stack.append({"*": first.times, "d": first.divided, "w": first.without}[word](number))
            else:
                stack.append(int(word.removeprefix("x")))
        (last,) = stack
        return self._constraint(last)

    def _constraint(self, item: Constraint | int) -> Constraint:
        if isinstance(item, Constraint):
            return item
        assert 1 <= item <= len(self.known)
        return self.known[item - 1]


def problem_of(text: str) -> list[Constraint]:
    """The constraints of an OPB file."""
    return [constraint_of(line) for line in text.splitlines() if line and not line.startswith("*")]


def is_refuted(problem: str, proof: str) -> bool:
    """Whether a proof shows that a problem has no solution."""
    checker = Checker(problem_of(problem))
    head, load, *lines, output, conclusion, end = proof.splitlines()
    if (head, output, end) != ("pseudo-Boolean proof version 3.0", "output NONE ;", "end pseudo-Boolean proof ;"):
        return False
    if load != f"f {len(checker.known)} ;":
        return False
    for line in lines:
        rule, rest = line.split(" ", 1)
        if rule == "pol":
            checker.known.append(checker.polish(rest.rstrip(" ;").split()))
        elif rule == "rup":
            goal = constraint_of(rest)
            if not checker.is_contradicted(goal.negation()):
                return False
            checker.known.append(goal)
        else:
            return False
    match = re.fullmatch(r"conclusion UNSAT : (\d+) ;", conclusion)
    if not match or not 1 <= int(match[1]) <= len(checker.known):
        return False
    last = checker.known[int(match[1]) - 1]
    return sum(max(factor, 0) for factor in last.terms.values()) < last.least
