"""Trees as model files: treeproof's own, XGBoost's and LightGBM's, as the libraries themselves read them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import treeproof as tp
from benchmarks.regression.models import LEAF, Tree


def as_native(
    trees: Sequence[Tree],
    n_features: int,
    n_classes: int,
    decision: str = "argmax",
    precision: str = "float64",
    missing: bool = False,
) -> str:
    """treeproof's own format."""
    rule = {
        "decision": decision,
        "precision": precision,
        "divisor": float(len(trees)) if decision == "argmax" else 1.0,
        "base_last": False,
        "cut": 0.0,
        "steepness": 1.0,
    }
    content = {
        "format": "treeproof-ensemble",
        "version": 3,
        "origin": "benchmarks.regression",
        "columns": [{"low": -1e300, "high": 1e300, "missing": missing}] * n_features,
        "classes": list(range(n_classes)),
        "class_dtype": "int64",
        "rule": rule,
        "base": [0.0] * len(trees[0]["scores"][0]),
        "trees": list(trees),
    }
    return json.dumps(content, allow_nan=False)


def as_xgboost(trees: Sequence[Tree], n_features: int) -> str:
    """XGBoost's JSON, one score for two classes; thresholds are rounded to float32."""
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": [_xgboost_tree(number, tree, n_features) for number, tree in enumerate(trees)],
    }
    learner = {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "5E-1",
            "boost_from_average": "1",
            "num_class": "0",
            "num_feature": str(n_features),
            "num_target": "1",
        },
        "objective": {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    return json.dumps({"learner": learner, "version": [2, 0, 0]}, allow_nan=False)


def _xgboost_tree(number: int, tree: Tree, n_features: int) -> dict[str, Any]:
    n, scores = len(tree["feature"]), iter(tree["scores"])
    inner = [f != LEAF for f in tree["feature"]]
    values = [t if is_inner else next(scores)[0] for t, is_inner in zip(tree["threshold"], inner, strict=True)]
    order = _in_pairs(tree)
    place = {node: at for at, node in enumerate(order)}
    left, right = ([place[tree[side][node]] if inner[node] else LEAF for node in order] for side in ("left", "right"))
    return {
        "base_weights": [0.0] * n,
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": [int(tree["nan_left"][node]) for node in order],
        "id": number,
        "left_children": left,
        "loss_changes": [0.0] * n,
        "parents": _parents(left, right),
        "right_children": right,
        "split_conditions": [float(np.float32(values[node])) for node in order],
        "split_indices": [max(tree["feature"][node], 0) for node in order],
        "split_type": [0] * n,
        "sum_hessian": [1.0] * n,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(n),
            "size_leaf_vector": "1",
        },
    }


def _in_pairs(tree: Tree) -> list[int]:
    """The nodes in XGBoost's order: a right child comes straight after its left one, as older versions suppose."""
    order = [0]
    for node in order:  # grows as children are met
        if tree["feature"][node] != LEAF:
            order += [tree["left"][node], tree["right"][node]]
    return order


def _parents(left: list[int], right: list[int]) -> list[int]:
    parents = [2**31 - 1] * len(left)  # what XGBoost writes for the root
    for node, children in enumerate(zip(left, right, strict=True)):
        for child in children:
            if child != LEAF:
                parents[child] = node
    return parents


def as_lightgbm(trees: Sequence[Tree], n_features: int) -> str:
    """LightGBM's text, one score for two classes."""
    parts = [_lightgbm_tree(number, tree) for number, tree in enumerate(trees)]
    header = {
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": n_features - 1,
        "objective": "binary sigmoid:1",
        "feature_names": " ".join(f"Column_{f}" for f in range(n_features)),
        "feature_infos": " ".join(["[0:1]"] * n_features),
        "tree_sizes": " ".join(str(len(part)) for part in parts),
    }
    return "tree\n" + _lines(header) + "\n" + "".join(parts) + "end of trees\n\npandas_categorical:null\n"


def _lightgbm_tree(number: int, tree: Tree) -> str:
    inner = [node for node, f in enumerate(tree["feature"]) if f != LEAF]
    leaves = [node for node, f in enumerate(tree["feature"]) if f == LEAF]
    place = {node: i for i, node in enumerate(inner)} | {node: -1 - i for i, node in enumerate(leaves)}
    columns: dict[str, Sequence[Any]] = {
        "split_feature": [tree["feature"][node] for node in inner],
        "split_gain": [1] * len(inner),
        "threshold": [repr(tree["threshold"][node]) for node in inner],
        # 8: NaN is a value of its own, and goes left with the bit of 2.
        "decision_type": [8 + 2 * tree["nan_left"][node] for node in inner],
        "left_child": [place[tree["left"][node]] for node in inner],
        "right_child": [place[tree["right"][node]] for node in inner],
        "leaf_value": [repr(score) for (score,) in tree["scores"]],
        "leaf_weight": [1] * len(leaves),
        "leaf_count": [1] * len(leaves),
        "internal_value": [0] * len(inner),
        "internal_weight": [0] * len(inner),
        "internal_count": [1] * len(inner),
    }
    written = {name: " ".join(map(str, column)) for name, column in columns.items()}
    head = {"Tree": number, "num_leaves": len(leaves), "num_cat": 0}
    return _lines({**head, **written, "is_linear": 0, "shrinkage": 1}) + "\n\n"


def _lines(entries: dict[str, Any]) -> str:
    return "".join(f"{name}={value}\n" for name, value in entries.items())


def load(text: str, ending: str = ".json") -> tp.Ensemble:
    """The model of such a text, through a file as users have it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{ending}")
        path.write_text(text, encoding="utf-8")
        return tp.load_model(path)
