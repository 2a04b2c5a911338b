"""The local search where rows must be valid: relations between columns bind neighbours and attacked rows.

A one-hot group is a category column here, conditions on single columns are trees that forbid cells, and relations over
sums rule out boxes of cells as far as their ends tell. What a search then finds are cells, and whether these hold a
pair of rows (z, w) is one exact question (`joint.py`). If they do not, the search is told why, and goes on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.model.groups import Grouped, group_columns
from treeproof.model.kept import Kept
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.backwards import backwards
from treeproof.threat.one_hot import bind_grouped
from treeproof.threat.relations import ColumnLiteral, Literal, Relations
from treeproof.threat.relations.grouping import group_relations, groups_of
from treeproof.threat.threat import Threat
from treeproof.verification.clashes import Clashes
from treeproof.verification.local_search import Attacks, Decisions, Local
from treeproof.verification.nearest import NearestSearch
from treeproof.verification.proofs import RELATIONS, Proof
from treeproof.verification.row_search import RowSearch
from treeproof.verification.space import Clause, Space

_ON_GROUPS: Kept[Threat] = Kept()


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns that the search works on: the user's own, with each one-hot group as one category."""

    ensemble: Ensemble
    threat: Threat
    relations: Relations
    """What valid rows of these columns keep."""
    grouped: Grouped | None = None

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """Conditions on single columns."""
        return _divided(self.relations.clauses)[0]

    @cached_property
    def joint(self) -> tuple[tuple[Literal, ...], ...]:
        """Conditions with sums of columns."""
        return _divided(self.relations.clauses)[1]

    @cached_property
    def steps(self) -> dict[int, Fraction]:
        """The columns with a step, and their steps."""
        return dict(self.relations.steps)

    def rows(self, X: FloatArray) -> FloatArray:
        """Rows of the user's columns in these."""
        return X if self.grouped is None else self.grouped.rows(X)

    def boxes(self, X: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Boxes of neighbours of X in these columns."""
        if self.grouped is None:
            return low, high
        low, high, rows = low.copy(), high.copy(), self.rows(X)
        free = [list(group.features) for group in self.grouped.groups]
        wide = [(low[:, members] < high[:, members]).any(axis=1) for members in free]
        for members in free:
            low[:, members] = high[:, members] = X[:, members]
        low, high = self.rows(low), self.rows(high)
        for place, some in zip(self.grouped.places, wide, strict=True):
            if some.any():
                ends = self.threat.moves_of(place).neighbours(rows[some, place], math.inf)
                low[some, place], high[some, place] = ends
        return low, high

    def own(self, rows: FloatArray) -> FloatArray:
        """Rows of these columns in the user's."""
        return rows if self.grouped is None else self.grouped.ungroup(rows)

    @cached_property
    def space(self) -> Space:
        """Its cells, to which clauses can be added."""
        return Space(self.ensemble, self.clauses, self.threat.blanks, forbids=True)

    @classmethod
    def of(cls, ensemble: Ensemble, threat: Threat, X: FloatArray) -> Columns:
        """The columns of a question about rows X."""
        relations = threat.relations
        if not relations.groups:
            return cls(ensemble, threat, relations)
        grouped = group_columns(ensemble, groups_of(relations, ensemble), X)
        inner = _bound_to_groups(threat, grouped)
        inner = _with_own_columns(backwards(inner, grouped.ensemble) if threat.backwards else inner, threat, grouped)
        place_of = dict(zip(grouped.groups, grouped.places, strict=True))
        inner = inner.with_alike({place_of[group]: classes for group, classes in threat.alike_groups})
        if threat.frozen:
            own = set(threat.frozen)
            inner = inner.freeze(place for place, some in enumerate(grouped.columns) if not own.isdisjoint(some))
        return cls(grouped.ensemble, inner, group_relations(relations, grouped), grouped)


def _bound_to_groups(threat: Threat, grouped: Grouped) -> Threat:
    """The attacker on grouped columns."""
    attacker = threat.attacker
    assert attacker is not None
    # Values that are equal need not be the same, such as 1 and True: these print differently.
    key = attacker, repr(attacker), grouped.groups, tuple(vectors.tobytes() for vectors in grouped.vectors)
    return _ON_GROUPS.get(grouped.own, key, lambda: bind_grouped(attacker, grouped))


def _with_own_columns(inner: Threat, threat: Threat, grouped: Grouped) -> Threat:
    """The attacker on grouped columns, with those that are in no group as a threat on the user's columns has them."""
    place_of = {f: place for place, (f, *more) in enumerate(grouped.columns) if place not in grouped.places}
    own, places = list(place_of), list(place_of.values())
    columns = dict(inner.columns) | {place_of[f]: moves for f, moves in threat.columns if f in place_of}
    names = ("low", "high", "domain_low", "domain_high")
    arrays = {name: getattr(inner, name).copy() for name in names}
    for name, array in arrays.items():
        array[places] = getattr(threat, name)[own]
    ends = tuple((place, some) for place, some in inner.ends if place not in columns)
    return replace(inner, **arrays, ends=ends, columns=tuple(sorted(columns.items())))


def _divided(clauses: tuple[tuple[Literal, ...], ...]) -> tuple[tuple[Clause, ...], tuple[tuple[Literal, ...], ...]]:
    """Clauses about single columns, and those with sums."""
    single, joint = [], []
    for clause in clauses:
        columns = tuple(one for one in clause if isinstance(one, ColumnLiteral))
        if len(columns) == len(clause):
            single.append(columns)
        else:
            joint.append(clause)
    return tuple(single), tuple(joint)


class ValidSearch:
    """The local search for one model, one attacker and relations that valid rows keep; as `Local`."""

    def __init__(
        self,
        ensemble: Ensemble,
        threat: Threat,
        limits: Limits | None = None,
        proof_limit: int = 0,
        columns: Columns | None = None,
    ) -> None:
        """Proofs of up to `proof_limit` bytes are recorded; 0: none are. `columns` are those of the rows, if known."""
        self.ensemble, self.threat, self._proof_limit = ensemble, threat, proof_limit
        self._columns = columns
        self.limits = limits or Limits()
        self.boxes = 0
        self.used: FloatArray = np.zeros(0)
        """Of the last decisions, the seconds that each row has had."""

    def decide(self, X: FloatArray, epsilon: FloatArray, labels: npt.NDArray[np.int64] | None = None) -> Decisions:
        """Per row of X: is the model stable at the row, and at every valid row of its neighbourhood?"""
        return self.decide_boxes(X, *self.threat.neighbourhood(X, epsilon), labels)

    def shows(self, X: FloatArray, neighbour: FloatArray, attacked: FloatArray) -> npt.NDArray[np.bool_]:
        """Which pairs of rows within reach of X are counterexamples: both valid, or the neighbour X itself."""
        itself = ((neighbour == X) | np.isnan(X)).all(axis=1)
        broken, changes = self.threat.relations.broken, Local(self.ensemble, self.threat).shows(X, neighbour, attacked)
        return np.asarray(changes & ~broken(attacked) & (itself | ~broken(neighbour)))

    def decide_boxes(
        self,
        X: FloatArray,
        low: FloatArray,
        high: FloatArray,
        labels: npt.NDArray[np.int64] | None = None,
        used: FloatArray | None = None,
    ) -> Decisions:
        """The same at the row, and at every valid row from `low` to `high`, doubles around that row of X.

        Of each row's time so many seconds are `used`.
        """
        labels = self.ensemble.predict_index(X) if labels is None else labels
        self.used = np.zeros(len(X)) if used is None else used.copy()
        # Ways to break a group have codes, and proofs of a row know no codes of other rows.
        groups = self.threat.relations.groups if self._proof_limit and len(X) > 1 else ()
        alone = (
            np.logical_or.reduce([group.broken(X) for group in groups], axis=0) if groups else np.zeros(len(X), bool)
        )
        if alone.any():
            parts = [np.flatnonzero(~alone), *np.flatnonzero(alone)[:, None]]
            used, found = self.used, []
            for part in parts:
                found.append((part, self.decide_boxes(X[part], low[part], high[part], labels[part], used[part])))
                used[part] = self.used
            self.used = used
            return _united(X, found)
        columns = self._columns or Columns.of(self.ensemble, self.threat, X)
        rows, (low, high) = columns.rows(X), columns.boxes(X, low, high)
        local = Local(columns.ensemble, columns.threat, self.limits, columns.space, proof_limit=self._proof_limit)
        clashes = Clashes(self.ensemble, self.threat) if self._proof_limit else None
        search = RowSearch(columns, local, clashes)
        search.used = self.used
        around = (low != high) & ~np.isnan(rows)
        # A row that breaks the relations is no neighbour of itself, but the attacker finds it as it is.
        itself = ~around.any(axis=1) | self.threat.relations.broken(X)
        answers = Decisions(np.full(len(X), Outcome.PROVED, dtype=np.int8), rows.copy(), rows.copy(), 0)
        search.answer(np.flatnonzero(itself), rows, rows, rows, labels, answers)
        left = around.any(axis=1) & (answers.outcome != Outcome.REFUTED)
        search.answer(np.flatnonzero(left), rows, low, high, labels, answers)
        self.boxes += local.boxes
        proofs = tuple(search.claims.get(row, RELATIONS) for row in range(len(X))) if self._proof_limit else ()
        return Decisions(
            answers.outcome, columns.own(answers.neighbour), columns.own(answers.attacked), self.boxes, proofs
        )

    def cheapest(self, X: FloatArray, within: bool) -> Attacks:
        """Per row of X the cheapest attack that ends in a valid row; as `Local.cheapest`."""
        columns = Columns.of(self.ensemble, self.threat, X)
        if not within:
            columns = replace(columns, threat=columns.threat.without_limits())
        rows = columns.rows(X)
        local = Local(columns.ensemble, columns.threat, self.limits, columns.space)
        attacks = local.cheapest(rows, within, self.ensemble.predict_index(X))
        if columns.joint:
            search = (NearestSearch if columns.threat.power == 1 else RowSearch)(columns, local)
            invalid = np.isfinite(attacks.price) & ~search.valid(attacks.attacked)
            for row in np.flatnonzero(invalid).tolist():
                one = slice(row, row + 1)
                found = search.cheapest(rows[row], within, float(attacks.price[row]), float(local.used[row]))
                attacks.outcome[one], attacks.attacked[one], attacks.price[one] = found
        return Attacks(attacks.outcome, columns.own(attacks.attacked), attacks.price)


def _united(X: FloatArray, parts: list[tuple[npt.NDArray[np.int64], Decisions]]) -> Decisions:
    """What is decided about rows, from what is decided about some at a time."""
    outcome, neighbour, attacked = np.zeros(len(X), dtype=np.int8), X.copy(), X.copy()
    proofs: dict[int, Proof] = {}
    for rows, own in parts:
        outcome[rows], neighbour[rows], attacked[rows] = own.outcome, own.neighbour, own.attacked
        proofs |= dict(zip(rows.tolist(), own.proofs, strict=True))
    return Decisions(outcome, neighbour, attacked, parts[-1][1].boxes, tuple(proofs[row] for row in range(len(X))))


def search_for(
    ensemble: Ensemble, threat: Threat, limits: Limits | None = None, proof_limit: int = 0
) -> Local | ValidSearch:
    """The search that answers questions about this attacker."""
    if threat.relations:
        return ValidSearch(ensemble, threat, limits, proof_limit)
    return Local(ensemble, threat, limits, proof_limit=proof_limit)
