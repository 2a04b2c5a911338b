"""Neighbourhoods: ε as users give it, and bound to a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.per_feature import PerFeature, as_number, as_size
from treeproof.numbers.doubles import FloatArray


def bind_epsilon(epsilon: Any, ensemble: Ensemble) -> FloatArray:
    """ε for each feature, from one number, one per feature, or {feature: number}, where features not named get 0.

    Neighbours share the values of categories: ε is 0 there.
    """
    spec = PerFeature.of_numbers(epsilon, "epsilon", as_size)
    if spec.n_features not in (None, ensemble.n_features):
        raise InvalidInput(f"epsilon has {spec.n_features} entries, but the model has {ensemble.n_features} features")
    bound = np.array(spec.bind(ensemble, 0.0), dtype=np.float64)
    for f, _ in ensemble.categories:
        if spec.keys is not None and bound[f] != 0:
            raise InvalidInput(
                f"column {ensemble.feature_name(f)} is a category; neighbours share its value, so ε is 0 there"
            )
        bound[f] = 0.0
    return bound


def plain_epsilon(given: Any) -> Any:
    """The neighbourhood as a number, a tuple with one per feature, or a dict, whatever kind of array was given."""
    spec = PerFeature.of_numbers(given, "epsilon", as_number)
    if spec.shared:
        return spec.values[0]
    return spec.values if spec.keys is None else dict(zip(spec.keys, spec.values, strict=True))
