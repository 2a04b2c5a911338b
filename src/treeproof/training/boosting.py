"""RobustBoostingClassifier: trees that one after another lower the loss under attack of their sum."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit
from sklearn.utils import check_random_state

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import FloatArray
from treeproof.run.progress import progress_bar
from treeproof.run.workers import n_workers
from treeproof.training._base import RobustClassifier, add_tree
from treeproof.training._grow import Grower, GrownTree, GrowthLimits
from treeproof.training._leaves import Leaves
from treeproof.training._losses import loss_of
from treeproof.training._rows import TrainingSet
from treeproof.training._settings import check_share, check_whole, limits_of
from treeproof.training._stumps import StumpMargins
from treeproof.training.scorers import ExactScorer

CAP = 4.0
"""How large the score of a leaf can be, before it is multiplied by the learning rate."""
MANY_ROWS = 1000
"""From so many rows on, each tree may count for more."""
CHECKED_EVERY = 5
"""Rounds after which early stopping looks at validation rows."""
TIE = 1e-9
"""Sums of scores that are nearer to 0 may have either sign, as they are rounded."""


@dataclass(eq=False)
class _Head:
    """One score: its rows, the margins that no attack takes from them, and the trees so far."""

    data: TrainingSet
    wants: FloatArray
    """1 for rows whose score should be high, -1 for others."""
    base: float
    margin: FloatArray
    """(n, n_sets): what no attack that pays for a set of columns can bring wants * score below."""
    least: FloatArray
    """(n,): what no attack at all can bring it below."""
    trees: list[GrownTree]
    stumps: StumpMargins | None
    """Where all trees are stumps."""

    @classmethod
    def of(cls, data: TrainingSet, wants: FloatArray, base: float, are_stumps: bool) -> _Head:
        """A score without trees."""
        margin = np.repeat((wants * base)[:, None], len(data.paid_sets), axis=1)
        return cls(data, wants, base, margin, wants * base, [], StumpMargins(data, wants) if are_stumps else None)

    def add(self, tree: GrownTree, leaves: Leaves) -> None:
        """Adds a tree with its scores."""
        self.trees.append(tree)
        if self.stumps is None:
            self.margin = self.margin + leaves.worst(tree.scores[leaves.nodes, 0], self.wants)
            self.least = self.margin.min(axis=1)
        else:
            self.stumps.add(tree)
            base = self.wants * self.base
            self.margin, self.least = base[:, None] + self.stumps.margins(), base + self.stumps.least()

    def first(self, n: int) -> _Head:
        """The same with the first trees only."""
        head = _Head.of(self.data, self.wants, self.base, self.stumps is not None)
        for tree in self.trees[:n]:
            head.add(tree, Leaves(tree, self.data))
        return head


@dataclass(eq=False, repr=False, kw_only=True)
class RobustBoostingClassifier(RobustClassifier):
    """Boosted trees that minimise the loss of training rows when each is attacked in the worst way.

    Every tree lowers a bound on that loss: what attacks can do to each tree on its own, added up over trees. It is the
    `loss` ("bounded", "logistic" or "exponential") of `margin`, the score that no attack takes from a row: "bounded" is
    near "logistic", but no row counts for more than 2, however far it is from being right. `learning_rate` shrinks
    each tree (None: by 0.1 on fewer than 1,000 rows with weight, else by 0.3), `subsample` draws the share of rows that
    it sees, `smoothing` draws its scores to 0 (None: 0.02, or what 20 rows weigh, if that is less). With `epsilon`
    training is for resilience, as in `RobustTreeClassifier`; so are other parameters. More than two classes are one
    score each, against all others.

    With `early_stopping`, a share of the rows (`validation_fraction`) is held out, and training stops when their exact
    robustness, or resilience with `epsilon`, has not risen for `n_iter_no_change` trees; the best ones are kept.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, attacker = minmax_scale(X), tp.Attacker.linf(0.05)
    >>> model = RobustBoostingClassifier(attacker, n_estimators=30, learning_rate=0.3).fit(X, y)
    >>> model.proved_robust_ <= float(tp.verify(model, X, y, attacker).robustness)
    True
    """

    n_estimators: int = 100
    learning_rate: float | None = None
    max_depth: int | None = 4
    loss: str = "bounded"
    smoothing: float | None = None
    subsample: float = 0.5
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 20
    n_jobs: int | None = None
    progress: bool = False

    loss_under_attack_: float = field(init=False)
    """The weighted mean of the loss of training rows at their margins; no attack raises it further.

    With ε, half of it is lost to attacks on rows, half to attacks on their neighbours.
    """
    proved_robust_: float = field(init=False)
    """The share of training rows whose margins prove that they are right under every attack (resilient, with ε).

    Rows count by their weights, as in `loss_under_attack_`; those that early stopping holds out do not count.
    """
    n_estimators_: int = field(init=False)
    """Rounds of training that were kept."""
    validation_scores_: list[tuple[int, float]] = field(init=False)
    """With early stopping, numbers of trees and what share of validation rows were robust, or resilient, then."""

    def fit(self, X: Any, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> RobustBoostingClassifier:
        """Trains on rows X with labels y; a row counts as often as its weight says."""
        self._check_settings()
        random = check_random_state(self.random_state)
        n_rounds = check_whole(self.n_estimators, "n_estimators", least=1)
        held_by = random if self.early_stopping else None
        data, weight, held_out = self._training_set(X, y, sample_weight, held_by, alone_too=True)
        heads = [self._head(data, h, weight) for h in range(data.target.shape[1])]
        n_seen = int((weight > 0).sum()) // data.n_times
        self._rate = (0.1 if n_seen < MANY_ROWS else 0.3) if self.learning_rate is None else float(self.learning_rate)
        limits = self._limits(data, min(0.02, 20 / n_seen) if self.smoothing is None else float(self.smoothing))
        self.validation_scores_ = []
        best: tuple[float, int, list[int] | None] = (-1.0, 0, None)
        with (
            ThreadPoolExecutor(n_workers(self.n_jobs)) as pool,
            progress_bar(self.progress, n_rounds, "growing trees") as advance,
        ):
            for number in range(1, n_rounds + 1):
                gained = [self._round(head, weight, limits, random, pool) for head in heads]
                if not any(gained):
                    break
                advance(1)
                if self.early_stopping and (number % CHECKED_EVERY == 0 or number == n_rounds):
                    self.ensemble_ = self._summed(heads)
                    score = ExactScorer(self.attacker, self.epsilon, None, None)(self, *held_out)
                    self.validation_scores_.append((number, score))
                    if score > best[0]:
                        best = (score, number, [len(head.trees) for head in heads])
                    elif number - best[1] >= self.n_iter_no_change:
                        break
        self._finish(heads, weight, best[2])
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of each class, for each row."""
        scores = self._scores(X)
        with np.errstate(over="ignore"):
            shares = 1.0 / (1.0 + np.exp(-self._steepness * scores))
        if scores.shape[1] == 1:
            return np.hstack((1.0 - shares, shares))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> FloatArray:
        """The score of each row: one for two classes, else one for each class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _scores(self, X: Any) -> FloatArray:
        rows = self._rows(X)
        return np.asarray(self.ensemble_.scores(rows, coded=True), dtype=np.float64).reshape(len(rows), -1)

    @property
    def _steepness(self) -> float:
        """Of the logistic curve that makes probabilities of scores."""
        return loss_of(self.loss).steepness

    def _check_settings(self) -> None:
        loss_of(self.loss)
        for name in ("subsample",) if self.learning_rate is None else ("learning_rate", "subsample"):
            if check_share(getattr(self, name), name, most=1.0) == 0:
                raise InvalidInput(f"{name} must be above 0, got 0", argument=name)
        if self.smoothing is not None:
            check_share(self.smoothing, "smoothing", most=1.0)
        check_whole(self.n_iter_no_change, "n_iter_no_change", least=1)
        if not isinstance(self.early_stopping, (bool, np.bool_)):
            raise InvalidInput(f"early_stopping must be True or False, got {self.early_stopping!r}")

    def _limits(self, data: TrainingSet, smoothing: float) -> GrowthLimits:
        limits = limits_of(self, data.n_rows, self.n_features_in_, data.n_times)
        return replace(limits, powers=True, smoothing=smoothing, cap=CAP)

    def _head(self, data: TrainingSet, h: int, weight: FloatArray) -> _Head:
        """The score of one class before any tree: as likely as the class is."""
        target = data.target[:, h : h + 1]
        own = replace(data, target=np.ascontiguousarray(target), own=np.zeros(len(weight), dtype=np.int64))
        ones = float(weight @ target[:, 0]) / float(weight.sum())
        share = min(max(ones, 1e-6), 1 - 1e-6)
        base = float(logit(share) / self._steepness)
        wants = np.where(target[:, 0] == 1, 1.0, -1.0)
        return _Head.of(own, wants, base, self.max_depth == 1)

    def _round(
        self,
        head: _Head,
        weight: FloatArray,
        limits: GrowthLimits,
        random: np.random.RandomState,
        pool: ThreadPoolExecutor,
    ) -> bool:
        """Adds one tree; whether it lowers the loss at all."""
        pull = weight * loss_of(self.loss).pull(head.least)
        total = float(pull.sum())
        if total <= 1e-12 * float(weight.sum()):
            return False
        pull /= total
        if self.subsample < 1:
            # At least one row of either target is seen.
            drawn = random.random_sample(len(pull)) < self.subsample
            for side in (1.0, -1.0):
                some = np.flatnonzero((head.wants == side) & (pull > 0))
                drawn[some[random.randint(len(some))] if len(some) else []] = True
            pull = np.where(drawn, pull, 0.0)
        data = head.data
        if head.margin.shape[1] > 1:
            data = data.with_sets(_drawn_sets(head.margin, random))
        tree = Grower(data, pull, limits, random, pool).grow()
        leaves = Leaves(tree, data)
        scores = leaves.refitted(tree.scores[leaves.nodes, 0], head.wants, pull, limits.terms(float(pull.sum())))
        scores *= self._rate
        leaves = leaves if data is head.data else Leaves(tree, head.data)
        if not scores.any():
            return False
        tree.scores[leaves.nodes, 0] = scores
        head.add(tree, leaves)
        return True

    def _finish(self, heads: list[_Head], weight: FloatArray, kept: list[int] | None) -> None:
        """Keeps the best trees, so many of each head, which may have skipped rounds; and says what is known of rows."""
        n_trees = kept or [len(head.trees) for head in heads]
        self.n_estimators_ = max(n_trees)
        heads = [head.first(n) if n < len(head.trees) else head for head, n in zip(heads, n_trees, strict=True)]
        self.ensemble_ = self._summed(heads)
        margins = np.column_stack([head.least for head in heads])
        lost = loss_of(self.loss).of(margins)
        self.loss_under_attack_ = float(weight @ lost.sum(axis=1) / weight.sum())
        n_rows = heads[0].data.n_rows
        self.proved_robust_ = float(np.average(_leads(margins[:n_rows], heads) > TIE, weights=weight[:n_rows]))

    def _summed(self, heads: list[_Head]) -> Ensemble:
        """The trees of all heads as one additive model."""
        if len(heads) == 1:
            builder = self._builder(rule=ScoreRule(decision=Decision.CUT), base=[heads[0].base])
        else:
            builder = self._builder(base=[head.base for head in heads])
        for h, head in enumerate(heads):
            for tree in head.trees:
                scores = np.zeros((len(tree.feature), len(heads)))
                scores[:, h] = tree.scores[:, 0]
                add_tree(builder, tree, scores)
        if not any(head.trees for head in heads):
            nothing = np.full(1, -1)
            builder.add_tree(
                feature=nothing, threshold=[0.0], left=nothing, right=nothing, scores=np.zeros((1, len(heads)))
            )
        return builder.build()


def _drawn_sets(margin: FloatArray, random: np.random.RandomState) -> npt.NDArray[np.int64]:
    """For each row one of the sets of columns, the likelier the less margin an attack that pays for it leaves."""
    with np.errstate(under="ignore"):
        likely = np.exp(margin.min(axis=1, keepdims=True) - margin)
    until = np.cumsum(likely, axis=1)
    drawn = random.random_sample(len(margin)) * until[:, -1]
    return np.asarray(np.minimum((until <= drawn[:, None]).sum(axis=1), margin.shape[1] - 1))


def _leads(margins: FloatArray, heads: list[_Head]) -> FloatArray:
    """By how much the own class of each row is ahead of all others at least, under every attack."""
    if len(heads) == 1:
        return margins[:, 0]
    own = np.argmax(np.column_stack([head.wants[: len(margins)] for head in heads]), axis=1)
    every = np.arange(len(margins))
    # The score of another class is at most minus its margin.
    others = margins.copy()
    others[every, own] = np.inf
    return np.asarray(margins[every, own] + others.min(axis=1))
