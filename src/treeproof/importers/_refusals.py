"""Refusals that several importers share."""

from __future__ import annotations

import importlib
from typing import Any

from treeproof.errors import InvalidInput, UnsupportedModel

MAX_SCORES = 2**28
"""The largest number of nodes times scores: no real model has more, but a short damaged file can claim to."""


class WrongVoting(InvalidInput):
    """The model is fine, but cannot vote as asked."""


class WrongCategories(InvalidInput):
    """The model is fine, but the values of its category columns are not."""


def refuse_voting(voting: object, library: str) -> None:
    """Refuses `voting`, which chooses how a forest votes: where scores are added up, there is nothing to choose."""
    if voting is not None:
        raise WrongVoting(f"voting={voting!r} is for forests that vote; {library} adds scores up, so leave voting out")


def library(name: str) -> Any:
    """The library that a model needs to be read, or a refusal that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        own = name.partition(".")[0]
        raise UnsupportedModel(f"reading this model needs {own}: pip install 'treeproof[{own}]'") from None


def feature_names_of(model: Any) -> tuple[str, ...] | None:
    """The names of the columns that a scikit-learn model was trained on, if they had any."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def check_size(n_nodes: int, n_scores: int) -> None:
    """Refuses models whose score table would not fit in memory, before any of it is made."""
    if n_nodes * n_scores > MAX_SCORES:
        raise UnsupportedModel(
            f"{n_nodes} nodes with {n_scores} scores each are too many; at most {MAX_SCORES} scores are supported"
        )


_METHODS = ("predict", "predict_proba", "decision_function", "transform")


def check_methods(model: Any) -> None:
    """Refuses an object with a method of its own: an instance attribute of that name takes the place of the class's."""
    for name in getattr(model, "__dict__", ()):
        of_class = getattr(type(model), str(name), None)
        if name in _METHODS or callable(of_class) or isinstance(of_class, property):
            raise UnsupportedModel(f"this {type(model).__name__} has a {name} of its own in place of its library's")
