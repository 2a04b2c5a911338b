"""The exact scale of an attack, or size of a neighbourhood, at which each row breaks, and the curve of all of them."""

from __future__ import annotations

from treeproof.verification.radii.radii import (
    ResilienceCurve,
    resilience_curve,
    resilience_radius,
    robustness_radius,
)

__all__ = ["ResilienceCurve", "resilience_curve", "resilience_radius", "robustness_radius"]
