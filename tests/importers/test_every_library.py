"""Every importer says bit for bit what its library says: one table, the same checks for all."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from tests.support.points import critical_rows
from tests.support.zoo.case import Case, data
from treeproof.model.agreement import check_agreement, probe_rows

LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost", "onnx", "robust")


def all_cases() -> list:
    rows = []
    for library in LIBRARIES:
        try:
            zoo = importlib.import_module(f"tests.support.zoo.{library}_cases")
        except ModuleNotFoundError as error:
            # A library may be absent; a table of ours that cannot be found would skip every test unnoticed.
            if str(error.name).split(".")[0] in ("tests", "treeproof"):
                raise
            rows.append(pytest.param(None, id=library, marks=pytest.mark.skip(reason=str(error))))
            continue
        for case in zoo.CASES:
            marks = [pytest.mark.skip(reason=case.skipped)] if case.skipped else []
            rows.append(pytest.param(case, id=f"{library}-{case.name}", marks=marks))
    return rows


@pytest.mark.parametrize("case", all_cases())
def test_import_predicts_what_the_library_predicts(case: Case, tmp_path: Path) -> None:
    X, y = data(case.n_classes, missing=case.missing, labels=case.labels)
    model = case.fit(X, y)
    ensemble = case.load(model, tmp_path)
    rng = np.random.default_rng(1)
    random_rows = X[rng.integers(len(X), size=3000)] + rng.normal(size=(3000, X.shape[1])) * np.nanstd(X, axis=0)
    rows = critical_rows(ensemble, np.concatenate((X, random_rows)))
    if case.missing:
        rows[rng.random(rows.shape) < 0.05] = np.nan
    expected = case.predict(model, rows)
    got = ensemble.predict(rows)
    differ = np.flatnonzero(got != expected)
    assert len(differ) == 0, f"{len(differ)} rows differ, first {rows[differ[0]]!r}"
    assert len(np.unique(got)) == case.n_classes, "the test data does not exercise every class"
    check_agreement(ensemble, probe_rows(ensemble, 1000))
    if case.scores is not None:
        np.testing.assert_array_equal(ensemble.scores(rows), case.scores(model, rows).reshape(len(rows), -1))
