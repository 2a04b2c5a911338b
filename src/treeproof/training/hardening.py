"""Hardens a model that exists: its trees stay, their leaves get scores with which more rows hold under attack."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import _safe_indexing, check_random_state

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers import as_ensemble
from treeproof.importers.leaf_values import LeafWriter
from treeproof.model.columns import CodedRows
from treeproof.model.ensemble import Ensemble, labels_for
from treeproof.numbers.doubles import FloatArray
from treeproof.results.ceilings import Ceiling
from treeproof.results.hardening import Hardening, Held, Stop
from treeproof.results.verdicts import Outcome
from treeproof.run.progress import progress_bar
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.training._rescoring import STOPS, Freedom, Rescoring, with_scores
from treeproof.training._rows import BoolArray, IntArray
from treeproof.training._select import is_more
from treeproof.training._settings import check_fraction, check_share
from treeproof.training.ceilings import ceiling
from treeproof.verification.verify import verify

MOST_HELD = 1000
"""Rows that are held out to choose by; if more are to choose, they can be given."""
MOST_FITTED = 5000
"""Rows that scores are fitted to."""
MOST_BOUNDED = 20_000
"""Held-out rows of which a ceiling is found in seconds."""


def harden(
    model: Any,
    X: Any,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    epsilon: Any = None,
    max_loss: float = 0.01,
    validation: tuple[Any, npt.ArrayLike] | None = None,
    validation_fraction: float = 0.5,
    timeout: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    progress: bool = False,
) -> Any:
    """A copy of a trained model with other leaf scores, with which more rows are robust, or resilient with `epsilon`.

    Tests of the trees stay as they are. Scores are fitted to some rows under attack; of the models on the way the one
    is taken with which most rows that were held out are proved, by exact verdicts, if it predicts at most a share of
    `max_loss` fewer of them right. Held out are a `validation_fraction` of X, or the rows and labels of `validation`:
    rows that the model was not trained on, else accuracy before looks better than it is. What is returned is of the
    same type as the model where its library lets leaves be changed, else an `Ensemble`; its attribute `hardening_`
    says what was done. If nothing helps, it predicts what the model did. A row that is not decided within `timeout`
    seconds counts as not proved. One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, attacker = minmax_scale(X), tp.Attacker.linf(0.05)
    >>> model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:300], y[:300])
    >>> hardened = harden(model, X[:300], y[:300], attacker, validation=(X[300:450], y[300:450]))
    >>> before, after = (tp.verify(one, X[450:], y[450:], attacker).robustness for one in (model, hardened))
    >>> float(after) > float(before)
    True
    """
    check_attacker(attacker)
    check_share(max_loss, "max_loss", most=1.0)
    ensemble = as_ensemble(model).named_after(X)
    rows = _Labelled.of(ensemble, X, y)
    attacker.bind(ensemble).check_domain(rows.X, ensemble)
    random = check_random_state(random_state)
    if validation is None:
        fitted, held = rows.parted(check_fraction(validation_fraction, "validation_fraction"), random)
    else:
        fitted, held = rows.some(random.permutation(len(rows.label))), _validation(ensemble, validation)
    judge = _Judge(held, attacker, epsilon, timeout, n_jobs, float(max_loss))
    with progress_bar(progress, len(STOPS) + 2, "hardening") as advance:
        result, record = _hardened(model, ensemble, fitted, judge, random.randint(2**31), advance)
    with contextlib.suppress(AttributeError, TypeError):
        # An Ensemble is frozen, but this is no part of what it predicts.
        object.__setattr__(result, "hardening_", record)
    return result


def _hardened(
    model: Any, ensemble: Ensemble, fitted: _Labelled, judge: _Judge, seed: int, advance: Callable[[int], None]
) -> tuple[Any, Hardening]:
    """The model with the best scores on the path, and what was done."""
    writer, why = _writer(model, ensemble)
    freedom = Freedom.of(ensemble) if writer is None else Freedom(writer.factor != 0, writer.are_shares)
    before, kept = judge.held(ensemble, judge.rows.X)
    advance(1)
    needed = judge.needed(before)
    rows, label = fitted.X[:MOST_FITTED], fitted.label[:MOST_FITTED]
    rescoring = Rescoring(ensemble, rows, label, judge.attacker, judge.epsilon, freedom)
    best, chosen, stops = before, None, []
    for passes, scores in rescoring.path(seed):
        stop, proved = judge.candidate(with_scores(ensemble, scores), passes, needed, best)
        stops.append(stop)
        if stop.held and stop.held[:2][::-1] > best[:2][::-1] and is_more(proved, kept):
            best, chosen = stop.held, scores
        advance(1)
    result, why = _made(model, ensemble, writer, chosen, why)
    after = before
    if chosen is not None:
        after, proved = judge.held(as_ensemble(result).named(ensemble.feature_names), judge.rows.given)
        # A library rounds what it is given, and ties may fall otherwise.
        if after.right < needed or not is_more(proved, kept):
            result, chosen, after, why = _made(model, ensemble, writer, None, "")[0], None, before, ""
    advance(1)
    return result, Hardening(
        before=before,
        after=after,
        n_rows=len(judge.rows.label),
        n_fitted=rescoring.n_rows,
        resilient=judge.epsilon is not None,
        max_loss=judge.max_loss,
        stops=tuple(stops),
        n_leaves=len(ensemble.leaf_scores),
        rescored=0 if chosen is None else int((chosen != ensemble.leaf_scores).any(axis=1).sum()),
        kind=type(result).__name__,
        ceiling=judge.ceiling(ensemble),
        why=why,
    )


@dataclass(frozen=True, eq=False)
class _Labelled:
    """Rows as doubles, with the numbers of their classes, and as the user has them."""

    X: FloatArray
    label: IntArray
    given: Any

    @classmethod
    def of(cls, ensemble: Ensemble, X: Any, y: Any) -> _Labelled:
        rows = ensemble.check_rows(X).view(CodedRows)
        label = labels_for(ensemble, y, len(rows))
        if not len(label):
            raise InvalidInput("X has no rows; hardening needs rows of at least two classes")
        if len(np.unique(label)) < 2:
            raise InvalidInput("all labels of y are the same; hardening needs rows of at least two classes")
        return cls(rows, label, X)

    def some(self, numbers: IntArray) -> _Labelled:
        """Some of the rows, in this order."""
        return _Labelled(
            np.ascontiguousarray(self.X[numbers]), self.label[numbers], _safe_indexing(self.given, numbers)
        )

    def parted(self, share: float, random: np.random.RandomState) -> tuple[_Labelled, _Labelled]:
        """Rows to fit, and a share of each class, but not too many, to choose by."""
        share = min(share, MOST_HELD / len(self.label))
        order = random.permutation(len(self.label))
        held = np.zeros(len(order), dtype=bool)
        for own in np.unique(self.label).tolist():
            places = np.flatnonzero(self.label[order] == own)
            held[places[: round(share * len(places))]] = True
        for part in (held, ~held):
            if len(np.unique(self.label[order[part]])) < 2:
                raise InvalidInput(
                    f"of {len(order)} rows, {(~held).sum()} would be fitted and {held.sum()} held out; both need two "
                    "classes; give more rows, another validation_fraction, or rows to choose by as validation=(X, y)"
                )
        return self.some(order[~held]), self.some(order[held])


def _validation(ensemble: Ensemble, given: Any) -> _Labelled:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InvalidInput("validation must be a pair of rows and labels, (X, y)", argument="validation")
    try:
        return _Labelled.of(ensemble, given[0], given[1])
    except InvalidInput as error:
        raise InvalidInput(f"validation: {error}", argument="validation") from None


@dataclass(frozen=True, eq=False)
class _Judge:
    """Counts the held-out rows that models predict right, and keep right for sure."""

    rows: _Labelled
    attacker: Attacker
    epsilon: Any
    timeout: float | None
    n_jobs: int | None
    max_loss: float

    def ceiling(self, ensemble: Ensemble) -> Ceiling | None:
        """What no classifier can pass on these rows, if they are few enough and say enough about their columns."""
        if len(self.rows.label) > MOST_BOUNDED:
            return None
        with contextlib.suppress(InvalidInput):
            return ceiling(self.rows.given, ensemble.classes[self.rows.label], self.attacker, self.epsilon)
        return None

    def needed(self, before: Held) -> int:
        """So many rows must be right."""
        return before.right - int(self.max_loss * len(self.rows.label) + 1e-9)

    def candidate(self, ensemble: Ensemble, passes: int, needed: int, best: Held) -> tuple[Stop, BoolArray]:
        """What is known of a model; nothing is proved if too few rows are right for it to be the best."""
        right = int((ensemble.predict_index(self.rows.X) == self.rows.label).sum())
        if right < needed or right < best.proved:
            return Stop(passes, right, None), np.zeros(len(self.rows.label), dtype=bool)
        held, proved = self.held(ensemble, self.rows.X)
        return Stop(passes, right, held), proved

    def held(self, ensemble: Ensemble, X: Any) -> tuple[Held, BoolArray]:
        """The counts of a model on all held-out rows, given as X, and which of them are proved."""
        proved = np.zeros(len(self.rows.label), dtype=bool)
        # No row is robust that is not predicted right.
        right = np.flatnonzero(ensemble.predict_index(self.rows.X) == self.rows.label)
        if not len(right):
            return Held(0, 0, 0), proved
        result = verify(
            ensemble,
            _safe_indexing(X, right),
            ensemble.classes[self.rows.label[right]],
            self.attacker,
            epsilon=self.epsilon,
            timeout=self.timeout,
            n_jobs=self.n_jobs,
        )
        if result.interrupted:
            raise KeyboardInterrupt
        outcomes = result.robustness_outcomes if self.epsilon is None else result.resilience_by_epsilon[0]
        proved[right] = outcomes == Outcome.PROVED
        return Held(len(right), int(proved.sum()), int((outcomes == Outcome.UNKNOWN).sum())), proved


def _writer(model: Any, ensemble: Ensemble) -> tuple[LeafWriter | None, str]:
    """What writes scores into the library's own model, or why nothing does."""
    if isinstance(model, Ensemble):
        return None, ""
    try:
        return LeafWriter.of(model, ensemble), ""
    except UnsupportedModel as error:
        return None, str(error)


def _made(
    model: Any, ensemble: Ensemble, writer: LeafWriter | None, scores: FloatArray | None, why: str
) -> tuple[Any, str]:
    """The model with other scores (None: those it has), in its own type if possible; else why that is not so."""
    if scores is None:
        return (dataclasses.replace(model) if isinstance(model, Ensemble) else copy.deepcopy(model)), ""
    if writer is not None:
        try:
            return writer.written(scores), ""
        except UnsupportedModel as error:
            why = str(error)
    return with_scores(ensemble, scores), why
