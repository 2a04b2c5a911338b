"""The published numbers from the folder TREEPROOF_GOLDEN, and the paper's data from TREEPROOF_DATA."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from treeproof import datasets

needs_golden = pytest.mark.skipif(
    not (os.environ.get("TREEPROOF_GOLDEN") and os.environ.get("TREEPROOF_DATA")),
    reason="set TREEPROOF_GOLDEN and TREEPROOF_DATA to compare with published numbers",
)

split = functools.cache(datasets.split)


def published(name: str) -> Any:
    """A JSON file of the golden folder."""
    return json.loads(Path(os.environ["TREEPROOF_GOLDEN"], name).read_text())
