"""Paths given by users, and files written whole or not at all."""

from __future__ import annotations

import os
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
