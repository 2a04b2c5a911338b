"""treeproof: how secure a tree-based classifier really is, proved exactly."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput, SoundnessError, UnsupportedModel
from treeproof.importers import from_model, load_model, save_model
from treeproof.radii import ResilienceCurve, resilience_curve, resilience_radius, robustness_radius
from treeproof.stability_map import StabilityMap, Status
from treeproof.symbolic import Analysis, SymbolicAttack, analyze
from treeproof.threat import Attacker
from treeproof.verdicts import Bounds, Outcome, Verdict, Verification, Witness
from treeproof.verify import verify

if TYPE_CHECKING:
    from treeproof import plots
    from treeproof.guard import GuardedClassifier
    from treeproof.report import report_html, write_report
    from treeproof.training import (
        RobustForestClassifier,
        RobustTreeClassifier,
        resilience_scorer,
        robust_accuracy_scorer,
    )

__version__ = "0.1.0"

# On first use only: classes of scikit-learn's kind need scikit-learn itself, which takes long to import.
_ON_FIRST_USE = {
    "GuardedClassifier": "treeproof.guard",
    "report_html": "treeproof.report",
    "write_report": "treeproof.report",
    "RobustForestClassifier": "treeproof.training",
    "RobustTreeClassifier": "treeproof.training",
    "resilience_scorer": "treeproof.training",
    "robust_accuracy_scorer": "treeproof.training",
}

__all__ = [
    "Analysis",
    "Attacker",
    "Bounds",
    "Ensemble",
    "GuardedClassifier",
    "InvalidInput",
    "Outcome",
    "ResilienceCurve",
    "RobustForestClassifier",
    "RobustTreeClassifier",
    "SoundnessError",
    "StabilityMap",
    "Status",
    "SymbolicAttack",
    "UnsupportedModel",
    "Verdict",
    "Verification",
    "Witness",
    "analyze",
    "from_model",
    "load_model",
    "plots",
    "report_html",
    "resilience_curve",
    "resilience_radius",
    "resilience_scorer",
    "robust_accuracy_scorer",
    "robustness_radius",
    "save_model",
    "verify",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name == "plots":
        return importlib.import_module("treeproof.plots")
    if name in _ON_FIRST_USE:
        return getattr(importlib.import_module(_ON_FIRST_USE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE, "plots"})
