"""Changes in one field of a nested document, as JSON and the like hold it: every field is as likely as any other."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections import defaultdict
from typing import Any

import numpy as np

Path = tuple[Any, ...]

INTEGERS = (0, 1, 2, 3, 4, -1, -2, 5, 7, 100, 255, 2**31 - 1, 2**31, 2**32, -(2**31), 10**12, 2**53, 2**63 - 1, 2**64)
FLOATS = (
    0.0,
    -0.0,
    0.5,
    1.0,
    -1.0,
    2.5,
    1e-45,
    -1e-36,
    1e-35,
    1e-7,
    16777217.0,
    3.4028235e38,
    3.5e38,
    -1e39,
    1e308,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
)
TEXTS = ("", "0", "1", "2", "-1", "0.5", "1e5", "x", "true", "é", "a b", "[0.3]", "nan", " 1", "1 ", "0x10", "1_0")
_MARK, _TWICE = "\x01", "\x02"
"""Begin a string that stands for a bare number in the text, and end a key that is to stand twice."""


class Typed(list):  # type: ignore[type-arg]
    """A list of numbers that the file announces with one marker for all of them."""

    marker: bytes = b""


def groups_of(document: Any) -> dict[str, list[Path]]:
    """All places below the root, by their path with positions in lists left out."""
    groups: dict[str, list[Path]] = defaultdict(list)

    def walk(node: Any, path: Path, name: str) -> None:
        if path:
            groups[name].append(path)
        if isinstance(node, dict):
            for key, child in node.items():
                walk(child, (*path, key), f"{name}.{key}")
        elif isinstance(node, list):
            for i, child in enumerate(node):
                walk(child, (*path, i), f"{name}[]")

    walk(document, (), "")
    return dict(groups)


def changed(
    document: Any, groups: dict[str, list[Path]], names: list[str], rng: random.Random, weights: list[float] | None
) -> tuple[Any, str]:
    """A copy with one to three changes, and what they are; most have one."""
    copied = copy.deepcopy(document)
    done = []
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        name = rng.choices(names, weights)[0]
        path = rng.choice(groups[name])
        try:
            done.append(_change(copied, path, [copied_at for copied_at in groups[name] if copied_at != path], rng))
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier change took this place away
    return copied, "; ".join(done) or "nothing"


def at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _change(document: Any, path: Path, others: list[Path], rng: random.Random) -> str:
    holder, key = at(document, path[:-1]), path[-1]
    value = holder[key]
    where = ".".join(map(str, path))
    roll = rng.random()
    if others and roll < 0.2:
        other = rng.choice(others)
        other_holder = at(document, other[:-1])
        if rng.random() < 0.5:
            holder[key], other_holder[other[-1]] = other_holder[other[-1]], value
            return f"{where} swapped with {'.'.join(map(str, other))}"
        holder[key] = copy.deepcopy(other_holder[other[-1]])
        return f"{where} = that of {'.'.join(map(str, other))}"
    if roll < 0.3:
        return _change_holder(holder, key, where, rng)
    if isinstance(value, list) and value and roll < 0.9:
        return _change_list(value, where, rng)
    if isinstance(value, dict) and value and roll < 0.9:
        return _change_holder(value, rng.choice(list(value)), where, rng)
    holder[key] = new = another(value, rng)
    return f"{where}: {_short(value)} -> {_short(new)}"


def _change_holder(holder: Any, key: Any, where: str, rng: random.Random) -> str:
    """Deletes, doubles, renames or moves an entry."""
    way = rng.randrange(5)
    if isinstance(holder, list):
        if way < 2:
            del holder[key]
            return f"{where} deleted"
        if way < 4:
            holder.insert(key, copy.deepcopy(holder[key]))
            return f"{where} doubled"
        holder.append(holder.pop(key))
        return f"{where} moved to the end"
    if way == 0:
        del holder[key]
        return f"{where} deleted"
    if way == 1:
        holder[f"{key}{_TWICE}"] = another(holder[key], rng)
        return f"{where} stands twice"
    if way == 2:
        name = rng.choice((f"{key}_", key.upper(), key[:-1], rng.choice(list(holder)), "id", "version"))
        holder[name] = holder.pop(key)
        return f"{where} renamed {name}"
    if way == 3:
        holder[rng.choice(("extra", f"{key}_x", "default", "scale", "weight"))] = copy.deepcopy(holder[key])
        return f"{where} copied beside itself"
    items = list(holder.items())
    rng.shuffle(items)
    holder.clear()
    holder.update(items)
    return f"entries around {where} in another order"


def _change_list(values: list[Any], where: str, rng: random.Random) -> str:
    i, j = rng.randrange(len(values)), rng.randrange(len(values))
    match rng.randrange(9):
        case 0 | 1:
            values[i], values[j] = values[j], values[i]
            return f"{where}: {i} and {j} swapped"
        case 2:
            values.reverse()
            return f"{where} reversed"
        case 3:
            rng.shuffle(values)
            return f"{where} shuffled"
        case 4:
            del values[i]
            return f"{where}.{i} deleted"
        case 5:
            values.insert(j, copy.deepcopy(values[i]))
            return f"{where}.{i} again at {j}"
        case 6:
            del values[i:]
            return f"{where} cut at {i}"
        case 7:
            values[:] = [copy.deepcopy(values[i]) for _ in values]
            return f"{where} all like {i}"
        case _:
            values[i] = new = another(values[i], rng)
            return f"{where}.{i} -> {_short(new)}"


def another(value: Any, rng: random.Random) -> Any:
    """Another value, most often of the same type: an edge of it, a neighbour, or the same number written otherwise."""
    if rng.random() < 0.08:
        return rng.choice((None, True, False, 0, -1, 0.5, "", "1", [], {}, [0], [[]], {"a": 1}))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = (value + 1, value - 1, -value, ~value, value * 2, value + 2**32, value + 256)
        return rng.choice(near) if rng.random() < 0.5 else _spelled(_another_integer(rng), rng)
    if isinstance(value, float):
        return _spelled(another_float(value, rng), rng)
    if isinstance(value, str):
        return _another_text(value, rng)
    return rng.choice((0, 1, 0.5, "x", [], {}))


def _another_integer(rng: random.Random) -> int:
    return rng.choice(INTEGERS if rng.random() < 0.5 else INTEGERS[:6])


def another_float(value: float, rng: random.Random) -> float:
    """A neighbour as a double or as a float32, a multiple, or an edge."""
    if rng.random() < 0.4:
        return rng.choice(FLOATS)
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
        return float(
            rng.choice(
                (
                    np.nextafter(value, np.inf),
                    np.nextafter(value, -np.inf),
                    np.nextafter(narrow, np.float32(np.inf)),
                    np.nextafter(narrow, np.float32(-np.inf)),
                    narrow,
                    -value,
                    value * 2,
                    value / 3,
                    round(value) if math.isfinite(value) else 0.0,
                    value + rng.gauss(0, 1),
                )
            )
        )


def _another_text(value: str, rng: random.Random) -> str:
    try:
        number = float(value.strip("[]"))
    except ValueError:
        return rng.choice((value + "x", value[:-1], value.upper(), value.lower(), f" {value}", rng.choice(TEXTS)))
    if rng.random() < 0.2:
        return rng.choice(TEXTS)
    new = _another_integer(rng) if number.is_integer() else another_float(number, rng)
    if rng.random() < 0.4:
        new = number + rng.choice((-1, 1, 0.5))
    text = repr(int(new)) if number.is_integer() and new == new and abs(new) < 1e30 and new == int(new) else repr(new)
    return f"[{text}]" if value.startswith("[") else text


def _spelled(number: float, rng: random.Random) -> Any:
    """The number, or now and then a bare number of many digits beside it, or one in another notation."""
    if rng.random() > 0.25 or not math.isfinite(number):
        return number
    if isinstance(number, int):
        spellings = (f"{number}.0", f"{number}e0", f"{number}E-0", f"0{number}", f"+{number}", f"-{number}")
        return f"{_MARK}{rng.choice(spellings)}"
    # Between two float32 numbers, and a hair beside the middle: rounding twice goes another way than rounding once.
    narrow = float(np.float32(min(max(number, -1e38), 1e38)))
    middle = (narrow + float(np.nextafter(np.float32(narrow), np.float32(np.inf)))) / 2
    digits = f"{abs(middle):.60f}".rstrip("0") if 1e-5 < abs(middle) < 1e20 else repr(abs(middle))
    return f"{_MARK}{'-' * (middle < 0)}{digits}{'000000000000000000001' if 'e' not in digits else ''}"


def _short(value: Any) -> str:
    return repr(value)[:60]


def as_json(document: Any) -> bytes:
    """JSON text, with bare numbers and doubled keys as they were asked for."""
    text = json.dumps(document, ensure_ascii=False)
    text = re.sub(r'"\\u0001([^"]*)"', r"\1", text)
    return text.replace('\\u0002"', '"').encode()


def plain(value: Any) -> Any:
    """A bare number as the number it spells."""
    if not (isinstance(value, str) and value.startswith(_MARK)):
        return value
    try:
        return float(value[1:])
    except ValueError:
        return -7.0  # a spelling that only text can have
