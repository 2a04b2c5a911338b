"""Proofs of the boxes of a map, for `check_map`: what docs/proof_format.md calls the parts of a claim.

A stable box has one claim: whatever the attacker does, rows keep the label of the box. An unstable one is cut until one
move changes the label of each row of a part. What proves that rows of a box have one label is recorded by the search.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import disbelieved
from treeproof.maps.partition import list_leaves
from treeproof.numbers.doubles import FloatArray, add_down, add_up
from treeproof.results.proof_file import ProofFile, header_of_map
from treeproof.results.verdicts import Outcome, Status
from treeproof.threat.attacker import Attacker
from treeproof.verification.local_search import Decisions, Local
from treeproof.verification.proofs import TOO_LONG, number
from treeproof.verification.witnesses import shorten

if TYPE_CHECKING:
    from treeproof.maps.stability_map import StabilityMap

SPLIT, MOVED = 1, 8
AT_ONCE = 512
"""So many boxes are searched together."""
MOST_PARTS = 2000
"""A box that takes more has no proof: a narrow move may lead from each of its doubles to another one."""


@dataclass(eq=False)
class _Part:
    """A box of a map, or a part of one."""

    low: FloatArray
    high: FloatArray
    content: bytes = b""
    """What proves it, or how it is cut."""
    halves: list[_Part] = field(default_factory=list)
    left: list[int] = field(default_factory=lambda: [MOST_PARTS])
    """How often the box of the map may still be cut."""

    def cut(self, f: int, at: float) -> list[_Part]:
        """Cuts it after a double, unless there are too many parts already."""
        self.left[0] -= 1
        if self.left[0] < 0:
            return []
        below = _Part(self.low, self.high.copy(), left=self.left)
        above = _Part(self.low.copy(), self.high, left=self.left)
        below.high[f], above.low[f] = at, math.nextafter(at, math.inf)
        self.content, self.halves = number(SPLIT) + number(f) + struct.pack("<d", at), [below, above]
        return self.halves

    def proof(self) -> bytes | None:
        """What proves all of it, in preorder; None if something of that is missing."""
        found, waiting = [number(1) + number(0)], [self]
        while waiting:
            part = waiting.pop()
            found.append(part.content)
            waiting += reversed(part.halves)
        return b"".join(found) if all(found) else None


def write_proofs(smap: StabilityMap, path: Any, limit: int) -> None:
    """Writes what proves each box of a map that is not open."""
    prover = _Prover(smap, limit)
    with ProofFile(path, header_of_map(smap.ensemble, smap.attacker, smap.grid, smap.nodes)) as file:
        for status in (Status.STABLE, Status.UNSTABLE):
            leaves, boxes = list_leaves(smap.grid, smap._tree, status)
            for start in range(0, len(leaves), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                parts = prover.parts(boxes[some])
                prover.prove(parts, status)
                for leaf, part in zip(leaves[some].tolist(), parts, strict=True):
                    proof = part.proof()
                    if proof is None or len(proof) > limit:
                        file.add(leaf, None, TOO_LONG)
                    else:
                        file.add(leaf, zlib.compress(proof), None)
        file.finish()


class _Prover:
    """Proves boxes of one map."""

    def __init__(self, smap: StabilityMap, limit: int) -> None:
        self._grid, self._threat = smap.grid, smap._threat
        self._ensemble = smap.ensemble.without_source()
        self._attacked = Local(self._ensemble, self._threat, proof_limit=limit)
        nobody = Attacker((0.0, 0.0)).bind(self._ensemble)
        self._still = Local(self._ensemble, nobody, proof_limit=limit)
        self._ends = dict(self._threat.ends)

    def parts(self, boxes: npt.NDArray[Any]) -> list[_Part]:
        """Boxes of fine cells as boxes of doubles."""
        low, high = np.empty(boxes.shape), np.empty(boxes.shape)
        for f in range(boxes.shape[1]):
            cuts = self._grid.bounds.cuts_of(f)
            low[:, f] = np.append(self._grid.low[f], np.nextafter(cuts, np.inf))[boxes["low"][:, f]]
            high[:, f] = np.append(cuts, self._grid.high[f])[boxes["high"][:, f]]
        return [_Part(*ends) for ends in zip(low, high, strict=True)]

    def prove(self, parts: list[_Part], status: Status) -> None:
        """Fills in what proves boxes."""
        while parts:
            now, parts = parts[:AT_ONCE], parts[AT_ONCE:]
            parts += self._stable(now) if status == Status.STABLE else self._unstable(now)

    def _stable(self, parts: list[_Part]) -> list[_Part]:
        """Proves boxes stable; returns the halves of those that have several labels."""
        found = self._one_label(self._attacked, parts)
        several = [part for part, outcome in zip(parts, found.outcome, strict=True) if outcome != Outcome.PROVED]
        for part, proof in zip(parts, found.proofs, strict=True):
            part.content = proof if isinstance(proof, bytes) else b""
        still = self._one_label(self._still, several)
        return [half for i, part in enumerate(several) for half in self._between(part, still, i)]

    def _unstable(self, parts: list[_Part]) -> list[_Part]:
        """Proves boxes unstable; returns the halves of those that one move does not break."""
        still, left = self._one_label(self._still, parts), []
        one = []
        for i, part in enumerate(parts):
            if still.outcome[i] == Outcome.PROVED:
                one.append((part, still.proofs[i]))
            else:
                left += self._between(part, still, i)
        if not one:
            return left
        X = np.array([part.high for part, _ in one])
        found = self._attacked.decide(X, np.zeros(X.shape[1]))
        if (found.outcome != Outcome.REFUTED).any():
            raise disbelieved("the map calls a box unstable that holds a stable row")
        _, attacked = shorten(self._ensemble, self._attacked.shows, X, X, found.attacked)
        whole: list[tuple[_Part, Any, dict[int, tuple[float, float]]]] = []
        for (part, proof), row in zip(one, attacked, strict=True):
            moves = self._moves(part, row)
            cut = next((cut for f, to in moves.items() if (cut := self._beyond_reach(part, f, to))), None)
            if cut is None:
                whole.append((part, proof, moves))
            else:
                left += part.cut(*cut)
        return left + self._moved(whole)

    def _moved(self, parts: list[tuple[_Part, Any, dict[int, tuple[float, float]]]]) -> list[_Part]:
        """Proves that moves into ranges, which all rows of boxes have, lead to another label; or cuts the boxes."""
        after = [_Part(part.low.copy(), part.high.copy()) for part, _, _ in parts]
        for moved, (_, _, moves) in zip(after, parts, strict=True):
            for f, (first, last) in moves.items():
                moved.low[f], moved.high[f] = first, last
        found, left = self._one_label(self._still, after), []
        for i, (part, proof, moves) in enumerate(parts):
            if found.outcome[i] != Outcome.PROVED:
                left += self._between(part, found, i, after[i])
            elif isinstance(proof, bytes) and isinstance(after_it := found.proofs[i], bytes):
                part.content = _moved_content(proof, after_it, moves)
        return left

    def _one_label(self, search: Local, parts: list[_Part]) -> Decisions:
        low, high = (np.array([getattr(part, end) for part in parts]) for end in ("low", "high"))
        if not parts:
            low = high = np.empty((0, self._grid.n_features))
        return search.one_label(high, low, high)

    def _between(self, part: _Part, found: Decisions, i: int, searched: _Part | None = None) -> list[_Part]:
        """The halves of a box, cut between two rows of other labels."""
        x, other = (part if searched is None else searched).high, found.attacked[i]
        for f in np.flatnonzero((x != other) & (part.low < part.high)).tolist():
            cuts = self._ensemble.grid.cuts_of(f)
            first, last = np.searchsorted(cuts, sorted((x[f], other[f])))
            if first < last:
                return part.cut(f, float(cuts[(first + last) // 2]))
        raise disbelieved("two rows of a cell have other labels")

    def _moves(self, part: _Part, attacked: FloatArray) -> dict[int, tuple[float, float]]:
        """Where moved columns go: to the cell of the attacked row, as far as that may be, or to its own value."""
        moves = {}
        for f in np.flatnonzero(part.high != attacked).tolist():
            cuts, value = self._ensemble.grid.cuts_of(f), float(attacked[f])
            cell = int(np.searchsorted(cuts, value))
            first, last = float(self._threat.domain_low[f]), float(self._threat.domain_high[f])
            first = max(first, float(np.nextafter(cuts[cell - 1], np.inf))) if cell else first
            last = min(last, float(cuts[cell])) if cell < len(cuts) else last
            wide = float(self._threat.high[f]) - float(self._threat.low[f])
            if f not in self._ends and wide < 2 * max(math.ulp(first), math.ulp(last)):
                first = last = value
            moves[f] = first, last
        return moves

    def _beyond_reach(self, part: _Part, f: int, to: tuple[float, float]) -> tuple[int, float] | None:
        """Where to cut a box of which not all rows can be moved into a range; None if all can."""
        if f in self._ends:
            return None
        least, most = float(self._threat.low[f]), float(self._threat.high[f])
        first = -math.inf if math.isinf(most) else float(add_up(to[0], -most))
        last = math.inf if math.isinf(least) else float(add_down(to[1], -least))
        if part.low[f] < first:
            return f, math.nextafter(first, -math.inf)
        return (f, last) if part.high[f] > last else None


def _moved_content(before: bytes, after: bytes, moves: dict[int, tuple[float, float]]) -> bytes:
    """A move with what proves the labels before and after it."""
    content, last = number(len(moves)), -1
    for f in sorted(moves):
        content += number(f - last - 1) + struct.pack("<dd", *moves[f])
        last = f
    (label, trees), (other, others) = map(_without_head, (before, after))
    return number(MOVED) + label + other + content + trees + others


def _without_head(claim: bytes) -> tuple[bytes, bytes]:
    """The label and the trees of a claim."""
    end = 2
    while claim[end - 1] > 127:
        end += 1
    return claim[1:end], claim[end + 1 :]
