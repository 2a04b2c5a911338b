"""skops files: scikit-learn models saved without pickle."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers.registry import Voting, from_model
from treeproof.model.ensemble import Ensemble

# Types that skops does not trust by itself but that hold nothing but numbers. A forged `Tree` could make
# scikit-learn read outside its arrays; the builder checks every node before anything predicts with it.
_HARMLESS = frozenset(
    {
        # scikit-learn before 1.7 gives these classes the bare module name `_loss`.
        "_loss.CyExponentialLoss",
        "_loss.CyHalfBinomialLoss",
        "_loss.CyHalfMultinomialLoss",
        "sklearn._loss.link.LogitLink",
        "sklearn._loss.link.HalfLogitLink",
        "sklearn._loss.link.MultinomialLogit",
        "sklearn._loss.link.Interval",
        "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfMultinomialLoss",
        "sklearn._loss.loss.ExponentialLoss",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.tree._tree.Tree",
    }
)


def load_bytes(data: bytes, *, voting: Voting | None) -> Ensemble:
    """The ensemble of a scikit-learn model or pipeline in a skops file; code in the file is never run."""
    return from_model(_load(data), voting=voting)


def _load(data: bytes) -> Any:
    try:
        import skops.io
    except ImportError:
        raise UnsupportedModel("reading it needs skops; pip install 'treeproof[skops]'") from None
    try:
        unknown = skops.io.get_untrusted_types(data=data)
        refused = [name for name in unknown if name not in _HARMLESS]
        if refused:
            raise UnsupportedModel(f"it contains objects of type {refused[0]}, which treeproof does not load")
        return skops.io.loads(data, trusted=unknown)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ImportError) as error:
        raise InvalidInput(f"{type(error).__name__}: {error}") from None
