"""The files that commands write: checked before the work, and never lost after it."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from treeproof.cli import screen
from treeproof.cli.stopping import postponed
from treeproof.errors import InvalidInput
from treeproof.files import as_path, obstacle, same_file

MAX_STEM = 40
"""Characters of a file's name that are kept in the name of its stand-in."""


FORMATS = frozenset(
    {
        *(".csv", ".tsv", ".parquet", ".npz", ".libsvm", ".arrow", ".feather", ".xls", ".xlsx"),
        *(".json", ".onnx", ".pkl", ".tpm", ".tpp", ".ubj", ".htm", ".html", ".pdf", ".svg"),
    }
)
"""Endings that promise a format."""


class Outputs:
    """Where a command's results go, by the names of its options; `endings` says what is written for each of them.

    Refuses a file that cannot be written, that is also read, that two options name, or whose name promises another
    format, before any work is done for it.
    """

    def __init__(
        self, outputs: dict[str, str | None], inputs: dict[str, str | None], endings: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._failures: list[str] = []
        written: list[tuple[str, Path]] = []
        read = [(name, as_path(path)) for name, path in inputs.items() if path is not None]
        for name, path in outputs.items():
            if path is None:
                continue
            file = as_path(path)
            problem = obstacle(file)
            if problem:
                raise InvalidInput(f"cannot write {path}: {problem}")
            for other, taken in [*read, *written]:
                # Whatever goes to /dev/null or a terminal replaces nothing.
                if same_file(file, taken) and not file.is_char_device():
                    raise InvalidInput(f"{name} and {other} are the same file, {path}; choose another for {name}")
            ending, own = file.suffix.lower(), endings[name]
            if ending in FORMATS and ending not in own:
                raise InvalidInput(f"{name} does not write {ending} files, got {path}; end it in {' or '.join(own)}")
            written.append((name, file))

    def save(self, path: str | Path | None, write: Callable[[Path], Any]) -> None:
        """Writes a file, if wanted, with `write(path)` and says so; failing that, elsewhere, as `finish` tells."""
        if path is None:
            return
        file = as_path(path)
        try:
            with postponed():
                write(file)
        except BrokenPipeError:  # its reader has seen enough
            return
        except InvalidInput as error:
            other = _stand_in(file, write)
            if other is None:
                raise
            self._failures.append(f"{error}; it is in {other} instead")
        else:
            screen.say(f"wrote      {path}")

    def finish(self) -> None:
        """Refuses to end well if a file is not where it should be."""
        if self._failures:
            raise InvalidInput("; ".join(self._failures))


def _stand_in(file: Path, write: Callable[[Path], Any]) -> Path | None:
    """Another file that could be written: beside the one wanted or, failing that, in the folder for temporary files."""
    beside = [file.parent] if file.is_file() or not file.exists() else []  # not in /dev
    for folder in (*beside, Path(tempfile.gettempdir())):
        other = folder / f"{file.stem[:MAX_STEM]}.{secrets.token_hex(4)}{file.suffix[:MAX_STEM]}"
        try:
            write(other)
        except InvalidInput:
            continue
        return other
    return None
