"""The JSON file of explanations. docs/format.md describes it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from treeproof.results.asked import ColumnName, OneOf, Range
from treeproof.results.explanation_words import assumptions_in_words
from treeproof.results.verification_file import plain_label, rows_to_json

if TYPE_CHECKING:
    from treeproof.results.explanations import Explanation, Explanations

FORMAT, VERSION = "treeproof-explanations", 1


def content_of(result: Explanations) -> dict[str, Any]:
    """Explanations as the content of their JSON file."""
    asked = result.about
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": asked.kind,
        "inflate": asked.inflate,
        "model": asked.model,
        "decision": asked.decision,
        "fingerprint": asked.fingerprint,
        "n_features": asked.X.shape[1],
        "feature_names": None if asked.feature_names is None else list(asked.feature_names),
        "attacker": json.loads(asked.attacker.to_json()),
        "attacker_given": asked.against,
        "missing": list(asked.missing),
        "relations": list(map(str, asked.relations)),
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


def range_to_json(allowed: Range | OneOf) -> dict[str, Any]:
    """What a column may be: `{"low": …, "high": …}` (null: no end), `{"values": […]}` or `{"missing": true}`."""
    if isinstance(allowed, OneOf):
        return {"values": [None if value is None else plain_label(value) for value in allowed]}
    if math.isnan(allowed.low):
        return {"missing": True}
    return {"low": _finite(allowed.low), "high": _finite(allowed.high)}


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else number


def _plain(index: Any) -> ColumnName:
    """A row's name as JSON has it: a whole number, or else text."""
    plain = index.item() if hasattr(index, "item") else index
    return plain if type(plain) is int else str(plain)
