"""Files of models, attackers and results made up by hand."""

from __future__ import annotations

from typing import Any


class Proofs:
    """A proof of the first row that is not in a file."""

    def __init__(self, payload: bytes) -> None:
        self.rows, self.without, self.header, self._payload = {0: (0, 0)}, {}, {"version": 1}, payload

    def payload(self, row: int) -> bytes:
        """The steps of the proof."""
        return self._payload


def stump(f: int, left: list[float], right: list[float], cut: float = 0.5) -> dict[str, Any]:
    """A tree with one test."""
    return {
        "feature": [f, -1, -1],
        "threshold": [cut, 0.0, 0.0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "nan_left": [False] * 3,
        "scores": [left, right],
    }


def model_content(trees: list[dict[str, Any]], classes: list[Any], n: int = 1, **fields: Any) -> dict[str, Any]:
    """A model that adds up trees, whose columns are called a, b and c."""
    rule = {"decision": "argmax", "precision": "float64", "divisor": 1.0, "steepness": 1.0, "cut": 0.0}
    return {
        "format": "treeproof-ensemble",
        "version": 3,
        "origin": "by hand",
        "columns": [{"name": name, "low": -1e300, "high": 1e300, "missing": True} for name in "abc"[:n]],
        "classes": classes,
        "class_dtype": {int: "int64", float: "float64", bool: "bool"}.get(type(classes[0]), "str"),
        "trees": trees,
        "base": [0.0] * len(classes),
        "rule": {**rule, "base_last": False},
        **fields,
    }


def attacker_content(**fields: Any) -> dict[str, Any]:
    """An attacker who can do nothing but what is given."""
    given = {
        "intervals": {"all": [0, 0]},
        "costs": {"all": 1},
        **dict.fromkeys(["budget", "domain", "power"]),
        "radius": 0.0,
    }
    return {"format": "treeproof-attacker", "version": 2, **given, **fields}


def result_content(x: list[Any], label: Any, attacker: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A result that calls one row stable."""
    return {
        "format": "treeproof-verification",
        "version": 4,
        "treeproof": "by hand",
        "model": "by hand",
        "decision": "",
        "fingerprint": "0" * 64,
        "n_features": len(x),
        "feature_names": None,
        "categories": [],
        "seconds": 0.0,
        "interrupted": False,
        "boxes": 0,
        **dict.fromkeys(["movable", "unreached", "untested", "actors", "epsilon_names"]),
        "relations": [],
        "broken": [],
        "label_dtype": "|O",
        **{name: [x] for name in ("X", "neighbour", "attacked")},
        **{name: [label] for name in ("y", "predicted", "neighbour_label", "attacked_label")},
        "stability": [0],
        "resilience": [],
        "refuted": [None],
        "epsilons": [],
        "rows_with_missing": 0,
        "by_class": [],
        "attacker": attacker,
        **fields,
    }
