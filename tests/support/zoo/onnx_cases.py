"""ONNX models as skl2onnx, onnxmltools and CatBoost write them; onnxruntime on one thread is the truth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnx
import onnxmltools
import onnxruntime
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.zoo.case import Case

Fit = Callable[[np.ndarray, np.ndarray], onnx.ModelProto]


def scikit(make: Callable[[], Any], dtype: type = np.float32, **options: Any) -> Fit:
    def train(X: np.ndarray, y: np.ndarray) -> onnx.ModelProto:
        return to_onnx(make().fit(X, y), X[:1].astype(dtype), options=options or None)

    return train


def boosted(make: Callable[[], Any], convert: Callable[..., Any], **options: Any) -> Fit:
    def train(X: np.ndarray, y: np.ndarray) -> onnx.ModelProto:
        return convert(make().fit(X, y), initial_types=[("input", FloatTensorType([None, X.shape[1]]))], **options)

    return train


def forest(trees: int = 20, depth: int = 4) -> RandomForestClassifier:
    return RandomForestClassifier(trees, max_depth=depth, random_state=0)


def extra() -> ExtraTreesClassifier:
    return ExtraTreesClassifier(20, max_depth=4, random_state=0)


def gradient() -> GradientBoostingClassifier:
    return GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0)


def gradient_skewed() -> GradientBoostingClassifier:
    """Starts from a constant that is no balanced average, so that there are base values."""
    return GradientBoostingClassifier(n_estimators=15, max_depth=3, init=None, random_state=0, subsample=0.7)


def tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=5, random_state=0)


def xgb(**options: Any) -> Callable[[], Any]:
    return lambda: xgboost.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1, **options)


def lgbm(**options: Any) -> Callable[[], Any]:
    return lambda: lightgbm.LGBMClassifier(
        n_estimators=20, max_depth=3, min_child_samples=5, n_jobs=1, verbose=-1, random_state=0, **options
    )


def cat(X: np.ndarray, y: np.ndarray) -> onnx.ModelProto:
    import tempfile

    import catboost

    model = catboost.CatBoostClassifier(
        iterations=20, depth=3, thread_count=1, verbose=False, allow_writing_files=False, random_seed=0
    ).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(f"{folder}/model.onnx", format="onnx")
        return onnx.load(f"{folder}/model.onnx")


def skewed(train: Fit) -> Fit:
    """Trains without two thirds of the first class: the model then starts from base values other than 0."""

    def on_fewer(X: np.ndarray, y: np.ndarray) -> onnx.ModelProto:
        keep = (y != y.min()) | (np.arange(len(y)) % 3 == 0)
        return train(X[keep], y[keep])

    return on_fewer


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: onnx.ModelProto, X: np.ndarray) -> list[Any]:
    running = session(model)
    taken = running.get_inputs()[0]
    dtype = np.float32 if taken.type == "tensor(float)" else np.float64
    with np.errstate(over="ignore"):
        return running.run(None, {taken.name: X.astype(dtype)})


def labels(model: onnx.ModelProto, X: np.ndarray) -> np.ndarray:
    return np.asarray(run(model, X)[0]).reshape(-1)


def sums(model: onnx.ModelProto, X: np.ndarray) -> np.ndarray:
    """Where probabilities are the plain sums of weights: one per class, or the second class's alone."""
    values = np.asarray(run(model, X)[1])
    return values if values.shape[1] > 2 else values[:, 1:]


def through_file(model: onnx.ModelProto, folder: Path) -> tp.Ensemble:
    file = folder / "model.onnx"
    file.write_bytes(model.SerializeToString())
    return tp.load_model(file)


def case(name: str, train: Fit, **more: Any) -> Case:
    return Case(name, train, predict=labels, **more)


plain = {"zipmap": False}
from_xgb = onnxmltools.convert_xgboost
from_lgbm = onnxmltools.convert_lightgbm

CASES: list[Case] = [
    case("tree", scikit(tree)),
    case("tree-three", scikit(tree), n_classes=3),
    case("tree-strings", scikit(tree), labels=("no", "yes")),
    case("forest", scikit(forest, **plain), scores=sums),
    case("forest-file", scikit(forest), load=through_file),
    case("forest-three", scikit(forest, **plain), n_classes=3, scores=sums),
    case("forest-three-strings-file", scikit(forest), n_classes=3, labels=("a", "b", "c"), load=through_file),
    case("forest-double", scikit(forest, np.float64, **plain), load=through_file),
    case("forest-double-three", scikit(forest, np.float64, **plain), n_classes=3),
    case("forest-150", scikit(lambda: forest(150, 2), **plain), scores=sums),
    case("forest-150-three", scikit(lambda: forest(150, 2), **plain), n_classes=3, scores=sums),
    case("forest-negative-labels", scikit(forest), labels=(-1, 1)),
    case("forest-bools", scikit(forest), labels=(False, True)),
    case("extra", scikit(extra, **plain), scores=sums),
    case("extra-three", scikit(extra, **plain), n_classes=3, scores=sums),
    case("extra-missing", scikit(extra), missing=True),
    case("forest-missing-three", scikit(forest), n_classes=3, missing=True),
    case("gradient", scikit(gradient)),
    case("gradient-three", scikit(gradient), n_classes=3),
    case("gradient-skewed", skewed(scikit(gradient_skewed))),
    case("gradient-skewed-three", skewed(scikit(gradient_skewed)), n_classes=3),
    case("xgboost", boosted(xgb(), from_xgb)),
    case("xgboost-three", boosted(xgb(), from_xgb), n_classes=3),
    case("xgboost-file", boosted(xgb(), from_xgb), load=through_file),
    case("xgboost-skewed", skewed(boosted(xgb(), from_xgb))),
    case("xgboost-base-score", boosted(xgb(base_score=0.2), from_xgb)),
    case("xgboost-missing", boosted(xgb(), from_xgb), missing=True),
    case("xgboost-missing-three", boosted(xgb(), from_xgb), n_classes=3, missing=True),
    case("lightgbm", boosted(lgbm(), from_lgbm)),
    case("lightgbm-three", boosted(lgbm(), from_lgbm), n_classes=3),
    case("lightgbm-strings-file", boosted(lgbm(), from_lgbm), labels=("no", "yes"), load=through_file),
    case("lightgbm-plain-file", boosted(lgbm(), from_lgbm, zipmap=False), n_classes=3, load=through_file),
    case("lightgbm-missing", boosted(lgbm(), from_lgbm), missing=True),
    case("lightgbm-missing-three", boosted(lgbm(), from_lgbm), n_classes=3, missing=True),
    case("catboost", cat),
    case("catboost-three", cat, n_classes=3),
]
