"""The two sides that read a changed file, each in processes of its own: treeproof, and the library."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import tempfile
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.support import clock

ROWS = 96
"""The number of rows on and around the thresholds of a changed file; as many come from the file before the change."""

MEMORY = 2**30
"""Bytes that treeproof may take for one file."""


class Loaded(NamedTuple):
    """What a side makes of a file."""

    status: str
    """loaded, refused, or failed: an error that is no refusal."""
    message: str = ""
    rows: Any = None
    labels: Any = None
    scores: Any = None
    seconds: float = 0.0
    memory: int = 0


class Gone(Exception):
    """The process crashed, or gave no answer in time."""

    def __init__(self, hangs: bool, said: str) -> None:
        super().__init__(said)
        self.hangs = hangs


class Side:
    """A process that answers one question after another, and is started again after a crash or a hang."""

    def __init__(self, context: Any, work: Any, folder: str) -> None:
        self._context, self._work, self._folder = context, work, folder
        self._process: Any = None
        self._connection: Any = None
        self.starts = 0

    def ask(self, question: tuple[Any, ...], seconds: float) -> Any:
        """The answer, or Gone."""
        if self._process is None:
            self._start()
        try:
            self._connection.send(question)
            if self._connection.poll(seconds):
                return self._connection.recv()
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode
            self.stop()
            raise Gone(False, f"exit code {code}") from None
        self.stop()
        raise Gone(True, f"no answer after {seconds} s")

    def stop(self) -> None:
        """Ends the process; the next question starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process = None

    def _start(self) -> None:
        self._connection, there = self._context.Pipe()
        self._process = self._context.Process(target=serve, args=(self._work, there, self._folder), daemon=True)
        self._process.start()
        there.close()
        self.starts += 1
        if not self._connection.poll(120) or self._connection.recv() != "ready":
            raise RuntimeError("a process of the fuzzer does not start")


def serve(work: Any, connection: Connection, folder: str) -> None:
    """Runs in the process of a side: answers questions until there are no more; leaves files only in the folder."""
    tempfile.tempdir = folder
    os.environ["OMP_NUM_THREADS"] = "1"
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer = work()
    connection.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            connection.send(answer(*connection.recv()))


# --- treeproof ---


def treeproof_side() -> Any:
    """Starts the side of treeproof: imports and compiles everything, then limits the memory."""
    import treeproof as tp
    from treeproof.importers import catboost, lightgbm, onnx, skops, xgboost  # noqa: F401
    from treeproof.model.agreement import probe_rows

    folder = Path(tempfile.mkdtemp(prefix="treeproof-fuzz-"))
    warm = tp.from_model(_stump())
    warm.predict(probe_rows(warm, ROWS))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))

    def answer(ending: str, content: bytes, exported: bytes | None, earlier: Any) -> Loaded:
        file = folder / f"model.{ending}"
        file.write_bytes(content)
        if exported is not None:
            # What CatBoost makes of a .cbm file comes from the process that holds CatBoost, not from one per file.
            catboost._json_of_cbm = lambda data: exported
        began = clock.now()
        try:
            ensemble = tp.load_model(file)
            rows = probe_rows(ensemble, ROWS)
            if earlier is not None and earlier.shape[1] == ensemble.n_features:
                rows = np.concatenate((rows, _accepted(ensemble, earlier)))
            labels, scores = ensemble.predict(rows), ensemble.scores(rows)
        except (tp.InvalidInput, tp.UnsupportedModel) as error:
            status = "failed" if "\n" in str(error) else "refused"
            return Loaded(status, str(error), seconds=clock.now() - began, memory=_memory())
        except BaseException:
            return Loaded("failed", traceback.format_exc(), seconds=clock.now() - began, memory=_memory())
        return Loaded("loaded", "", rows, labels, scores, clock.now() - began, _memory())

    return answer


def _accepted(ensemble: Any, rows: np.ndarray) -> np.ndarray:
    rows = np.clip(rows, ensemble.value_low, ensemble.value_high)
    return rows if ensemble.may_be_missing.any() else rows[~np.isnan(rows).any(axis=1)]


def _stump() -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])


def _memory() -> int:
    """The most bytes that this process has held at a time."""
    # What getrusage says begins with what the parent held when it made this process.
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


# --- the library ---


def library_side() -> Any:
    """Starts the side of the libraries; they are imported already, see `preload`."""

    def answer(task: str, module: str, content: bytes, rows: Any) -> Any:
        try:
            return _exported(content) if task == "export" else _predicted(module, content, rows)
        except BaseException as error:
            return Loaded("refused", f"{type(error).__name__}: {error}"[:300])

    return answer


def _exported(content: bytes) -> bytes:
    """CatBoost's own JSON export of a .cbm file, as the importer has it made."""
    import catboost

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.cbm"), Path(folder, "model.json")
        source.write_bytes(content)
        model = catboost.CatBoost()
        model.load_model(str(source), format="cbm")
        model.save_model(str(target), format="json")
        return target.read_bytes()


def _predicted(module: str, content: bytes, rows: np.ndarray) -> Loaded:
    from joblib import parallel_config

    from treeproof.importers.confirm import library_model

    with parallel_config(backend="sequential"), np.errstate(all="ignore"):
        model = library_model(module, content)
        labels = np.asarray(model.predict(rows)).reshape(-1)
        scores = _scores(module, model, content, rows)
    return Loaded("loaded", "", None, np.asarray(labels.tolist()), scores)


def _scores(module: str, model: Any, content: bytes, rows: np.ndarray) -> Any:
    """The scores that the library compares, where it shows them."""
    if module == "xgboost":
        return np.asarray(model.predict(rows, output_margin=True))
    if module == "lightgbm":
        raw = np.asarray(model.booster.predict(rows, raw_score=True))
        return raw / model.booster.current_iteration() if b"\naverage_output\n" in content else raw
    if module == "catboost" and content[:4] == b"CBM1":
        # CatBoost's own JSON reader rounds some leaf values one bit off.
        raw = np.asarray(model.predict(rows, prediction_type="RawFormulaVal", thread_count=1)).reshape(len(rows), -1)
        return raw[:, np.isfinite(raw).any(axis=0)]
    if module == "skops":
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        boosted = "GradientBoosting" in type(last).__name__
        if boosted or not hasattr(last, "estimator_weights_"):
            return np.asarray(model.decision_function(rows) if boosted else model.predict_proba(rows))
    return None


def contexts() -> tuple[Any, Any]:
    """How processes start: treeproof's afresh; the library's as a copy of one that has imported everything."""
    copied = multiprocessing.get_context("forkserver")
    copied.set_forkserver_preload(["tests.support.fuzz.preload"])
    return multiprocessing.get_context("spawn"), copied
