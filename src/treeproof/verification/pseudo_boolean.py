"""Proofs in another language: a claim as a pseudo-Boolean problem (OPB), and its tree of boxes as a VeriPB proof of it.

A solution of the problem is a row that can be paid for and that puts the other class ahead by what it needs. The proof
shows that there is none, by rules that have nothing to do with trees: sums of constraints, and unit propagation. It
follows the cuts of a tree of boxes. Weights are left out; where the plain bound of a box is not enough, it is cut here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from treeproof.check.proof_bytes import Reader
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import CLAIM, Question, check_rows
from treeproof.check.rules import (
    CUT_LEFT,
    CUT_RIGHT,
    DROP,
    KEEP_LEFT,
    KEEP_RIGHT,
    SPEND,
    WEIGH,
    Box,
    Claim,
    Leaf,
    Steps,
    Weights,
    halves,
)
from treeproof.errors import InvalidInput
from treeproof.files import as_path, write_whole

MOST_BOXES = 10_000
"""Of a case that is small."""


class Export(NamedTuple):
    """The text of a problem, and that of a proof that it has no solution."""

    problem: str
    proof: str


def export_row(
    question: Question, proofs: ProofFile, row: int, which: int | None = None, prefix: Any = "row"
) -> list[Path]:
    """Writes a problem and a proof for each class that the attacker wants; returns the paths of the files.

    `which` is 0 for the row itself and k for its k-th neighbourhood; None stands for the first that has a proof. The
    files are `PREFIX.CLASS.opb` and `PREFIX.CLASS.pbp`, where CLASS is the number of the class. All of them are
    written, or none.
    """
    if row not in proofs.rows:
        why = proofs.without.get(row, "it is not proved, or there is no such row")
        raise InvalidInput(f"there is no proof of row {row}: {why}", argument="row")
    if question.result.get("relations"):
        raise InvalidInput("proofs under relations cannot be exported", argument="row")
    texts: list[tuple[Path, str]] = []
    for claim, steps in _claims_of(question, proofs, row, which):
        _, _, other = claim.about
        for ending, text in zip(("opb", "pbp"), export_claim(claim, steps), strict=True):
            texts.append((as_path(f"{os.fspath(prefix)}.{other}.{ending}"), text))
    for path, text in texts:
        write_whole(path, text)
    return [path for path, _ in texts]


def _claims_of(question: Question, proofs: ProofFile, row: int, which: int | None) -> list[tuple[Claim, Reader]]:
    """What is claimed of a row or a neighbourhood, with where the trees begin; InvalidInput if that is none claim."""
    found: list[tuple[int, list[int], list[tuple[Claim, Reader]]]] = []
    question.reader = lambda data: _Claims(data, found)
    ((_, checked),) = check_rows(question, proofs, [row])
    if checked.rejected:
        raise InvalidInput(f"the proof of row {row} does not hold: {checked.rejected[row]}", argument="row")
    here = [(parts, claims) for k, parts, claims in found if which in (None, k)]
    if not here:
        known = ", ".join(str(k) for k, _, _ in found)
        raise InvalidInput(
            f"row {row} has no proof of neighbourhood {which}, but of {known}, where 0 is the row itself",
            argument="which",
        )
    parts, claims = here[0]
    if question.label(row) in question.goal:
        raise InvalidInput(f"row {row} has a label that the attacker wants: there is nothing to export", argument="row")
    if parts != [CLAIM]:
        raise InvalidInput(f"the neighbours of row {row} are proved in parts, which cannot be exported", argument="row")
    return claims


class _Claims(Reader):
    """Notes what a proof consists of: neighbourhoods, their parts, and claims with where their trees begin."""

    def __init__(self, data: bytes, found: list[tuple[int, list[int], list[tuple[Claim, Reader]]]]) -> None:
        super().__init__(data)
        self._found = found

    def begin(self, which: int) -> None:
        """A neighbourhood."""
        self._found.append((which, [], []))

    def part(self) -> int:
        """A part of it."""
        self._found[-1][1].append(super().part())
        return self._found[-1][1][-1]

    def at(self, box: Box, weights: Weights | None) -> None:
        """A box; the first one of a claim is where its tree begins."""
        super().at(box, weights)
        claims = self._found[-1][2]
        if not claims or claims[-1][0] is not box.claim:
            claims.append((box.claim, Reader(self._data[self._at :])))


def export_claim(claim: Claim, steps: Steps) -> Export:
    """A claim and its tree of boxes; InvalidInput if only the library's arithmetic, or no small proof, settles it."""
    problem = Problem(claim)
    proof = _Proof(problem)
    end = proof.of_tree(steps)
    lines = ["pseudo-Boolean proof version 3.0", f"f {len(problem.lines)} ;", *proof.lines]
    lines += ["output NONE ;", f"conclusion UNSAT : {end} ;", "end pseudo-Boolean proof ;"]
    return Export(problem.text, "\n".join([*lines, ""]))


class Problem:
    """Constraints on variables that say where a row is, which leaves it comes to, and what it costs.

    Literals are numbers, negative ones for variables that are 0. A column whose cells within reach are c_0 < c_1 < …
    has a variable "at least c_i" for each i from 1 on.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim, self.n_variables = claim, 0
        self.lines: list[str] = []
        self.names: list[str] = []
        self.cells = [_bits(mask) for mask in claim.region]
        self._above = [
            [self._variable(f"column {f} is in cell {cell} or above") for cell in cells[1:]]
            for f, cells in enumerate(self.cells)
        ]
        for above in self._above:
            for low, high in pairwise(above):
                self._clause([-high, low])
        self.leaves = [
            [self._variable(f"tree {t} is in leaf {i}") for i in range(len(tree))] for t, tree in enumerate(claim.trees)
        ]
        self.one_leaf: list[tuple[int, int]] = []
        """Per tree the constraints that it is in at least one leaf, and in at most one."""
        for own, tree in zip(self.leaves, claim.trees, strict=True):
            self.one_leaf.append(
                (self._sum([(1, leaf) for leaf in own], 1), self._sum([(-1, leaf) for leaf in own], -1))
            )
            for leaf, variable in zip(tree, own, strict=True):
                for f, mask in leaf.cells.items():
                    for first, last in self.runs(f, ~mask):
                        self._clause([-variable, *self.outside(f, first, last)])
        self._prices()
        leads = [
            (leaf.lead, variable)
            for own, tree in zip(self.leaves, claim.trees, strict=True)
            for leaf, variable in zip(tree, own, strict=True)
        ]
        self.lead = self._sum(leads, claim.needed - claim.constant)

    @property
    def text(self) -> str:
        """The problem as a file says it, with what its variables mean."""
        head = f"* #variable= {self.n_variables} #constraint= {len(self.lines)}"
        return "\n".join([head, *self.names, *self.lines, ""])

    def _prices(self) -> None:
        """Variables "costs at least so much", and that no purse pays for more than it holds."""
        fees: list[list[tuple[int, int]]] = []
        for f, prices in enumerate(self.claim.prices):
            steps, before, cheaper = [], 0, 0
            for price, mask in prices:
                if price > before:
                    variable = self._variable(f"column {f} costs {price} or more")
                    for first, last in self.runs(f, ~cheaper):
                        self._clause([variable, *self.outside(f, first, last)])
                    steps.append((before - price, variable))
                before, cheaper = price, cheaper | mask
            fees.append(steps)
        for purse in self.claim.purses:
            self._sum([fee for f in sorted(purse.columns) for fee in fees[f]], -purse.budget)

    def runs(self, f: int, mask: int) -> list[tuple[int, int]]:
        """The places, first and last, of cells of a column in a mask that stand beside each other."""
        runs: list[tuple[int, int]] = []
        for place, cell in enumerate(self.cells[f]):
            if mask >> cell & 1:
                runs, first = (runs[:-1], runs[-1][0]) if runs and runs[-1][1] == place - 1 else (runs, place)
                runs.append((first, place))
        return runs

    def outside(self, f: int, first: int, last: int) -> list[int]:
        """A clause: the column is below a place or above another."""
        above = self._above[f]
        return ([-above[first - 1]] if first else []) + ([above[last]] if last < len(above) else [])

    def _variable(self, name: str) -> int:
        self.n_variables += 1
        self.names.append(f"* x{self.n_variables}: {name}")
        return self.n_variables

    def _clause(self, literals: Sequence[int]) -> None:
        self.lines.append(clause(literals))

    def _sum(self, terms: Iterable[tuple[int, int]], least: int) -> int:
        """Adds a constraint; returns its number."""
        terms = [term for term in terms if term[0]] or [(1, 1), (-1, 1)]
        self.lines.append(" ".join(f"{factor:+} x{variable}" for factor, variable in terms) + f" >= {least} ;")
        return len(self.lines)


class _Proof:
    """Lines of a proof, each a constraint with a number."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._claim = problem, problem.claim
        self._n_boxes = 0
        self.lines: list[str] = []

    def of_tree(self, steps: Steps) -> int:
        """Follows a tree of boxes; returns the number of the contradiction at the end."""
        waiting: list[tuple[Box, bool]] = [(Box(self._claim), False)]
        while waiting:
            box, is_cut = waiting.pop()
            if is_cut:
                self._leave(box)
                continue
            op = steps.op()
            while op in (WEIGH, DROP):
                steps.weights()
                op = steps.op()
            if op in (CUT_LEFT, CUT_RIGHT, KEEP_LEFT, KEEP_RIGHT):
                left, right = halves(box.copy(), *steps.cut())
                first, second = (left, right) if op in (CUT_LEFT, KEEP_RIGHT) else (right, left)
                waiting += [(box, True), (second, False)]
                if op in (KEEP_LEFT, KEEP_RIGHT):
                    self._close(first)
                else:
                    waiting.append((first, False))
            else:
                if op == SPEND:
                    steps.rate()
                self._close(box)
        return self._add("rup >= 1 ;")

    def _close(self, box: Box) -> None:
        """Shows that nothing in a box wins, by cutting it as long as its plain bound is not enough."""
        waiting = [(box, False)]
        while waiting:
            box, is_cut = waiting.pop()
            if not is_cut and not box.is_closed:
                left, right = halves(box.copy(), *self._cut(box))
                waiting += [(box, True), (right, False), (left, False)]
                continue
            if not is_cut:
                self._bound(box)
            self._leave(box)

    def _bound(self, box: Box) -> None:
        """What a box can give at most: leaves that cost too much are none, and each tree gives its best one.

        What is left of the sum is a clause: a row that wins comes to some leaf that is better than those of the box.
        """
        if self._is_void(box):
            return
        self._n_boxes += 1
        if self._n_boxes > MOST_BOXES:
            raise InvalidInput(f"the proof has more than {MOST_BOXES} boxes; only small ones can be exported")
        terms, left = [str(self._problem.lead)], self._claim.needed - self._claim.constant
        ahead, behind = [0], []
        for t, (tree, live) in enumerate(zip(self._claim.trees, box.trees, strict=True)):
            best, alive = max((leaf.lead for leaf in live), default=None), {id(leaf) for leaf in live}
            for leaf, variable in zip(tree, self._problem.leaves[t], strict=True):
                if best is None or leaf.lead > best:
                    ahead.append(leaf.lead - (best or 0))
                    if id(leaf) not in alive and self._meets(box, leaf):
                        self._add(f"rup {clause([-variable, *self._outside(box)])}")
                elif leaf.lead < best:
                    behind.append(variable)
            at_least, at_most = self._problem.one_leaf[t]
            if best:
                terms.append(f"{at_least if best < 0 else at_most} {abs(best)} * +")
                left -= best
        if not box.is_empty:
            # The sum, without the leaves that give less than the best one of their tree: some leaf gives more.
            terms += [f"x{variable} w" for variable in behind]
            self._add(f"pol {' '.join(terms)} {max(left, *ahead)} d ;")

    def _meets(self, box: Box, leaf: Leaf) -> bool:
        """Whether a leaf that is too dear for a box has cells in it; without holes, or propagation does not see it."""
        for f, mask in leaf.cells.items():
            runs = self._problem.runs(f, mask & box.cells[f])
            if not runs:
                return False
            if len(runs) > 1:
                raise InvalidInput(f"a leaf has cells of column {f} that are apart; its price cannot be exported")
        return True

    def _cut(self, box: Box) -> tuple[int, int]:
        """A cut that some tree sees, first one whose leaves differ most."""
        trees = [leaves for leaves in box.trees if len({leaf.lead for leaf in leaves}) > 1]
        for leaves in sorted(trees, key=lambda leaves: leaves[-1].lead - leaves[0].lead):
            for leaf in leaves:
                for f, mask in leaf.cells.items():
                    ends = [last for _, last in self._problem.runs(f, mask & box.cells[f])]
                    ends += [last for _, last in self._problem.runs(f, ~mask & box.cells[f])]
                    if len(ends) > 1:
                        return f, self._problem.cells[f][min(ends)]
        raise InvalidInput("only the library's own arithmetic settles a box of the proof; it cannot be exported")

    def _outside(self, box: Box) -> list[int]:
        """A clause: the row is not in a box."""
        literals = []
        for f, region in enumerate(self._claim.region):
            if box.cells[f] != region:
                ((first, last),) = self._problem.runs(f, box.cells[f])
                literals += self._problem.outside(f, first, last)
        return literals

    def _is_void(self, box: Box) -> bool:
        return any(region and not cells for cells, region in zip(box.cells, self._claim.region, strict=True))

    def _leave(self, box: Box) -> None:
        """Notes that the row is not in a box, if that has cells at all."""
        if not self._is_void(box):
            self._add(f"rup {clause(self._outside(box))}")

    def _add(self, line: str) -> int:
        self.lines.append(line)
        return len(self._problem.lines) + len(self.lines)


def clause(literals: Sequence[int]) -> str:
    """At least one of some literals is true."""
    return " ".join(f"1 {'~' if literal < 0 else ''}x{abs(literal)}" for literal in literals) + " >= 1 ;"


def _bits(mask: int) -> list[int]:
    return [cell for cell in range(mask.bit_length()) if mask >> cell & 1]
