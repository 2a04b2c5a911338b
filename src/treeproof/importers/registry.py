"""Finds the importer for a model or a file, without importing libraries that are not needed."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.files import MAX_BYTES, as_path, parse_json, read_bytes
from treeproof.importers._refusals import WrongCategories, WrongVoting
from treeproof.model.ensemble import Ensemble

if TYPE_CHECKING:
    from treeproof.importers.confirm import Confirmation

Voting = Literal["soft", "hard"]

# The library a class comes from (the first part of its module) -> the importer's module.
IMPORTERS = {
    "sklearn": "treeproof.importers.sklearn",
    "xgboost": "treeproof.importers.xgboost",
    "lightgbm": "treeproof.importers.lightgbm",
    "catboost": "treeproof.importers.catboost",
    "onnx": "treeproof.importers.onnx",
    "treeproof": "treeproof.importers.robust_training",
}

_PICKLE_ENDINGS = (".pkl", ".pickle", ".joblib", ".sav", ".p")

# What readers raise on damaged files; anything else is a bug and is not hidden.
_READER_ERRORS = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
    EOFError,
    UnicodeError,
)


def from_model(
    model: Any, *, voting: Voting | None = None, threshold: float | None = None, categories: Any = None
) -> Ensemble:
    """The exact ensemble of a trained model of scikit-learn, XGBoost, LightGBM, CatBoost or ONNX.

    `voting="hard"` lets each tree of a forest cast one vote, as in the paper; scikit-learn's forests
    average probabilities, and that is the default because it is what they predict. `threshold=0.2` makes the second
    of two classes the label iff the library's probability of it is at least 0.2, as FixedThresholdClassifier does.
    `categories` has the values of category columns for a CatBoost model, which keeps only hashes of them: the training
    data as a data frame, or a dict of lists by column.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    >>> bool((from_model(clf).predict(X) == clf.predict(X)).all())
    True
    """
    from treeproof.importers.decisions import check_threshold, with_threshold

    check_voting(voting)
    check_threshold(threshold)
    if isinstance(model, (str, os.PathLike)):
        raise InvalidInput(f"{str(model)!r} is a path; use load_model for files")
    if isinstance(model, type):
        raise InvalidInput(f"{model.__qualname__} is a class; pass a trained instance of it")
    if isinstance(model, Ensemble):
        if threshold is not None:
            _refuse_late_threshold()
        _categories_for("treeproof", categories)
        return as_ensemble(model, voting=voting)
    _refuse_own_predict(model)
    for base in type(model).__mro__:
        library = base.__module__.partition(".")[0]
        if library in IMPORTERS:
            more = _categories_for(library, categories)
            ensemble = importlib.import_module(IMPORTERS[library]).import_model(model, voting=voting, **more)
            assert isinstance(ensemble, Ensemble)
            return ensemble if threshold is None else with_threshold(ensemble, threshold)
    raise UnsupportedModel(f"no importer for {type(model).__qualname__}; known: {', '.join(sorted(IMPORTERS))}")


def _refuse_late_threshold() -> None:
    raise InvalidInput(
        "threshold is chosen when a model is imported from its library; pass it to from_model or load_model there",
        argument="threshold",
    )


def _categories_for(library: str, categories: Any) -> dict[str, Any]:
    """The argument for an importer, if there is one; refused where the model itself says what its categories are."""
    if categories is None:
        return {}
    if library != "catboost":
        raise WrongCategories(
            "categories are for CatBoost models, which do not keep the values of category columns",
            argument="categories",
            way_out="leave categories out",
        )
    return {"categories": categories}


def _refuse_own_predict(model: Any) -> None:
    """Refuses a subclass with a way of predicting of its own: what is imported is the library's way."""
    for name in ("predict", "predict_proba", "decision_function"):
        for base in type(model).__mro__:
            if name in vars(base):
                library = base.__module__.partition(".")[0]
                if library not in IMPORTERS and any(b.__module__.partition(".")[0] in IMPORTERS for b in base.__mro__):
                    raise UnsupportedModel(f"{base.__qualname__} has a {name} of its own, which treeproof cannot read")
                break


def as_ensemble(model: Any, *, voting: Voting | None = None) -> Ensemble:
    """An Ensemble as it is; any other model through `from_model`."""
    if isinstance(model, Ensemble):
        if voting is not None:
            raise InvalidInput("voting is chosen when a model is imported; pass it to from_model or load_model")
        return model
    return from_model(model, voting=voting)


def load_model(
    path: str | os.PathLike[str],
    *,
    voting: Voting | None = None,
    threshold: float | None = None,
    categories: Any = None,
    classes: Sequence[Any] | None = None,
    allow_pickle: bool = False,
    confirm: bool | Callable[[Confirmation], Any] = False,
    max_bytes: int = MAX_BYTES,
) -> Ensemble:
    """The exact ensemble of a model file; its content tells what kind of file it is.

    Reads XGBoost `.json` and `.ubj`, LightGBM text, CatBoost `.cbm` and `.json`, ONNX, skops, treeproof's own JSON
    and the paper authors' JSON. Loading a pickle runs whatever code its author put into it, so that needs
    `allow_pickle=True`. `voting`, `threshold` and `categories` are as in `from_model`. `classes` names the model's
    classes, in its order: XGBoost and LightGBM files only number them. `confirm=True` also loads the file with the
    library that it is for, in another process, and compares labels at thresholds and on random rows; a difference is a
    SoundnessError. A function in its place is told what was confirmed. A file of more than `max_bytes` is refused.
    """
    from treeproof.importers.decisions import check_threshold, with_threshold

    check_voting(voting)
    check_threshold(threshold)
    file = as_path(path)
    data = read_bytes(file, max_bytes)
    if not data:
        raise InvalidInput(f"{file} is empty")
    kind, module = _kind_of(file, data)
    if kind == "pickle":
        ensemble = _load_pickle(file, data, voting=voting, categories=categories, allow_pickle=allow_pickle)
    else:
        with _reading(file, kind):
            more = _categories_for(module, categories)
            ensemble = importlib.import_module(f"treeproof.importers.{module}").load_bytes(data, voting=voting, **more)
    assert isinstance(ensemble, Ensemble)
    if threshold is not None:
        if kind == "treeproof model":
            _refuse_late_threshold()
        ensemble = with_threshold(ensemble, threshold)
    if confirm:
        from treeproof.importers.confirm import confirm_file

        confirmed = confirm_file(file, data, module, ensemble, voting, threshold)
        if callable(confirm):
            confirm(confirmed)
    return ensemble if classes is None else ensemble.with_classes(classes)


def load_and_confirm(path: Any, *, confirm: bool = True, **options: Any) -> tuple[Ensemble, Confirmation | None]:
    """The same as `load_model`, and what was confirmed."""
    said: list[Confirmation] = []
    ensemble = load_model(path, confirm=said.append if confirm else False, **options)
    return ensemble, said[0] if said else None


def check_voting(voting: object) -> None:
    """Refuses what is neither "soft" nor "hard" nor None."""
    if not (voting is None or (isinstance(voting, str) and voting in ("soft", "hard"))):
        raise InvalidInput(f"voting must be 'soft' or 'hard', got {voting!r}")


def _kind_of(file: Path, data: bytes) -> tuple[str, str]:
    """What messages call the file, and the importer module that reads it."""
    if data[:4] == b"CBM1":
        return "CatBoost model", "catboost"
    if data[:4] == b"PK\x03\x04" and b"schema.json" in data:
        return "skops file", "skops"
    if data[:5] in (b"tree\n", b"tree\r"):
        return "LightGBM text file", "lightgbm"
    if is_ubjson(data):
        return "XGBoost UBJSON file", "xgboost"
    if data.lstrip()[:1] in (b"{", b"["):
        return _kind_of_json(file, data)
    if file.suffix.lower() == ".onnx":
        return "ONNX model", "onnx"
    if file.suffix.lower() in _PICKLE_ENDINGS or data[:1] == b"\x80":
        return "pickle", "pickle"
    raise InvalidInput(
        f"{file} is not a model file that treeproof reads: XGBoost .json or .ubj, LightGBM text, "
        "CatBoost .cbm or .json, .onnx, .skops, treeproof's own JSON, the paper authors' JSON"
    )


def is_ubjson(data: bytes) -> bool:
    """Whether a file that starts with a brace is binary: in JSON, white space, a quote or a brace follows it."""
    return data[:1] == b"{" and data[1:2] in (b"L", b"l", b"i", b"U", b"I", b"$", b"#", b"N")


def _kind_of_json(file: Path, data: bytes) -> tuple[str, str]:
    with _reading(file, "JSON file"):
        content = parse_json(data, constants=True)
    if isinstance(content, list):
        return "model in the paper authors' JSON", "paper_authors"
    if "format" in content:
        return "treeproof model", "native"
    if "learner" in content:
        return "XGBoost JSON model", "xgboost"
    if "oblivious_trees" in content or "trees" in content or "features_info" in content:
        return "CatBoost JSON model", "catboost"
    raise InvalidInput(
        f"{file} is JSON, but not a model that treeproof knows: it has no 'format' (treeproof), 'learner' (XGBoost) or "
        "'features_info' (CatBoost)"
    )


@contextlib.contextmanager
def _reading(file: Path, kind: str) -> Iterator[None]:
    """Turns whatever a reader raises on a damaged file into one clear InvalidInput."""
    try:
        yield
    except UnsupportedModel as error:
        raise UnsupportedModel(_one_line(f"{file}: {error}")) from None
    except (WrongVoting, WrongCategories) as error:
        raise type(error)(
            _one_line(f"{file}: {error.message}"), argument=error.argument, way_out=error.way_out
        ) from None
    except InvalidInput as error:
        raise InvalidInput(_one_line(f"{file} is not a valid {kind}: {error}")) from None
    except _READER_ERRORS as error:
        raise InvalidInput(_one_line(f"{file} is not a valid {kind}: {type(error).__name__}: {error}")) from error


def _one_line(message: str) -> str:
    """The message without line breaks, which may come from the file itself."""
    return " ".join(message.split())[:1000]


def _load_pickle(file: Path, data: bytes, *, voting: Voting | None, categories: Any, allow_pickle: bool) -> Ensemble:
    if not allow_pickle:
        raise InvalidInput(
            f"{file} is a pickle, and loading one runs whatever code its author put into it; "
            "save scikit-learn models with skops.io.dump and others in their library's own format",
            argument="allow_pickle",
            way_out="or pass allow_pickle=True if you trust the file",
        )
    import pickle

    import joblib

    with _reading(file, "pickle"):
        try:
            model = joblib.load(io.BytesIO(data))
        except (pickle.UnpicklingError, ImportError) as error:
            raise InvalidInput(str(error)) from None
    return from_model(model, voting=voting, categories=categories)
