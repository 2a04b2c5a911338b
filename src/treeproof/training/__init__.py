"""Trees and forests trained against an attacker, and scorers that select models by exact verdicts."""

from __future__ import annotations

from treeproof.training.boosting import RobustBoostingClassifier
from treeproof.training.ceilings import ceiling
from treeproof.training.forest import RobustForestClassifier
from treeproof.training.hardening import harden
from treeproof.training.scorers import resilience_scorer, robust_accuracy_scorer
from treeproof.training.tree import RobustTreeClassifier

__all__ = [
    "RobustBoostingClassifier",
    "RobustForestClassifier",
    "RobustTreeClassifier",
    "ceiling",
    "harden",
    "resilience_scorer",
    "robust_accuracy_scorer",
]
