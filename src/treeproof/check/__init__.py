"""Re-checks evidence in plain Python and exact rational arithmetic; imports no kernel and no engine."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeproof.check.objects import check_map, check_verification, is_within_reach, is_witness, predict_row

__all__ = ["check_map", "check_verification", "is_within_reach", "is_witness", "predict_row"]


def __getattr__(name: str) -> Any:
    # Imported on first use, since all but this module needs nothing but Python.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("treeproof.check.objects"), name)
