"""Peak memory of verification alone: one process trains and saves, a fresh one loads the model and the rows.

python -m benchmarks.local --memory [--only TEXT]

The peak (`ru_maxrss`) is that of the whole fresh process: Python, numpy, numba and compiled code included. "arrays"
gets the model as its flat arrays, "file" reads it from treeproof's own JSON, and both then decide every row. Compiled
code comes from numba's cache; compiling it takes more, once.
"""

from __future__ import annotations

import pickle
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import treeproof as tp
from benchmarks.cases import CASES, SECONDS, Case

LIMIT_MB = 400


def train(name: str, delta: float, folder: str) -> None:
    """Saves the model of a case twice, and its rows."""
    case = next(case for case in CASES if (case.name, case.delta) == (name, delta))
    model, rows = case.prepare()
    tp.save_model(model, Path(folder, "model.json"))
    Path(folder, "model.pickle").write_bytes(pickle.dumps(replace(tp.from_model(model), source=None)))
    np.save(Path(folder, "rows.npy"), rows)


def verify(how: str, delta: float, epsilon: float, folder: str) -> None:
    """Decides the saved rows and prints the peak in MB: after imports, after loading, at the end; and open rows."""
    peaks = [_peak()]
    if how == "file":
        ensemble = tp.load_model(Path(folder, "model.json"))
    else:
        with open(Path(folder, "model.pickle"), "rb") as stream:
            ensemble = pickle.load(stream)
    rows = np.load(Path(folder, "rows.npy"))
    peaks.append(_peak())
    epsilons = None if epsilon == 0 else [epsilon]
    labels = ensemble.predict(rows)
    result = tp.verify(ensemble, rows, labels, tp.Attacker.linf(delta), epsilons=epsilons, timeout=SECONDS)
    peaks.append(_peak())
    print(*peaks, int((result.stability == tp.Outcome.UNKNOWN).sum()))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _child(*arguments: object) -> str:
    command = [sys.executable, "-m", "benchmarks.memory", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lines(cases: list[Case]) -> Iterator[str]:
    """The table, line by line."""
    yield f"{'MB':32} {'δ':>5} {'imports':>8} {'arrays':>8} {'rows decided':>13} {'from file':>10} {'open':>5}"
    worst = {"arrays": 0.0, "file": 0.0}
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            _child("train", case.name, case.delta, folder)
            _child("verify", "arrays", case.delta, 0.0, folder)  # compiled code is in the cache after this
            imports, loaded, done, n_open = map(float, _child("verify", "arrays", case.delta, 0.0, folder).split())
            from_file = float(_child("verify", "file", case.delta, 0.0, folder).split()[2])
        worst = {"arrays": max(worst["arrays"], done), "file": max(worst["file"], from_file)}
        yield (
            f"{case.name:32} {case.delta:5} {imports:8.0f} {loaded:8.0f} {done:13.0f} {from_file:10.0f} {n_open:5.0f}"
        )
    for how, peak in worst.items():
        yield f"highest peak, model from {how}: {peak:.0f} MB, {'below' if peak < LIMIT_MB else 'ABOVE'} {LIMIT_MB} MB"


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], float(sys.argv[3]), sys.argv[4])
    else:
        verify(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
