"""The cheapest attack on each row, proved cheapest."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.check.attacks import ATTACKS, CLOSE
from treeproof.errors import InvalidInput, disbelieved
from treeproof.files import as_json
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.measures import prices_in_short
from treeproof.results.proof_file import NoProofFile, ProofFile, Proofs, header_of_attacks
from treeproof.results.relation_words import broken_in_short
from treeproof.results.verdicts import Outcome, differ
from treeproof.results.verification_file import plain_label, question_to_json, rows_to_json
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.progress import progress_bar
from treeproof.run.workers import in_groups, run_groups
from treeproof.threat.attacker import COST_OF_1, Attacker, check_attacker
from treeproof.threat.one_hot import bind_valid
from treeproof.threat.reached import InVain
from treeproof.threat.relations import Relation
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Attacks
from treeproof.verification.proofs import RowProofs, check_limit
from treeproof.verification.request import Request, RowTask
from treeproof.verification.rows import keeps_label
from treeproof.verification.valid_rows import search_for

ROWS = 64
"""Rows per task: their searches are compiled code, and what Python adds is shared by all of them."""

NO_TIME = "time was up before it was proved again that no attack is cheaper"
"""Why there is no proof."""


class Question(NamedTuple):
    """Whose attacks on which rows are asked about, and where these lead, as doubles."""

    model: str
    fingerprint: str
    feature_names: tuple[str, ...] | None
    attacker: Attacker
    """With what he can pay for at most: any budget, or the largest radius, unless his own bind."""
    relations: tuple[Relation, ...]
    X: FloatArray
    predicted: npt.NDArray[Any]
    attacked: FloatArray

    @property
    def content(self) -> dict[str, Any]:
        """The same as files have it."""
        return {
            **question_to_json(ATTACKS, 1, self),
            "n_features": self.X.shape[1],
            "X": rows_to_json(self.X),
            "predicted": [plain_label(label) for label in self.predicted.tolist()],
            "attacked": rows_to_json(self.attacked),
        }


@dataclass(frozen=True, eq=False)
class CheapestAttacks:
    """Per row the cheapest attack that changes its label."""

    price: FloatArray
    """(n,) the Lp norm, or the sum of costs; inf: none was found."""
    rows: Any
    """The attacked rows, like X; a row without an attack is unchanged."""
    exact: npt.NDArray[np.bool_]
    """(n,) whether it is proved that nothing is cheaper, or that there is no attack; False: time was up before.

    Sums of costs are exact. Of Lp norms it is proved that none is smaller by more than one part in 10**12.
    """
    label: npt.NDArray[Any]
    """(n,) what the model predicts for the attacked rows."""
    missing: npt.NDArray[np.int64]
    """(n,) how many values of the row are missing and stay so: the attacker cannot fill them in."""
    in_vain: InVain
    """The columns that no move brings to a threshold of the model, from any row."""
    invalid_rows: npt.NDArray[np.bool_]
    """(n,) which rows break the relations themselves; their attacks end in rows that keep them, too."""
    about: Question
    """What was asked, as its file says it."""

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The attacks and what was asked as JSON text, also written to `path` if given; `check_proofs` reads it."""
        is_whole = self.about.attacker.power is None
        prices = [None if math.isinf(one) else int(one) if is_whole else one for one in self.price.tolist()]
        return as_json({**self.about.content, "price": prices, "exact": self.exact.tolist()}, path)

    def __repr__(self) -> str:
        n, found = len(self.price), int(np.isfinite(self.price).sum())
        text = f"{n} rows, {found} with an attack, {int(self.exact.sum())} proved"
        text += prices_in_short(self.price, self.missing, self.in_vain)
        if self.invalid_rows.any():
            text += f"; {broken_in_short(int(self.invalid_rows.sum()))}"
        return f"CheapestAttacks({text})"


@dataclass(frozen=True, eq=False)
class _Task(RowTask):
    """A few rows to attack."""

    within: bool
    attacker: Attacker
    """With what he can pay for at most."""
    proof_limit: int
    """The most bytes of a proof; 0: none are recorded."""


class _Answer(NamedTuple):
    """Attacks, and what proves that there are no cheaper ones."""

    attacks: Attacks
    proofs: Proofs


def cheapest_attack(
    model: Any,
    X: npt.ArrayLike,
    attacker: Attacker,
    *,
    within: bool = False,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
    voting: Any = None,
    relations: Any = None,
    proofs: Any = None,
    proof_limit: int | None = None,
) -> CheapestAttacks:
    """The cheapest way for the attacker to change each row's label, with a proof that there is no cheaper one.

    The attacker's intervals, domain and goal bind, and so do `relations`, as in `verify`; budgets and an Lp radius only
    with `within=True`. The price is the sum of costs, or the Lp norm, and inf where there is no attack: a row that has
    a label of the goal needs none. An attacker to whom every move is free (`Attacker.linf`) has no cheapest attack: ask
    for `robustness_radius`. `timeout` is for a row; `n_jobs` is as in `verify`. `proofs` is a file for what proves that
    no attack is cheaper: once the price is known, each row is searched again with the budget, or radius, just below it,
    which is written down. `check_proofs` checks that together with the result; `proof_limit` is as in `verify`.
    One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    >>> found = cheapest_attack(clf, [[0.0, 0.0], [0.75, 0.0]], tp.Attacker.lp(1, 0.25))
    >>> found.price.round(6).tolist(), found.exact.tolist(), found.label.tolist()
    ([0.5, 0.25], [True, True], [1, 0])
    """
    way_out = "ask for robustness_radius, or give it costs=, budget= or use Attacker.lp"
    attacker = who_pays(check_attacker(attacker), within, way_out)
    asked = Request.unlabelled(model, X, attacker, voting, relations)
    check_jobs(n_jobs)
    most = check_limit(proofs, proof_limit)
    limits = Limits.of(timeout=timeout, max_seconds=max_seconds)
    groups = in_groups(len(asked.X), ROWS)
    threat = asked.threat if within else asked.threat.without_limits()
    attacker = asked.attacker if within else asked.attacker.without_limits
    tasks = [_Task(threat, limits, rows, asked.X[rows], asked.y[rows], within, attacker, most) for rows in groups]
    n = len(asked.X)
    found = Attacks(np.full(n, Outcome.UNKNOWN, dtype=np.int8), asked.X.copy(), np.full(n, math.inf))
    with progress_bar(progress, len(asked.X)) as advance, _proof_file(proofs, asked, attacker) as file, asked.told():

        def take(number: int, answer: _Answer) -> None:
            some, own = groups[number], answer.attacks
            found.outcome[some], found.attacked[some], found.price[some] = own.outcome, own.attacked, own.price
            file.add_all(answer.proofs)
            advance(len(some))

        run_groups(_answer, asked.ensemble, tasks, limits, n_jobs, take)
        result = _result(asked, threat, found, attacker, limits)
        # What was not found in time is not said, and needs no proof.
        file.finish()
    return result


def _proof_file(proofs: Any, asked: Request, attacker: Attacker) -> NoProofFile:
    """The file that proofs go to, if any."""
    if proofs is None:
        return NoProofFile()
    return ProofFile(proofs, header_of_attacks(asked.ensemble, attacker, asked.threat.relations.given, asked.X))


def moves_for_free(attacker: Attacker) -> bool:
    """Whether nothing says what moves cost."""
    has_costs = attacker.costs != COST_OF_1 or attacker.blank or attacker.fill or attacker.rewrites or attacker.groups
    return attacker.power is None and attacker.budget is None and not has_costs


def who_pays(attacker: Attacker, within: bool, way_out: str) -> Attacker:
    """The attacker whose moves have prices; refuses one to whom every move is free, since none is the cheapest."""
    if moves_for_free(attacker):
        raise InvalidInput(
            "the attacker has no costs, budget or Lp radius: all its moves are free, and none is the cheapest",
            argument="attacker",
            way_out=way_out,
        )
    # The radius only matters within it, but 0 would mean that no feature can be touched.
    can_touch = attacker.power is None or within or attacker.radius > 0
    return attacker if can_touch else attacker.with_radius(1.0)


def _answer(ensemble: Ensemble, task: _Task) -> _Answer:
    """The attacks on the rows of a task, and what proves that none is cheaper."""
    n = len(task.X)
    if task.limits.is_over() or task.limits.timeout == 0:
        return _Answer(Attacks(np.full(n, Outcome.UNKNOWN, dtype=np.int8), task.X, np.full(n, math.inf)), {})
    attacks = search_for(ensemble, task.threat, task.limits).cheapest(task.X, task.within)
    return _Answer(attacks, _proofs(ensemble, task, attacks) if task.proof_limit else {})


def _proofs(ensemble: Ensemble, task: _Task, attacks: Attacks) -> Proofs:
    """What proves that no attack is cheaper: rows keep their labels if the attacker can only pay for less."""
    proofs, exact = RowProofs(), (attacks.outcome == Outcome.PROVED) & (attacks.price > 0)
    for price in np.unique(attacks.price[exact]).tolist():
        rows = np.flatnonzero(exact & (attacks.price == price))
        threat = bind_valid(_who_pays_less(task.attacker, price), ensemble, task.threat.relations.given)
        decided = search_for(ensemble, threat, task.limits, task.proof_limit).decide(
            task.X[rows], np.zeros(ensemble.n_features)
        )
        refuted = rows[decided.outcome == Outcome.REFUTED]
        if len(refuted):
            raise disbelieved(f"the attack that was found costs {price}, and there is a cheaper one", refuted)
        own = [
            proof if outcome == Outcome.PROVED else NO_TIME
            for proof, outcome in zip(decided.proofs, decided.outcome.tolist(), strict=True)
        ]
        proofs.add(0, task.numbers[rows].tolist(), own)
    return proofs.rows


def _who_pays_less(attacker: Attacker, price: float) -> Attacker:
    """The attacker who can pay for less than a price; for no more than he can do if that is infinite."""
    if math.isinf(price):
        return attacker
    return attacker.with_budget(int(price) - 1) if attacker.power is None else attacker.with_radius(price * (1 - CLOSE))


def _result(asked: Request, found_by: Threat, found: Attacks, attacker: Attacker, limits: Limits) -> CheapestAttacks:
    """The result, once every attack has been replayed on the source model."""
    rows = found.attacked
    attacked = np.flatnonzero(differ(rows, asked.X).any(axis=1))
    label = asked.ensemble.classes[asked.ensemble.predict_index(rows)]
    if len(attacked):
        same = attacked[keeps_label(asked.ensemble, asked.X[attacked], rows[attacked])]
        if len(same):
            raise disbelieved("the attack that was found keeps the label of the model's own predict", same)
    missing = np.isnan(asked.X[:, ~found_by.fillable]).sum(axis=1)
    in_vain = replace(asked, threat=found_by).moved_in_vain(limits) or InVain()
    exact = found.outcome == Outcome.PROVED
    broken = asked.threat.relations.broken(asked.X)
    about = Question(
        *asked.about_model,
        attacker,
        asked.threat.relations.given,
        asked.X,
        asked.ensemble.classes[asked.y],
        rows,
    )
    return CheapestAttacks(found.price, asked.like_given(rows), exact, label, missing, in_vain, broken, about)
