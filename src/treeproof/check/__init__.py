"""Re-checks evidence in plain Python and exact rational arithmetic; imports no kernel and no engine."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeproof.check.objects import check_map, check_verification, is_within_reach, is_witness, predict_row

# Imported on first use, since some modules here need nothing but Python.
_HOMES = {
    "check_map": "objects",
    "check_verification": "objects",
    "is_within_reach": "objects",
    "is_witness": "objects",
    "predict_row": "objects",
}

__all__ = ["check_map", "check_verification", "is_within_reach", "is_witness", "predict_row"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"treeproof.check.{_HOMES[name]}"), name)
