"""Explanations written by hand, for tests of what is said about them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import treeproof as tp
from treeproof.model.columns import Category
from treeproof.results.asked import Asked, OneOf, Range, Unit
from treeproof.results.explanations import Explanation
from treeproof.results.verdicts import Outcome

PURPOSES = ("car", "radio", "tv", "boat", "house", "shop", "trip", "other", "none")

ROW = np.array([36.0, 4200.0, 0.4, 0.0, 1.0, 0.0])
"""Duration, amount, rate, purpose, and two members of a group."""


def asked(**changes: Any) -> Asked:
    """A question about one applicant: numbers, a category and a one-hot group."""
    names = ("duration", "amount", "rate", "purpose", "flat", "farm")
    category = Category(PURPOSES)
    units = (
        *(Unit(name, (f,)) for f, name in enumerate(names[:3])),
        Unit("purpose", (3,), category),
        Unit("home", (4, 5), Category(("flat", "farm", "(none)")), is_group=True),
    )
    fields: dict[str, Any] = {
        "kind": "reason",
        "attacker": tp.Attacker(tp.ANY),
        "X": ROW[np.newaxis],
        "model": "by hand",
        "decision": "",
        "fingerprint": "",
        "feature_names": names,
        "units": units,
        "domain": ((-math.inf, math.inf),) * 6,
    }
    return Asked(**{**fields, **changes})


def explanation(ranges: dict[Any, Any] | None = None, about: Asked | None = None, **changes: Any) -> Explanation:
    """Why the applicant is declined."""
    about = about or asked()
    allowed = {
        name: OneOf(value) if isinstance(value, list) else Range(*value) if isinstance(value, tuple) else value
        for name, value in (ranges or {}).items()
    }
    fields: dict[str, Any] = {
        "row": 0,
        "columns": tuple(allowed),
        "label": "bad",
        "outcome": Outcome.PROVED,
        "minimal": True,
        "ranges": allowed,
    }
    return Explanation(about=about, **{**fields, **changes})
