"""Where compiled code is kept, and how damage to it is noticed.

numba refuses to compile where it finds no folder to write to, and believes whatever it finds in its files. Here, every
file begins with the checksum of the rest: one that does not fit is compiled again. numba also looks only at the file
that a function stands in, and not at those of the functions that it calls; here code is only as good as all the
kernels that it was compiled with. Where there is no other place, the
temporary folder is used, and if that cannot be written either, code is compiled in every process.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import config
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

DIGEST = hashlib.sha256().digest_size

watchers: list[Callable[[], None]] = []
"""Called whenever a kernel is about to be compiled."""


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """numba's index and data files with a checksum in front."""

    def _dump(self, obj: Any) -> bytes:
        content: bytes = super()._dump(obj)
        return hashlib.sha256(content).digest() + content

    def _read(self, path: str) -> Any:
        """What is in a file; None if it is missing, not the one that was written, or about types that are gone."""
        try:
            content = Path(path).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content[DIGEST:]).digest() != content[:DIGEST]:
            return None
        try:
            return pickle.loads(content[DIGEST:])
        except Exception:  # it was written by another version of numba or of the kernels
            return None

    def _load_index(self) -> dict[Any, str]:
        found = self._read(self._index_path)
        current = found is not None and found[:2] == (self._version, self._source_stamp)
        return found[2] if current else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        with self._open_for_write(self._index_path) as file:
            file.write(self._dump((self._version, self._source_stamp, overloads)))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))


class CheckedCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of a function, in checked files; if they cannot be written, it does without."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _CheckedFiles(self._cache_path, self._impl.filename_base, _sources())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None:
            for watcher in watchers:
                watcher()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(f"compiled code cannot be kept in {self._cache_path}: {error.strerror}")


class _TemporaryPlace:
    """What numba asks for the place of a function's code. Its own settings stay as they are: they are the user's."""

    def __init__(self, function: Any, file: str) -> None:
        self._line, self._folder = function.__code__.co_firstlineno, Path(file).absolute().parent

    from_function = classmethod(lambda cls, function, file: cls(function, file))

    def get_cache_path(self) -> str:
        name = f"{self._folder.name}-{hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:20]}"
        return str(Path(_temporary_folder() or "", name))

    def ensure_cache_path(self) -> None:
        Path(self.get_cache_path()).mkdir(exist_ok=True)

    def get_source_stamp(self) -> str:
        return _sources()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _TemporaryCache(CheckedCache):
    """The same in the temporary folder."""

    _impl_class = type("_TemporaryImpl", (FunctionCache._impl_class,), {"_locator_classes": [_TemporaryPlace]})


@cache
def _sources() -> str:
    """A checksum of the text of all kernels."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def cache_of(function: Any) -> Any:
    """The cache of a function that is about to be compiled."""
    if not _nowhere(function):
        try:
            return CheckedCache(function)
        except RuntimeError:  # numba found no folder that it can write to
            pass
    folder = _temporary_folder()
    if folder is None:
        _warn_once("there is no folder to keep compiled code in, so that every process compiles it again, for minutes")
        return NullCache()
    _warn_once(f"there is no folder to keep compiled code in but the temporary one: {folder}")
    return _TemporaryCache(function)


def _nowhere(function: Any) -> bool:
    """Whether numba would take a folder named ~ for the home that is not known."""
    beside = Path(function.__code__.co_filename).parent
    return not config.CACHE_DIR and os.path.expanduser("~") == "~" and not os.access(beside, os.W_OK)


@cache
def _temporary_folder() -> str | None:
    """A folder in the temporary one that nobody else can write to: whoever can write compiled code can run anything."""
    try:
        if not hasattr(os, "getuid"):
            return tempfile.mkdtemp(prefix="treeproof-")
        folder = Path(tempfile.gettempdir(), f"treeproof-compiled-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        return str(folder) if private else tempfile.mkdtemp(prefix="treeproof-")
    except OSError:
        return None


@cache
def _warn_once(message: str) -> None:
    warnings.warn(f"{message}; NUMBA_CACHE_DIR names a better one", RuntimeWarning, stacklevel=2)
