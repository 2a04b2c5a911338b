"""Results written part by part: a folder of files, and a manifest that says what they answer and which are there.

A part takes its place as a whole, and only then the manifest counts it. So whatever ends the work, the manifest is
true, and a part that it does not count is made again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treeproof.errors import InvalidInput
from treeproof.files import as_path, obstacle, parse_json, read_text, write_parts, write_whole
from treeproof.run import clock

FORMAT, VERSION = "treeproof-parts", 1
MANIFEST = "manifest.json"
PROOFS = "proofs"

Range = list[int]
"""The first number and the one after the last."""


class Parts:
    """The folder, and what its manifest says; `open` makes it, or goes on where one was left."""

    def __init__(self, folder: Path, question: dict[str, Any]) -> None:
        self.folder, self.question = folder, question
        self.counts: Counter[str] = Counter()
        """Sums over all parts of what was counted in them."""
        self.complete = False
        self._done: dict[int, list[Range]] = {}
        self._spent, self._began = 0.0, clock.now()

    @classmethod
    def open(cls, folder: Any, question: dict[str, Any], resume: bool) -> Parts:
        """The parts in this folder, none if it is new; InvalidInput if they answer another question.

        The question is what JSON can hold; messages call its entries by their keys.
        """
        parts = cls(as_path(folder), json.loads(json.dumps(question)))
        manifest = parts.folder / MANIFEST
        if manifest.exists():
            if not resume:
                raise InvalidInput(
                    f"{folder} already holds results", argument="resume", way_out="resume=True goes on from them"
                )
            parts._take_over(manifest)
        elif parts.folder.exists() and not _is_empty(parts.folder):
            raise InvalidInput(f"{folder} is not an empty folder, and has no {MANIFEST}; choose another")
        try:
            parts.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot make the folder {folder}: {error.strerror}") from None
        problem = obstacle(manifest)
        if problem:
            raise InvalidInput(f"cannot write {manifest}: {problem}")
        parts._write()
        return parts

    @property
    def seconds(self) -> float:
        """How long the work has taken so far, in all runs."""
        return self._spent + clock.now() - self._began

    def has(self, place: tuple[int, int]) -> bool:
        """Whether the part for this place (the number of a file, and of a chunk in it) is there."""
        return any(first <= place[1] < end for first, end in self._done.get(place[0], ()))

    def add(
        self,
        place: tuple[int, int],
        ending: str,
        content: bytes,
        counts: dict[str, int],
        proofs: Mapping[str, bytes] | None = None,
    ) -> None:
        """Writes a part, and then the manifest that counts it; before both, what proves it, in files by their endings.

        These are of the same name, in a folder of their own.
        """
        name = f"part-{place[0]:05}-{place[1]:06}"
        for own, proof in (proofs or {}).items():
            (self.folder / PROOFS).mkdir(exist_ok=True)
            write_parts(self.folder / PROOFS / f"{name}{own}", [proof])
        write_parts(self.folder / f"{name}{ending}", [content])
        self.counts.update(counts)
        self._done[place[0]] = _joined([*self._done.get(place[0], ()), [place[1], place[1] + 1]])
        self._write()

    def finish(self) -> None:
        """Notes that all parts are there."""
        self.complete = True
        self._write()

    def _write(self) -> None:
        content = {
            "format": FORMAT,
            "version": VERSION,
            "question": self.question,
            "done": sorted([file, ranges] for file, ranges in self._done.items()),
            "counts": dict(self.counts),
            "seconds": self.seconds,
            "complete": self.complete,
        }
        write_whole(self.folder / MANIFEST, json.dumps(content))

    def _take_over(self, manifest: Path) -> None:
        """Takes over what the manifest of an earlier run says."""
        try:
            content = parse_json(read_text(manifest))
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"it is not version {VERSION} of {FORMAT}")
            self._done = {int(file): _joined(ranges) for file, ranges in content["done"]}
            self.counts = Counter({str(name): int(count) for name, count in content["counts"].items()})
            self._spent, self.complete = float(content["seconds"]), content["complete"] is True
            earlier = dict(content["question"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            said = f"{error} is missing" if isinstance(error, KeyError) else error
            raise InvalidInput(f"{manifest} is not a manifest: {said}; choose another folder") from None
        for what in (*self.question, *earlier):
            if self.question.get(what) != earlier.get(what):
                raise InvalidInput(
                    f"{os.fspath(self.folder)} holds results for a different {what}; choose another folder"
                )


def _is_empty(path: Path) -> bool:
    """Whether this is a folder with nothing but hidden files, such as a write that was cut off leaves behind."""
    return path.is_dir() and all(one.name.startswith(".") for one in path.iterdir())


def _joined(ranges: list[Any]) -> list[Range]:
    """The same numbers in as few ranges as possible."""
    out: list[Range] = []
    for first, end in sorted([int(first), int(end)] for first, end in ranges):
        if out and first <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([first, end])
    return out
