"""Other leaf scores for trees that exist: a path from those they have to ones under which attacked rows lose less."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.attacker import Attacker
from treeproof.threat.one_hot import bind_neighbours
from treeproof.threat.threat import Threat
from treeproof.training._rows import IntArray, sets_paid_for
from treeproof.verification.local_search import Local

STOPS = (1, 2, 4, 8, 16, 32, 64, 100)
"""Passes over all trees after which scores are looked at: the path from the trained model to the hardened one."""
RATE = 0.2
"""What the steps of all trees in a pass add up to, as a share of Newton's steps."""
SMOOTHING = 1.0
"""So many rows in doubt are added to those of each leaf: leaves of few rows move less."""
SPREAD = 1.0
"""Leads are scaled so that this is the lead of the median row, as it is."""
MOST_LISTED = 2**24
"""Leaves of all rows together; where there are more, fewer rows are looked at."""
MOST_LOOKS = 2**28
"""The same, times sets of columns that attacks pay for."""


@dataclass(frozen=True, eq=False)
class Freedom:
    """Which leaf scores may change, and what they must remain."""

    free: npt.NDArray[np.bool_]
    """(n_leaves, n_scores)"""
    are_shares: bool
    """Whether those of a leaf are probabilities."""

    @classmethod
    def of(cls, ensemble: Ensemble) -> Freedom:
        """What follows from the scores as they are: a class to which a tree gives nothing gets nothing."""
        scores = ensemble.leaf_scores
        sums = scores.astype(np.float64).sum(axis=1)
        if ensemble.n_scores > 1 and (scores >= 0).all() and (np.abs(sums - 1) < 1e-6).all():
            return cls(np.ones(scores.shape, dtype=bool), True)
        ends = np.cumsum(np.add.reduceat(ensemble.feature < 0, ensemble.roots))
        starts = np.concatenate(([0], ends[:-1]))
        given = np.logical_or.reduceat(scores != 0, starts, axis=0)
        return cls(np.repeat(given, np.diff(np.append(starts, ends[-1])), axis=0), False)


class Rescoring:
    """Rows as attacks see them in an ensemble, and what becomes of its scores."""

    def __init__(
        self, ensemble: Ensemble, X: FloatArray, label: IntArray, attacker: Attacker, epsilon: Any, freedom: Freedom
    ) -> None:
        from treeproof._kernels.training.rescore import Attacked, Rivals

        self.ensemble = ensemble
        self._scores, base = _scores_of(ensemble, freedom)
        threat, (around,) = bind_neighbours([0.0 if epsilon is None else epsilon], ensemble, attacker.bind(ensemble))
        wanted = np.ones((len(X), ensemble.n_classes), dtype=bool)
        wanted[:, [k for k in range(ensemble.n_classes) if threat.goal and k not in threat.goal]] = False
        # Who has a label that the attacker wants is left alone, and must be told from all others.
        content = np.isin(label, threat.goal)
        wanted[content] = True
        local = Local(ensemble, threat)
        asked = _asked(local, X, label, around.sizes, content)
        bits, sets = _paid_sets(threat, len(X))
        self._listed = _listed(local, asked, bits, len(sets))
        self.n_rows = n = len(self._listed.start)
        widest = int(np.diff(self._listed.start).max())
        self._room = Rivals(np.empty(widest), np.empty(widest, dtype=np.int64))
        self._first = np.repeat((base[label[:n], None] - base)[:, :, None], len(sets), axis=2)
        clean = np.median(np.abs(_clean_leads(ensemble, X[:n], label[:n])))
        scale = SPREAD / float(clean) if clean > 0 else 1.0
        self._rows = Attacked(label[:n].copy(), wanted[:n].copy(), sets, scale)

    def path(self, seed: int) -> Iterator[tuple[int, FloatArray]]:
        """After some passes over all trees each, their number and the scores (n_leaves, n_scores) then."""
        from treeproof._kernels.training.rescore import improve

        rows, random = self._rows, np.random.RandomState(seed)
        values, leads = self._scores.values.copy(), self._leads()
        moved = self._scores._replace(values=values)
        slope, bend = np.zeros_like(values), np.zeros(len(values))
        n_trees = self.ensemble.n_trees
        for number in range(1, STOPS[-1] + 1):
            order = random.permutation(n_trees)
            smoothing = SMOOTHING * rows.scale**2 / 4
            improve(self._listed, moved, rows, order, RATE / n_trees, smoothing, leads, slope, bend, self._room)
            if number in STOPS:
                yield number, self._as_scores(values)

    def bounds(self) -> FloatArray:
        """(n, n_classes): no attack leaves a row less of a lead over a class; inf where that does not matter."""
        every, rows = np.arange(self.n_rows), self._rows
        least = self._leads().min(axis=2)
        least[~rows.wanted] = least[every, rows.label] = np.inf
        return np.asarray(least)

    def _leads(self) -> FloatArray:
        """(n, n_classes, n_sets): the same for attacks that pay for a set of columns, with the model's own scores."""
        from treeproof._kernels.training.rescore import add_all_worst

        leads: FloatArray = self._first.copy()
        add_all_worst(self._listed, self._scores.values, self._rows, leads, self._room)
        return leads

    def _as_scores(self, values: FloatArray) -> FloatArray:
        """Values of leaves as the model keeps them; those that did not move are what they were."""
        kept = self.ensemble.leaf_scores
        one = self.ensemble.rule.decision == Decision.CUT
        new = (values[:, 1:] if one else values) / self._scores.total[:, None]
        old = self._scores.values[:, 1:] if one else self._scores.values
        moved = (values[:, 1:] if one else values) != old
        return np.where(moved, new, kept).astype(kept.dtype).astype(np.float64)


def with_scores(ensemble: Ensemble, scores: FloatArray) -> Ensemble:
    """The same trees with other scores, without the library's own object."""
    new = scores.astype(ensemble.leaf_scores.dtype)
    new.flags.writeable = False
    return dataclasses.replace(ensemble, leaf_scores=new, source=None, responses=None)


def _scores_of(ensemble: Ensemble, freedom: Freedom) -> tuple[Any, FloatArray]:
    """What leaves give each class before sums are divided, and what sums begin with."""
    from treeproof._kernels.training.rescore import ANY_SCORE, CAPPED, SHARES, Scores

    rule = ensemble.rule
    values, base = ensemble.leaf_shares, ensemble.base.astype(np.float64) * (rule.divisor if rule.base_last else 1.0)
    free, total = freedom.free, _weights(ensemble)
    if rule.decision == Decision.CUT:
        nothing = np.zeros((len(values), 1))
        values, free = np.hstack((nothing, values)), np.hstack((nothing != 0, free))
        base = np.array([0.0, base[0] - rule.cut * rule.divisor])
        kind = CAPPED if freedom.are_shares else ANY_SCORE
    else:
        kind = SHARES if freedom.are_shares else ANY_SCORE
    return Scores(np.ascontiguousarray(values), np.ascontiguousarray(free), kind, total), base


def _weights(ensemble: Ensemble) -> FloatArray:
    """What the scores of each leaf are multiplied by before they are added up."""
    ones = np.ones_like(ensemble.leaf_scores)
    return np.ascontiguousarray(dataclasses.replace(ensemble, leaf_scores=ones).leaf_shares[:, 0])


def _clean_leads(ensemble: Ensemble, X: FloatArray, label: IntArray) -> FloatArray:
    """By how much the class of each row leads the best of the others, before sums are divided."""
    scores, rule = ensemble.scores(X, coded=True).astype(np.float64), ensemble.rule
    if rule.decision == Decision.CUT:
        return np.asarray((scores[:, 0] - rule.cut) * rule.divisor)
    every = np.arange(len(X))
    own = scores[every, label].copy()
    scores[every, label] = -np.inf
    return np.asarray((own - scores.max(axis=1)) * rule.divisor)


def _asked(local: Local, X: FloatArray, label: IntArray, sizes: FloatArray, content: npt.NDArray[np.bool_]) -> Any:
    """Where each row can be, and at what price; those that are `content` stay where they are."""
    low, high = local.threat.neighbourhood(X, sizes)
    low[content], high[content] = X[content], X[content]
    asked = local.asked_about(low, high, X, label, X)
    asked.reach["reach_low"][content], asked.reach["reach_high"][content] = 1, 0
    return asked


def _paid_sets(threat: Threat, n_rows: int) -> tuple[IntArray, IntArray]:
    """The bit of each column, and the largest sets of columns that one attack can pay for."""
    if threat.power is not None:
        return np.zeros(len(threat.low), dtype=np.int64), np.array([-1], dtype=np.int64)
    return sets_paid_for(threat.movable | threat.fillable, threat.cost, int(threat.budget), n_rows)


def _listed(local: Local, asked: Any, bits: IntArray, n_sets: int) -> Any:
    """The leaves that each row can be brought to, of as many rows as there is room and time for."""
    from treeproof._kernels.search.asked import Watch
    from treeproof._kernels.search.rows import room_for
    from treeproof._kernels.training.rescore import Listed, list_leaves

    model = local.space.compiled[0]
    n, n_trees = len(asked.labels), len(model.roots)
    most = min(MOST_LISTED, MOST_LOOKS // n_sets)
    size = min(4 * n * n_trees, most)
    listed = Listed(
        np.zeros((n, n_trees + 1), dtype=np.int64), np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int64)
    )
    watch = Watch(np.array([0, 0, 2**62], dtype=np.int64), np.ones(1, dtype=np.int64))
    room, never, row = room_for(model, asked.prices), np.full(n, np.inf), 0
    while (row := list_leaves(watch, model, asked, never, room, bits, row, listed)) < n:
        # At least one row is looked at.
        if row and len(listed.leaves) >= most:
            return listed._replace(start=listed.start[:row].copy())
        longer = (np.concatenate((some, np.empty_like(some))) for some in listed[1:])
        listed = Listed(listed.start, *longer)
    return listed
