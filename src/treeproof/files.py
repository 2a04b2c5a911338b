"""Paths given by users, text and JSON of a size and a meaning that can be told, files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import re
import secrets
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from treeproof.errors import InvalidInput

MAX_BYTES = 2**30
"""The most memory that the content of a file may ask for, unless somebody raises the limit."""

PROBE = 64 * 1024
"""Bytes that must fit beside a file before work begins whose result goes there."""


def as_path(path: Any) -> Path:
    """The path that a user gave, or InvalidInput."""
    try:
        name = os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        name = b""
    if not name or b"\0" in name or isinstance(path, bytes):
        raise InvalidInput(f"expected a path, got {path!r}")
    return Path(os.fsdecode(name))


def check_bytes(what: object, size: int, max_bytes: int) -> None:
    """Refuses what asks for more memory than that, before it gets any."""
    if size > max_bytes:
        raise InvalidInput(
            f"max_bytes is {max_bytes:,}, but {what} takes {size:,}", argument="max_bytes", way_out="raise max_bytes"
        )


def read_bytes(file: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a file, or InvalidInput."""
    try:
        with open(file, "rb") as stream:
            check_bytes(file, os.fstat(stream.fileno()).st_size, max_bytes)
            content = bytearray()
            # A pipe or a device does not tell its size.
            while part := stream.read(2**20):
                content += part
                check_bytes(file, len(content), max_bytes)
        return bytes(content)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from None


def read_text(file: Path, max_bytes: int = MAX_BYTES) -> str:
    """The text of a file, or InvalidInput."""
    try:
        return read_bytes(file, max_bytes).decode("utf-8")
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


def parse_own_json(text: str, where: str, otherwise: str, form: str, version: int) -> dict[str, Any]:
    """The object of one of treeproof's own files in JSON, which says its format and version.

    InvalidInput says `where` that `otherwise` is so.
    """
    try:
        content = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != form:
        raise InvalidInput(f'{where} {otherwise}: it lacks "format": "{form}"')
    if type(content.get("version")) is not int or content["version"] != version:
        raise InvalidInput(f"{where} has version {content.get('version')!r}; this treeproof reads version {version}")
    return content


def check_fields(content: Mapping[str, Any], required: Set[str], optional: Set[str], where: str) -> None:
    """Refuses an object that lacks fields, or has some that nobody knows."""
    missing, unknown = required - content.keys(), content.keys() - required - optional
    found = [f"lacks {', '.join(sorted(missing))}"] * bool(missing)
    found += [f"has the unknown fields {', '.join(sorted(unknown))}"] * bool(unknown)
    if found:
        raise InvalidInput(f"{where} {' and '.join(found)}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise InvalidInput(f"{twice!r} occurs twice in one object")
    return content


def _refuse_constant(name: str) -> float:
    raise InvalidInput(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidInput(f"{text[:40]} is too large for a double")
    return number


def as_json(content: Any, path: Any = None) -> str:
    """The content as JSON text, also written to `path` if given."""
    text = json.dumps(content, allow_nan=False)
    if path is not None:
        write_whole(as_path(path), text)
    return text


def write_whole(file: Path, text: str) -> None:
    """Replaces the file with one that holds this text; if anything fails, the old file stays as it was."""
    write_parts(file, [text.encode("utf-8", "backslashreplace")])


def write_parts(file: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Does the same with bytes, written one part after another.

    A link stays a link to the file that is replaced, and the new file has the mode of the old one. Pipes, terminals and
    the like are written to; they cannot be replaced. Whoever reads such a pipe may stop: that is a BrokenPipeError.
    """
    try:
        refusal = _refusal(file)
        if refusal:
            raise InvalidInput(f"cannot write {file}: {refusal}")
        if _is_stream(file):
            with _stream(file) as out:
                _write(out, parts)
        else:
            _replace(Path(os.path.realpath(file)), parts)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror or error}") from None


def obstacle(file: Path) -> str:
    """Why the file cannot be written, as far as that can be told before there is anything to write; "" if it can."""
    try:
        refusal = _refusal(file)
        if not refusal and not _is_stream(file):
            _probe(Path(os.path.realpath(file)).parent)
    except OSError as error:
        return str(error.strerror or error)
    return refusal


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, however they are spelled and whatever links they follow."""
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def file_stamp(file: Path) -> list[int]:
    """The size of a file and the time of its last change: what tells, without reading it, that it is another one."""
    found = os.stat(file)
    return [found.st_size, found.st_mtime_ns]


def _refusal(file: Path) -> str:
    """What makes a path no place to write to, whatever is written."""
    try:
        found = os.stat(file)
    except FileNotFoundError:
        folder = Path(os.path.realpath(file)).parent
        return "" if folder.is_dir() else f"{folder if file.is_symlink() else file.parent} is not a folder"
    if stat.S_ISDIR(found.st_mode):
        return "it is a folder"
    if stat.S_ISBLK(found.st_mode) or stat.S_ISSOCK(found.st_mode):
        return "it is neither a file nor a pipe"
    return "" if os.access(file, os.W_OK) else os.strerror(errno.EACCES)


def _is_stream(file: Path) -> bool:
    """Whether the path is a pipe, a terminal or the like, or a plain file that our own output goes to."""
    with contextlib.suppress(FileNotFoundError):
        return not stat.S_ISREG(os.stat(file).st_mode) or _own_output(file) is not None
    return False


def _own_output(file: Path) -> int | None:
    """The number of our own output that this is, as /dev/stdout is; its place in a file is kept only by that number."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(file), os.fstat(number)):
                return number
    return None


def _stream(file: Path) -> io.BufferedWriter:
    number = _own_output(file)
    if number is None:
        return open(file, "wb")
    for said in (sys.stdout, sys.stderr):
        if said is not None:
            said.flush()
    return os.fdopen(os.dup(number), "wb")


def _write(out: io.BufferedWriter, parts: Iterable[bytes | memoryview]) -> None:
    for part in parts:
        out.write(part)


def _replace(file: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Puts a new file in the place of this one, with the mode of the old one and, where that is allowed, its owner."""
    old = os.stat(file) if file.exists() else None
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777
    with _beside(file.parent, mode) as (name, out):
        if old is not None:
            with contextlib.suppress(OSError, AttributeError):  # Windows has no owners to keep
                os.chown(name, old.st_uid, old.st_gid)
            os.chmod(name, mode)
        with out:
            _write(out, parts)
        os.replace(name, file)


def _probe(folder: Path) -> None:
    with _beside(folder, 0o600) as (_, out), out:
        out.write(bytes(PROBE))


@contextlib.contextmanager
def _beside(folder: Path, mode: int) -> Iterator[tuple[Path, io.BufferedWriter]]:
    """A new file in the folder that is gone afterwards, unless it was moved; the system's mask applies to its mode."""
    # A name of its own, as the one with something added may be too long.
    name = folder / f".treeproof-{secrets.token_hex(8)}"
    out = os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode), "wb")
    try:
        yield name, out
    finally:
        with contextlib.suppress(OSError):
            out.close()
        name.unlink(missing_ok=True)
