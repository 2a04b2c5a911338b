"""Asks the library that a file is for: does it predict what the imported ensemble predicts?

The library reads the file in a process of its own, as a user would, and labels rows on and beside the thresholds,
random rows, and rows with missing values. It shares nothing with the importer but the bytes of the file.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel, counted
from treeproof.importers._child import run_child
from treeproof.importers._responses import ThresholdLabels
from treeproof.importers.lightgbm import BoosterLabels
from treeproof.importers.onnx import OnnxSource
from treeproof.importers.registry import Voting, from_model, is_ubjson
from treeproof.importers.skops import model_of
from treeproof.model.agreement import PROBES, compare_labels, probe_rows
from treeproof.model.ensemble import Ensemble

MOST_ROWS, LEAST_ROWS, MOST_VALUES = 20_000, 200, 4_000_000
"""How many rows are compared: as many as there are steps beside thresholds, within these limits."""


class Confirmation(NamedTuple):
    """That a library labels rows as the imported ensemble does."""

    library: str
    """Its name and version."""
    n_rows: int

    def __str__(self) -> str:
        return f"labels of {self.n_rows} rows equal those of {self.library}"


def _from_file(data: bytes, ending: str, load: Callable[[Path], Any]) -> Any:
    """What a library makes of a file with these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"model{ending}")
        file.write_bytes(data)
        return load(file)


def _xgboost(data: bytes) -> Any:
    import xgboost

    model = xgboost.XGBClassifier(n_jobs=1, enable_categorical=True)
    _from_file(data, ".ubj" if is_ubjson(data) else ".json", model.load_model)  # XGBoost goes by the ending
    return model


def _lightgbm(data: bytes) -> Any:
    import lightgbm

    return BoosterLabels(_from_file(data, ".txt", lambda file: lightgbm.Booster(model_file=file)))


def _catboost(data: bytes) -> Any:
    import catboost

    model, form = catboost.CatBoostClassifier(thread_count=1), "cbm" if data[:4] == b"CBM1" else "json"
    _from_file(data, "", lambda file: model.load_model(str(file), format=form))
    return model


def _unpickled(data: bytes) -> Any:
    import joblib

    return joblib.load(io.BytesIO(data))


class _Library(NamedTuple):
    name: str
    """The module that predicts."""
    title: str
    install: str
    load: Callable[[bytes], Any]
    """Makes the library's own model of a file, or an object around it that predicts labels."""


# By the importer that read the file; no library predicts with the other formats.
_LIBRARIES = {
    "xgboost": _Library("xgboost", "XGBoost", "treeproof[xgboost]", _xgboost),
    "lightgbm": _Library("lightgbm", "LightGBM", "treeproof[lightgbm]", _lightgbm),
    "catboost": _Library("catboost", "CatBoost", "treeproof[catboost]", _catboost),
    "onnx": _Library("onnxruntime", "onnxruntime", "onnxruntime", OnnxSource),
    "skops": _Library("sklearn", "scikit-learn", "scikit-learn", model_of),
    "pickle": _Library("joblib", "the pickled model, read by joblib", "joblib", _unpickled),
}

_ANSWER = "from treeproof.importers.confirm import answer\nanswer(*sys.argv[1:])\n"


def confirm_file(
    file: Path, data: bytes, module: str, ensemble: Ensemble, voting: Voting | None, threshold: float | None = None
) -> Confirmation:
    """Compares the ensemble of a file with the library that the file is for; `module` is the importer that read it.

    SoundnessError if a label differs; InvalidInput if there is no such library, it is not installed, or it cannot
    read the file.
    """
    library = _LIBRARIES.get(module)
    if library is None:
        raise InvalidInput(
            f"{file}: there is nothing to confirm, since no library predicts with this kind of file",
            argument="confirm",
            way_out="leave confirm out",
        )
    if importlib.util.find_spec(library.name) is None:
        raise InvalidInput(f"{file}: confirming it needs {library.name}; pip install '{library.install}'")
    rows = probe_rows(ensemble, _row_count(ensemble))
    try:
        labels, version = _ask(data, module, library.title, voting, ensemble.as_given(rows), threshold)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {library.title} does not confirm it: {error}") from None
    title = f"{library.title} {version}"
    with counted(where=PROBES):
        compare_labels(ensemble, rows, labels, title)
    return Confirmation(title, len(rows))


def _row_count(ensemble: Ensemble) -> int:
    steps = 12 * int(ensemble.grid.n_cells.max())
    return int(np.clip(steps, 1000, min(MOST_ROWS, max(LEAST_ROWS, MOST_VALUES // ensemble.n_features))))


def _ask(
    data: bytes, module: str, title: str, voting: Voting | None, rows: Any, threshold: float | None
) -> tuple[npt.NDArray[Any], str]:
    """The labels that the library gives an array or data frame in another process, and its version there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.joinpath("model").write_bytes(data)
        folder.joinpath("asked").write_bytes(pickle.dumps((module, rows, voting, threshold)))
        run_child(_ANSWER, [name], folder=folder, library=title, size=len(data))
        labels: npt.NDArray[Any] = np.load(folder / "labels.npy", allow_pickle=False)
        return labels, folder.joinpath("version").read_text(encoding="utf-8")


def answer(name: str) -> None:
    """Runs in the child: writes the labels that the library gives the rows in the folder `name`, and its version."""
    folder = Path(name)
    module, *asked = pickle.loads(folder.joinpath("asked").read_bytes())
    labels = library_labels(module, folder.joinpath("model").read_bytes(), *asked)
    # Words are kept as objects by some libraries, and as such would need pickle.
    np.save(folder / "labels.npy", np.asarray(labels.tolist()), allow_pickle=False)
    version = importlib.import_module(_LIBRARIES[module].name).__version__
    folder.joinpath("version").write_text(version, encoding="utf-8")


def library_labels(
    module: str, data: bytes, rows: Any, voting: Any = None, threshold: float | None = None
) -> npt.NDArray[Any]:
    """The labels that the library itself gives rows, from the bytes of a file; it may crash on a damaged one."""
    model = library_model(module, data)
    source = _source_of(model, voting) if module in ("skops", "pickle") else model
    if threshold is not None:
        source = ThresholdLabels(source, np.asarray(getattr(model, "classes_", (0, 1))), threshold)
    return np.asarray(source.predict(rows)).reshape(-1)


def library_model(module: str, data: bytes) -> Any:
    """The library's own model of a file, or an object around it that predicts labels."""
    return _LIBRARIES[module].load(data)


def _source_of(model: Any, voting: Voting | None) -> Any:
    """What predicts: the model itself, or the vote of its trees."""
    source = from_model(model, voting=voting).source
    if source is None:
        raise UnsupportedModel(f"{type(model).__qualname__} needs a library that is not installed to predict")
    return source
