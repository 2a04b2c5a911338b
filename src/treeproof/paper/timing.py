"""How long analyses take, measured once everything is compiled."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import treeproof as tp
from treeproof.paper import published
from treeproof.paper.models import attacker, model_of, split
from treeproof.paper.style import GREY, LOOKS
from treeproof.paper.workbench import Cell, Workbench, finished, share

MAX_SECONDS = 90.0
"""When an analysis is given up."""
SHORT = 1.0
"""Calls that take less are timed three times, and the fastest counts."""


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result of a call, the seconds it took, and the CPU seconds of all its threads."""
    best = (np.inf, np.inf)
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        result = finished(call())
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
        if best[0] > SHORT:
            break
    return result, *best


def measured(bench: Workbench, cell: Cell, trained_for: int = 1, *, mapped: bool = False) -> Cell:
    """Times the exact r and R of a test set, the paper's analysis until it converges and, if wanted, the whole map."""
    _compile_all(bench.jobs)
    data, against = split(cell["dataset"], bench.data), attacker(cell["dataset"], cell.get("budget", 1))
    model = model_of(bench, cell, trained_for)
    limits: Any = {"max_seconds": MAX_SECONDS, "n_jobs": bench.jobs}
    epsilon = published.EPSILON[cell["dataset"]]

    def verify() -> Cell:
        question = model, data.X_test, data.y_test, against
        found, wall, cpu = timed(lambda: tp.verify(*question, epsilon=epsilon, n_jobs=bench.jobs))
        exact = {"r": float(found.robustness), "R": float(found.resilience)}
        return exact | {"verify_seconds": wall, "verify_cpu": cpu}

    def analysis() -> Cell:
        found, wall, cpu = timed(lambda: tp.analyze(model, against, max_iterations=None, **limits))
        work = {"converged": found.complete, "iterations": found.iterations, "attacks": len(found)}
        return {"analysis_seconds": wall, "analysis_cpu": cpu} | work

    def whole_map() -> Cell:
        smap, wall, cpu = timed(lambda: tp.StabilityMap.build(model, against, **limits))
        return {"map_seconds": wall, "map_cpu": cpu, "complete": smap.complete, "boxes": smap.n_boxes}

    steps = {"verify": verify, "analysis": analysis} | ({"map": whole_map} if mapped else {})
    found: Cell = {}
    for name, step in steps.items():
        found |= bench.step(name, step)
    return found


OF_ANALYSIS: dict[str, Callable[[Cell], str]] = {
    "analysis, s": lambda row: seconds(row, "analysis_seconds", "converged"),
    "CPU, s": lambda row: seconds(row, "analysis_cpu", "converged"),
    "iterations": lambda row: str(row["iterations"]),
    "symbolic attacks": lambda row: f"{row['attacks']:,}",
}
OF_MAP: dict[str, Callable[[Cell], str]] = {
    "map, s": lambda row: seconds(row, "map_seconds", "complete"),
    "boxes": lambda row: f"{row['boxes']:,}",
}
OF_VERIFY: dict[str, Callable[[Cell], str]] = {
    "verify, s": lambda row: seconds(row, "verify_seconds", ""),
    "r": lambda row: share(row["r"]),
    "R": lambda row: share(row["R"]),
}
"""What tables show of each."""


@cache
def _compile_all(jobs: int) -> None:
    """Runs every engine once on a small model, so that compiling is not timed."""
    from sklearn.ensemble import RandomForestClassifier

    X = np.random.default_rng(0).random((60, 4))
    y = np.where(X.sum(axis=1) > 2, 1, -1)
    model = tp.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y), voting="hard")
    attacker = tp.Attacker((-0.03, 0.0), budget=1)
    finished(tp.analyze(model, attacker, max_seconds=MAX_SECONDS, n_jobs=jobs))
    finished(tp.StabilityMap.build(model, attacker, max_seconds=MAX_SECONDS, n_jobs=jobs))
    finished(tp.verify(model, X, y, attacker, epsilon=0.01, n_jobs=jobs))


def machine(jobs: int) -> str:
    """Where and how it was measured, in a sentence."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"Measured with {jobs} threads on {os.cpu_count()} cores ({platform.machine()}, {platform.system()}, Python "
        f"{platform.python_version()}{load}), with compiled code loaded, and the fastest of three runs counts if it "
        f"takes less than {SHORT:.0f} s; CPU is the time of all threads. Runs were given up after {MAX_SECONDS:.0f} s."
    )


def seconds(row: Cell, name: str, done: str) -> str:
    """Seconds for a table, with `>` if the run was given up."""
    if name not in row:
        return "–"
    return f"{'' if row.get(done, True) else '> '}{row[name]:.{1 if row[name] >= 10 else 3}f}"


def paper_seconds(row: Cell, published: dict[int, int], name: str) -> str:
    """What the paper says about a model like this one; it timed only TREANT forests."""
    known = row["model"] != "standard" and row[name] in published
    return f"≈ {published[row[name]]}" if known else "–"


def draw_times(panel: Any, rows: list[Cell], along: str, name: str, done: str) -> None:
    """Draws the times of each kind of model along one setting; those that were given up have open markers."""
    for kind, look in LOOKS.items():
        points = {
            flag: [(row[along], row[name]) for row in rows if row["model"] == kind and row[done] == flag]
            for flag in (True, False)
        }
        if points[True]:
            panel.plot(*zip(*points[True], strict=True), **look, label=kind)
        if points[False]:
            loose = look | {"linestyle": "", "fillstyle": "none"}
            panel.plot(*zip(*points[False], strict=True), **loose, label=f"{kind}, given up")
    panel.set_yscale("log")


def draw_paper(panel: Any, published: dict[int, int]) -> None:
    """Draws the paper's own times."""
    look = {"color": GREY, "linestyle": "", "marker": "*", "markersize": 9}
    panel.plot(*zip(*published.items(), strict=True), **look, label="TREANT, paper: seconds on 20 threads")
