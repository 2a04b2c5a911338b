"""Neighbourhoods: ε as users give it, and bound to a model.

In a column of numbers, ε is a distance. In one of categories it names values that may stand for each other: where the
value of a row is one of them, its neighbours may have any of them; else they share it. So neighbours of each other are
neighbours both ways, as with a distance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.per_feature import PerFeature, as_size
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.moves import ANY, Values, as_values, in_order

Size: TypeAlias = "float | tuple[float, float] | Values | tuple[Values, ...]"
"""ε of one column: a distance, `ANY`, values that may stand for each other, or several sets of these."""
Classes: TypeAlias = tuple[tuple[float, ...], ...]
"""Sets of doubles, rising ones, that may stand for each other in the rows of one column; no two share any."""


def as_epsilon(given: Any) -> PerFeature[Any]:
    """One number, one per feature, or {feature: Size}."""
    if isinstance(given, (Values, set, frozenset)) or (isinstance(given, tuple) and given == ANY):
        raise InvalidInput(
            "epsilon: values are those of a column; name it, as in epsilon={'purpose': tp.ANY}", argument="epsilon"
        )
    named = isinstance(given, Mapping) or (hasattr(given, "to_dict") and hasattr(given, "index"))
    return PerFeature.of_numbers(given, "epsilon", as_named_size if named else as_size)


def as_named_size(value: Any, where: str) -> Size:
    """ε of a column that is named."""
    if isinstance(value, Values):
        return value
    if isinstance(value, tuple) and value == ANY:
        return ANY
    if isinstance(value, (set, frozenset)):
        return as_values(in_order(value), where)
    if not isinstance(value, (list, tuple)):
        return as_size(value, where)
    if not any(isinstance(one, (Values, set, frozenset, list, tuple)) for one in value):
        return as_values(value, where)
    sets = tuple(as_values(in_order(one), where) for one in value)
    return sets[0] if len(sets) == 1 else sets


def as_sets(size: Values | tuple[Values, ...]) -> tuple[Values, ...]:
    """The sets of values that an ε names."""
    return (size,) if isinstance(size, Values) else size


def bind_epsilon(epsilon: Any, ensemble: Ensemble) -> FloatArray:
    """ε for each feature, from one number, one per feature, or {feature: number}, where features not named get 0.

    Neighbours share the values of categories: ε is 0 there. Sets of values are refused.
    """
    around = bind_around(epsilon, ensemble)
    for f, _ in around.alike:
        raise InvalidInput(
            f"ε names values of column {ensemble.feature_name(f)}, and only distances are known here",
            argument="epsilon",
            way_out="verify, Verifier and resilience_radius take sets of values",
        )
    return around.sizes


@dataclass(frozen=True, eq=False)
class Around:
    """ε bound to the columns of a model."""

    given: PerFeature[Any]
    """As the user gives it."""
    sizes: FloatArray
    """How far neighbours may be away in each feature; inf where values may stand for each other."""
    alike: tuple[tuple[int, Classes], ...] = ()
    """The features in which values may stand for each other, in order."""


def bind_around(epsilon: Any, ensemble: Ensemble) -> Around:
    """The sizes and sets of each feature."""
    spec = as_epsilon(epsilon)
    if spec.n_features not in (None, ensemble.n_features):
        raise InvalidInput(f"epsilon has {spec.n_features} entries, but the model has {ensemble.n_features} features")
    sizes, alike = np.zeros(ensemble.n_features), []
    for f, size in enumerate(spec.bind(ensemble, 0.0)):
        category = ensemble.columns[f].category
        if category is None:
            sizes[f] = _distance(size, f, ensemble)
        elif not isinstance(size, float):
            alike.append((f, _classes(size, category, ensemble.feature_name(f))))
            sizes[f] = math.inf
        elif spec.keys is not None and size != 0:
            raise InvalidInput(
                f"column {ensemble.feature_name(f)} is a category, and nothing is a distance there",
                argument="near category",
                way_out="tp.ANY gives neighbours any value that the model knows, tp.values(…) some",
            )
    return Around(spec, sizes, tuple(alike))


def _distance(size: Any, f: int, ensemble: Ensemble) -> float:
    if isinstance(size, float):
        return size
    if size == ANY:
        return math.inf
    raise InvalidInput(
        f"column {ensemble.feature_name(f)} holds numbers, so ε is a distance there, not {size!r}", argument="epsilon"
    )


def _classes(size: Any, category: Category, name: str) -> Classes:
    """Sets of values as rows hold them."""
    if size == ANY:
        return (tuple(category.known().tolist()),)
    found: dict[float, Any] = {}
    classes = []
    for each in as_sets(size):
        codes = [category.double_of(value, name) for value in each.values]
        for code, value in zip(codes, each.values, strict=True):
            if code in found:
                raise InvalidInput(
                    f"column {name}: ε names {value!r} twice; values that may stand for each other are in one set",
                    argument="epsilon",
                )
        found.update(dict.fromkeys(codes))
        classes.append(tuple(sorted(set(codes))))
    return tuple(classes)


def plain_epsilon(given: Any) -> Any:
    """The neighbourhood as a number, a tuple with one per feature, or a dict, whatever kind of array was given."""
    spec = as_epsilon(given)
    if spec.shared:
        return spec.values[0]
    return spec.values if spec.keys is None else dict(zip(spec.keys, spec.values, strict=True))
