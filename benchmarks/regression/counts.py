"""What a run is reduced to: whole numbers and checksums by name, and how they differ from those of the stored file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).parent.with_suffix(".json")

Counts = dict[str, int | str]
"""Of one case: numbers, and checksums as text."""


def checksum(*values: Any) -> str:
    """Twelve hexadecimal digits of texts and arrays: their shapes and their numbers, to the last bit."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, str):
            digest.update(value.encode())
            continue
        array = np.asarray(value)
        plain = array.astype("<f8" if array.dtype.kind == "f" else "<i8", order="C")
        if plain.dtype.kind == "f":
            plain[np.isnan(plain)] = np.nan  # there are many NaNs, and they mean the same
        digest.update(f"{plain.shape}{plain.dtype}".encode())
        digest.update(plain.tobytes())
    return digest.hexdigest()[:12]


def read(path: Path = STORED) -> dict[str, Counts]:
    """The stored counts, case by case; none if there is no file yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(counts: dict[str, Counts], path: Path = STORED) -> None:
    """Stores counts with one line each, so that a changed one is a changed line."""
    path.write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def updated(stored: dict[str, Counts], found: dict[str, Counts], known: Collection[str]) -> dict[str, Counts]:
    """What to store after a run that found these: cases that did not run keep their counts while they are `known`."""
    return {name: found[name] if name in found else stored[name] for name in known if name in found or name in stored}


def differences(stored: dict[str, Counts], found: dict[str, Counts], expected: Collection[str]) -> list[str]:
    """One line per count that is not as stored, and per case that only one side has; `expected` should have run."""
    lines = []
    for name in {**stored, **found}:
        if name not in stored:
            lines.append(f"new: {name}: its counts are not stored")
        elif name in found:
            lines += [f"changed: {name}: {line}" for line in changes(stored[name], found[name])]
        elif name in expected:
            lines.append(f"missing: {name}: its counts are stored, and it did not run")
    return lines


def changes(before: Counts, after: Counts) -> list[str]:
    """One line per count of a case that differs."""
    lines = []
    for count in {**before, **after}:
        was, now = before.get(count, "not counted"), after.get(count, "not counted")
        if was != now or type(was) is not type(now):
            lines.append(f"{count} was {_shown(was)}, is {_shown(now)}")
    return lines


def _shown(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
