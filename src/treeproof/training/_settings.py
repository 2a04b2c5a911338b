"""Checks the settings of training, and what they mean for the rows at hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.run.limits import as_count
from treeproof.threat.attacker import check_attacker
from treeproof.threat.threat import Threat
from treeproof.training._grow import GrowthLimits

CRITERIA = ("treant", "groot")


def limits_of(model: Any, n_rows: int, n_features: int, n_times: int = 1) -> GrowthLimits:
    """The limits that an estimator's parameters set for trees on this data, whose rows stand there so many times."""
    criterion = getattr(model, "criterion", "groot")
    if not isinstance(criterion, str) or criterion not in CRITERIA:
        raise InvalidInput(f"criterion must be one of {', '.join(map(repr, CRITERIA))}, got {criterion!r}")
    return GrowthLimits(
        max_depth=as_count(model.max_depth, "max_depth"),
        min_samples_split=n_times * rows_of(model.min_samples_split, "min_samples_split", 2, n_rows),
        min_samples_leaf=n_times * rows_of(model.min_samples_leaf, "min_samples_leaf", 1, n_rows),
        min_weight=check_share(model.min_weight_fraction_leaf, "min_weight_fraction_leaf", most=0.5),
        max_features=features_of(model.max_features, n_features),
        invariants=criterion == "treant",
    )


def check_whole(value: Any, name: str, *, least: int, way_out: str = "") -> int:
    """A whole number of at least `least`, or InvalidInput that says what else may be given."""
    if not _is_whole(value) or value < least:
        raise InvalidInput(
            f"{name} must be a whole number of at least {least}, got {value!r}", argument=name, way_out=way_out
        )
    return int(value)


def check_share(value: Any, name: str, *, most: float) -> float:
    """A number from 0 to `most`, or InvalidInput."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)) or not 0 <= value <= most:
        raise InvalidInput(f"{name} must be a number from 0 to {most:g}, got {value!r}", argument=name)
    return float(value)


def check_fraction(value: Any, name: str) -> float:
    """A number between 0 and 1, neither of them, or InvalidInput."""
    share = check_share(value, name, most=1.0)
    if share in (0.0, 1.0):
        raise InvalidInput(f"{name} must lie between 0 and 1, got {share:g}", argument=name)
    return share


def bound_attacker(attacker: Any, blank: Ensemble, X: FloatArray) -> Threat:
    """The attacker bound to the columns of the training rows X; refuses one that training cannot handle."""
    check_attacker(attacker)
    if attacker.power is not None:
        raise InvalidInput(
            f"training takes attackers with prices, not {attacker!r}; "
            f"Attacker.linf({attacker.radius}) is the nearest stronger one"
        )
    threat: Threat = attacker.bind(blank)
    threat.check_domain(X, blank)
    return threat


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def rows_of(value: Any, name: str, least: int, n_rows: int) -> int:
    if isinstance(value, (float, np.floating)) and 0.0 < value < 1.0:
        return max(least, math.ceil(value * n_rows))
    return check_whole(value, name, least=least, way_out="or give a share of the rows between 0 and 1")


FEWEST = 4
"""Columns that "auto" looks at, where there are so many: with fewer, good robust splits are missed."""


def features_of(value: Any, n_features: int) -> int:
    if value is None:
        return n_features
    if isinstance(value, str) and value == "auto":
        return min(max(FEWEST, math.isqrt(n_features)), n_features)
    if isinstance(value, str) and value in ("sqrt", "log2"):
        return max(1, int(math.sqrt(n_features) if value == "sqrt" else math.log2(n_features)))
    if isinstance(value, (float, np.floating)) and 0.0 < value <= 1.0:
        return max(1, int(value * n_features))
    if not _is_whole(value) or not 1 <= value <= n_features:
        raise InvalidInput(
            f"max_features must be 'auto', 'sqrt', 'log2', None for all, a share between 0 and 1, or a whole number "
            f"from 1 to {n_features}, got {value!r}"
        )
    return int(value)
