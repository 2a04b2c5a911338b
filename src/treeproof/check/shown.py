"""A proof for people to read: cuts with names and thresholds, bounds and sums, and what closes each box.

It is written down while the proof is checked, so it shows what the checker saw.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

from treeproof.check.model_file import categories_of, names_of
from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Question, check_rows
from treeproof.check.rules import (
    CLOSED,
    CUT_LEFT,
    CUT_RIGHT,
    DECIDED,
    DROP,
    KEEP_LEFT,
    KEEP_RIGHT,
    SPEND,
    WEIGH,
    Box,
    Claim,
    Weighed,
    Weights,
)

MOST_COLUMNS, MOST_VALUES = 12, 6
"""Columns that a line names, and values of a category, at most."""


def show_proof(question: Question, proofs: ProofFile, row: int, depth: int | None = None) -> list[str]:
    """The proof of one row in lines, down to so many cuts; the last one says whether it holds."""
    lines: list[str] = []
    question.reader = lambda data: _Shown(data, question, lines, depth)
    for _, found in check_rows(question, proofs, [row]):
        if found.checked:
            lines.append(f"holds: {_quantity(found.boxes, 'closed box')}")
        else:
            lines.append(f"rejected: {found.rejected[row]}" if found.rejected else f"not all: {found.unchecked[row]}")
    return lines


class _Shown(Reader):
    """Reads a proof and writes down what it reads."""

    def __init__(self, data: bytes, question: Question, lines: list[str], depth: int | None) -> None:
        super().__init__(data)
        self._question, self._lines, self._most = question, lines, depth
        self._waiting: list[tuple[int, str]] = []
        """How many cuts deep the boxes to come are, and what makes each a part of the one before."""
        self._claim: Claim | None = None
        self._depth, self._heading, self._op, self._is_told = 0, "", CLOSED, False

    def begin(self, which: int) -> None:
        """A neighbourhood."""
        result = self._question.result
        names = result.get("epsilon_names") or [_epsilon(one) for one in result["epsilons"]]
        self._lines.append(f"neighbours within {names[which - 1]}:" if which else "the row itself:")

    def at(self, box: Box, weights: Weights | None) -> None:
        """The next box."""
        self._box, self._weights = box, weights
        if box.claim is not self._claim:
            self._claim, self._waiting = box.claim, [(0, "")]
            self._grid, label, other = box.claim.about
            before, after = (self._question.model.content["classes"][each] for each in (label, other))
            self._lines.append(f"  no attack makes it {after} in place of {before}; {self._reach(box)}")
        self._depth, self._heading = self._waiting.pop() if self._waiting else (0, "")
        self._is_told = True

    def op(self) -> int:
        """What is done with it."""
        self._op, is_told, self._is_told = super().op(), self._is_told, False
        if not is_told:
            self._lines.append("  no neighbours are here")
        elif self._op == CLOSED:
            self._say(f"closed: {_why(self._box, self._weights)}")
        elif self._op == DECIDED:
            self._say("decided: each tree has leaves of one score only, and the label that they give is computed")
        elif self._op not in (CUT_LEFT, CUT_RIGHT, KEEP_LEFT, KEEP_RIGHT, WEIGH, DROP, SPEND):
            self._say(f"step {self._op}")
        return self._op

    def cut(self) -> tuple[int, int]:
        """Where the box is cut."""
        f, cell = super().cut()
        left, right = self._sides(f, cell)
        if self._op in (KEEP_LEFT, KEEP_RIGHT):
            kept, other = (left, right) if self._op == KEEP_LEFT else (right, left)
            box, below = self._box.copy(), (1 << (cell + 1)) - 1
            if f < len(box.cells):
                box.keep(f, ~below if self._op == KEEP_LEFT else below)
            self._say(f"only {kept} is left, as {other} is closed: {_why(box, self._weights)}")
            self._waiting.append((self._depth, ""))
        else:
            self._say("…" if self._depth == self._most else "")
            sides = [right, left] if self._op == CUT_LEFT else [left, right]
            self._waiting += [(self._depth + 1, side) for side in sides]
        return f, cell

    def weights(self) -> Weights:
        """What trees give each other."""
        weights = super().weights()
        what = "weights" if self._op == WEIGH else "leaves are left out by weights"
        columns = _listed([self._name(f) for f in weights.segments])
        money = f", a cost of 1 is worth {_number(weights.rate / weights.scale)}" if weights.rate else ""
        self._say(f"{what}: {_quantity(len(weights.shares), 'tree')} with shares by {columns or 'no column'}{money}")
        self._waiting.append((self._depth, ""))
        return weights

    def rate(self) -> Fraction:
        """What money is worth, also as a part of weights."""
        rate = super().rate()
        if self._op == SPEND:
            self._say(f"closed: all that money can buy is too little, where a cost of 1 buys {_number(rate)}")
        return rate

    def _say(self, line: str) -> None:
        """Writes a line about the box, after what makes it a part of the one before; further lines are further in."""
        heading, self._heading = self._heading, ""
        whole = f"{heading}: {line}".rstrip() if heading else line
        if whole and (self._most is None or self._depth <= self._most):
            self._lines.append("  " * (self._depth + (1 if heading or not self._depth else 2)) + whole)

    # --- words -------------------------------------------------------------------------------------------------------

    def _name(self, f: int) -> str:
        content = self._question.model.content
        names: Sequence[str] = names_of(content) or self._question.result["feature_names"] or ()
        return names[f] if f < len(names) == len(self._grid.cuts) else f"column {f}"

    def _sides(self, f: int, cell: int) -> tuple[str, str]:
        """The two sides of a cut, in words."""
        name, grid = self._name(f), self._grid
        cuts = grid.cuts[f] if f < len(grid.cuts) else []
        if cell < len(cuts):
            if f in self._values:
                below = (2 << cell) - 1
                return self._among(f, self._box.cells[f] & below), self._among(f, self._box.cells[f] & ~below)
            return f"{name} <= {cuts[cell]!r}", f"{name} > {cuts[cell]!r}"
        return f"{name} is there", f"{name} is missing"

    @property
    def _values(self) -> dict[int, list[str]]:
        """The values of categories that rows have codes for, in their order, where proofs are about these columns."""
        content = self._question.model.content
        if len(content["columns"]) != len(self._grid.cuts):
            return {}
        coded = {f: each for f, each in categories_of(content).items() if each["coded"]}
        return {f: [*map(str, each["values"]), *["a value never seen"] * each["unseen"]] for f, each in coded.items()}

    def _among(self, f: int, cells: int) -> str:
        """Which values of a category are in some cells."""
        cuts = self._grid.cuts[f]
        values = [value for code, value in enumerate(self._values[f]) if cells >> bisect_left(cuts, code) & 1]
        values += ["missing"] * (cells >> len(cuts) + 1 & 1)
        if len(values) > MOST_VALUES:
            values[MOST_VALUES - 1 :] = [f"one of {len(values) - MOST_VALUES + 1} more"]
        return f"{self._name(f)} is {' or '.join(values)}"

    def _reach(self, box: Box) -> str:
        """The columns in which attacks lead beyond a cut, and where to."""
        parts = []
        for f, cells in enumerate(box.claim.region):
            if cells & (cells - 1):
                is_category = f in self._values
                parts.append(self._among(f, cells) if is_category else _range(self._name(f), cells, self._grid.cuts[f]))
        return f"within reach are {_listed(parts)}" if parts else "no test is within reach"


def _range(name: str, cells: int, cuts: Sequence[float]) -> str:
    """Where the first and the last cell of a mask are."""
    numbers, is_missing = cells & ((2 << len(cuts)) - 1), cells >> (len(cuts) + 1)
    first, last = (numbers & -numbers).bit_length() - 1, numbers.bit_length() - 1
    low = f"{cuts[first - 1]!r} < " if first > 0 else ""
    high = f" <= {cuts[last]!r}" if 0 <= last < len(cuts) else ""
    return f"{low}{name}{high}" + (" or missing" if is_missing else "")


def _why(box: Box, weights: Weights | None) -> str:
    """What closes a box, in words."""
    claim = box.claim
    for purse in claim.purses:
        if box.spent(purse) > purse.budget:
            costs, budget = (_number(Fraction(n) / claim.price_unit) for n in (box.spent(purse), purse.budget))
            return f"it costs {costs} at least, and the budget is {budget}"
    if box.is_empty:
        return "no row can be there, since some tree has no leaf for it that can be paid for"
    if box.is_closed or weights is None:
        said = _sum(claim, Fraction(claim.unit), sum(box.best), box.bound, claim.needed)
        is_closed = box.is_closed
    else:
        weighed = Weighed(box, weights)
        said = _sum(claim, weights.scale, sum(weighed.best), weighed.bound, weighed.needed)
        is_closed = weighed.is_closed
    if is_closed:
        return said
    exact = box.copy()
    exact.pay_exactly()
    if exact.is_empty:
        return "it is too dear, or no valid row is there"
    has_fewer = exact.trees != box.trees
    return f"{_why(exact, weights)}, by prices that are not rounded" if has_fewer else f"it is not: {said}"


def _sum(claim: Claim, unit: Fraction, best: int, most: int, least: int) -> str:
    """The bound as a sum, in units of scores."""
    constant, trees = Fraction(claim.constant, claim.unit), best / unit
    bound, needed = most / unit, least / unit
    parts = [("", constant), ("the trees' best ", trees), ("shares and money ", bound - trees - constant)]
    said = " + ".join(f"{what}{_number(value)}" for what, value in parts if value) or "0"
    return f"{said} = {_number(bound)} {'<' if bound < needed else '>='} {_number(needed)}"


def _number(value: Fraction) -> str:
    return f"{float(value):.6g}"


def _quantity(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "es" if what.endswith("x") else "s")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_COLUMNS
    return ", ".join(names[:MOST_COLUMNS]) + (f" and {more} more" if more > 0 else "")


def _epsilon(content: object) -> str:
    """A neighbourhood as a result file has it."""
    match content:
        case {"all": size}:
            return f"ε = {size}"
        case {"by_feature": list(pairs)}:
            return "ε = " + _listed([f"{name}: {size}" for name, size in pairs])
    return "ε by column"
