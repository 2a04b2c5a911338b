"""RobustForestClassifier: robust trees on bootstrap samples that vote."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from treeproof.errors import InvalidInput
from treeproof.numbers.doubles import FloatArray
from treeproof.run.limits import check_jobs
from treeproof.run.progress import progress_bar
from treeproof.training._base import RobustClassifier
from treeproof.training._grow import GrowthLimits
from treeproof.training._rows import TrainingSet
from treeproof.training._select import chosen_votes
from treeproof.training._settings import check_whole, limits_of
from treeproof.training.scorers import ExactScorer
from treeproof.training.tree import RobustTreeClassifier

SELECTED = ("robustness", "resilience")


@dataclass(eq=False, repr=False, kw_only=True)
class RobustForestClassifier(RobustClassifier):
    """A forest of robust trees.

    Each tree sees a bootstrap sample of the rows (`bootstrap`) and, at every split, `max_features` of the features
    ("auto": the square root of their number, but 4 at least); see `RobustTreeClassifier` for the rest. With
    `voting="soft"` trees add up the shares that they give to classes, with `"hard"` each has one vote. The attacker
    pays for columns once in the whole forest, so with `shared_budget` each tree holds against each row one set of
    columns, drawn out of those that can be paid for; without it all of them. The paper's forests are
    `criterion="treant"`, `voting="hard"`, `shared_budget=False`, `max_features=None`. The same `random_state` gives the
    same forest for every `n_jobs`. `progress=True` shows a bar.

    With `select="robustness"` or `"resilience"` (which needs `epsilon`), a share of the rows (`validation_fraction`) is
    held out, and trees lose their votes or get more of them if that makes the whole forest robust, or resilient, on
    more of these rows than chance would, by exact verdicts.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RobustForestClassifier(tp.Attacker.linf(0.1), n_estimators=5, max_depth=3, random_state=0).fit(X, y)
    >>> bool((tp.from_model(forest).predict(X) == forest.predict(X)).all())
    True
    """

    n_estimators: int = 100
    criterion: str = "groot"
    max_features: Any = "auto"
    bootstrap: bool = True
    voting: str = "soft"
    shared_budget: bool = True
    select: str | None = None
    validation_fraction: float = 0.2
    n_jobs: int | None = None
    progress: bool = False

    estimators_: list[RobustTreeClassifier] = field(init=False)
    votes_: npt.NDArray[np.int64] = field(init=False)
    """How many votes each of them has."""

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> RobustForestClassifier:
        """Trains on rows X with labels y; a row counts as often as its weight says."""
        from joblib import Parallel, delayed

        selects, random = self._selects(), check_random_state(self.random_state)
        data, weight, held_out = self._training_set(X, y, sample_weight, random if selects else None)
        limits = limits_of(self, len(weight), self.n_features_in_)
        n_trees = check_whole(self.n_estimators, "n_estimators", least=1)
        self._check_settings()
        seeds = random.randint(np.iinfo(np.int32).max, size=n_trees)
        members = [self._member(int(seed)) for seed in seeds]
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        grown = parallel(
            delayed(_grow_member)(member, data, weight, limits, bool(self.bootstrap), bool(self.shared_budget))
            for member in members
        )
        self.estimators_ = []
        with progress_bar(self.progress, n_trees, "growing trees") as advance:
            for member in grown:
                self.estimators_.append(member)
                advance(1)
        trees = [member.tree_ for member in self.estimators_]
        self.votes_ = np.ones(n_trees, dtype=np.int64)
        if selects:
            scorer = ExactScorer(self.attacker, self.epsilon if self.select == "resilience" else None, None, None)
            ensemble_of = partial(self._voting_ensemble, trees, soft=self.voting == "soft")
            self.votes_, self.validation_score_ = chosen_votes(n_trees, ensemble_of, scorer, held_out, random)
        self.ensemble_ = self._voting_ensemble(trees, self.votes_.tolist(), soft=self.voting == "soft")
        return self

    def _check_settings(self) -> None:
        for name in ("bootstrap", "shared_budget"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidInput(f"{name} must be True or False, got {getattr(self, name)!r}", argument=name)
        if self.voting not in ("soft", "hard"):
            raise InvalidInput(f"voting must be 'soft' or 'hard', got {self.voting!r}", argument="voting")
        check_jobs(self.n_jobs)

    def _selects(self) -> bool:
        """Whether trees are chosen."""
        if self.select is None:
            return False
        if not isinstance(self.select, str) or self.select not in SELECTED:
            names = ", ".join(map(repr, SELECTED))
            raise InvalidInput(f"select must be None or one of {names}, got {self.select!r}", argument="select")
        if self.select == "resilience" and self.epsilon is None:
            raise InvalidInput("select='resilience' needs epsilon, the size of neighbourhoods", argument="select")
        return True

    def predict_proba(self, X: npt.ArrayLike) -> FloatArray:
        """The share of trees that vote for each class, or the mean of their shares of classes, for each row."""
        rows = self._rows(X)
        return np.asarray(self.ensemble_.scores(rows, coded=True) / self.votes_.sum())

    def _member(self, seed: int) -> RobustTreeClassifier:
        """A tree yet to be grown, with the forest's settings, classes and columns."""
        own = {name: getattr(self, name) for name in RobustTreeClassifier._get_param_names()}
        member = RobustTreeClassifier(**{**own, "random_state": seed})
        member.classes_, member.n_features_in_ = self.classes_, self.n_features_in_
        member._categories, member._takes_missing = self._categories, self._takes_missing
        if hasattr(self, "feature_names_in_"):
            member.feature_names_in_ = self.feature_names_in_
        return member


def _grow_member(
    member: RobustTreeClassifier,
    data: TrainingSet,
    weight: FloatArray,
    limits: GrowthLimits,
    bootstrap: bool,
    shared_budget: bool,
) -> RobustTreeClassifier:
    """Grows one tree of a forest on its own sample; runs in whichever worker joblib chose."""
    random = check_random_state(member.random_state)
    if bootstrap:
        # Drawn from rows that have weight, so that no sample is empty.
        seen = np.flatnonzero(weight > 0)
        drawn = seen[random.randint(len(seen), size=len(seen))]
        weight = weight * np.bincount(drawn, minlength=len(weight))
    if shared_budget and len(data.paid_sets) > 1:
        data = data.with_sets(random.randint(len(data.paid_sets), size=len(weight)))
    return member._grow(data, weight, limits, random)
