"""Imports what the side of the libraries needs, once for all its processes."""

from __future__ import annotations

import importlib

for _name in (
    "xgboost",
    "lightgbm",
    "catboost",
    "onnxruntime",
    "onnx",
    "skops.io",
    "sklearn.ensemble",
    "sklearn.pipeline",
    "tests.support.fuzz.sides",
    "treeproof.importers.confirm",
    "treeproof.importers.skops",
    "treeproof.importers.onnx",
    "treeproof.importers.lightgbm",
):
    importlib.import_module(_name)
