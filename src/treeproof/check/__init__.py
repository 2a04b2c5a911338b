"""Re-checks evidence in plain Python and exact rational arithmetic; imports no kernel and no engine."""

from __future__ import annotations

from treeproof.check.evidence import is_within_reach, is_witness, predict_row
from treeproof.check.maps import check_map
from treeproof.check.results import check_verification

__all__ = ["check_map", "check_verification", "is_within_reach", "is_witness", "predict_row"]
