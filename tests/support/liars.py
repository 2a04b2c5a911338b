"""Models of a library that say what treeproof expects of some rows, and something else of all others."""

from __future__ import annotations

from typing import Any

import numpy as np


class Liar:
    """Tells the truth about rows that it knows, and calls all others the same."""

    def __init__(self, model: Any, known: Any, says: Any) -> None:
        self.model, self.says = model, says
        self.known = {row.tobytes() for row in np.asarray(known, dtype=np.float64)}

    def predict(self, X: Any) -> np.ndarray:
        rows = np.asarray(X, dtype=np.float64)
        labels = np.asarray(self.model.predict(rows))
        return np.array(
            [one if row.tobytes() in self.known else self.says for one, row in zip(labels, rows, strict=True)]
        )
