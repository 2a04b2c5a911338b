"""Proofs: how many bytes they take, how long it takes to write them, and how long to check them.

    python -m benchmarks.proofs [--only TEXT]      # needs what benchmarks.local needs
    python -m benchmarks.proofs --paper [--rows N] # first rows of the paper's; TREEPROOF_GOLDEN, TREEPROOF_DATA

All times are CPU seconds of one thread, warm, for rows that are proved. A ratio of 2 means twice as long as the search
that writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from benchmarks.cases import CASES, SECONDS, warm
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Question, check_header, check_rows
from treeproof.paper import datasets
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.verification.local_search import Local
from treeproof.verification.proofs import LIMIT


class Task(NamedTuple):
    """What is proved, about which rows."""

    name: str
    ensemble: tp.Ensemble
    X: np.ndarray
    attacker: tp.Attacker
    epsilon: float


def of_local(only: str) -> Iterator[Task]:
    """The cases of benchmarks.local."""
    for case in CASES:
        if only in case.name:
            model, X = case.prepare()
            yield Task(f"{case.name}, {case.delta}", tp.from_model(model), X, tp.Attacker.linf(case.delta), 0.0)


def of_paper(only: str, rows: int) -> Iterator[Task]:
    """The paper's standard models, with its attackers and neighbourhoods."""
    table = json.loads(Path(os.environ["TREEPROOF_GOLDEN"], "paper/tables.json").read_text())
    for line in table["table_results"]:
        name = f"{line['dataset']}, {line['trees']} × {line['depth']}"
        if only in name:
            data = datasets.split(line["dataset"])
            forest = RandomForestClassifier(line["trees"], max_depth=line["depth"], random_state=7)
            forest.fit(data.X_train, data.y_train)
            attacker = tp.Attacker((-table["perturbation"][line["dataset"]], 0.0), budget=1)
            yield Task(name, tp.from_model(forest, voting="hard"), data.X_test[:rows], attacker, line["epsilon"])


def seconds_of_search(task: Task, proved: np.ndarray, proof_limit: int) -> float:
    """How long it takes to prove rows, by themselves and with their neighbourhoods."""
    threat, limits = task.attacker.bind(task.ensemble), Limits(timeout=SECONDS)
    start = time.process_time()
    for size in dict.fromkeys((0.0, task.epsilon)):
        local = Local(task.ensemble, threat, limits, proof_limit=proof_limit)
        local.decide(task.X[proved], np.full(task.ensemble.n_features, size))
    return time.process_time() - start


def checked(task: Task, folder: Path) -> tuple[np.ndarray, ProofFile, list[float], Counter[str]]:
    """Which rows are proved, their proofs, how long each takes to check, and what becomes of them."""
    epsilons = {"epsilon": task.epsilon} if task.epsilon else {}
    result = tp.verify(
        task.ensemble, task.X, task.ensemble.predict(task.X), task.attacker, timeout=SECONDS, n_jobs=1, progress=False,
        proofs=folder / "proofs.tpp", **epsilons,
    )  # fmt: skip
    result.to_json(folder / "result.json")
    tp.save_model(task.ensemble, folder / "model.json")
    texts = [(folder / name).read_text() for name in ("model.json", "result.json")]
    question, proofs = Question(*map(json.loads, texts)), ProofFile.open(folder / "proofs.tpp")
    check_header(question, proofs)
    proved = np.flatnonzero([verdict.stability == Outcome.PROVED for verdict in result.verdicts])
    seconds, found = [], Counter[str]()
    list(check_rows(question, proofs, proved[:1].tolist()))  # what is computed once for a model
    start = time.process_time()
    for _, one in check_rows(question, proofs, proved.tolist()):
        seconds.append(time.process_time() - start)
        found.update(checked=len(one.checked), rejected=len(one.rejected), without=len(one.unchecked))
        start = time.process_time()
    return proved, proofs, seconds, found


def line_of(task: Task) -> tuple[str, float | None]:
    """A line of the table, and how many times the search checking took, if anything is proved."""
    with tempfile.TemporaryDirectory() as folder:
        proved, proofs, seconds, found = checked(task, Path(folder))
    if not len(proved):
        return f"{task.name:38} {0:6}", None
    warm(task.ensemble, task.attacker, task.X, task.epsilon)
    for limit in (0, LIMIT):
        seconds_of_search(task, proved[:2], limit)
    search, writing = (seconds_of_search(task, proved, limit) for limit in (0, LIMIT))
    sizes = [length for _, length in proofs.rows.values()] or [0]
    ratio = sum(seconds) / search
    return (
        f"{task.name:38} {len(proved):6} {found['checked']:7} {found['rejected']:8} {found['without']:7} "
        f"{statistics.median(sizes):8.0f} {max(sizes):9} {search:9.3f} {writing / search:5.2f} "
        f"{statistics.median(seconds):8.4f} {max(seconds):8.3f} {sum(seconds):8.2f} {ratio:6.1f}",
        ratio,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--paper", action="store_true", help="the paper's models")
    parser.add_argument("--rows", type=int, default=100, help="of each of the paper's models")
    options: Any = parser.parse_args()
    print(
        f"{'':38} {'proved':>6} {'checked':>7} {'rejected':>8} {'without':>7} {'bytes':>8} {'worst':>9} {'search':>9} "
        f"{'write':>5} {'check':>8} {'worst':>8} {'all':>8} {'ratio':>6}"
    )
    ratios: list[float] = []
    for task in of_paper(options.only, options.rows) if options.paper else of_local(options.only):
        line, ratio = line_of(task)
        ratios += [] if ratio is None else [ratio]
        print(line, flush=True)
    print(f"the median of all ratios: {statistics.median(ratios):.1f}")


if __name__ == "__main__":
    main()
