"""treeproof's own robust trees and forests: they already vote through an exact Ensemble."""

from __future__ import annotations

import dataclasses
from typing import Any

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._responses import Responses, logistic, same
from treeproof.importers.registry import Voting
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision


def import_model(model: Any, *, voting: Voting | None) -> Ensemble:
    """The ensemble of a fitted RobustTreeClassifier or RobustForestClassifier."""
    if not any(base.__module__.startswith("treeproof.training.") for base in type(model).__mro__):
        raise UnsupportedModel(f"{type(model).__name__} is not a tree model; pass the model inside it")
    own = getattr(model, "voting", "hard")
    if voting not in (None, own):
        raise InvalidInput(f"this {type(model).__name__} was trained with voting={own!r}, which is how it votes")
    ensemble = getattr(model, "ensemble_", None)
    if not isinstance(ensemble, Ensemble):
        raise InvalidInput(f"this {type(model).__name__} is not fitted; call fit first")
    # A forest's probabilities are shares of its votes, hard or soft; a tree's are not what it votes by.
    responses = Responses(votes=int(model.votes_.sum())) if hasattr(model, "estimators_") else None
    if ensemble.rule.decision == Decision.CUT:
        responses = logistic(model._steepness, same)
    return dataclasses.replace(ensemble, source=model, responses=responses)
