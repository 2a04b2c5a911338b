"""Test sets: witnesses flip the libraries' own models, workers and stops change nothing but how much is decided."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from tests.support.clock import Clock, press_ctrl_c, until
from tests.support.results import changed
from tests.support.zoo.case import data
from treeproof import check
from treeproof.importers import EnsembleBuilder
from treeproof.results.row_table import Refuted, RowTable
from treeproof.run.workers import in_groups
from treeproof.verification import verify as verify_module
from treeproof.verification.local_search import Local

P, R, U = tp.Outcome.PROVED, tp.Outcome.REFUTED, tp.Outcome.UNKNOWN


# --- data and models -----------------------------------------------------------------------------------------------


def _breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return minmax_scale(X), y


def _digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def _diabetes() -> tuple[np.ndarray, np.ndarray]:
    folder = os.environ.get("TREEPROOF_DATA")
    if not folder:
        pytest.skip("TREEPROOF_DATA is not set")
    table = pd.read_csv(Path(folder, "diabetes.csv"))
    return minmax_scale(table.iloc[:, :-1].to_numpy(dtype=float)), table.iloc[:, -1].to_numpy()


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast cancer": _breast_cancer,
    "digits": _digits,
    "diabetes": _diabetes,
}


def _xgboost() -> Any:
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBClassifier(n_estimators=20, max_depth=4, random_state=0, n_jobs=1)


def _lightgbm() -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=20, max_depth=4, random_state=0, n_jobs=1, verbose=-1)


def _catboost() -> Any:
    catboost = pytest.importorskip("catboost")
    return catboost.CatBoostClassifier(
        iterations=20, depth=4, random_seed=0, thread_count=1, verbose=False, allow_writing_files=False
    )


MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(20, max_depth=4, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=10, max_depth=3, random_state=0),
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
}


@cache
def trained(model: str, source: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model of every other row, and some of the rows it has not seen."""
    X, y = DATA[source]()
    return MODELS[model]().fit(X[0:600:2], y[0:600:2]), X[1:200:5], y[1:200:5]


# --- witnesses -------------------------------------------------------------------------------------------------------

ATTACKERS = {
    "linf": tp.Attacker.linf(0.1),
    "left": tp.Attacker((-0.25, 0.0), budget=2),
    "l0": tp.Attacker.l0(1),
    "away": tp.Attacker((0.05, 0.2), budget=3),
    "l1": tp.Attacker.lp(1, 0.1),
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("source", DATA)
@pytest.mark.parametrize("model", MODELS)
def test_every_witness_flips_the_library_and_passes_the_check(model: str, source: str) -> None:
    clf, X, y = trained(model, source)
    ensemble = tp.from_model(clf)
    flipped = neighbours = 0
    for name, attacker in ATTACKERS.items():
        for epsilon in (None, 0.02):
            result = tp.verify(clf, X, y, attacker, epsilon=epsilon)
            witnesses = [v.witness for v in result.verdicts if v.witness is not None]
            assert len(witnesses) == result.has_witness.sum() >= (result.stability == R).sum()
            for witness in witnesses:
                before, after = np.ravel(clf.predict([witness.neighbour])), np.ravel(clf.predict([witness.attacked]))
                assert before != after, name
                assert (before, after) == (witness.label, witness.attacked_label), name
                assert check.is_witness(ensemble, attacker, epsilon, witness), name
                neighbours += bool((witness.neighbour != witness.x).any())
            flipped += len(witnesses)
    assert flipped > 20 and neighbours > 0


@pytest.mark.parametrize("epsilon", [None, 0.05])
def test_a_witness_is_there_exactly_where_something_was_refuted_by_search(epsilon: float | None) -> None:
    clf, X, y = trained("forest", "breast cancer")
    wrong = np.where(np.arange(len(y)) % 4 == 0, 1 - y, y)
    result = tp.verify(clf, X, wrong, tp.Attacker.linf(0.05), epsilon=epsilon)
    asked = result.correct & (result.resilience_by_epsilon[0] == R) if epsilon else False
    assert (result.has_witness == ((result.stability == R) | asked)).all()
    for verdict, correct in zip(result.verdicts, result.correct, strict=True):
        assert verdict.robustness == (verdict.stability if correct else R)
        if verdict.stability == R:
            assert np.array_equal(verdict.witness.neighbour, verdict.witness.x)
        if epsilon is not None and not correct:
            assert verdict.resilience == R
    assert result.accuracy >= result.robustness.upper
    assert result.resilience is None if epsilon is None else result.robustness.upper >= result.resilience.upper


def test_a_witness_that_does_not_flip_the_source_is_a_soundness_error() -> None:
    class Stubborn:
        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.zeros((len(X), 1), dtype=int)

    with pytest.raises(tp.SoundnessError, match="row 0: the search found a counterexample that does not change"):
        tp.verify(stump(source=Stubborn()), [[0.4, 0.0]], [0], tp.Attacker.linf(0.2))


def test_a_witness_out_of_reach_is_a_soundness_error(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = Local.decide

    def overreach(self: Any, *asked: Any) -> Any:
        decided = decide(self, *asked)
        decided.attacked[:, 0] = 5.0
        return decided

    monkeypatch.setattr(Local, "decide", overreach)
    with pytest.raises(tp.SoundnessError, match="row 0: the search found a counterexample that the attacker cannot"):
        tp.verify(stump(), [[0.4, 0.0]], [0], tp.Attacker.linf(0.2))


# --- workers ---------------------------------------------------------------------------------------------------------


def same(a: tp.Verification, b: tp.Verification) -> bool:
    return (
        np.array_equal(a.stability, b.stability)
        and np.array_equal(a.resilience_by_epsilon, b.resilience_by_epsilon)
        and np.array_equal(a.has_witness, b.has_witness)
        and np.array_equal(a.neighbour, b.neighbour, equal_nan=True)
        and np.array_equal(a.attacked, b.attacked, equal_nan=True)
        and a.boxes == b.boxes
    )


def _work(n_jobs: int | None = 1) -> tp.Verification:
    clf, X, y = trained("forest", "digits")
    rows = np.concatenate((X, X[:, ::-1], X / 2))
    return tp.verify(
        clf, rows, np.concatenate((y, y, y)), tp.Attacker.linf(0.06), epsilons=[0.0, 0.02, 0.04], n_jobs=n_jobs
    )


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_results_do_not_depend_on_workers_and_chunks(n_jobs: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _work()
    assert {P, R} == set(expected.stability.tolist()) and expected.resilience_at[0.0].lower > 0
    monkeypatch.setattr(
        verify_module._Pace, "groups", lambda self, rows: (rows[group] for group in in_groups(len(rows), chunk))
    )
    assert same(_work(n_jobs), expected)


def test_processes_give_what_threads_give() -> None:
    expected = _work()
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert same(_work(None), expected)


def test_witnesses_are_replayed_here_and_not_on_the_workers() -> None:
    backends: list[str] = []

    class Watched:
        def predict(self, X: np.ndarray) -> np.ndarray:
            backends.append(type(joblib.parallel.get_active_backend()[0]).__name__)
            return (X[:, 0] > 0.5).astype(int)

    with joblib.parallel_config(backend="loky", n_jobs=2):
        result = tp.verify(stump(source=Watched()), [[0.4, 0.0]], [0], tp.Attacker.linf(0.2))
    assert result.has_witness.all() and set(backends) == {"SequentialBackend"}


@pytest.mark.long
@pytest.mark.slow
def test_a_dask_cluster_gives_what_threads_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    expected = _work()
    original = verify_module._answer
    folder = str(tmp_path)

    def answer(ensemble: Any, task: Any) -> Any:
        Path(folder, str(os.getpid())).touch()
        return original(ensemble, task)

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        monkeypatch.setattr(verify_module, "_answer", answer)
        assert same(_work(2), expected)
    workers = {int(file.name) for file in tmp_path.iterdir()}
    assert workers and os.getpid() not in workers


# --- stops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"timeout": 0}, {"max_seconds": 0}, {"timeout": 0.0, "max_seconds": 0.0}])
def test_no_time_at_all_leaves_everything_open(limit: dict) -> None:
    clf, X, y = trained("forest", "breast cancer")
    wrong = np.where(np.arange(len(y)) % 4 == 0, 1 - y, y)
    result = tp.verify(clf, X, wrong, tp.Attacker.linf(0.05), epsilon=0.01, n_jobs=2, **limit)
    assert (result.stability == U).all() and not result.has_witness.any() and not result.interrupted
    assert (result.resilience_by_epsilon[0] == np.where(result.correct, U, R)).all()
    assert result.robustness == result.resilience == tp.Bounds(0.0, result.accuracy)
    with pytest.raises(ValueError, match="undecided: between"):
        float(result.robustness)


@cache
def hard_model() -> tuple[tp.Ensemble, np.ndarray, np.ndarray]:
    X, y = DATA["digits"]()
    clf = RandomForestClassifier(300, max_depth=10, random_state=0, n_jobs=2).fit(X[::2], y[::2])
    return tp.from_model(clf), X[1::2], y[1::2]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_max_seconds_ends_hard_work_in_time(n_jobs: int, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Nothing is begun after the deadline, and what is under way then ends."""
    ensemble, X, y = hard_model()
    decide, calls, numbers = Local.decide, list[bool](), count(1)

    def late_from_the_fourth_on(self: Local, *asked: Any) -> Any:
        calls.append(self.limits.is_over())
        if next(numbers) == 4:
            clock.add(1.0)
        return decide(self, *asked)

    monkeypatch.setattr(Local, "decide", late_from_the_fourth_on)
    result = tp.verify(ensemble, X, y, tp.Attacker.lp(2, 0.5), epsilon=0.1, max_seconds=0.5, n_jobs=n_jobs)
    # Other threads may be on their way from their own look at the clock to their next call.
    assert sum(calls) < n_jobs and 4 <= len(calls) < 4 + n_jobs
    assert (result.stability == U).any()
    assert result.robustness.lower < result.robustness.upper


def test_the_timeout_of_a_row_leaves_the_others_alone(clock: Clock) -> None:
    ensemble, X, y = hard_model()
    clock.per_look = 0.01  # a row has time for a few looks at the clock
    result = tp.verify(ensemble, X[:10], y[:10], tp.Attacker.lp(2, 0.25), timeout=0.05, epsilon=0.1)
    assert {U, R} <= set(result.stability.tolist())


INTERRUPTED = """
import signal
import sys
import threading
import numpy as np
import treeproof as tp
from tests.support.clock import main_thread_waits, until
from treeproof.run.limits import Limits
from sklearn.ensemble import RandomForestClassifier
from sklearn.datasets import load_digits

X, y = load_digits(return_X_y=True)
clf = RandomForestClassifier(100, max_depth=10, random_state=0).fit(X / 16, y)
attacker = tp.Attacker.linf(0.07)
X, y = np.tile(X / 16, (30, 1)), np.tile(y, 30)
from treeproof.results.row_table import RowTable as table
take, pressed = table.take, threading.Event()

def announce(self, rows, answer):
    table.take = take
    until(main_thread_waits)
    print("the first answer is here", flush=True)
    pressed.wait()
    return take(self, rows, answer)

def interrupt(self, stop=Limits.interrupt):
    stop(self)
    pressed.set()

table.take, Limits.interrupt = announce, interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have switched it off
result = tp.verify(clf, X, y, attacker, epsilon=0.01, n_jobs=int(sys.argv[1]))
known = result.stability != tp.Outcome.UNKNOWN
witnesses = [result.witness(row) for row in np.flatnonzero(result.has_witness)]
flip = all(clf.predict([w.neighbour]) != clf.predict([w.attacked]) for w in witnesses[:20])
print(result.interrupted, int(known.sum()), len(X), flip, result.robustness.exact, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGINT to a child process")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_returns_what_was_decided(n_jobs: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(n_jobs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "the first answer is here\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0, err
    interrupted, known, total, flip, exact = out.split()
    assert (interrupted, flip, exact) == ("True", "True", "False")
    assert 0 < int(known) < int(total)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_the_rows_of_the_task_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    # All rows are in one task; its second question never ends by itself, and Ctrl-C comes then.
    clf, X, y = trained("forest", "breast cancer")
    decide = Local.decide

    def stuck(self: Any, X: np.ndarray, epsilon: np.ndarray, labels: np.ndarray) -> Any:
        if epsilon.any():
            press_ctrl_c()
            until(self.limits.is_over)
        return decide(self, X, epsilon, labels)

    expected = tp.verify(clf, X, y, tp.Attacker.linf(0.05))
    monkeypatch.setattr(verify_module._Pace, "groups", lambda self, rows: iter([rows]))
    monkeypatch.setattr(Local, "decide", stuck)
    result = tp.verify(clf, X, y, tp.Attacker.linf(0.05), epsilon=0.01)
    assert result.interrupted
    assert (result.stability == expected.stability).all()


def test_a_failure_of_a_worker_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(ensemble: Any, task: Any) -> Any:
        raise tp.SoundnessError("no")

    monkeypatch.setattr(verify_module, "_answer", fail)
    with pytest.raises(tp.SoundnessError, match="no"):
        tp.verify(stump(), [[0.4, 0.0]], [0], tp.Attacker.linf(0.2))


# --- neighbourhoods --------------------------------------------------------------------------------------------------


def test_several_neighbourhoods_in_one_call_equal_separate_calls() -> None:
    clf, X, y = trained("xgboost", "breast cancer")
    attacker = tp.Attacker((-0.05, 0.0), budget=2)
    epsilons = [0.03, 0.0, 0.1, 0.01, 0.03]
    sweep = tp.verify(clf, X, y, attacker, epsilons=epsilons)
    assert sweep.epsilons == tuple(epsilons)
    for epsilon, outcomes in zip(epsilons, sweep.resilience_by_epsilon, strict=True):
        alone = tp.verify(clf, X, y, attacker, epsilon=epsilon)
        assert np.array_equal(outcomes, alone.resilience_by_epsilon[0])
        assert sweep.resilience_at[epsilon] == alone.resilience and alone.resilience.exact
        assert np.array_equal(sweep.stability, alone.stability)
    assert list(sweep.resilience_at) == [0.03, 0.0, 0.1, 0.01]
    shares = [float(sweep.resilience_at[epsilon]) for epsilon in sorted(sweep.resilience_at)]
    assert shares == sorted(shares, reverse=True) and len(set(shares)) > 2
    assert shares[0] == float(sweep.robustness)
    assert sweep.resilience == sweep.resilience_at[0.03]


def test_the_witness_of_a_sweep_refutes_the_smallest_neighbourhood_that_is_refuted() -> None:
    clf, X, y = trained("forest", "breast cancer")
    attacker, epsilons = tp.Attacker.linf(0.02), [0.1, 0.01, 0.05]
    sweep = tp.verify(clf, X, y, attacker, epsilons=epsilons)
    checked = 0
    for row in np.flatnonzero(sweep.has_witness):
        broken = [e for e, o in zip(epsilons, sweep.resilience_by_epsilon, strict=True) if o[row] == R]
        assert check.is_witness(clf, attacker, min(broken), sweep.witness(row))
        checked += min(broken) > 0.01
    assert checked > 0


def test_an_earlier_result_is_taken_over_and_the_rest_is_searched(tmp_path: Path) -> None:
    clf, X, y = trained("forest", "breast cancer")
    question = {"attacker": tp.Attacker.linf(0.05), "epsilons": [0.01, 0.02]}
    whole = tp.verify(clf, X, y, **question)
    stability, resilience = whole.stability.copy(), whole.rows.resilience.copy()
    stability[5:20], resilience[1, 10:30] = U, U
    has_witness = whole.has_witness & ~np.isin(np.arange(len(whole)), range(5, 20))
    part = changed(whole, stability=stability, resilience=resilience, has_witness=has_witness)
    part.to_json(tmp_path / "part.json")
    read = tp.Verification.from_json(tmp_path / "part.json")
    resumed = tp.verify(clf, X, y, **question, resume=read)
    again = tp.verify(clf, X, y, **question)
    for name in ("stability", "has_witness", "neighbour", "attacked"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(again, name))
    for k in range(2):
        np.testing.assert_array_equal(resumed.resilience_by_epsilon[k], again.resilience_by_epsilon[k])
    # What is decided stays so, even if there is no time for the rest.
    stopped = tp.verify(clf, X, y, **question, resume=read, max_seconds=0)
    np.testing.assert_array_equal(stopped.stability, read.stability)
    np.testing.assert_array_equal(stopped.has_witness, read.has_witness)
    assert tp.verify(clf, X, y, **question, resume=whole, max_seconds=0).robustness == again.robustness


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attacker": tp.Attacker.linf(0.06)}, "has a different attacker; start again"),
        ({"epsilon": 0.02}, "has a different epsilon"),
        ({"X": np.zeros((40, 30))}, "has a different set of rows"),
        ({"y": np.zeros(40, dtype=int)}, "has a different set of labels"),
        ({"model": "gradient boosting"}, "has a different model"),
    ],
)
def test_a_result_about_something_else_is_not_resumed(change: dict, message: str) -> None:
    clf, X, y = trained("forest", "breast cancer")
    question = {"model": clf, "X": X, "y": y, "attacker": tp.Attacker.linf(0.05), "epsilon": 0.01}
    earlier = tp.verify(**question, max_seconds=0)
    if "model" in change:
        change = {"model": trained(change["model"], "breast cancer")[0]}
    with pytest.raises(tp.InvalidInput, match=message):
        tp.verify(**question | change, resume=earlier)


def test_more_neighbourhoods_than_a_byte_counts() -> None:
    # Two rows at 96 and 192 steps from the threshold, an attack of 8 steps, neighbourhoods of 0 to 199 steps.
    step, X = 2.0**-10, [[0.5 - 96 / 1024, 0.0], [0.5 - 192 / 1024, 0.0]]
    sweep = tp.verify(stump(), X, [0, 0], tp.Attacker.linf(8 * step), epsilons=[k * step for k in range(200)])
    assert [float(bounds) for bounds in sweep.resilience_at.values()] == [
        (int(k + 8 <= 96) + int(k + 8 <= 192)) / 2 for k in range(200)
    ]


def test_neighbourhoods_by_feature_and_by_name_are_the_same_one() -> None:
    X, y = data(2)
    names = [f"f{i}" for i in range(X.shape[1])]
    clf = RandomForestClassifier(15, max_depth=4, random_state=0).fit(pd.DataFrame(X, columns=names), y)
    X, y = X[:60], y[:60]
    attacker = tp.Attacker({"f0": (-0.1, 0.1)})
    spec = {"f0": 0.2, "f2": 1.0}
    each = [0.2, 0.0, 1.0, 0.0, 0.0]
    sweep = tp.verify(clf, X, y, attacker, epsilons=[spec, each, np.array(each), pd.Series(spec), {0: 0.2, 2: 1}, 0.0])
    outcomes = sweep.resilience_by_epsilon
    assert all(np.array_equal(outcomes[0], other) for other in outcomes[1:5])
    assert not np.array_equal(outcomes[0], outcomes[5])
    assert sweep.epsilons[:3] == (spec, tuple(each), tuple(each)) and sweep.epsilons[3] == spec
    assert list(sweep.resilience_at) == [0.0]
    assert tp.verify(clf, X, y, attacker, epsilon=np.float32(0.5)).resilience_at.keys() == {0.5}
    assert tp.verify(clf, X, y, attacker, epsilons=np.array([0.5, 1.0])).resilience_at.keys() == {0.5, 1.0}


# --- bad input -------------------------------------------------------------------------------------------------------


def stump(**options: Any) -> tp.Ensemble:
    builder = EnsembleBuilder(
        **{"n_features": 2, "classes": [0, 1], "feature_names": ("age", "income"), "value_limit": 1e9} | options
    )
    builder.add_tree(
        feature=[0, -1, -1],
        threshold=[0.5, 0, 0],
        left=[1, -1, -1],
        right=[2, -1, -1],
        scores=[[0, 0], [1, 0], [0, 1]],
        nan_left=[True, True, True],
    )
    return builder.build()


GOOD = {"X": [[0.1, 0.2], [0.6, 0.3]], "y": [0, 1], "attacker": tp.Attacker.linf(0.1)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [0.1, 0.2]}, r"X has shape \(2,\), but the model takes rows of 2 features"),
        ({"X": [[0.1], [0.2]]}, r"X has shape \(2, 1\)"),
        ({"X": [[0.1, 0.2], [0.1]]}, "X must contain only numbers"),
        ({"X": [["a", "b"], ["c", "d"]]}, "row 0, column 'age': 'a' is not a number"),
        ({"X": 0.5}, r"X has shape"),
        (
            {"X": [[0.1, 0.2], [math.nan, 0.3]]},
            "row 1, column 'age' is NaN, but the model does not accept missing values",
        ),
        ({"X": [[0.1, 2e9], [0.6, 0.3]]}, r"row 0, column 'income': 2000000000.0 is outside the range .* -1e\+09 to"),
        ({"X": [[0.1, math.inf], [0.6, 0.3]]}, "row 0, column 'income': inf is outside the range"),
        ({"X": pd.DataFrame({"age": [1.0], "size": [2.0]})}, "X has no column 'income'"),
        ({"y": [0, 2]}, r"row 1: the model does not know the label 2; it predicts \[0, 1\]"),
        ({"y": [0, math.nan]}, "row 1: the model does not know the label nan"),
        ({"y": ["0", "1"]}, "row 0: the model does not know the label '0'"),
        ({"y": [0]}, "X has 2 rows and y has 1 labels; give one label per row"),
        ({"y": [[0], [1]]}, r"labels must be a list with one label per row, got shape \(2, 1\)"),
        ({"y": None}, "labels must be a list with one label per row"),
        ({"attacker": 0.1}, "attacker must be a treeproof.Attacker, got float"),
        ({"attacker": tp.Attacker([(0, 1)] * 3)}, "attacker has 3 features, model has 2; give one interval"),
        ({"attacker": tp.Attacker({"size": (0, 1)})}, "the model has no feature 'size'; it has 'age', 'income'"),
        ({"attacker": tp.Attacker.linf(0.1, domain=(0, 0.5))}, "row 1, column 'age': 0.6 lies outside the domain"),
        ({"epsilon": -0.1}, "epsilon must be at least 0, got -0.1"),
        ({"epsilon": math.nan}, "epsilon is NaN"),
        ({"epsilon": "wide"}, "epsilon must be a number, got 'wide'"),
        ({"epsilon": [0.1, math.nan]}, "epsilon of feature 1 is NaN"),
        ({"epsilon": [0.1] * 3}, "epsilon has 3 entries, but the model has 2 features"),
        ({"epsilon": {"size": 1}}, "the model has no feature 'size'"),
        ({"epsilon": []}, "epsilon: the list is empty"),
        ({"epsilon": 0.1, "epsilons": [0.1]}, "give epsilon or epsilons, not both"),
        ({"epsilons": []}, r"epsilons must be a list of neighbourhoods, got \[\]"),
        ({"epsilons": np.empty(0)}, "epsilons must be a list of neighbourhoods"),
        ({"epsilons": np.array(0.1)}, "epsilons must be a list of neighbourhoods"),
        ({"epsilons": 0.1}, "epsilons must be a list of neighbourhoods, got 0.1"),
        ({"epsilons": "ab"}, "epsilons must be a list of neighbourhoods, got 'ab'"),
        ({"epsilons": [0.1, -1]}, "epsilon must be at least 0, got -1"),
        ({"epsilons": [None]}, "epsilon must be a number, got None"),
        ({"timeout": -1}, "timeout must be at least 0, got -1"),
        ({"timeout": math.nan}, "timeout is NaN"),
        ({"timeout": "long"}, "timeout must be a number, got 'long'"),
        ({"max_seconds": -0.5}, "max_seconds must be at least 0, got -0.5"),
        ({"max_seconds": math.nan}, "max_seconds is NaN"),
        ({"n_jobs": 0}, "n_jobs must be a number of workers, or -1 for all, got 0"),
        ({"n_jobs": "two"}, "n_jobs must be a number of workers"),
        ({"n_jobs": 1.5}, "n_jobs must be a number of workers"),
        ({"voting": "hard"}, "voting is chosen when a model is imported"),
    ],
)
def test_bad_input_is_refused_in_one_line(change: dict, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message) as caught:
        tp.verify(stump(), **(GOOD | change))
    assert "\n" not in str(caught.value)


def test_a_model_that_cannot_be_verified_is_refused() -> None:
    with pytest.raises(tp.UnsupportedModel, match="no importer for object"):
        tp.verify(object(), **GOOD)
    with pytest.raises(tp.InvalidInput, match="voting must be 'soft' or 'hard', got 'loud'"):
        tp.verify(trained("forest", "breast cancer")[0], **GOOD, voting="loud")


# --- corners ---------------------------------------------------------------------------------------------------------


def test_no_rows_at_all() -> None:
    result = tp.verify(stump(), np.empty((0, 2)), [], GOOD["attacker"], epsilon=0.1, n_jobs=2)
    assert len(result) == 0 and result.verdicts == () and not result.interrupted
    assert math.isnan(result.accuracy) and math.isnan(float(result.robustness)) and math.isnan(float(result.resilience))
    assert len(result.to_frame()) == 0


def test_one_row() -> None:
    # From 0.25 over 0.375 to the threshold 0.5, which goes left; one double beyond it goes right.
    just = 0.125 + 2.0**-53
    for epsilon, resilience in ((0.125, 1.0), (math.nextafter(just, 0), 1.0), (just, 0.0)):
        result = tp.verify(stump(), [[0.25, 7.0]], [0], tp.Attacker.linf(0.125), epsilon=epsilon)
        assert (result.accuracy, float(result.robustness), float(result.resilience)) == (1.0, 1.0, resilience)
    witness = result.verdicts[0].witness
    assert witness.moved == {"age": (0.25 + just, math.nextafter(0.5, 1))}
    assert (witness.label, witness.attacked_label) == (0, 1)


def test_missing_values_are_moved_by_nobody() -> None:
    model = stump(handles_missing=True)
    X = [[math.nan, 0.0], [0.45, math.nan], [0.45, 0.0]]
    result = tp.verify(model, X, [0, 0, 0], tp.Attacker.l0(2), epsilon=math.inf)
    assert result.stability.tolist() == [P, R, R]
    assert result.resilience_by_epsilon[0].tolist() == [P, R, R]
    assert math.isnan(result.witness(1).attacked[1]) and result.witness(1).moved.keys() == {"age"}


def test_missing_values_in_a_library_that_takes_them() -> None:
    X, y = data(2, missing=True)
    clf = MODELS["xgboost"]().fit(X, y)
    attacker = tp.Attacker.linf([0.2, 0.2, 1.0, 1e5, 1e-7])
    result = tp.verify(clf, X, y, attacker, epsilon=[0.1, 0.1, 0.0, 1e5, 0.0], max_seconds=10)
    assert result.has_witness.sum() > 20
    for row in np.flatnonzero(result.has_witness):
        witness = result.witness(row)
        assert np.array_equal(np.isnan(witness.attacked), np.isnan(X[row]))
        assert clf.predict([witness.neighbour]) != clf.predict([witness.attacked])


def test_labels_that_are_strings() -> None:
    X, y = data(3, labels=("no", "maybe", "absolutely"))
    clf = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y)
    short = y == "no"
    result = tp.verify(clf, X[short], list(y[short]), tp.Attacker.linf([0.5, 0.5, 1, 1e5, 1e-7]))
    assert (result.y == "no").all() and (result.predicted == clf.predict(X[short])).all()
    assert {w.attacked_label for w in map(result.witness, np.flatnonzero(result.has_witness))} >= {"maybe"}


def test_the_result_does_not_change_with_the_callers_array() -> None:
    X = np.array([[0.45, 0.0]])
    result = tp.verify(stump(), X, [0], GOOD["attacker"])
    X[:] = 9.0
    assert result.X.tolist() == [[0.45, 0.0]] and result.witness(0).x.tolist() == [0.45, 0.0]


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    clf, X, y = trained("forest", "breast cancer")
    result = tp.verify(clf, X, y, GOOD["attacker"], progress=True, n_jobs=2)
    shown = capsys.readouterr()
    assert shown.out == "" and f"verifying {len(X)} of {len(X)}\n" in shown.err
    assert same(result, tp.verify(clf, X, y, GOOD["attacker"]))
    tp.verify(clf, X[:0], y[:0], GOOD["attacker"], progress=True)
    capsys.readouterr()
    tp.verify(clf, X, y, GOOD["attacker"])
    assert capsys.readouterr() == ("", "")


def test_a_model_from_a_file_is_verified_without_its_library(tmp_path: Path) -> None:
    clf, X, y = trained("lightgbm", "breast cancer")
    clf.booster_.save_model(tmp_path / "model.txt")
    loaded = tp.load_model(tmp_path / "model.txt")
    assert loaded.source is None
    assert same(
        tp.verify(loaded, X, y, GOOD["attacker"], epsilon=0.01), tp.verify(clf, X, y, GOOD["attacker"], epsilon=0.01)
    )


def test_hard_votes_are_verified_as_such() -> None:
    clf, X, y = trained("forest", "digits")
    attacker = tp.Attacker.linf(0.05)
    hard = tp.verify(clf, X, y, attacker, voting="hard")
    ensemble = tp.from_model(clf, voting="hard")
    votes = np.array([tree.predict(X) for tree in clf.estimators_]).astype(int)
    majority = [np.bincount(column).argmax() for column in votes.T]
    assert (hard.predicted == majority).all()
    assert same(hard, tp.verify(ensemble, X, y, attacker)) and hard.has_witness.any()
    assert not same(hard, tp.verify(clf, X, y, attacker))


# --- names and index of data frames ----------------------------------------------------------------------------------


def framed() -> tuple[Any, Any, Any]:
    """A model trained on an array, and rows in a data frame with an index of their own."""
    clf, X, y = trained("forest", "breast cancer")
    return clf, pd.DataFrame(X, columns=[f"c{f}" for f in range(30)], index=[f"patient {i}" for i in range(len(X))]), y


def test_attackers_by_name_work_where_only_the_rows_have_names() -> None:
    clf, X, y = framed()
    by_name = tp.verify(clf, X, y, tp.Attacker({"c23": (-0.4, 0.4), "c27": (-0.5, 0.5)}), epsilon={"c23": 0.01})
    by_position = tp.verify(clf, X.to_numpy(), y, tp.Attacker({23: (-0.4, 0.4), 27: (-0.5, 0.5)}), epsilon={23: 0.01})
    assert same(by_name, by_position) and by_name.has_witness.any()
    moved = {column for row in np.flatnonzero(by_name.has_witness) for column in by_name.witness(row).moved}
    assert moved <= {"c23", "c27"} and moved
    radii = tp.robustness_radius(clf, X, y, tp.Attacker({"c3": (-1.0, 1.0)}))
    assert np.array_equal(radii, tp.robustness_radius(clf, X.to_numpy(), y, tp.Attacker({3: (-1.0, 1.0)})))
    with pytest.raises(tp.InvalidInput, match="the model has no feature names; give an index instead of 'c3'"):
        tp.verify(clf, X.to_numpy(), y, tp.Attacker({"c3": (-0.2, 0.2)}))


def test_frames_come_back_with_the_index_they_came_with() -> None:
    clf, X, y = framed()
    result = tp.verify(clf, X.iloc[5:12], y[5:12], tp.Attacker.linf(0.05))
    assert result.to_frame().index.tolist() == [f"patient {i}" for i in range(5, 12)]
    assert tp.verify(clf, X.to_numpy()[:3], y[:3], tp.Attacker.linf(0.05)).to_frame().index.tolist() == [0, 1, 2]
    read = tp.Verification.from_json(result.to_json())
    assert read.to_frame().index.tolist() == list(range(7))


def test_witnesses_say_what_they_refute() -> None:
    clf, X, y = trained("forest", "breast cancer")
    epsilons = [0.03, 0.01]
    table = tp.verify(clf, X, y, tp.Attacker.linf(0.05), epsilons=epsilons).rows
    assert {Refuted.NOTHING, Refuted.STABILITY, Refuted.RESILIENCE} == set(table.refuted.tolist())
    for row in range(len(table)):
        match Refuted(int(table.refuted[row])):
            case Refuted.STABILITY:
                assert table.stability[row] == R and np.array_equal(table.neighbour[row], X[row])
            case Refuted.RESILIENCE:
                k = table.epsilon_index[row]
                assert table.resilience[k, row] == R and np.abs(table.neighbour[row] - X[row]).max() <= epsilons[k]
            case Refuted.NOTHING:
                assert table.stability[row] != R and table.epsilon_index[row] == -1


def test_later_parts_keep_the_counterexample_of_the_smallest_neighbourhood() -> None:
    """A search that is gone on with may have time for the largest neighbourhood only."""
    X, epsilons = np.zeros((3, 1)), 2
    known, part = (RowTable.unknown(X, np.ones(3, dtype=bool), epsilons) for _ in range(2))
    rows = np.arange(3)
    for k in (0, 1):  # of the larger one, and then of the smaller one, which is in it
        known.refute_resilience(rows[:2], k, X[:2] + k, X[:2] + 1)
    part.refute_resilience(rows[[0, 2]], 0, X[:2] + 5, X[:2] + 6)
    part.refute_stability(rows[1:2], X[:1] + 7)
    known.take(rows, part)
    assert known.resilience.tolist() == [[R, R, R], [R, R, tp.Outcome.UNKNOWN]]
    assert known.refuted.tolist() == [Refuted.RESILIENCE, Refuted.STABILITY, Refuted.RESILIENCE]
    assert known.epsilon_index.tolist() == [1, -1, 0] and known.neighbour[:, 0].tolist() == [1, 0, 5]
