"""Reasons and contrastive sets beside PyXAI's, on the same forests and boosted trees in one run.

    python -m benchmarks.explain_peers [--rows 20] [--limit 10] [--cases NAME …] [--kinds KIND …] [--cpu]

PyXAI answers about the Boolean conditions of a model, whose theory knows that thresholds are ordered. Its forests are
those where the majority of trees decides, so treeproof is asked with voting="hard". Beside the size of a set of columns
stands whether `treeproof.verify` agrees on the columns as doubles: that they are enough, or that their change flips the
label. Of boosted trees PyXAI has "tree-specific" reasons, which are enough and often larger than needed. What of PyXAI
is not there is said: minimal sufficient reasons ignore its own time limit, so each answer comes from a process that is
ended after `--limit` seconds. Times are per row, conversion of the model and loading of code aside: treeproof is asked
once before, and keeps no answers; PyXAI is asked about a first row that does not count. With `--cpu`, they are CPU
times, those of the programs that PyXAI starts included, which do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp
from benchmarks.cases import breast_cancer, digits

KINDS = {
    "reason": {"forest": "sufficient_reason", "boosted": "tree_specific_reason"},
    "smallest": {"forest": "minimal_sufficient_reason", "boosted": "minimal_tree_specific_reasons"},
    "contrastive": {"forest": "minimal_contrastive_reason", "boosted": "minimal_contrastive_reason"},
}
"""What PyXAI calls them."""


@dataclass(frozen=True)
class Case:
    """A model, and how PyXAI sees it."""

    name: str
    sort: str
    data: Callable[[], tuple[np.ndarray, np.ndarray]]
    fit: Callable[[np.ndarray, np.ndarray], Any]


def forest(n: int, depth: int | None) -> Callable[[np.ndarray, np.ndarray], Any]:
    return lambda X, y: RandomForestClassifier(n, max_depth=depth, random_state=0).fit(X, y)


def boosted(n: int, depth: int) -> Callable[[np.ndarray, np.ndarray], Any]:
    from xgboost import XGBClassifier

    return lambda X, y: XGBClassifier(n_estimators=n, max_depth=depth, n_jobs=1, random_state=0).fit(X, y)


def wine() -> tuple[np.ndarray, np.ndarray]:
    return load_wine(return_X_y=True)


def ten_digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16, y


CASES = (
    Case("wdbc, 20 trees of depth 5", "forest", breast_cancer, forest(20, 5)),
    Case("wdbc, 100 trees", "forest", breast_cancer, forest(100, None)),
    Case("digits, 25 trees of depth 6", "forest", digits, forest(25, 6)),
    Case("wine, 50 trees", "forest", wine, forest(50, None)),
    Case("wdbc, XGBoost 50 x 3", "boosted", breast_cancer, boosted(50, 3)),
    Case("digits, XGBoost 50 x 4", "boosted", digits, boosted(50, 4)),
    Case("wine, XGBoost 30 x 3", "boosted", wine, boosted(30, 3)),
    Case("ten digits, XGBoost 20 x 3", "boosted", ten_digits, boosted(20, 3)),
)


def clock(cpu: bool) -> float:
    """Seconds that have passed, or that this process and those it waited for have used."""
    if not cpu:
        return time.perf_counter()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


# --- PyXAI, in a process of its own ----------------------------------------------------------------------------------


def _serve(channel: Connection, model: Any, X: np.ndarray, cpu: bool) -> None:
    """Answers (row, method) with (label, columns, seconds) until None comes."""
    sys.argv = sys.argv[:1]  # it reads the command line when it is imported
    os.chdir(tempfile.mkdtemp())  # it writes files where it stands
    from pyxai import Explaining, Learning, Tools

    Tools.set_verbose(0)
    _, converted = Learning.ModelIO.import_models(model, instances_type="tabular")
    names = [f"c{f}" for f in range(X.shape[1])]
    converted.learner_information.feature_names = [*names, "label"]
    explainer = Explaining.initialize(converted, features_type={"numerical": Learning.DEFAULT})
    channel.send("ready")
    while (asked := channel.recv()) is not None:
        row, method = asked
        began = clock(cpu)
        try:
            explainer.set_instance(X[row])
            found = getattr(explainer, method)()
            seconds = clock(cpu) - began
            conditions = None if found is None else explainer.to_features(found, details=True)
            columns = None if conditions is None else sorted(names.index(name) for name in conditions)
            channel.send((explainer.predict(X[row]), columns, seconds))
        except Exception as error:  # what a peer raises is part of the comparison
            channel.send(f"{type(error).__name__}: {error}")


class Peer:
    """PyXAI, started anew if an answer takes too long."""

    def __init__(self, model: Any, X: np.ndarray, limit: float, cpu: bool) -> None:
        self._given, self._limit = (model, X, cpu), limit
        self._process: Any = None

    def ask(self, row: int, method: str) -> Any:
        """(label, columns, seconds), a message, or None after the time limit."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._channel, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other, *self._given), daemon=True)
            self._process.start()
            if not self._channel.poll(300) or self._channel.recv() != "ready":
                raise RuntimeError("PyXAI did not start")
        self._channel.send((row, method))
        if not self._channel.poll(self._limit):
            self.close()
            return None
        return self._channel.recv()

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._process = None


# --- side by side ----------------------------------------------------------------------------------------------------


def flips(model: Any, x: np.ndarray, columns: list[int]) -> bool:
    """Whether a change of these columns alone flips the label, by `treeproof.verify`."""
    if not columns:
        return False
    attacker = tp.Attacker(dict.fromkeys(columns, tp.ANY))
    outcome = tp.verify(model, x[None], model.predict(x[None]), attacker, n_jobs=1).stability[0]
    assert outcome != tp.Outcome.UNKNOWN
    return bool(outcome == tp.Outcome.REFUTED)


def is_right(model: Any, x: np.ndarray, kind: str, columns: list[int]) -> bool:
    """Whether columns are enough for the label, or a change of them is enough for another."""
    if kind == "contrastive":
        return flips(model, x, columns)
    return not flips(model, x, [f for f in range(model.n_features) if f not in columns])


def compare(case: Case, kinds: Sequence[str], n_rows: int, limit: float, cpu: bool) -> None:
    """Prints a line for each kind of explanation."""
    X, y = case.data()
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.3, random_state=7)
    source = case.fit(X_train, y_train)
    X = np.ascontiguousarray(X_test[: n_rows + 1])
    # scikit-learn and XGBoost round to float32 anyway, and so both tools see the same numbers.
    X = X.astype(np.float32).astype(np.float64)
    model = tp.from_model(source, voting="hard") if case.sort == "forest" else tp.from_model(source)
    peer = Peer(source, X, limit, cpu)
    for kind in kinds:
        tp.explain(model, X[1:], kind=kind, n_jobs=1, timeout=limit if kind != "smallest" else 0.1)
        began = clock(cpu)
        found = tp.explain(model, X[1:], kind=kind, n_jobs=1, timeout=limit)
        ours = (clock(cpu) - began) / len(found)
        answers = _answers(peer, KINDS[kind][case.sort], len(found))
        _line(case, kind, model, X, (found, ours), answers)
    peer.close()


def _answers(peer: Peer, method: str, n_rows: int) -> list[Any]:
    """PyXAI's answers about rows from 1 on; the first one only loads things. If two are late, the rest is not asked."""
    first = peer.ask(0, method)
    if isinstance(first, str):
        return [first]
    answers: list[Any] = []
    for row in range(1, n_rows + 1):
        answers.append(peer.ask(row, method))
        if answers.count(None) == 2:
            break
    return answers


def _line(case: Case, kind: str, model: Any, X: np.ndarray, mine: tuple[Any, float], answers: list[Any]) -> None:
    found, ours = mine
    sizes = [len(one.columns) for one in found]
    wrong = sum(not is_right(model, X[row], kind, list(one.columns)) for row, one in enumerate(found, start=1)
                if one.columns or kind != "contrastive")  # fmt: skip
    line = f"{case.name:28} {kind:12} {1e3 * ours:9.2f} {np.mean(sizes):6.2f} {wrong:5} "
    line += f"{sum(not one.minimal for one in found):5} | "
    if isinstance(answers[0], str):
        print(line + answers[0], flush=True)
        return
    done = [(row, *answer) for row, answer in enumerate(answers, start=1) if answer is not None]
    theirs = [(row, columns) for row, _, columns, _ in done if columns is not None]
    if not theirs:
        print(f"{line}no answer to {len(answers)} rows in time", flush=True)
        return
    seconds = np.mean([answer[3] for answer in done])
    bad = [row for row, columns in theirs if not is_right(model, X[row], kind, columns)]
    labels = sum(label != model.predict(X[row : row + 1])[0] for row, label, _, _ in done)
    same = np.mean([len(found[row - 1].columns) for row, _ in theirs])
    print(
        f"{line}{1e3 * seconds:9.1f} {np.mean([len(columns) for _, columns in theirs]):6.2f} {same:6.2f} "
        f"{len(bad):5} {answers.count(None):5} {labels:6} {seconds / ours:7.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for an answer")
    parser.add_argument("--cases", nargs="+", help="parts of names")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    print(f"{'':41} treeproof                    | PyXAI")
    print(
        f"{'model':28} {'kind':12} {'ms a row':>9} {'size':>6} {'wrong':>5} {'open':>5} | {'ms a row':>9} {'size':>6} "
        f"{'ours':>6} {'wrong':>5} {'late':>5} {'labels':>6} {'faster':>7}"
    )
    for case in CASES:
        if not options.cases or any(part in case.name for part in options.cases):
            compare(case, options.kinds, options.rows, options.limit, options.cpu)


if __name__ == "__main__":
    main()
