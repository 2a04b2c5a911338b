"""Verifier: verdicts on one row at a time, with all that rows share bound once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import counted
from treeproof.importers import as_ensemble
from treeproof.model.agreement import SpotCheck, check_on_probes
from treeproof.model.columns import in_own_values
from treeproof.model.ensemble import Ensemble, labels_for
from treeproof.model.one_row import one_row
from treeproof.results.row_table import RowTable
from treeproof.results.verdicts import Verdict, Witness
from treeproof.run.limits import Limits
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.binding import with_own_goal
from treeproof.threat.one_hot import bind_neighbours
from treeproof.threat.relations import Relation
from treeproof.verification.possible import bind_possible
from treeproof.verification.rows import Rows, decide_rows, replay_witnesses


class Verifier:
    """Decides single rows as `verify` does, for services that are asked about one row after the other.

    Model, attacker and neighbourhood are bound once, a call starts no thread unless its search takes longer than that,
    and the answer is a `Verdict`. A search that takes longer than `timeout` seconds (for stability, and for the
    neighbourhood) leaves its question UNKNOWN. Every counterexample has been replayed on the model, and its moves
    re-checked with rational numbers. The labels of the model's own library are compared with those that are proved on
    rows at thresholds first, and later on a few of the rows that come along; a difference is a SoundnessError.
    Threads may share a Verifier. Names in attacker and epsilon are those of the model; for a model without names, give
    positions. `relations` are those of `verify`. For test sets there is `verify`.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> verifier = Verifier(clf, tp.Attacker.linf(0.2), epsilon=0.1)
    >>> verifier.verdict([5.0, 3.4, 1.5, 0.2]).resilience
    <Outcome.PROVED: 0>
    >>> verifier.verdict([6.0, 2.9, 4.5, 1.7]).witness.in_words()
    'feature 3 1.7 → 1.750000059604645'
    """

    ensemble: Ensemble
    attacker: Attacker

    def __init__(
        self,
        model: Any,
        attacker: Attacker,
        *,
        epsilon: Any = None,
        relations: Any = None,
        timeout: float | None = None,
        voting: Any = None,
    ) -> None:
        self.ensemble = as_ensemble(model, voting=voting)
        self.attacker = with_own_goal(check_attacker(attacker), self.ensemble)
        self._timeout = Limits.of(timeout=timeout).timeout
        self._given = () if epsilon is None else (epsilon,)
        threat = bind_possible(self.attacker, self.ensemble, relations)
        self._threat, self._epsilons = bind_neighbours(self._given, self.ensemble, threat)
        check_on_probes(self.ensemble)
        self._spot_check = SpotCheck()

    def __repr__(self) -> str:
        near = "".join(f", epsilon={epsilon!r}" for epsilon in self._given)
        kept = f", relations={list(map(str, self._threat.relations.given))}" if self._threat.relations else ""
        return f"Verifier({self.ensemble!r}, {self.attacker!r}{near}{kept})"

    def verdict(self, x: Any, label: Any = None) -> Verdict:
        """What is known about one row; without the right label, that of the model counts as right."""
        return self.verdicts(one_row(x, self.ensemble), None if label is None else [label])[0]

    def verdicts(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Sequence[Verdict]:
        """One verdict per row of a small batch, which is searched together."""
        ensemble = self.ensemble
        rows = ensemble.check_rows(X).copy()
        self._threat.check_domain(rows, ensemble)
        self._spot_check.check(ensemble, rows)
        predicted = ensemble.predict_index(rows)
        right = predicted if y is None else labels_for(ensemble, y, len(rows))
        limits = Limits(timeout=self._timeout)
        asked = Rows(
            self._threat, limits, np.arange(len(rows)), rows, right, self.attacker, predicted, self._epsilons
        )  # fmt: skip
        with counted(asked.numbers):
            table = decide_rows(ensemble, asked)
        replay_witnesses(ensemble, table)
        witnesses = self._witnesses(table)
        known = zip((predicted == right).tolist(), self._threat.has_missing(rows).tolist(), strict=True)
        breaks: dict[int, tuple[Relation, ...]] = {}
        for row, relation in self._threat.relations.which_broken(rows):
            breaks[row] = (*breaks.get(row, ()), relation)
        return tuple(
            table.verdict(row, *both, witnesses.get(row), breaks.get(row, ())) for row, both in enumerate(known)
        )

    def _witnesses(self, table: RowTable) -> dict[int, Witness]:
        """The counterexamples, by the numbers of their rows."""
        found = np.flatnonzero(table.has_witness)
        if not len(found):
            return {}
        ensemble, near, attacked = self.ensemble, table.neighbour[found], table.attacked[found]
        before, after = (ensemble.classes[ensemble.predict_index(some)] for some in (near, attacked))
        rows = in_own_values(np.stack((table.X[found], near, attacked), axis=1), ensemble.categories)
        return {
            int(row): Witness(rows[i, 0], rows[i, 1], rows[i, 2], *both, ensemble.feature_names)
            for i, (row, both) in enumerate(zip(found, zip(before, after, strict=True), strict=True))
        }
