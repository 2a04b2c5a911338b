"""The JSON file of a verification: exact, checked, read back or refused with one line. docs/format.md describes it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import check_bytes, check_fields, parse_json
from treeproof.model.columns import Category, category_from_json, category_to_json
from treeproof.model.per_feature import PerFeature, as_size
from treeproof.numbers.doubles import FloatArray
from treeproof.results.proof_counts import ProofCounts
from treeproof.results.row_table import Refuted, RowTable
from treeproof.results.verdicts import Outcome
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import as_epsilon, as_sets, plain_epsilon
from treeproof.threat.moves import ANY, as_values
from treeproof.threat.reached import InVain
from treeproof.threat.relations import as_relations

FORMAT = "treeproof-verification"
VERSION = 4

# What a file contains besides scalars; rows are (n, n_features) doubles.
_LABELS = ("y", "predicted", "neighbour_label", "attacked_label")
_ROWS = ("X", "neighbour", "attacked")
_SCALARS: dict[str, tuple[type, ...]] = {
    "treeproof": (str,),
    "model": (str,),
    "decision": (str,),
    "fingerprint": (str,),
    "attacker": (dict, type(None)),
    "n_features": (int,),
    "seconds": (float, int),
    "interrupted": (bool,),
    "boxes": (int,),
    "label_dtype": (str,),
}
# The dtypes of labels, and what JSON has for each of them.
_DTYPE = re.compile(r"[<>|=]?[biufUO]\d{0,9}")
_KINDS = {"b": (bool,), "i": (int,), "u": (int,), "f": (float, int), "U": (str,), "O": (str, bool, int, float)}
_FIELDS = {
    *("format", "version", "feature_names", "epsilons", "epsilon_names", "stability", "resilience", "refuted"),
    *_SCALARS,
    *_LABELS,
    *_ROWS,
    *("categories", "movable", "unreached", "untested", "actors", "relations", "broken"),
    *("rows_with_missing", "by_class"),
}


def content_of(result: Any) -> dict[str, Any]:
    """A Verification as the content of its JSON file; a missing value is null, and so is an infinite ε."""
    labels = {name: getattr(result, name) for name in _LABELS}
    rows: RowTable = result.rows
    return {
        **question_to_json(FORMAT, VERSION, result),
        "treeproof": result.treeproof,
        "decision": result.decision,
        "n_features": rows.X.shape[1],
        "categories": [{"feature": f, **category_to_json(each, f)} for f, each in result.categories],
        "seconds": result.seconds,
        "interrupted": result.interrupted,
        "boxes": rows.boxes,
        "movable": None if result.movable is None else list(result.movable),
        "unreached": None if result.in_vain is None else list(result.in_vain.unreached),
        "untested": None if result.in_vain is None else list(result.in_vain.untested),
        "actors": None if result.actors is None else [plain_label(label) for label in result.actors],
        "broken": [list(rows) for rows in result.breakers],
        "epsilons": [epsilon_to_json(epsilon) for epsilon in result.epsilons],
        "epsilon_names": None if result.epsilon_names is None else list(result.epsilon_names),
        "label_dtype": np.result_type(*labels.values()).str,
        **{name: [plain_label(label) for label in array.tolist()] for name, array in labels.items()},
        "stability": rows.stability.tolist(),
        "resilience": rows.resilience.tolist(),
        "refuted": _refuted_to_json(rows),
        **{name: rows_to_json(getattr(rows, name)) for name in _ROWS},
        **measures_of(result),
        **({} if result.proofs is None else {"proofs": result.proofs._asdict()}),
    }


def question_to_json(form: str, version: int, about: Any) -> dict[str, Any]:
    """What files of answers say first: their format, and which model, attacker and relations they are about."""
    return {
        "format": form,
        "version": version,
        "model": about.model,
        "fingerprint": about.fingerprint,
        "feature_names": None if about.feature_names is None else list(about.feature_names),
        "attacker": None if about.attacker is None else json.loads(about.attacker.to_json()),
        "relations": list(map(str, about.relations)),
    }


def measures_of(result: Any) -> dict[str, Any]:
    """What a file says about all rows, for programs that do not want to count them."""
    by_class = [{"class": plain_label(label), **one.to_json()} for label, one in result.by_class.items()]
    return {"rows_with_missing": result.rows_with_missing, "by_class": by_class}


def check_measures(result: Any, content: dict[str, Any]) -> None:
    """Refuses a file whose measures are not those of its rows."""
    for name, value in measures_of(result).items():
        if content[name] != value:
            raise InvalidInput(f"{name} is not what the rows add up to")
    if result.proofs is not None and result.proofs.proved != result.is_proved.sum():
        raise InvalidInput("proofs is not about as many rows as are proved")


def content_in(text: str) -> dict[str, Any]:
    """The content of a file with this text, with every field that it must have."""
    content = parse_json(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput(f'it lacks "format": "{FORMAT}"')
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise InvalidInput(f"it has version {version!r}; this treeproof reads version {VERSION}, so verify again")
    check_fields(content, _FIELDS, {"proofs"}, "it")
    for name, kinds in _SCALARS.items():
        if type(content[name]) not in kinds:
            raise InvalidInput(f"{name} has the wrong type: {content[name]!r}")
    return content


def fields_of(content: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The fields of the Verification with this content, or ValueError, TypeError, … for anything else."""
    names, width = content["feature_names"], content["n_features"]
    if names is not None and (len(_list(names, "feature_names", (str,))) != width):
        raise InvalidInput(f"it has {len(names)} feature names for {width} features")
    n = len(_list(content["y"], "y", (str, bool, int, float)))
    epsilons = tuple(_epsilon_from_json(epsilon) for epsilon in _list(content["epsilons"], "epsilons", (dict,)))
    called = content["epsilon_names"]
    if called is not None:
        called = tuple(_list(called, "epsilon_names", (str,), len(epsilons)))
    if not _DTYPE.fullmatch(content["label_dtype"]):
        raise InvalidInput(f"label_dtype {content['label_dtype'][:40]!r} is not a dtype of labels")
    dtype = np.dtype(content["label_dtype"])
    attacker, rows = content["attacker"], _table_from_json(content, n, width, len(epsilons))
    # Where there are no rows, nothing else says how wide they can be.
    check_bytes("one row", 8 * width, max_bytes)
    return {
        "rows": rows,
        **{name: _labels_from_json(content[name], name, n, dtype, max_bytes) for name in _LABELS},
        "epsilons": epsilons,
        "epsilon_names": called,
        "feature_names": None if names is None else tuple(names),
        "categories": _categories(content["categories"], width),
        **{name: content[name] for name in ("treeproof", "seconds", "interrupted", "model", "decision", "fingerprint")},
        "movable": _columns_from_json(content, "movable", width),
        "in_vain": _in_vain_from_json(content, width),
        "actors": _actors_from_json(content["actors"]),
        **_relations_from_json(content, n),
        "proofs": ProofCounts.from_json(content.get("proofs")),
        "attacker": None if attacker is None else Attacker.from_json(json.dumps(attacker)),
    }


def _columns_from_json(content: dict[str, Any], name: str, width: int) -> tuple[int, ...] | None:
    if content[name] is None:
        return None
    found = _list(content[name], name, (int,))
    if found != sorted(set(found)) or not all(0 <= f < width for f in found):
        raise InvalidInput(f"{name} must list columns from 0 to {width - 1} in order, got {found[:20]}")
    return tuple(found)


def _in_vain_from_json(content: dict[str, Any], width: int) -> InVain | None:
    unreached, untested = (_columns_from_json(content, name, width) for name in InVain._fields)
    return None if unreached is None or untested is None else InVain(unreached, untested)


def _actors_from_json(values: Any) -> tuple[Any, ...] | None:
    return None if values is None else tuple(_list(values, "actors", _KINDS["O"]))


def _relations_from_json(content: dict[str, Any], n: int) -> dict[str, Any]:
    relations = as_relations(_list(content["relations"], "relations", (str,)))
    broken = _list(content["broken"], "broken", (list,), len(relations))
    for rows in broken:
        if _list(rows, "broken", (int,)) != sorted(set(rows)) or not all(0 <= row < n for row in rows):
            raise InvalidInput(f"broken must list rows from 0 to {n - 1} in order, got {rows[:20]}")
    return {"relations": relations, "breakers": tuple(map(tuple, broken))}


def _table_from_json(content: dict[str, Any], n: int, width: int, n_epsilons: int) -> RowTable:
    lines = _list(content["resilience"], "resilience", (list,), n_epsilons)
    refuted, epsilon_index = _refuted_from_json(content["refuted"], n, n_epsilons)
    return RowTable(
        **{name: _rows_from_json(content[name], name, n, width) for name in _ROWS},
        stability=_outcomes_from_json(content["stability"], "stability", n),
        resilience=np.array([_outcomes_from_json(line, "resilience", n) for line in lines], dtype=np.int8).reshape(
            n_epsilons, n
        ),
        refuted=refuted,
        epsilon_index=epsilon_index,
        boxes=content["boxes"],
    )


def _refuted_to_json(rows: RowTable) -> list[str | int | None]:
    """What each row's counterexample refutes: null for none, "stability", or the number of a neighbourhood."""
    names = {Refuted.NOTHING: None, Refuted.STABILITY: "stability"}
    pairs = zip(rows.refuted.tolist(), rows.epsilon_index.tolist(), strict=True)
    return [names[Refuted(what)] if what != Refuted.RESILIENCE else index for what, index in pairs]


def _refuted_from_json(values: Any, n: int, n_epsilons: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    refuted, index = np.zeros(n, dtype=np.int8), np.full(n, -1, dtype=np.int64)
    for row, value in enumerate(_list(values, "refuted", (str, int, type(None)), n)):
        if value == "stability":
            refuted[row] = Refuted.STABILITY
        elif type(value) is int and -1 <= value < n_epsilons:
            refuted[row], index[row] = Refuted.RESILIENCE, value
        elif value is not None:
            raise InvalidInput(
                f'refuted must not contain {value!r}; an entry is null, "stability" or the number of a neighbourhood'
            )
    return refuted, index


def _list(values: Any, name: str, kinds: tuple[type, ...], length: int | None = None) -> list[Any]:
    """The list that a file has under this name; its entries must be of exactly these types."""
    if not isinstance(values, list):
        raise InvalidInput(f"{name} is not a list")
    if length is not None and len(values) != length:
        raise InvalidInput(f"{name} has {len(values)} entries instead of {length}")
    for value in values:
        if type(value) not in kinds:
            raise InvalidInput(f"{name} must not contain {value!r}")
    return values


def epsilon_to_json(epsilon: Any) -> Any:
    """A neighbourhood as JSON has it."""
    return as_epsilon(epsilon).to_json(_size_to_json)


def _size_to_json(size: Any) -> Any:
    if isinstance(size, float):
        return None if math.isinf(size) else size
    if size == ANY:
        return "any"
    return {"values": [[plain_label(value) for value in one.values] for one in as_sets(size)]}


def _epsilon_from_json(content: Any) -> Any:
    spec = PerFeature.from_json(content, "epsilon", _size)
    if spec.keys is None and not all(isinstance(size, float) for size in spec.values):
        raise InvalidInput(f"epsilon names values, but not of which feature: {content!r}")
    return plain_epsilon(spec)


def _size(value: Any, where: str) -> Any:
    match value:
        case None:
            return math.inf
        case "any":
            return ANY
        case {"values": [_, *_] as sets} if len(value) == 1 and all(isinstance(one, list) for one in sets):
            found = tuple(as_values(one, where) for one in sets)
            return found[0] if len(found) == 1 else found
    number = as_size(value, where)
    if math.isinf(number):
        raise InvalidInput(f"{where} {value!r} is infinite, which a file writes as null")
    return number


def plain_label(label: Any) -> Any:
    """A label as JSON has it."""
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, (str, bool, int, float)):
        raise InvalidInput(f"a label of type {type(plain).__name__} cannot be written as JSON: {plain!r}")
    return plain


def _labels_from_json(values: Any, name: str, n: int, dtype: np.dtype[Any], max_bytes: int) -> npt.NDArray[Any]:
    found = _list(values, name, _KINDS[dtype.kind], n)
    # Every label of an array takes as much as the longest, and as much as the file says.
    longest = max(map(len, found), default=0) if dtype.kind == "U" else 0
    check_bytes(name, max(n, 1) * max(dtype.itemsize, 4 * longest), max_bytes)
    array = np.array(found, dtype=object if dtype.kind == "O" else None).astype(dtype)
    if array.tolist() != values:
        raise InvalidInput(f"{name} contains labels that do not fit {dtype}")
    return array


def _outcomes_from_json(values: Any, name: str, n: int) -> npt.NDArray[np.int8]:
    for value in _list(values, name, (int,), n):
        Outcome(value)
    return np.array(values, dtype=np.int8)


def rows_to_json(rows: FloatArray) -> list[list[float | None]]:
    """Rows of doubles as JSON has them: a missing value is null."""
    return [[None if math.isnan(value) else value for value in row] for row in rows.tolist()]


def _rows_from_json(values: Any, name: str, n: int, width: int) -> FloatArray:
    kinds = (float, int, type(None))
    rows = [
        [math.nan if value is None else value for value in _list(row, name, kinds, width)]
        for row in _list(values, name, (list,), n)
    ]
    return np.array(rows, dtype=np.float64).reshape(n, width)


def _categories(content: Any, n_features: int) -> tuple[tuple[int, Category], ...]:
    if not (isinstance(content, list) and all(isinstance(each, dict) for each in content)):
        raise InvalidInput("categories must be a list of objects")
    places = [each.get("feature") for each in content]
    if not all(type(f) is int and 0 <= f < n_features and places.count(f) == 1 for f in places):
        raise InvalidInput("each of the categories has a position of its own, its feature")
    plain = [{name: value for name, value in each.items() if name != "feature"} for each in content]
    return tuple(sorted((f, category_from_json(each, f)) for f, each in zip(places, plain, strict=True)))
