"""Peak memory of verification alone: one process trains and saves, a fresh one loads the model and the rows.

python -m benchmarks.local --memory [--only TEXT]

The peak is that of the whole fresh process (Linux): Python, numpy, numba and compiled code included. "arrays" gets
the model as its flat arrays, "file" reads it from treeproof's own JSON, and both then decide every row. Compiled code
comes from numba's cache; the last line is a first run, which compiles everything.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import treeproof as tp

if TYPE_CHECKING:
    from benchmarks.cases import Case

LIMIT_MB = 400
SECONDS = 10.0


def train(name: str, delta: float, folder: str) -> None:
    """Saves the model of a case twice, and its rows."""
    # Imported here: what trains models has no place in the process that is measured.
    from benchmarks.cases import CASES

    case = next(case for case in CASES if (case.name, case.delta) == (name, delta))
    model, rows = case.prepare()
    tp.save_model(model, Path(folder, "model.json"))
    Path(folder, "model.pickle").write_bytes(pickle.dumps(replace(tp.from_model(model), source=None)))
    np.save(Path(folder, "rows.npy"), rows)


def verify(how: str, delta: float, folder: str) -> None:
    """Decides the saved rows; prints the peak in MB after imports, after loading and at the end, and the open rows."""
    peaks = [peak()]
    if how == "file":
        ensemble = tp.load_model(Path(folder, "model.json"))
    else:
        ensemble = pickle.loads(Path(folder, "model.pickle").read_bytes())
    rows = np.load(Path(folder, "rows.npy"))
    peaks.append(peak())
    result = tp.verify(ensemble, rows, ensemble.predict(rows), tp.Attacker.linf(delta), timeout=SECONDS)
    peaks.append(peak())
    print(*peaks, int((result.stability == tp.Outcome.UNKNOWN).sum()))


def peak() -> float:
    """The most memory this process had resident so far. (`ru_maxrss` would start with what its parent had.)"""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) / 1024


def _child(*arguments: object, **environment: str) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.memory", *map(str, arguments)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    return [float(number) for number in ran.stdout.split()]


def lines(cases: list[Case]) -> Iterator[str]:
    """The table, line by line."""
    yield f"{'MB':32} {'δ':>5} {'imports':>8} {'arrays':>8} {'rows decided':>13} {'from file':>10} {'open':>5}"
    worst = {"arrays": 0.0, "file": 0.0}
    for number, case in enumerate(cases):
        with tempfile.TemporaryDirectory() as folder:
            _child("train", case.name, case.delta, folder)
            if number == 0:
                _child("verify", "arrays", case.delta, folder)  # compiled code is in the cache after this
                cold = _child("verify", "arrays", case.delta, folder, NUMBA_CACHE_DIR=folder)[2]
            imports, loaded, done, n_open = _child("verify", "arrays", case.delta, folder)
            from_file = _child("verify", "file", case.delta, folder)[2]
        worst = {"arrays": max(worst["arrays"], done), "file": max(worst["file"], from_file)}
        yield (
            f"{case.name:32} {case.delta:5} {imports:8.0f} {loaded:8.0f} {done:13.0f} {from_file:10.0f} {n_open:5.0f}"
        )
    worst["arrays, compiling everything (first case)"] = cold
    for how, peak in worst.items():
        verdict = "below" if peak < LIMIT_MB else "ABOVE"
        yield f"highest peak, model from {how}: {peak:.0f} MB, {verdict} {LIMIT_MB} MB"


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], float(sys.argv[3]), sys.argv[4])
    else:
        verify(sys.argv[2], float(sys.argv[3]), sys.argv[4])
