"""treeproof: how secure a tree-based classifier really is, proved exactly."""

from __future__ import annotations

from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput, SoundnessError, UnsupportedModel
from treeproof.importers import from_model, load_model, save_model
from treeproof.radii import ResilienceCurve, resilience_curve, resilience_radius, robustness_radius
from treeproof.stability_map import StabilityMap, Status
from treeproof.threat import Attacker
from treeproof.verdicts import Bounds, Outcome, Verdict, Verification, Witness
from treeproof.verify import verify

__version__ = "0.1.0"

__all__ = [
    "Attacker",
    "Bounds",
    "Ensemble",
    "InvalidInput",
    "Outcome",
    "ResilienceCurve",
    "SoundnessError",
    "StabilityMap",
    "Status",
    "UnsupportedModel",
    "Verdict",
    "Verification",
    "Witness",
    "from_model",
    "load_model",
    "resilience_curve",
    "resilience_radius",
    "robustness_radius",
    "save_model",
    "verify",
]
