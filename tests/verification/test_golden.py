"""The paper's standard models and the authors' TREANT forests: measured numbers come out to the last digit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import treeproof as tp
from tests.support.golden import needs_golden, published, split, standard_row

pytestmark = needs_golden


@pytest.mark.parametrize("row", range(18))
def test_standard_models_of_the_paper(row: int) -> None:
    line, data, forest, attacker = standard_row(row)
    result = tp.verify(forest, data.X_test, data.y_test, attacker, epsilon=line["epsilon"], voting="hard")
    assert len(result) == line["test_instances"]
    paper, measured = line["standard"], line["standard_measured"]
    # The published figures, and those of an independent prototype. (The prototype's accuracy is one row off
    # scikit-learn's own in one of the models, so accuracy is held against the paper.)
    assert round(result.accuracy, 3) == paper["a"]
    assert round(float(result.robustness), 3) == paper["r"]
    assert round(float(result.robustness), 4) == measured["r"]
    assert round(float(result.resilience), 4) == measured["R"]
    # What the paper bounds from below by analysis and from above by sampling.
    assert paper["R_hat"] <= round(float(result.resilience), 3) <= paper["r_bar"]


def treant_models() -> list:
    # Without the folder there is one test, to be skipped with its reason.
    return published("models/measured.json") if os.environ.get("TREEPROOF_GOLDEN") else [{"model": "every forest"}]


@pytest.mark.parametrize("line", treant_models(), ids=lambda line: line["model"])
def test_treant_forests_of_the_authors(line: dict) -> None:
    model = tp.load_model(Path(os.environ["TREEPROOF_GOLDEN"], "models", line["model"]))
    data = split(line["dataset"])
    attacker = tp.Attacker(tuple(line["interval"]), budget=line["budget"])
    result = tp.verify(model, data.X_test, data.y_test, attacker, epsilon=line["epsilon"])
    assert round(float(result.resilience), 4) == line["R"]
    if line["dataset"] == "breast-cancer":
        assert round(result.accuracy, 4) == line["a"]
        assert round(float(result.robustness), 4) == line["r"]
        return
    # TREANT puts thresholds on training values, and test rows of diabetes hold the same values. Accuracy and
    # robustness were measured on data that was rounded in another way, so they are held against what no rounding
    # can change: rows that stay correct, and robust, within 1e-9.
    steady = tp.verify(model, data.X_test, data.y_test, tp.Attacker.linf(1e-9))
    shaky = float((steady.stability != tp.Outcome.PROVED).mean())
    assert abs(result.accuracy - line["a"]) <= shaky + 1e-4
    close = tp.verify(model, data.X_test, data.y_test, attacker, epsilon=1e-9)
    assert float(close.resilience) <= line["r"] + 1e-4
