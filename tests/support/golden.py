"""The published numbers from the folder TREEPROOF_GOLDEN, and the paper's data from TREEPROOF_DATA."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from treeproof.paper import datasets

needs_golden = pytest.mark.skipif(
    not (os.environ.get("TREEPROOF_GOLDEN") and os.environ.get("TREEPROOF_DATA")),
    reason="set TREEPROOF_GOLDEN and TREEPROOF_DATA to compare with published numbers",
)

split = functools.cache(datasets.split)


def published(name: str) -> Any:
    """A JSON file of the golden folder."""
    return json.loads(Path(os.environ["TREEPROOF_GOLDEN"], name).read_text())


class StandardRow(NamedTuple):
    """A row of the paper's results: its published numbers, and the standard model and attacker they are about."""

    line: dict[str, Any]
    data: datasets.Split
    forest: RandomForestClassifier
    attacker: tp.Attacker


def standard_row(row: int) -> StandardRow:
    """The model of one of the 18 rows, trained by the paper's recipe."""
    table = published("paper/tables.json")
    line = table["table_results"][row]
    data = split(line["dataset"])
    forest = RandomForestClassifier(line["trees"], max_depth=line["depth"], random_state=7)
    forest.fit(data.X_train, data.y_train)
    return StandardRow(line, data, forest, tp.Attacker((-table["perturbation"][line["dataset"]], 0.0), budget=1))
