"""Small model files of every kind, to be changed field by field."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.support.zoo.case import data


class Sample(NamedTuple):
    """A model file: the importer that reads it, how its name ends, and what it holds."""

    module: str
    ending: str
    content: bytes


def _codes(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two features and a category, its numbers shifted to start at 0, and labels that are learned from it."""
    codes = X[:, 2] + 3
    return np.column_stack((X[:, :2], codes)), ((codes % 3 == 0) ^ (X[:, 0] > 0.3)).astype(int)


def _xgboost(ending: str, n_classes: int = 2, missing: bool = False, categories: bool = False, **more: Any) -> Sample:
    import xgboost

    X, y = data(n_classes, missing=missing)
    settings: dict[str, Any] = {"n_estimators": 3, "max_depth": 2, "n_jobs": 1, "random_state": 0, **more}
    if categories:
        X, y = _codes(X)
        settings |= {"feature_types": ["q", "q", "c"], "enable_categorical": True, "max_cat_to_onehot": 2}
    raw = xgboost.XGBClassifier(**settings).fit(X, y).get_booster().save_raw(ending)
    return Sample("xgboost", ending, bytes(raw))


def _lightgbm(n_classes: int = 2, missing: bool = False, categories: bool = False, **more: Any) -> Sample:
    import lightgbm

    X, y = data(n_classes, missing=missing)
    settings: dict[str, Any] = {
        "n_estimators": 3,
        "num_leaves": 4,
        "min_child_samples": 5,
        "n_jobs": 1,
        "random_state": 0,
        "verbose": -1,
        **more,
    }
    fitting: dict[str, Any] = {}
    if categories:
        X, y = _codes(X)
        fitting = {"categorical_feature": [2]}
        settings |= {"min_data_per_group": 2, "cat_smooth": 0.5, "max_cat_to_onehot": 2, "num_leaves": 6}
    text = lightgbm.LGBMClassifier(**settings).fit(X, y, **fitting).booster_.model_to_string()
    assert ("\nnum_cat=2" in text) == categories
    return Sample("lightgbm", "txt", text.encode())


def _catboost(ending: str, n_classes: int = 2, missing: bool = False, **more: Any) -> Sample:
    import catboost

    X, y = data(n_classes, missing=missing)
    settings: dict[str, Any] = {"iterations": 3, "depth": 2, "border_count": 8, "random_seed": 0, **more}
    model = catboost.CatBoostClassifier(**settings, thread_count=1, verbose=False, allow_writing_files=False).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model")
        model.save_model(str(file), format=ending)
        return Sample("catboost", ending, file.read_bytes())


def _onnx_of_sklearn(model: Any, n_classes: int = 2, dtype: type = np.float32, zipmap: bool = False) -> Sample:
    from skl2onnx import to_onnx

    X, y = data(n_classes)
    graph = to_onnx(model.fit(X, y), X[:1].astype(dtype), options={"zipmap": zipmap})
    return Sample("onnx", "onnx", graph.SerializeToString())


def _onnx_of_boosted(library: str, n_classes: int = 2) -> Sample:
    import lightgbm
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    X, y = data(n_classes)
    if library == "xgboost":
        model: Any = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1)
        convert = onnxmltools.convert_xgboost
    else:
        model = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=4, n_jobs=1, verbose=-1)
        convert = onnxmltools.convert_lightgbm
    graph = convert(model.fit(X, y), initial_types=[("input", FloatTensorType([None, X.shape[1]]))])
    return Sample("onnx", "onnx", graph.SerializeToString())


def _skops(model: Any, n_classes: int = 2, missing: bool = False) -> Sample:
    import skops.io

    X, y = data(n_classes, missing=missing)
    return Sample("skops", "skops", _renumbered(skops.io.dumps(model.fit(X, y))))


def _renumbered(content: bytes) -> bytes:
    """The same skops file with numbers from 1 on for objects and members, which else are addresses in memory."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members.pop("schema.json"))
    numbers: dict[Any, int] = {}
    names: dict[str, str] = {}

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "__id__" in node:
                node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
            if "file" in node:
                node["file"] = names.setdefault(node["file"], f"{len(names) + 1}.npy")
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(child)

    walk(schema)
    return packed(schema, {new: members[old] for old, new in names.items()})


def packed(schema: Any, members: dict[str, bytes]) -> bytes:
    """A skops file of a schema and its members, the same bytes each time."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in {**members, "schema.json": json.dumps(schema).encode()}.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def _sklearn(name: str) -> Any:
    from sklearn import ensemble, pipeline, preprocessing, tree

    stump = tree.DecisionTreeClassifier(max_depth=2, random_state=0)
    forest = ensemble.RandomForestClassifier(2, max_depth=2, random_state=0)
    return {
        "tree": stump,
        "extra tree": tree.ExtraTreeClassifier(max_depth=2, random_state=0),
        "forest": forest,
        "extra trees": ensemble.ExtraTreesClassifier(2, max_depth=2, random_state=0),
        "bagging": ensemble.BaggingClassifier(stump, 2, max_features=4, random_state=0),
        "adaboost": ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(max_depth=2), n_estimators=2),
        "gradient boosting": ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0),
        "histogram boosting": ensemble.HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4, random_state=0),
        "pipeline": pipeline.make_pipeline(preprocessing.StandardScaler(), forest),
    }[name]


_DART = {"booster": "dart", "rate_drop": 0.5, "skip_drop": 0.0}
_RF = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}

MAKERS: dict[str, Callable[[], Sample]] = {}
for _ending in ("json", "ubj"):
    MAKERS |= {
        f"xgboost-{_ending}-binary": lambda e=_ending: _xgboost(e),
        f"xgboost-{_ending}-three": lambda e=_ending: _xgboost(e, 3),
        f"xgboost-{_ending}-dart": lambda e=_ending: _xgboost(e, **_DART),
        f"xgboost-{_ending}-categories": lambda e=_ending: _xgboost(e, categories=True),
        f"xgboost-{_ending}-missing": lambda e=_ending: _xgboost(e, missing=True),
    }
MAKERS |= {
    "lightgbm-binary": lambda: _lightgbm(missing=True),
    "lightgbm-multiclass": lambda: _lightgbm(3, n_estimators=2),
    "lightgbm-ova": lambda: _lightgbm(3, n_estimators=2, objective="multiclassova"),
    "lightgbm-rf": lambda: _lightgbm(**_RF),
    "lightgbm-categories": lambda: _lightgbm(categories=True, missing=True),
    "lightgbm-zero": lambda: _lightgbm(zero_as_missing=True, missing=True),
    "catboost-json-binary": lambda: _catboost("json"),
    "catboost-json-three": lambda: _catboost("json", 3),
    "catboost-json-lossguide": lambda: _catboost("json", grow_policy="Lossguide"),
    "catboost-json-missing": lambda: _catboost("json", missing=True, nan_mode="Max"),
    "catboost-cbm-binary": lambda: _catboost("cbm"),
    "catboost-cbm-three": lambda: _catboost("cbm", 3, missing=True),
    "onnx-forest": lambda: _onnx_of_sklearn(_sklearn("forest")),
    "onnx-tree-three": lambda: _onnx_of_sklearn(_sklearn("tree"), 3, zipmap=True),
    "onnx-double": lambda: _onnx_of_sklearn(_sklearn("forest"), dtype=np.float64),
    "onnx-gradient": lambda: _onnx_of_sklearn(_sklearn("gradient boosting")),
    "onnx-xgboost": lambda: _onnx_of_boosted("xgboost"),
    "onnx-lightgbm": lambda: _onnx_of_boosted("lightgbm", 3),
}
for _name in (
    "tree",
    "extra tree",
    "forest",
    "extra trees",
    "bagging",
    "adaboost",
    "gradient boosting",
    "histogram boosting",
    "pipeline",
):
    MAKERS[f"skops-{_name.replace(' ', '-')}"] = lambda name=_name: _skops(
        _sklearn(name), 3 if name in ("tree", "bagging", "adaboost") else 2, missing=name in ("tree", "forest")
    )


@cache
def sample(kind: str) -> Sample:
    """The file of this kind; the same bytes each time with the same versions of the libraries."""
    return MAKERS[kind]()
