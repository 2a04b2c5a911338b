"""How libraries compare, as effective thresholds: each test becomes `x <= e` on doubles."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray, float32_at_most, last_double_rounding_to


def float32_at_most_threshold(threshold: npt.ArrayLike) -> FloatArray:
    """e such that `float32(x) <= threshold` is `x <= e` (scikit-learn; CatBoost's `not float32(x) > border`)."""
    return last_double_rounding_to(float32_at_most(threshold))


def float32_below_threshold(threshold: npt.ArrayLike) -> FloatArray:
    """e such that `float32(x) < threshold` is `x <= e`; threshold is float32 (XGBoost)."""
    return last_double_rounding_to(np.nextafter(np.asarray(threshold, dtype=np.float32), np.float32(-np.inf)))
