"""What is counted of a verification, a radius, a map, an analysis, a training, a guard, a check and an import.

Models are handed over as files and asked by public names, so that any commit that has these can be measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import treeproof as tp
from benchmarks.regression.counts import Counts, checksum
from benchmarks.regression.files import as_lightgbm, as_native, as_xgboost, load
from benchmarks.regression.models import Data, boosted_trees, forest_trees, gappy_cube
from treeproof import check


@dataclass(frozen=True, eq=False)
class Question:
    """A model and the data it was grown on."""

    data: Data
    text: str
    model: tp.Ensemble

    def rows(self, n: int | None) -> tuple[np.ndarray, np.ndarray]:
        """The first test rows and their labels."""
        return self.data.X_test[:n], self.data.y_test[:n]


Ask = Callable[[], Question]
"""Grows a model on first use, and keeps it."""


# --- models ------------------------------------------------------------------------------------------------------


@cache
def forest(source: Callable[[], Data], n_trees: int, depth: int, hard: bool = False) -> Question:
    """A soft or a hard vote."""
    data = source()
    text = as_native(forest_trees(data, n_trees, depth, 7, hard), data.X.shape[1], data.n_classes)
    return Question(data, text, load(text))


@cache
def boosted(
    source: Callable[[], Data], n_rounds: int, depth: int, decision: str, precision: str = "float64"
) -> Question:
    """Boosted trees; they take missing values if there are any."""
    data = source()
    trees = boosted_trees(data, n_rounds, depth, 7, decision == "cut", precision == "float32")
    missing = bool(np.isnan(data.X).any())
    text = as_native(trees, data.X.shape[1], data.n_classes, decision, precision, missing)
    return Question(data, text, load(text))


# --- what is counted ---------------------------------------------------------------------------------------------


def verified(q: Question, n: int | None, attacker: Any, jobs: int, **neighbourhoods: Any) -> Counts:
    """Verdicts on the first n test rows."""
    X, y = q.rows(n)
    return counts_of(q, tp.verify(q.model, X, y, attacker, n_jobs=jobs, **neighbourhoods))


def counts_of(q: Question, result: tp.Verification) -> Counts:
    counts: Counts = {"input": checksum(q.text, result.X, result.y), "rows": len(result), "boxes": result.boxes}
    several = len(result.epsilons) > 1
    answers = {"stability": result.stability}
    for epsilon, outcomes in zip(result.epsilons, result.resilience_by_epsilon, strict=True):
        answers[f"resilience at {epsilon}" if several else "resilience"] = outcomes
    for name, outcomes in answers.items():
        counts |= {f"{name} {outcome}": int((outcomes == outcome).sum()) for outcome in tp.Outcome}
    moved = (result.neighbour != result.attacked) & ~np.isnan(result.attacked)
    return counts | {
        "counterexamples": int(result.has_witness.sum()),
        "moves": int(moved.sum()),
        "verdicts": checksum(result.predicted, result.stability, *result.resilience_by_epsilon),
        "evidence": checksum(result.has_witness, result.neighbour, result.attacked, result.attacked_label),
    }


def radii(find: Callable[..., np.ndarray], q: Question, n: int, attacker: Any, jobs: int) -> Counts:
    """Exact radii: which tries the hunt makes may depend on the clock, what it finds does not."""
    X, y = q.rows(n)
    found = find(q.model, X, y, attacker, n_jobs=jobs)
    return {
        "input": checksum(q.text, X, y),
        "rows": len(found),
        "finite": int(np.isfinite(found).sum()),
        "unbroken": int((found == np.inf).sum()),
        "undecided": int(np.isnan(found).sum()),
        "radii": checksum(found),
    }


def mapped(q: Question, attacker: Any, jobs: int, **settings: Any) -> Counts:
    """A map, and what it says about the test rows."""
    X, _ = q.rows(None)
    smap = tp.StabilityMap.build(q.model, attacker, n_jobs=jobs, **settings)
    return {
        "input": checksum(q.text, X),
        "visited": smap.visited,
        "boxes": smap.n_boxes,
        **{str(status): count for status, count in smap.counts.items()},
        "covered": int(smap.covers(X, 0.02).sum()),
        "nodes": checksum(smap.nodes),
        "rows": checksum(smap.status(X)),
    }


def analyzed(q: Question, attacker: Any, jobs: int, max_iterations: int | None = None, **settings: Any) -> Counts:
    """The paper's analysis, and what it proves of the test rows."""
    X, y = q.rows(None)
    if settings.pop("track", False):
        settings["track"] = (X, y, [0.01, 0.02])
    found = tp.analyze(q.model, attacker, max_iterations, jobs, **settings)
    attacks = _numbers(found.attacks)
    counts: Counts = {
        "input": checksum(q.text, X, y),
        "iterations": found.iterations,
        "splits": found.splits,
        "attacks": len(found),
        "attacks left to split": int((attacks[:, -1] == 0).sum()),
        "stable rows": int(found.is_stable(X).sum()),
        "resilient rows": round(found.resilience(X, y, 0.02) * len(X)),
        "region": checksum(attacks),
    }
    if found.history is not None:
        counts["history"] = checksum(found.history.robustness, found.history.candidates, found.history.ended)
    return counts


def _numbers(table: Any) -> np.ndarray:
    """A pandas frame, or the list of rows that there is without pandas, as one array; "ended" is the last column."""
    rows = table.to_numpy() if hasattr(table, "to_numpy") else [list(row.values()) for row in table]
    return np.array(rows, dtype=np.float64)


def trained(estimator: Any, data: Data, jobs: int) -> Counts:
    """A robust tree or forest."""
    if hasattr(estimator, "n_jobs"):
        estimator.set_params(n_jobs=jobs)
    ensemble = tp.from_model(estimator.fit(data.X, data.y))
    predicted = ensemble.predict(data.X_test)
    return {
        "input": checksum(data.X, data.y),
        **shape_of(ensemble),
        "right": int((predicted == data.y_test).sum()),
        "splits": checksum(ensemble.feature, ensemble.threshold),
        "labels": checksum(predicted),
    }


def shape_of(ensemble: tp.Ensemble) -> Counts:
    return {"trees": ensemble.n_trees, "nodes": ensemble.n_nodes, "leaves": int((ensemble.feature < 0).sum())}


def imported(text: str, ending: str, data: Data) -> Counts:
    """A model file, until the first rows are decided: what is prepared for the search is part of it."""
    ensemble = load(text, ending)
    few = tp.verify(ensemble, data.X_test[:5], data.y_test[:5], tp.Attacker.linf(0.1))
    return {
        "input": checksum(text, data.X_test),
        **shape_of(ensemble),
        "thresholds": len(np.unique(ensemble.threshold[ensemble.feature >= 0])),
        "boxes": few.boxes,
        "fingerprint": few.fingerprint[:12],
        "labels": checksum(ensemble.predict(data.X_test)),
    }


def guarded(q: Question, attacker: Any, mode: str, jobs: int) -> Counts:
    """What is answered, and what is not."""
    X, y = q.rows(None)
    guard = tp.GuardedClassifier(q.model, attacker, mode=mode, n_jobs=jobs).fit()
    labels = guard.predict(X)
    return {
        "input": checksum(q.text, X),
        "answered": int((labels != guard.abstain_label_).sum()),
        "right": int((labels == y).sum()),
        "labels": checksum(labels),
    }


def checked(q: Question, n: int, attacker: Any) -> Counts:
    """A result and its proofs checked in plain Python."""
    X, y = q.rows(n)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "proofs.tpp"
        result = tp.verify(q.model, X, y, attacker, epsilon=0.01, proofs=file)
        return {"input": checksum(q.text, X, y), **check.check_verification(q.model, result, proofs=file)}


def checked_map(q: Question, attacker: Any, sample: int) -> Counts:
    """The proofs of some boxes of a map checked in plain Python."""
    smap = tp.StabilityMap.build(q.model, attacker, n_jobs=1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "proofs.tpp"
        smap.prove(file)
        boxes = check.check_map(q.model, attacker, smap, sample=sample, proofs=file)
    return {"input": checksum(q.text), "boxes": boxes}


def predicted(q: Question, times: int) -> Counts:
    """Plain predictions."""
    X = np.tile(q.data.X_test, (times, 1))
    return {"input": checksum(q.text, q.data.X_test), "rows": len(X), "labels": checksum(q.model.predict(X))}


# --- files of other libraries ------------------------------------------------------------------------------------


@cache
def boosted_text(kind: str) -> tuple[str, Data]:
    """The same trees, which take missing values, as a file of a library."""
    data = gappy_cube()
    trees = boosted_trees(data, 60, 6, 7, True, True)
    return {"xgboost": as_xgboost, "lightgbm": as_lightgbm}[kind](trees, data.X.shape[1]), data


def from_file(kind: str) -> Counts:
    text, data = boosted_text(kind)
    return imported(text, ".json" if kind == "xgboost" else ".txt", data)


def through_library(kind: str, jobs: int) -> Counts:
    """The library reads the file, treeproof the library's object, and counterexamples are replayed on that."""
    text, data = boosted_text(kind)
    if kind == "xgboost":
        import xgboost

        booster: Any = xgboost.Booster()
        booster.load_model(bytearray(text.encode()))
    else:
        import lightgbm

        booster = lightgbm.Booster(model_str=text)
    q = Question(data, text, tp.from_model(booster))
    return shape_of(q.model) | verified(q, 200, tp.Attacker.linf(0.03), jobs, epsilon=0.01)
