"""Paths given by users, JSON that says one thing, and files written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from treeproof.errors import InvalidInput


def as_path(path: Any) -> Path:
    """The path that a user gave, or InvalidInput."""
    if not isinstance(path, (str, os.PathLike)) or "\0" in str(path) or not str(path):
        raise InvalidInput(f"expected a path, got {path!r}")
    return Path(path)


def read_text(file: Path) -> str:
    """The text of a file, or InvalidInput."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not a text file") from None


# Only such numbers can be too large for a double.
_PERHAPS_HUGE = re.compile(r"[eE]\+?\d{3}|\d{300}")


def parse_json(text: str | bytes, *, constants: bool = False) -> Any:
    """The content of JSON text that every reader would understand alike, or InvalidInput.

    A key that stands twice in one object is refused, and a number that is too large for a double (1e999); so are NaN
    and Infinity, which are not JSON, unless `constants` lets them in.

    >>> parse_json('{"budget": 1, "budget": 2}')
    Traceback (most recent call last):
    treeproof.errors.InvalidInput: 'budget' occurs twice in one object
    """
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    hooks: dict[str, Any] = {} if constants else {"parse_constant": _refuse_constant}
    if _PERHAPS_HUGE.search(text):
        hooks["parse_float"] = _finite
    return json.loads(text, object_pairs_hook=_without_repeats, **hooks)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        keys = [key for key, _ in pairs]
        raise InvalidInput(f"{next(key for key in keys if keys.count(key) > 1)!r} occurs twice in one object")
    return content


def _refuse_constant(name: str) -> float:
    raise InvalidInput(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidInput(f"{text[:40]} is too large for a double")
    return number


def write_whole(file: Path, text: str) -> None:
    """Replaces the file with one that holds this text; if anything fails, the old file stays as it was."""
    write_parts(file, [text.encode("utf-8")])


def write_parts(file: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Does the same with bytes, written one part after another."""
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "wb") as out:
            for part in parts:
                out.write(part)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, file)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}") from None
    finally:
        if name is not None:
            Path(name).unlink(missing_ok=True)  # already gone if it took the file's place
