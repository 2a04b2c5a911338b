"""scikit-learn's VotingClassifier and OneVsRestClassifier: several models whose scores stand side by side or add up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._refusals import feature_names_of
from treeproof.importers._responses import ADDITIVE, Responses, Scores, same
from treeproof.importers.decisions import cut_by, response
from treeproof.importers.registry import Voting, from_model
from treeproof.model.columns import Column, renamed
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, Member, ScoreRule


def import_voting(model: Any, *, voting: Voting | None) -> Ensemble:
    """The exact ensemble of a VotingClassifier whose members' probabilities, or votes, add up."""
    if voting is not None:
        raise InvalidInput(f"a VotingClassifier votes as it was told (voting={model.voting!r}); leave voting out")
    n_classes = len(model.classes_)
    if model.le_.classes_.tolist() != model.classes_.tolist():
        raise InvalidInput(f"this VotingClassifier names its classes {model.le_.classes_} and {model.classes_}")
    weights = _weights(model)
    members = []
    for (name, _), estimator in zip(_kept(model), model.estimators_, strict=True):
        member = from_model(estimator)
        if not np.array_equal(member.classes, np.arange(n_classes)):
            raise UnsupportedModel(
                f"member {name!r} predicts {member.classes.tolist()}, not the numbers of the {n_classes} classes"
            )
        members.append((name, member))
    joined = (_soft if model.voting == "soft" else _hard)(members, weights)
    return dataclasses.replace(
        joined,
        classes=model.classes_,
        columns=renamed(joined.columns, feature_names_of(model) or joined.feature_names),
        origin=f"scikit-learn VotingClassifier of {', '.join(_short(member) for _, member in members)}",
        source=model,
    )


def _short(member: Ensemble) -> str:
    return member.origin.removeprefix("scikit-learn ")


def _kept(model: Any) -> list[tuple[str, Any]]:
    """The members that were not dropped, with their names."""
    return [pair for pair in model.estimators if not (isinstance(pair[1], str) and pair[1] == "drop")]


def _weights(model: Any) -> list[float] | None:
    """The members' weights, those of dropped ones left out."""
    if model._weights_not_none is None:
        return None
    weights = [float(weight) for weight in model._weights_not_none]
    if len(weights) != len(model.estimators_) or not (np.isfinite(weights).all() and min(weights) >= 0 < sum(weights)):
        raise UnsupportedModel(f"VotingClassifier(weights={model.weights!r}): weights must be at least 0 and not all 0")
    return weights


def _soft(members: list[tuple[str, Ensemble]], weights: list[float] | None) -> Ensemble:
    """The average of probabilities: each member's own average first, then weighted, then added up, as NumPy does it."""
    for name, member in members:
        if member.responses is None or not member.responses.additive:
            raise UnsupportedModel(
                f"member {name!r} of the VotingClassifier is a {_short(member)}, whose probabilities are no sums over "
                "trees, so that their average is none either; vote among trees, forests and bagging only, "
                "or verify the members one by one"
            )
        if member.rule.members:
            raise UnsupportedModel(f"member {name!r} is a VotingClassifier itself; put its members in its place")
    ensembles = [member for _, member in members]
    shares = [1.0] * len(members) if weights is None else weights
    divisor = float(len(members) if weights is None else np.asarray(weights).sum())
    if all(member.n_trees == 1 and member.rule.divisor == 1 for member in ensembles):
        scores = [member.leaf_scores * share for member, share in zip(ensembles, shares, strict=True)]
        return _joined(ensembles, scores, ScoreRule(divisor=divisor), ADDITIVE)
    parts = tuple(
        Member(member.n_trees, member.rule.divisor, share) for member, share in zip(ensembles, shares, strict=True)
    )
    rule = ScoreRule(divisor=divisor, members=parts)
    return _joined(ensembles, [member.leaf_scores for member in ensembles], rule, ADDITIVE)


def _hard(members: list[tuple[str, Ensemble]], weights: list[float] | None) -> Ensemble:
    """One vote for each member: additive where the members are single trees, whose leaves cast the votes."""
    for name, member in members:
        if member.n_trees != 1 or member.responses is None or not member.responses.additive:
            raise UnsupportedModel(
                f"VotingClassifier(voting='hard'): member {name!r} is a {_short(member)}, whose vote is no sum over "
                "trees; vote with voting='soft' among trees, forests and bagging, or verify the members one by one"
            )
    ensembles = [member for _, member in members]
    scores = []
    for member, weight in zip(ensembles, weights or [1.0] * len(members), strict=True):
        votes = np.zeros_like(member.leaf_scores)
        votes[np.arange(len(votes)), np.argmax(member.leaf_scores, axis=1)] = weight
        scores.append(votes)
    return _joined(ensembles, scores, ScoreRule(), None)


def import_one_against_rest(model: Any, *, voting: Voting | None) -> Ensemble:
    """The exact ensemble of a OneVsRestClassifier: the scores of its members side by side, the largest one wins."""
    kind = model.label_binarizer_.y_type_
    if kind not in ("binary", "multiclass"):
        raise UnsupportedModel(f"OneVsRestClassifier for {kind} labels: treeproof takes one label per row")
    labels = model.label_binarizer_
    n_members = 1 if kind == "binary" else len(model.classes_)
    stated = (labels.classes_.tolist(), labels.neg_label, labels.pos_label, len(model.estimators_))
    if stated != (model.classes_.tolist(), 0, 1, n_members):
        raise InvalidInput(f"this OneVsRestClassifier has {len(model.estimators_)} members for {model.classes_}")
    members = [_against_rest(estimator, voting) for estimator in model.estimators_]
    ensembles = [member for member, _ in members]
    origin = f"scikit-learn OneVsRestClassifier of {_short(ensembles[0])}"
    about = {"classes": model.classes_, "origin": origin, "source": model}
    if kind == "binary":
        # scikit-learn compares a decision function with 0, and a probability with 0.5.
        cut = 0.0 if hasattr(model.estimators_[0], "decision_function") else 0.5
        member, respond = members[0]
        ensemble = cut_by(member, lambda scores: np.asarray(respond(scores) > cut), "OneVsRestClassifier")
        columns = renamed(ensemble.columns, feature_names_of(model) or ensemble.feature_names)
        return dataclasses.replace(ensemble, columns=columns, responses=None, decided=None, **about)
    rules = {(member.rule.divisor, member.rule.precision, member.rule.base_last) for member in ensembles}
    plain = all(respond is same for _, respond in members)
    if len(rules) != 1 or not plain or any(member.rule.members for member in ensembles):
        raise UnsupportedModel(
            f"{origin} compares scores that are not sums over trees of one kind; "
            "train the model on all classes at once, or use trees, forests or scikit-learn's gradient boosting"
        )
    n_classes = len(model.classes_)
    scores = [_in_column(member.leaf_scores, k, n_classes) for k, member in enumerate(ensembles)]
    rule = dataclasses.replace(ensembles[0].rule, decision=Decision.ARGMAX, cut=0.0)
    joined = _joined(ensembles, scores, rule, None)
    base = np.concatenate([member.base for member in ensembles])
    order = slice(None, None, -1) if _last_wins() else slice(None)
    return dataclasses.replace(
        joined,
        leaf_scores=joined.leaf_scores[:, order],
        base=base[order],
        columns=renamed(joined.columns, feature_names_of(model) or joined.feature_names),
        **about | {"classes": model.classes_[order]},
    )


def _against_rest(estimator: Any, voting: Voting | None) -> tuple[Ensemble, Callable[[Scores], Scores]]:
    """A member with one score, and the function that makes of it what scikit-learn compares."""
    member = from_model(estimator, voting=voting)
    method = "decision_function" if hasattr(estimator, "decision_function") else "predict_proba"
    return response(member, method, 1)


def _last_wins() -> bool:
    """Whether the last of several best classes wins, as in earlier versions of scikit-learn."""
    from sklearn.dummy import DummyClassifier
    from sklearn.multiclass import OneVsRestClassifier

    row = np.zeros((3, 1))
    # Three classes with the same probability.
    return bool(OneVsRestClassifier(DummyClassifier()).fit(row, [0, 1, 2]).predict(row)[0] == 2)


def _in_column(leaf_scores: Scores, column: int, n_columns: int) -> Scores:
    scores = np.zeros((len(leaf_scores), n_columns), dtype=leaf_scores.dtype)
    scores[:, column] = leaf_scores[:, 0]
    return scores


def _in_common(first: Column, *others: Column) -> Column:
    """What all members take in a column."""
    every = (first, *others)
    refused = sorted({name for one in every for name in one.refused})
    low, high = max(one.low for one in every), min(one.high for one in every)
    return Column(first.name, low, high, all(one.missing for one in every), first.category, tuple(refused))


def _joined(
    ensembles: Sequence[Ensemble], scores: Sequence[Scores], rule: ScoreRule, responses: Responses | None
) -> Ensemble:
    """The trees of all ensembles, one after the other, with these leaf scores and no base."""
    first = ensembles[0]
    for other in ensembles:
        if other.n_features != first.n_features:
            raise InvalidInput(f"members take {first.n_features} and {other.n_features} features, not the same ones")
        if other.categories != first.categories:
            raise UnsupportedModel(
                "the members know different values of category columns; encode these once, before the vote"
            )
    starts = np.cumsum([0, *(one.n_nodes for one in ensembles)])[:-1]
    moved = list(zip(starts, ensembles, strict=True))
    plain = ("feature", "threshold", "nan_left", "more")
    arrays: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in ensembles]) for name in plain}
    n_more = np.concatenate([np.diff(one.more_start) for one in ensembles])
    return dataclasses.replace(
        first,
        **arrays,
        left=np.concatenate([np.where(one.left < 0, -1, one.left + start) for start, one in moved]),
        roots=np.concatenate([one.roots + start for start, one in moved]),
        more_start=np.concatenate(([0], np.cumsum(n_more))),
        leaf_scores=np.concatenate(list(scores)),
        base=np.zeros(scores[0].shape[1]),
        columns=tuple(map(_in_common, *(one.columns for one in ensembles))),
        rule=rule,
        takes_frames=any(one.takes_frames for one in ensembles),
        takes_arrays=all(one.takes_arrays for one in ensembles),
        responses=responses,
        decided=None,
    )
