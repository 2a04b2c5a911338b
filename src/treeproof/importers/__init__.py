"""Plain models and model files in, exact ensembles out: `from_model` and `load_model`."""

from __future__ import annotations

from treeproof.importers.native import save_model
from treeproof.importers.registry import as_ensemble, from_model, load_model
from treeproof.model.builder import LEAF, EnsembleBuilder

__all__ = ["LEAF", "EnsembleBuilder", "as_ensemble", "from_model", "load_model", "save_model"]
