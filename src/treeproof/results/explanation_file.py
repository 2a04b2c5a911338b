"""The JSON files of explanations and counterfactuals. docs/format.md describes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from treeproof.model.columns import is_missing
from treeproof.results.asked import ColumnName, OneOf, Range
from treeproof.results.explanation_words import assumptions_in_words
from treeproof.results.verification_file import epsilon_to_json, plain_label, question_to_json, rows_to_json

if TYPE_CHECKING:
    from treeproof.results.counterfactuals import Counterfactual, Counterfactuals
    from treeproof.results.explanations import Explanation, Explanations

EXPLANATIONS, COUNTERFACTUALS = "treeproof-explanations", "treeproof-counterfactuals"
VERSION = 1


def explanations_content(result: Explanations) -> dict[str, Any]:
    """Explanations as the content of their JSON file."""
    asked = result.about
    return {
        **question_to_json(EXPLANATIONS, VERSION, asked),
        "kind": asked.kind,
        "inflate": asked.inflate,
        "decision": asked.decision,
        "n_features": asked.X.shape[1],
        "attacker_given": asked.against,
        "missing": list(asked.missing),
        "assumptions": assumptions_in_words(asked),
        "seconds": result.seconds,
        "interrupted": result.interrupted,
        "counts": [list(pair) for pair in result.counts.items()],
        "explanations": [_explanation(one) for one in result],
    }


def _explanation(one: Explanation) -> dict[str, Any]:
    own, other = one.about.X[one.row], one.other
    return {
        "row": one.row,
        "index": _plain(one.index),
        "values": rows_to_json(own[None])[0],
        "label": plain_label(one.label),
        "outcome": str(one.outcome),
        "minimal": one.minimal,
        "columns": list(one.columns),
        "ranges": [[name, range_to_json(allowed)] for name, allowed in one.ranges.items()],
        "changed": None if other is None else rows_to_json(other[None])[0],
        "changed_label": None if other is None else plain_label(one.changed_label),
        "sentence": str(one),
    }


def counterfactuals_content(result: Counterfactuals) -> dict[str, Any]:
    """Counterfactuals as the content of their JSON file."""
    about = result.about
    return {
        **question_to_json(COUNTERFACTUALS, VERSION, about),
        "to": [plain_label(label) for label in about.to],
        "within": about.within,
        "epsilon": None if about.epsilon is None else epsilon_to_json(about.epsilon),
        "k": about.k,
        "assumptions": result.assumptions,
        "seconds": result.seconds,
        "interrupted": result.interrupted,
        "counterfactuals": [
            {
                "row": one.place,
                "index": _plain(index),
                **_change(one),
                "sentence": str(one),
                "others": [_change(other) for other in one.others],
            }
            for index, one in zip(result.row_names, result, strict=True)
        ],
    }


def _change(one: Counterfactual) -> dict[str, Any]:
    return {
        "price": _finite(one.price),
        "outcome": str(one.outcome),
        "least": _finite(one.least),
        "label": plain_label(one.label),
        "changes": [[name, *map(_value, ends)] for name, ends in one.changes.items()],
    }


def _value(value: Any) -> Any:
    return None if is_missing(value) else plain_label(value)


def range_to_json(allowed: Range | OneOf) -> dict[str, Any]:
    """What a column may be: `{"low": …, "high": …}` (null: no end), `{"values": […]}` or `{"missing": true}`."""
    if isinstance(allowed, OneOf):
        return {"values": [_value(value) for value in allowed]}
    if math.isnan(allowed.low):
        return {"missing": True}
    return {"low": _finite(allowed.low), "high": _finite(allowed.high)}


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else number


def _plain(index: Any) -> ColumnName:
    """A row's name as JSON has it: a whole number, or else text."""
    plain = index.item() if hasattr(index, "item") else index
    return plain if type(plain) is int else str(plain)
