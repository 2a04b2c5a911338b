"""Rows per second and peak memory of `verify_table`: python -m benchmarks.stream [--rows N] [--format csv] [--jobs N].

One process makes the table, 100,000 rows at a time, and trains the model on a few of them; a fresh one verifies it and
says how much memory it had at most, Python, libraries and compiled code included. `ru_maxrss` would start with what its
parent had, so the peak is that of the kernel for the process alone (Linux).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import treeproof as tp
from benchmarks.memory import peak

FEATURES, BLOCK = 20, 100_000
DELTA, EPSILON = 0.05, 0.02
TREES, DEPTH = 100, 6
LIMIT_MB = 1024


def rows_of(number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The number-th block of a table that has no end: noise around a rule that trees can only approach."""
    rng = np.random.default_rng([7, number])
    X = rng.random((n, FEATURES))
    score = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] - X[:, 3] ** 2 + 0.5 * (X[:, 4] > X[:, 5]) + rng.normal(0, 0.1, n)
    return X, (score > 0.6).astype(np.int64)


def make(folder: Path, n_rows: int, kind: str) -> None:
    """Writes the model and the table."""
    from xgboost import XGBClassifier

    X, y = rows_of(0, 20_000)
    tp.save_model(XGBClassifier(n_estimators=TREES, max_depth=DEPTH, random_state=0).fit(X, y), folder / "model.json")
    names = [f"x{i}" for i in range(FEATURES)]
    for number, start in enumerate(range(0, n_rows, BLOCK), start=1):
        X, y = rows_of(number, min(BLOCK, n_rows - start))
        file = folder / f"rows-{number:04}.{kind}"
        if kind == "csv":
            np.savetxt(file, np.column_stack([X, y]), delimiter=",", header=",".join([*names, "label"]), comments="")
        else:
            import pyarrow as pa
            from pyarrow import parquet

            columns = dict(zip(names, X.T, strict=True))
            parquet.write_table(pa.table({**columns, "label": y}), file, row_group_size=10_000)


def verify(folder: Path, kind: str, jobs: int) -> None:
    """Verifies the table in this process, and prints what it took."""
    model = tp.load_model(folder / "model.json")
    attacker = tp.Attacker.linf(DELTA)
    X, y = rows_of(0, 300)
    tp.verify(model, X, y, attacker, epsilon=EPSILON)  # loads compiled code
    before, began = peak(), time.perf_counter()
    summary = tp.verify_table(
        model, str(folder / f"rows-*.{kind}"), attacker, out=folder / "out", epsilon=EPSILON, n_jobs=jobs
    )
    seconds = time.perf_counter() - began
    print(f"{summary}\n{summary.rows / seconds:,.0f} rows per second, {seconds:.1f} s, {jobs} threads")
    print(f"peak {peak():.0f} MB, {before:.0f} MB before the first chunk; the limit is {LIMIT_MB} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--format", choices=["parquet", "csv"], default="parquet")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder is not None:
        verify(given.folder, given.format, given.jobs)
        return
    with tempfile.TemporaryDirectory() as name:
        began = time.perf_counter()
        make(Path(name), given.rows, given.format)
        made = time.perf_counter() - began
        size = sum(file.stat().st_size for file in Path(name).glob("rows-*")) / 2**20
        print(f"{given.rows:,} rows of {FEATURES} features, {size:,.0f} MB, made in {made:.1f} s")
        subprocess.run([sys.executable, "-m", "benchmarks.stream", *sys.argv[1:], "--folder", name], check=True)


if __name__ == "__main__":
    main()
