"""How files of each kind are taken apart, changed and put together again."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tests.support.fuzz import document as doc
from tests.support.fuzz.samples import Sample, packed

Mutant = tuple[bytes, str]
"""The changed file, and what was changed."""

BYTES = 0.05
"""The share of files whose bytes are changed, whatever they mean."""


def mutant(kind: str, sample: Sample, rng: random.Random) -> Mutant:
    """A file of this kind with something changed."""
    if sample.ending == "cbm" or rng.random() < BYTES:
        return _with_other_bytes(sample.content, sample.ending in ("json", "txt"), rng)
    change = _mutator(kind, sample)
    for _ in range(4):  # to swap two equal numbers is no change
        content, what = change(rng)
        if content not in _unchanged(kind, sample):
            break
    return content, what


@cache
def _unchanged(kind: str, sample: Sample) -> tuple[bytes, ...]:
    """The file as it was, and as it is written here."""
    if sample.ending == "json":
        return sample.content, doc.as_json(json.loads(sample.content))
    if sample.ending == "ubj":
        from treeproof.importers import _ubjson as reader

        return sample.content, _as_ubjson(_with_markers(reader.parse(sample.content)))
    return (sample.content,)


@cache
def _mutator(kind: str, sample: Sample) -> Callable[[random.Random], Mutant]:
    makers: dict[str, Callable[[bytes], Callable[[random.Random], Mutant]]] = {
        "json": _json,
        "ubj": _ubjson,
        "txt": _lightgbm,
        "onnx": _onnx,
        "skops": _skops,
    }
    return makers[sample.ending](sample.content)


def _with_other_bytes(content: bytes, is_text: bool, rng: random.Random) -> Mutant:
    """Flipped, foreign, lost and doubled bytes; text stays text."""
    changed = bytearray(content)
    where = []
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(changed))
        where.append(at)
        match rng.randrange(5):
            case 0 | 1 if not is_text:
                changed[at] ^= 1 << rng.randrange(8)
            case 0 | 1 | 2:
                changed[at] = rng.choice(b"0123456789-. \n=e")
            case 3 if not is_text:
                at -= at % 4
                whole, real = struct.pack("<i", rng.choice((0, 1, 2, -1, 7))), struct.pack("<f", rng.gauss(0, 1))
                changed[at : at + 4] = rng.choice((whole, real))
            case _:
                changed[at : at + 1] = changed[at : at + 1] * rng.choice((0, 2))
    return bytes(changed), f"bytes at {where}"


# --- JSON and UBJSON ---


def _weights(names: list[str]) -> list[float]:
    """Settings of the training, which decide nothing, are changed less often."""
    return [0.05 if ".params" in name or "key_types" in name or "__id__" in name else 1.0 for name in names]


def _document_mutator(content: Any, write: Callable[[Any], bytes]) -> Callable[[random.Random], Mutant]:
    groups = doc.groups_of(content)
    names = list(groups)
    weights = _weights(names)

    def change(rng: random.Random) -> Mutant:
        changed, what = doc.changed(content, groups, names, rng, weights)
        return write(changed), what

    return change


def _json(content: bytes) -> Callable[[random.Random], Mutant]:
    return _document_mutator(json.loads(content), doc.as_json)


def _ubjson(content: bytes) -> Callable[[random.Random], Mutant]:
    from treeproof.importers import _ubjson as reader

    return _document_mutator(_with_markers(reader.parse(content)), _as_ubjson)


_MARKERS = {"i1": b"i", "u1": b"U", "i2": b"I", "i4": b"l", "i8": b"L", "f4": b"d", "f8": b"D"}
_DTYPES = {marker: np.dtype(f">{code}") for code, marker in _MARKERS.items()}


def _with_markers(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        typed = doc.Typed(value.tolist())
        typed.marker = _MARKERS[value.dtype.str[1:]]
        return typed
    if isinstance(value, dict):
        return {key: _with_markers(child) for key, child in value.items()}
    return [_with_markers(child) for child in value] if isinstance(value, list) else value


def _as_ubjson(value: Any) -> bytes:
    value = doc.plain(value)
    if isinstance(value, dict):
        pairs = (_text(key.rstrip("\x02")) + _as_ubjson(child) for key, child in value.items())
        return b"{" + b"".join(pairs) + b"}"
    if isinstance(value, list):
        marker = getattr(value, "marker", b"")
        numbers = [doc.plain(one) for one in value]
        if marker and all(isinstance(one, (int, float)) for one in numbers):
            with np.errstate(all="ignore"):
                array = np.array([_fitting(one, marker) for one in numbers], dtype=_DTYPES[marker])
            return b"[$" + marker + b"#L" + struct.pack(">q", len(array)) + array.tobytes()
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(_as_ubjson, value))
    if isinstance(value, str):
        return b"S" + _text(value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            return b"d" + np.array(value, dtype=">f4").tobytes()
    return b"L" + struct.pack(">q", _fitting(value, b"L"))


def _text(value: str) -> bytes:
    content = value.encode("utf-8", "replace")
    return b"L" + struct.pack(">q", len(content)) + content


def _fitting(value: Any, marker: bytes) -> Any:
    """The number as the type of the marker can hold it."""
    dtype = _DTYPES[marker]
    if dtype.kind == "f":
        return float(value)
    info = np.iinfo(dtype)
    whole = int(value) if value == value and abs(value) != float("inf") else 0
    return int(min(max(whole, int(info.min)), int(info.max)))


# --- LightGBM text ---


def _lightgbm(content: bytes) -> Callable[[random.Random], Mutant]:
    """Sections of lines, each a key and the words of its value; the lengths of trees are mostly counted again."""
    text = content.decode()
    head, *trees = text.split("Tree=")
    trees[-1], end = trees[-1].split("end of trees", 1)
    parts = {
        "header": _lines(head),
        "trees": [_lines("Tree=" + tree) for tree in trees],
        "end": [["end of trees" + line] if i == 0 else _words(line) for i, line in enumerate(end.split("\n"))],
    }
    assert _as_text(parts, count=True) == content
    groups: dict[str, list[doc.Path]] = {}
    for name, paths in doc.groups_of(parts).items():
        for path in paths:
            line = parts[path[0]]
            line = line[path[1]][path[2]] if path[0] == "trees" and len(path) > 2 else line[path[1]] if path[1:] else []
            key = line[0] if line and isinstance(line[0], str) else ""
            groups.setdefault(f"{name} {key}", []).append(path)
    names = list(groups)
    weights = [0.05 if name.startswith(".end") else 1.0 for name in names]

    sizes = next(line for line in parts["header"] if line[0] == "tree_sizes=")

    def change(rng: random.Random) -> Mutant:
        if rng.random() < 0.02:
            copied = copy.deepcopy(parts)
            other = _other_sizes([int(size) for size in sizes[1:]], rng)
            copied["header"][parts["header"].index(sizes)][1:] = map(str, other)
            return _as_text(copied, count=False), f"tree_sizes: {other}"
        changed, what = doc.changed(parts, groups, names, rng, weights)
        # Sizes that were changed stay so, and now and then those of trees that were changed.
        header = changed.get("header")
        unchanged = isinstance(header, list) and sizes in header
        return _as_text(changed, count=unchanged and rng.random() < 0.8), what

    return change


def _other_sizes(sizes: list[int], rng: random.Random) -> list[int]:
    """Sizes that lead from each tree to one of the trees after it, or to the same again."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    chosen = sorted(rng.choice(starts[:-1]) for _ in sizes)
    return [after - before for before, after in zip(chosen, [*chosen[1:], starts[-1]], strict=True)]


def _lines(text: str) -> list[list[str]]:
    return [_words(line) for line in text.split("\n")]


def _words(line: str) -> list[str]:
    key, equals, value = line.partition("=")
    return [key + equals, *value.split(" ")] if equals else [key]


def _as_text(parts: Any, *, count: bool) -> bytes:
    def joined(lines: Any) -> str:
        return "\n".join(_line(line) for line in lines) if isinstance(lines, list) else _line(lines)

    def _line(line: Any) -> str:
        if not isinstance(line, list):
            return str(line).strip("\x01\x02")
        words = [str(word).strip("\x01\x02") for word in line]
        return words[0] + " ".join(words[1:]) if words else ""

    sections = [joined(parts[name]) for name in ("header",) if name in parts]
    listed = parts.get("trees", [])
    trees = [joined(tree) for tree in listed] if isinstance(listed, list) else [str(listed)]
    header = sections[0] if sections else ""
    if count:
        sizes = " ".join(str(len(tree.encode())) for tree in trees)
        lines = header.split("\n")
        header = "\n".join(f"tree_sizes={sizes}" if line.startswith("tree_sizes=") else line for line in lines)
    return (header + "".join(trees) + joined(parts.get("end", []))).encode("utf-8", "replace")


# --- ONNX ---


def _onnx(content: bytes) -> Callable[[random.Random], Mutant]:
    from onnx import ModelProto

    model = ModelProto.FromString(content)

    def change(rng: random.Random) -> Mutant:
        changed = ModelProto()
        changed.CopyFrom(model)
        done = []
        for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
            if changed.graph.node and rng.random() < 0.08:
                done.append(_foreign_node(changed, rng))
            else:
                done.append(_change_message(changed, rng))
        return changed.SerializeToString(), "; ".join(done)

    return change


def _fields(message: Any, name: str, out: dict[str, list[tuple[Any, Any]]]) -> None:
    """All fields below a message, by name; attributes of nodes by theirs."""
    for field, value in message.ListFields():
        own = f"{name}.{field.name}"
        out.setdefault(own, []).append((message, field))
        if field.message_type is None:
            continue
        for child in value if _is_repeated(field) else [value]:
            _fields(child, f"{own}[{child.name}]" if field.name == "attribute" else own, out)


def _is_repeated(field: Any) -> bool:
    # Older versions of protobuf have only the label, and newer ones no longer have it.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _change_message(model: Any, rng: random.Random) -> str:
    places: dict[str, list[tuple[Any, Any]]] = {}
    _fields(model, "", places)
    name = rng.choice(list(places))
    message, field = rng.choice(places[name])
    if _is_repeated(field):
        return _change_repeated(getattr(message, field.name), field, name, rng)
    if field.message_type is not None or rng.random() < 0.2:
        message.ClearField(field.name)
        return f"{name} deleted"
    before = getattr(message, field.name)
    _set(message, field, before, rng)
    return f"{name}: {str(before)[:40]!r} -> {str(getattr(message, field.name))[:40]!r}"


def _set(message: Any, field: Any, before: Any, rng: random.Random) -> None:
    for _ in range(20):  # until the type can hold it
        try:
            setattr(message, field.name, _another_scalar(before, rng))
        except (TypeError, ValueError):
            continue
        return


_WORDS = (
    "ai.onnx.ml",
    "",
    "evil",
    "Identity",
    "Cast",
    "LEAF",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    "SOFTMAX",
    "LOGISTIC",
    "PROBIT",
    "NONE",
)


def _another_scalar(before: Any, rng: random.Random) -> Any:
    if isinstance(before, (str, bytes)):
        word = rng.choice((*_WORDS, *doc.TEXTS, str(before) + "x"))
        return word.encode() if isinstance(before, bytes) else word
    return doc.plain(doc.another(before, rng))


def _change_repeated(values: Any, field: Any, name: str, rng: random.Random) -> str:
    is_message = field.message_type is not None
    items = [_copy(one) if is_message else one for one in values]
    i, j = rng.randrange(len(items)), rng.randrange(len(items))
    way = rng.randrange(10)
    if way < 2:
        items[i], items[j] = items[j], items[i]
        what = f"{i} and {j} swapped"
    elif way == 2:
        del items[i]
        what = f"{i} deleted"
    elif way == 3:
        items.insert(j, _copy(items[i]) if is_message else items[i])
        what = f"{i} again at {j}"
    elif way == 4:
        rng.shuffle(items)
        what = "shuffled"
    elif way == 5 and not is_message:
        items = [items[i]] * len(items)
        what = f"all like {i}"
    elif is_message:
        items.reverse()
        what = "reversed"
    else:
        items[i] = new = _another_scalar(items[i], rng)
        what = f"{i} -> {str(new)[:40]!r}"
    before = list(values)
    del values[:]
    try:
        values.extend(items)
    except (TypeError, ValueError):
        del values[:]
        values.extend(before)
        return "nothing"
    return f"{name}: {what}"


def _copy(message: Any) -> Any:
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


def _foreign_node(model: Any, rng: random.Random) -> str:
    """Lets a node mean a function of the file's own with the same name that does something else."""
    from onnx import helper

    graph = model.graph
    at = rng.randrange(len(graph.node))
    if rng.random() < 0.5:
        at = next((i for i, node in enumerate(graph.node) if "Tree" in node.op_type), at)
    node = graph.node[at]
    if rng.random() < 0.4 and node.input:  # between the input and what reads it
        new = helper.make_node("Identity", [node.input[0]], [f"{node.input[0]}_same"])
        node.input[0] = new.output[0]
        graph.node.insert(at, new)
        node = graph.node[at]
    what = f"node {node.op_type} at {at}"
    if rng.random() < 0.2:
        node.domain = rng.choice(("evil", "", "ai.onnx.ml", "com.microsoft"))
        return f"{what} in domain {node.domain!r}"
    inner = _copy(node)
    del inner.input[:], inner.output[:]
    inner.input.extend(["negated"])
    inner.output.extend(f"out{i}" for i in range(len(node.output)))
    body = [helper.make_node("Neg", ["given"], ["negated"]), inner]
    node.domain = "evil"
    names = [f"out{i}" for i in range(len(node.output))]
    opsets = [helper.make_opsetid(one.domain, one.version) for one in model.opset_import]
    model.functions.append(helper.make_function("evil", node.op_type, ["given"], names, body, opsets))
    model.opset_import.append(helper.make_opsetid("evil", 1))
    del node.attribute[:]
    if rng.random() < 0.7:
        node.attribute.extend(inner.attribute)
    return f"{what} is a function that negates its input"


# --- skops ---


def _skops(content: bytes) -> Callable[[random.Random], Mutant]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members.pop("schema.json"))
    arrays = {name: np.load(io.BytesIO(member), allow_pickle=False) for name, member in members.items()}
    groups = doc.groups_of(schema)
    names = list(groups)
    # What an object is made of is said again and again; its own values are said once.
    weights = [0.1 if name.rpartition(".")[2].startswith("__") or "key_types" in name else 1.0 for name in names]
    columns = [(name, column) for name, array in arrays.items() for column in array.dtype.names or ("",)]

    def change(rng: random.Random) -> Mutant:
        if rng.random() < 0.55:
            new, what = doc.changed(schema, groups, names, rng, weights)
            return _packed_text(doc.as_json(new), members), f"schema: {what}"
        name, column = rng.choice(columns)
        array, what = _another_array(arrays[name], column, rng)
        out = io.BytesIO()
        np.save(out, array, allow_pickle=False)
        return packed(schema, {**members, name: out.getvalue()}), f"{name} {what}"

    return change


def _packed_text(text: bytes, members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in {**members, "schema.json": text}.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def _another_array(array: np.ndarray, column: str, rng: random.Random) -> tuple[np.ndarray, str]:
    changed = array.copy()
    way = rng.random()
    if way < 0.06:
        kind = rng.choice(("<f4", "<f8", "<i4", "<i8", ">f8", "|u1", "<u4"))
        return (changed.astype(kind), f"as {kind}") if array.dtype.names is None else (changed[::-1].copy(), "reversed")
    if way < 0.12:
        return np.concatenate((changed.reshape(-1), changed.reshape(-1)[-1:])), "one longer"
    if way < 0.18:
        return changed.reshape(-1)[:-1], "one shorter"
    flat = changed.reshape(-1)
    if not flat.size:
        return changed, "unchanged"
    if column:
        flat = flat[column].reshape(-1)
    i, j = rng.randrange(len(flat)), rng.randrange(len(flat))
    before = flat[i].item()
    if way < 0.4:
        flat[i], flat[j] = flat[j].copy(), flat[i].copy()
        what = f"{column}[{i}] and [{j}] swapped"
    else:
        if isinstance(before, str):
            new: Any = before + "x"
        elif flat.dtype == np.uint8 and flat.max() <= 1:
            new = 1 - before
        else:
            new = doc.plain(doc.another(before, rng))
        with np.errstate(all="ignore"):
            try:
                flat[i] = new
            except (TypeError, ValueError, OverflowError):
                flat[i] = flat[j]
        what = f"{column}[{i}]: {before!r} -> {flat[i].item()!r}"
    if column:
        changed.reshape(-1)[column] = flat.reshape(changed.reshape(-1)[column].shape)
    return changed, what
