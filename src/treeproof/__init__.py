"""treeproof: how secure a tree-based classifier really is, proved exactly."""

from __future__ import annotations

from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput, SoundnessError, UnsupportedModel
from treeproof.importers import from_model, load_model, save_model
from treeproof.threat import Attacker

__version__ = "0.1.0"

__all__ = [
    "Attacker",
    "Ensemble",
    "InvalidInput",
    "SoundnessError",
    "UnsupportedModel",
    "from_model",
    "load_model",
    "save_model",
]
