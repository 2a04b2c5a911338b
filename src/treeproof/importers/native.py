"""treeproof's own JSON format, version 3, described in docs/format.md; it round-trips exactly."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.files import as_path, parse_json, write_whole
from treeproof.importers._json_fields import fields_of, flag_of, number_of, numbers_of, text_of, whole_of
from treeproof.importers.registry import Voting, as_ensemble
from treeproof.model.builder import EnsembleBuilder, check_text
from treeproof.model.columns import Column, category_from_json, category_to_json, plain_category
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, Member, ScoreRule

FORMAT = "treeproof-ensemble"
VERSION = 3

_TOP = ("format", "version", "origin", "columns", "classes", "class_dtype", "rule", "base", "trees")
_OPTIONAL = ("blanks_underscored", "decided", "takes_frames", "refuses_arrays")
_COLUMN, _PERHAPS = ("low", "high", "missing"), ("name", "category", "refused")
_MEMBER = ("n_trees", "divisor", "weight")
_NUMBER = (float, number_of)
_RULE = {"divisor": _NUMBER, "base_last": (bool, flag_of), "cut": _NUMBER, "steepness": _NUMBER}
_TREE = ("feature", "threshold", "left", "right", "nan_left", "scores")
_DECIDED = ("class", "where")
_CLASS_DTYPES = {"b": "bool", "i": "int64", "u": "int64", "f": "float64", "U": "str"}


def save_model(model: Any, path: str | os.PathLike[str], *, voting: Voting | None = None) -> None:
    """Writes a model in treeproof's own format, whole or not at all; `load_model` reads it back exactly.

    >>> import tempfile, treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tp.save_model(clf, f"{folder}/model.json")
    ...     tp.load_model(f"{folder}/model.json").predict([[0.2], [0.7]]).tolist()
    ['no', 'yes']
    """
    file = as_path(path)
    write_whole(file, as_text(as_ensemble(model, voting=voting)))


def as_text(ensemble: Ensemble) -> str:
    """The text of such a file for an ensemble."""
    kind = ensemble.classes.dtype.kind
    if kind not in _CLASS_DTYPES:
        raise InvalidInput(
            f"class labels {ensemble.classes.tolist()} cannot be saved; with_classes gives them other names"
        )
    if kind == "u" and ensemble.classes.max() >= 2**63:
        raise InvalidInput(f"class label {ensemble.classes.max()} is too large to be saved")
    return json.dumps(content_of(ensemble), allow_nan=False)


def content_of(ensemble: Ensemble, plain: Callable[[Any, int], Any] = plain_category) -> dict[str, Any]:
    """What such a file holds, also for labels that JSON lacks; `plain` is what JSON has for a category."""
    rule = ensemble.rule
    bounds = [*ensemble.roots.tolist(), ensemble.n_nodes]
    content = {
        "format": FORMAT,
        "version": VERSION,
        "origin": ensemble.origin,
        "columns": columns_content(ensemble.columns, plain),
        "blanks_underscored": ensemble.blanks_underscored,
        "decided": dict(zip(_DECIDED, ensemble.decided or (), strict=False)),
        "takes_frames": ensemble.takes_frames,
        "refuses_arrays": not ensemble.takes_arrays,
        "classes": ensemble.classes.tolist(),
        "class_dtype": _CLASS_DTYPES.get(ensemble.classes.dtype.kind),
        "rule": {
            "decision": rule.decision.name.lower(),
            "precision": rule.precision,
            **{name: kind(getattr(rule, name)) for name, (kind, _) in _RULE.items()},
            **({"members": [member._asdict() for member in rule.members]} if rule.members else {}),
        },
        "base": ensemble.base.astype(np.float64).tolist(),
        "trees": [_tree_content(ensemble, start, stop) for start, stop in pairwise(bounds)],
    }
    return {name: value for name, value in content.items() if value or name not in _OPTIONAL}


def columns_content(
    columns: Sequence[Column], plain: Callable[[Any, int], Any] = plain_category
) -> list[dict[str, Any]]:
    """What it says of columns."""
    made = []
    for f, column in enumerate(columns):
        known = column.category and category_to_json(column.category, f, plain)
        said = {**vars(column), "category": known, "refused": list(column.refused)}
        made.append({name: value for name, value in said.items() if name in _COLUMN or value not in (None, [])})
    return made


def _tree_content(ensemble: Ensemble, start: int, stop: int) -> dict[str, Any]:
    feature = ensemble.feature[start:stop]
    inner = feature >= 0
    return {
        "feature": feature.tolist(),
        "threshold": ensemble.threshold[start:stop].tolist(),
        "left": np.where(inner, ensemble.left[start:stop] - start, -1).tolist(),
        "right": np.where(inner, ensemble.right[start:stop] - start, -1).tolist(),
        "nan_left": ensemble.nan_left[start:stop].tolist(),
        "scores": ensemble.leaf_scores[ensemble.leaf[start:stop][~inner]].astype(np.float64).tolist(),
        **_more_content(ensemble, start, stop),
    }


def _more_content(ensemble: Ensemble, start: int, stop: int) -> dict[str, Any]:
    """The further cuts of tests that have some, as [node, [cut, …]]."""
    nodes = start + np.flatnonzero(np.diff(ensemble.more_start[start : stop + 1]))
    ends = ensemble.more_start
    more = [[int(node) - start, ensemble.more[ends[node] : ends[node + 1]].tolist()] for node in nodes]
    return {"more": more} if more else {}


def load_bytes(data: bytes, *, voting: Voting | None) -> Ensemble:
    """The ensemble of such a file; other versions and unknown fields are refused."""
    if voting is not None:
        raise InvalidInput("voting was chosen when the model was saved; leave it out")
    content = parse_json(data)
    if content.get("format") != FORMAT:
        raise InvalidInput(f"its format is {content.get('format')!r}, expected {FORMAT!r}")
    if type(content.get("version")) is not int or content["version"] != VERSION:
        raise InvalidInput(f"its version is {content.get('version')!r}; this treeproof reads version {VERSION}")
    fields_of(content, "the model", _TOP, _OPTIONAL)
    builder = EnsembleBuilder(
        columns=_columns(content["columns"]),
        classes=_classes(content),
        rule=_rule(content["rule"]),
        base=numbers_of(content["base"], "base"),
        takes_frames=flag_of(content.get("takes_frames", False), "takes_frames"),
        takes_arrays=not flag_of(content.get("refuses_arrays", False), "refuses_arrays"),
        origin=text_of(content["origin"], "origin"),
    )
    for number, tree in enumerate(content["trees"]):
        fields_of(tree, f"tree {number}", _TREE, ("more",))
        for name in ("feature", "threshold", "left", "right"):
            numbers_of(tree[name], f"tree {number}: {name}")
        builder.add_tree(
            feature=tree["feature"],
            threshold=tree["threshold"],
            left=tree["left"],
            right=tree["right"],
            nan_left=[flag_of(value, f"tree {number}: nan_left") for value in tree["nan_left"]],
            scores=_scores_per_node(tree, builder.n_scores, number),
            pieces=_pieces(tree, number),
        )
    spelling = flag_of(content.get("blanks_underscored", False), "blanks_underscored")
    return replace(builder.build(), blanks_underscored=spelling, decided=_decided(content))


def _columns(content: Any) -> list[Column]:
    """The columns; those that are alike are one object."""
    if not isinstance(content, list):
        raise InvalidInput(f"columns must be a list, got {content!r:.60}")
    made: dict[Any, Column] = {}
    columns = [_column(f, one) for f, one in enumerate(content)]
    return [column if column.category else made.setdefault(column, column) for column in columns]


def _column(f: int, content: Any) -> Column:
    where = f"column {f}"
    fields_of(content, where, _COLUMN, _PERHAPS)
    return Column(
        text_of(content["name"], "a feature name") if "name" in content else None,
        number_of(content["low"], f"low of {where}"),
        number_of(content["high"], f"high of {where}"),
        flag_of(content["missing"], f"missing of {where}"),
        category_from_json(content["category"], f) if "category" in content else None,
        tuple(numbers_of(content.get("refused", []), f"refused of {where}", text_of)),
    )


def _pieces(tree: dict[str, Any], number: int) -> dict[int, Pieces]:
    """The tests with more than one cut."""
    pieces = {}
    for node, further in tree.get("more", []):
        where = f"tree {number}, node {node!r}"
        if type(node) is not int or not 0 <= node < len(tree["feature"]) or tree["feature"][node] < 0:
            raise InvalidInput(f"{where} has further cuts, but is no test of the tree")
        cuts = (float(tree["threshold"][node]), *(float(cut) for cut in numbers_of(further, f"{where}: further cuts")))
        pieces[node] = Pieces(cuts, tuple(i % 2 == 0 for i in range(len(cuts) + 1)))
    return pieces


def _classes(content: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype = content["class_dtype"]
    kinds: dict[str, type | tuple[type, ...]] = {"bool": bool, "int64": int, "float64": (int, float), "str": str}
    if dtype not in kinds:
        raise InvalidInput(f"class_dtype must be one of {', '.join(kinds)}, got {dtype!r}")
    for label in content["classes"]:
        check_text(label, "a class label")
        if not isinstance(label, kinds[dtype]) or (isinstance(label, bool) and dtype != "bool"):
            raise InvalidInput(f"class label {label!r} is not of type {dtype}")
    return np.array(content["classes"], dtype=dtype)


def _decided(content: dict[str, Any]) -> tuple[int, str] | None:
    if "decided" not in content:
        return None
    fields_of(content["decided"], "decided", _DECIDED)
    index, where = (content["decided"][name] for name in _DECIDED)
    return whole_of(index, "the class of decided", most=len(content["classes"]) - 1), text_of(where, "decided")


def _rule(content: Any) -> ScoreRule:
    fields_of(content, "the rule", ("decision", "precision", *_RULE), ("members",))
    names = {decision.name.lower(): decision for decision in Decision}
    if content["decision"] not in names:
        raise InvalidInput(f"decision must be one of {', '.join(names)}, got {content['decision']!r}")
    if content["precision"] not in ("float64", "float32"):
        raise InvalidInput(f"precision must be float64 or float32, got {content['precision']!r}")
    settings: dict[str, Any] = {name: check(content[name], name) for name, (_, check) in _RULE.items()}
    return ScoreRule(
        decision=names[content["decision"]],
        precision=content["precision"],
        **settings,
        members=tuple(_member(member) for member in content.get("members", ())),
    )


def _member(content: Any) -> Member:
    fields_of(content, "a member", _MEMBER)
    return Member(
        whole_of(content["n_trees"], "n_trees of a member"), *(number_of(content[name], name) for name in _MEMBER[1:])
    )


def _scores_per_node(tree: dict[str, Any], n_scores: int, number: int) -> np.ndarray[Any, Any]:
    leaves = np.asarray(tree["feature"]) < 0
    for row in tree["scores"]:
        numbers_of(row, f"tree {number}: scores")
    rows = np.asarray(tree["scores"], dtype=np.float64)
    if rows.shape != (int(leaves.sum()), n_scores):
        raise InvalidInput(f"tree {number} has scores of shape {rows.shape}, expected {(int(leaves.sum()), n_scores)}")
    scores = np.zeros((len(leaves), n_scores))
    scores[leaves] = rows
    return scores
