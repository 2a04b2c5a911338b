"""Models that say something else of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treeproof.model.columns import renamed
from treeproof.model.ensemble import Ensemble


def with_names(ensemble: Ensemble, names: Sequence[str]) -> Ensemble:
    """The same model with other names for its columns."""
    return replace(ensemble, columns=renamed(ensemble.columns, names))


def with_columns(ensemble: Ensemble, **changes: Any) -> Ensemble:
    """The same model with columns that are all changed alike."""
    return replace(ensemble, columns=tuple(replace(column, **changes) for column in ensemble.columns))
