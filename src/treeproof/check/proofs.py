"""Checks the proofs of a result from Python: the same checks as `python -m treeproof.check`, in several processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from treeproof import __version__
from treeproof.check.attacks import ATTACKS, question_of
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Checked, Question, check_header, check_rows
from treeproof.check.rules import Rejected
from treeproof.errors import InvalidInput
from treeproof.files import MAX_BYTES, as_path, parse_json, read_text
from treeproof.importers.native import as_text
from treeproof.importers.registry import as_ensemble, load_model
from treeproof.results.column_words import joined
from treeproof.results.proof_counts import ProofCounts
from treeproof.results.verification import Verification
from treeproof.run.limits import Limits
from treeproof.run.progress import progress_bar
from treeproof.run.workers import in_groups, n_workers, run_tasks

INTERRUPTED = "Ctrl-C came before it was checked"
MOST_ROWS = 20
"""Rows that a worker is given at a time, at most."""
MOST_NAMED = 5
"""Rows and reasons that a paragraph names, at most."""


@dataclass(frozen=True, eq=False)
class ProofCheck:
    """Which proved rows of a result have proofs that hold; printed, it is a paragraph."""

    checked: tuple[int, ...]
    """The rows of which all that the result calls proved is proved."""
    rejected: dict[int, str]
    """The rows whose proofs do not hold, and why."""
    unchecked: dict[int, str]
    """The rows of which something is called proved that has no proof here, and why."""
    boxes: int
    """How many boxes were closed."""
    interrupted: bool = False
    version: str = __version__
    """Of the checker."""

    @property
    def counts(self) -> ProofCounts:
        """How many rows these are."""
        return ProofCounts(len(self.checked), len(self.rejected), len(self.unchecked), self.version)

    def noted_in(self, result: Verification) -> Verification:
        """The same result, which says in its file and in reports how many of its proofs were checked."""
        return replace(result, proofs=self.counts)

    def __str__(self) -> str:
        parts = (("Rejected", self.rejected), ("Not checked", self.unchecked))
        return " ".join([self.counts.in_words, *(f"{word}: {_named(some)}." for word, some in parts if some)])

    __repr__ = __str__


def by_reason(reasons: dict[int, str]) -> list[tuple[str, str]]:
    """The first rows of each reason, in words, and the reason."""
    rows: dict[str, list[int]] = {}
    for row, why in reasons.items():
        rows.setdefault(why, []).append(row)
    return [(f"{'row' if len(some) == 1 else 'rows'} {_first(some)}", why) for why, some in rows.items()]


def _named(reasons: dict[int, str]) -> str:
    """The first rows of each reason, and the first reasons."""
    parts = [f"{rows} ({why})" for rows, why in by_reason(reasons)]
    more = [f"rows with {len(parts) - MOST_NAMED:,} other reasons"] * (len(parts) > MOST_NAMED)
    return "; ".join(parts[:MOST_NAMED] + more)


def _first(rows: list[int]) -> str:
    more = [f"{len(rows) - MOST_NAMED:,} more"] * (len(rows) > MOST_NAMED)
    return joined([*map(str, rows[:MOST_NAMED]), *more])


def check_proofs(
    model: Any,
    result: Any,
    proofs: str | os.PathLike[str],
    *,
    rows: Iterable[int] | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> ProofCheck:
    """Checks what `verify(…, proofs=…)` wrote: whether each row that the result calls proved has a proof that holds.

    `model` is the model, or the path of its file; `result` is the result, or the path of its file; so with the
    `CheapestAttacks` and proofs of `cheapest_attack`. Nothing is searched
    and no engine is used; the checks are those of `python -m treeproof.check`. `rows` are those to check, all that are
    proved if it is not given. `n_jobs` processes work at a time. After Ctrl-C, what was checked by then is returned.
    Proofs about another model, attacker, ε or other rows are refused with InvalidInput, and so is a file that is no
    file of proofs, or not whole.

    >>> import tempfile, treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     proofs = f"{folder}/proofs.tpp"
    ...     result = tp.verify(clf, [[0.0], [0.9]], [0, 1], tp.Attacker.linf(0.1), proofs=proofs, progress=False)
    ...     tp.check_proofs(clf, result, proofs, progress=False).checked
    (0, 1)
    """
    asked = Asked.of(model, result, proofs)
    wanted = asked.question.proved_rows
    if rows is not None:
        chosen = _chosen(rows, len(asked.result["X"]))
        wanted = [row for row in wanted if row in chosen]
    found, limits = Checked(), Limits()
    # Small groups, so that workers end at about the same time and little is lost by Ctrl-C.
    groups = in_groups(len(wanted), max(1, min(MOST_ROWS, len(wanted) // (8 * n_workers(n_jobs)))))
    tasks = [[wanted[place] for place in group.tolist()] for group in groups]
    with progress_bar(progress, len(wanted), "checking") as advance:

        def take(number: int, answer: Checked) -> None:
            found.add(answer)
            advance(len(tasks[number]))

        interrupted = run_tasks(_check, asked, tasks, limits, n_jobs, take, prefer="processes")
    known = {*found.checked, *found.rejected, *found.unchecked}
    late = {row: INTERRUPTED for row in wanted if row not in known}
    return ProofCheck(
        tuple(sorted(found.checked)),
        dict(sorted(found.rejected.items())),
        dict(sorted({**found.unchecked, **late}.items())),
        found.boxes,
        interrupted,
    )


def _chosen(rows: Any, n: int) -> set[int]:
    """The numbers of some of n rows, or InvalidInput."""
    given = rows.tolist() if hasattr(rows, "tolist") else rows
    given = list(given) if isinstance(given, Iterable) else [given]
    for row in given:
        if type(row) is not int or not 0 <= row < n:
            raise InvalidInput(f"rows must be numbers of rows, from 0 to {n - 1}, got {row!r}", argument="rows")
    return set(given)


@dataclass(frozen=True)
class Asked:
    """What is to be proved and the proofs of it, as files say it; each process reads it once."""

    model: dict[str, Any]
    result: dict[str, Any]
    proofs: ProofFile

    @classmethod
    def of(cls, model: Any, result: Any, proofs: Any) -> Asked:
        """The same for objects or paths; InvalidInput if the proofs are about something else."""
        said = _content_of(result)
        ensemble = load_model(model) if isinstance(model, (str, os.PathLike)) else as_ensemble(model)
        asked = cls(json.loads(as_text(ensemble)), said, open_proofs(proofs))
        name = result if isinstance(result, (str, os.PathLike)) else "the result"
        try:
            question = asked.question
        except Rejected as error:
            raise InvalidInput(f"{name} cannot be checked: {error}") from None
        try:
            check_header(question, asked.proofs)
        except Rejected as error:
            raise InvalidInput(f"{proofs} cannot be checked: {error}") from None
        return asked

    @cached_property
    def question(self) -> Question:
        """What the result says was asked."""
        return question_of(self.model, self.result)


def _content_of(result: Any) -> dict[str, Any]:
    """What the file of a result or of cheapest attacks says, for these or for its path."""
    if not hasattr(result, "to_json"):
        attacks = attacks_in(result)
        if attacks is not None:
            return attacks
        result = Verification.from_json(result)
    return dict(json.loads(result.to_json()))


def attacks_in(path: Any, max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
    """What a file says that is one of cheapest attacks; None if it is something else, or cannot be read."""
    try:
        content: dict[str, Any] = parse_json(read_text(as_path(path), max_bytes))
        return content if content["format"] == ATTACKS else None
    except (LookupError, TypeError, ValueError, RecursionError):
        return None


def open_proofs(path: Any) -> ProofFile:
    """A file of proofs, or InvalidInput."""
    file = as_path(path).absolute()
    try:
        return ProofFile.open(file)
    except Rejected as error:
        raise InvalidInput(str(error)) from None
    except OSError as error:
        begun = file.with_name(f"{file.name}.part")
        more = f"; {begun.name} was begun and not finished: resume goes on with it" if begun.exists() else ""
        raise InvalidInput(f"cannot read {path}: {error.strerror}{more}") from None


def _check(asked: Asked, rows: list[int]) -> Checked:
    """Checks a few rows; runs in whichever worker joblib chose."""
    found = Checked()
    for _, one in check_rows(asked.question, asked.proofs, rows):
        found.add(one)
    return found
