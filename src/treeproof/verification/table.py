"""Verdicts on tables of any size: rows from files in chunks, results to a folder in parts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from treeproof.errors import InvalidInput, counted
from treeproof.files import MAX_BYTES
from treeproof.importers import as_ensemble
from treeproof.model.agreement import check_agreement
from treeproof.model.ensemble import Ensemble
from treeproof.results.csv_text import as_csv
from treeproof.results.proof_file import header_of, whole_file
from treeproof.results.row_table import RowTable
from treeproof.results.table_summary import FORMATS, TableSummary, counts_of
from treeproof.results.verification import Verification
from treeproof.results.verification_file import epsilon_to_json
from treeproof.run.limits import Limits, as_count, check_jobs
from treeproof.run.parts import Parts
from treeproof.run.progress import progress_line
from treeproof.run.workers import n_workers, run_tasks
from treeproof.tables.chunks import CHUNK_ROWS, Chunk, Place, RowFiles
from treeproof.tables.csv_files import CsvStyle
from treeproof.tables.parquet_files import as_parquet, need_pyarrow
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.one_hot import bind_neighbours
from treeproof.threat.relations import Relation, as_relations
from treeproof.threat.threat import Threat
from treeproof.verification.possible import bind_possible
from treeproof.verification.proofs import check_limit
from treeproof.verification.request import Request, as_actors
from treeproof.verification.rows import replay_witnesses
from treeproof.verification.verify import neighbourhoods, verify_here

MOST_WAITING = 16
"""Chunks that may be on their way at a time, where there are few workers."""


@dataclass(frozen=True, eq=False)
class _Question:
    """What is asked about every chunk, and how the answer is written; it travels to other processes, once."""

    ensemble: Ensemble
    attacker: Attacker
    epsilons: tuple[Any, ...]
    actors: tuple[Any, ...] | None
    relations: tuple[Relation, ...]
    columns: list[str]
    label: str
    format: str
    raw: bool
    witnesses: bool
    proof_limit: int
    """The most bytes of a proof; 0: none are written."""
    has_source: bool
    """Whether the library's own model is to be asked about the rows; it stays where the results come together."""


class _Task(NamedTuple):
    """A chunk to verify."""

    chunk: Chunk
    limits: Limits


class _Part(NamedTuple):
    """The verdicts on a chunk as the content of a file."""

    place: Place
    name: str
    """Of the file that the rows are from."""
    first_row: int
    content: bytes
    counts: dict[str, int]
    evidence: RowTable | None
    """What the library's own model is to be asked about, if there is one."""
    proofs: dict[str, bytes]
    """The result and what proves it, as files by their endings, if that is wanted."""


def verify_table(
    model: Any,
    rows: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    attacker: Attacker,
    *,
    out: str | os.PathLike[str],
    label: str = "label",
    drop: Sequence[str] = (),
    epsilon: Any = None,
    epsilons: Sequence[Any] | None = None,
    actors: Any = None,
    relations: Any = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    voting: Any = None,
    resume: bool = False,
    chunk_rows: int = CHUNK_ROWS,
    witnesses: bool = False,
    proofs: bool = False,
    proof_limit: int | None = None,
    format: str | None = None,
    raw: bool = False,
    max_bytes: int = MAX_BYTES,
    separator: str | None = None,
    decimal: str = ".",
) -> TableSummary:
    r"""Does what `verify` does for the rows of CSV or Parquet files that need not fit into memory.

    `rows` is a path, a pattern such as "rows/*.parquet", or a list of them; `label` names the column with the labels,
    `drop` columns that are neither label nor features. Columns are found by name if the model has names, else every
    other column is a feature. Verdicts go to the folder `out`, one file for each chunk of `chunk_rows` rows (or row
    group, if that is smaller), in the `format` "parquet" or "csv" (None: that of the first file). They have the
    columns `file`, `row` (its number there, from 0) and those of `Verification.to_frame`; the moves of counterexamples
    are there if `witnesses`. `raw` as in `Verification.to_csv`. `separator` and `decimal` say how CSV files are
    written, if not with commas between values and points before decimals. With `proofs=True`, the folder `proofs` in
    `out` has two files more for each chunk, for `check_proofs`: its result, .json, and what proves that, .tpp;
    `proof_limit` is that of `verify`.

    With `resume=True`, chunks that are already in `out` are not verified again; `out` must hold results of the same
    question, or be new. After Ctrl-C, or `max_seconds`, whole chunks are kept. A chunk is a task for one of `n_jobs`
    workers: threads, or whatever `joblib.parallel_config` says. Row groups of at most `chunk_rows` rows are read by
    the workers themselves, so on a cluster all machines must see the files. A chunk of more than `max_bytes` is
    refused. `epsilon`, `epsilons`, `actors`, `relations`, `timeout` and `voting` are those of `verify`; what rows break
    themselves is in the column `breaks`. One parameter per choice that users have. Long because of them.

    >>> import pathlib, tempfile
    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = pathlib.Path(folder, "rows.csv")
    ...     _ = rows.write_text("x,label\n0.1,0\n0.9,1\n0.45,0\n")
    ...     verify_table(tree, rows, tp.Attacker.linf(0.2), out=rows.with_name("verdicts")).by_class
    {0: Measures(2 rows, accuracy 1.000, robustness 0.500), 1: Measures(1 rows, accuracy 1.000, robustness 1.000)}
    """
    limits = Limits.of(timeout=timeout, max_seconds=max_seconds)
    check_jobs(n_jobs)
    size = as_count(chunk_rows, "chunk_rows")
    if size is None:
        raise InvalidInput(f"chunk_rows must be a whole number of at least 1, got {chunk_rows!r}")
    check_attacker(attacker)
    ensemble = as_ensemble(model, voting=voting)
    files = RowFiles(rows, size, max_bytes, CsvStyle.of(separator, decimal))
    matched = files.matched(ensemble, label, _listed(drop))
    files.need_column(label)
    files.columns = (*matched.columns, label)
    given = neighbourhoods(epsilon, epsilons)
    question = _Question(
        matched.ensemble.without_source(),
        attacker,
        given,
        None if actors is None else as_actors(actors, matched.ensemble),
        as_relations(relations),
        matched.columns,
        label,
        _checked_format(format, files),
        bool(raw),
        bool(witnesses),
        _checked_limit(proofs, proof_limit),
        ensemble.source is not None,
    )
    # What cannot be bound is refused before there is a folder.
    threat = bind_possible(attacker, matched.ensemble, question.relations)
    bind_neighbours(given, matched.ensemble, threat)
    parts = Parts.open(out, _as_json(question, files), resume)
    interrupted = _Work(matched.ensemble, question, files, parts, limits).run(n_jobs, progress)
    return _summary(question, threat, parts, interrupted)


def _summary(question: _Question, threat: Threat, parts: Parts, interrupted: bool) -> TableSummary:
    return TableSummary(
        counts=dict(parts.counts),
        epsilons=question.epsilons,
        out=parts.folder,
        classes=tuple(question.ensemble.classes.tolist()),
        seconds=parts.seconds,
        complete=parts.complete,
        interrupted=interrupted,
        feature_names=question.ensemble.feature_names,
        movable=tuple(np.flatnonzero(threat.movable).tolist()),
        actors=question.actors,
        relations=question.relations,
    )


def _listed(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _checked_limit(proofs: Any, limit: Any) -> int:
    if not isinstance(proofs, bool):
        raise InvalidInput(
            f"proofs must be True or False, got {proofs!r}: each part has a file of its own in the folder",
            argument="proofs",
        )
    return check_limit(True if proofs else None, limit)


def _checked_format(given: Any, files: RowFiles) -> str:
    chosen = given if given is not None else FORMATS[0] if files.is_parquet else FORMATS[1]
    if chosen not in FORMATS:
        raise InvalidInput(f"format must be one of {', '.join(map(repr, FORMATS))}, got {given!r}")
    if chosen == FORMATS[0]:
        need_pyarrow("format='parquet'")
    return str(chosen)


def _as_json(question: _Question, files: RowFiles) -> dict[str, Any]:
    """What must be the same for parts to belong together; messages call it by these names."""
    return {
        "model": question.ensemble.fingerprint.hex(),
        "set of classes": [str(label) for label in question.ensemble.classes.tolist()],
        "attacker": json.loads(question.attacker.to_json()),
        "epsilon": [epsilon_to_json(one) for one in question.epsilons],
        "choice of actors": None if question.actors is None else [str(label) for label in question.actors],
        "set of relations": list(map(str, question.relations)),
        "set of files": files.sources,
        "label": question.label,
        "separator or decimal": list(files.style),
        "set of columns": question.columns,
        "chunk_rows": files.chunk_rows,
        "format": [question.format, question.raw],
        "choice of witnesses": question.witnesses,
        **({"choice of proofs or proof_limit": question.proof_limit} if question.proof_limit else {}),
    }


@dataclass(eq=False)
class _Work:
    """The chunks that are left, on their way to workers and back."""

    ensemble: Ensemble
    question: _Question
    files: RowFiles
    parts: Parts
    limits: Limits
    failure: Exception | None = None
    given: int = 0
    """The number of chunks that were handed out."""
    answered: int = 0
    all_given: bool = False
    all_whole: bool = True

    def run(self, n_jobs: int | None, progress: bool) -> bool:
        """Verifies what is left; returns whether Ctrl-C ended it."""
        most, interrupted = max(MOST_WAITING, 4 * n_workers(n_jobs)), False
        chunks = self.files.chunks(self.parts.has)
        with progress_line(progress, "verifying") as say:

            def take(_: int, part: _Part | None) -> None:
                self._take(part)
                say(f"{self.parts.counts['rows']:,} rows")

            while not (self.all_given or self.failure or interrupted or self.limits.is_over()):
                tasks = self._tasks(chunks, most)
                interrupted = run_tasks(_verify_chunk, self.question, tasks, self.limits, n_jobs, take)
        if self.failure is not None:
            raise self.failure
        if self.all_given and self.all_whole and self.answered == self.given and not self.parts.complete:
            self.files.check_unchanged()
            self.parts.finish()
        return interrupted

    def _tasks(self, chunks: Iterator[Chunk], most: int) -> Iterator[_Task]:
        """The next tasks. There is an end to them if answers wait: joblib itself would fill the memory with those."""
        try:
            while self.given - self.answered < most and not self.limits.is_over():
                chunk = next(chunks, None)
                if chunk is None:
                    self.all_given = True
                    return
                self.given += 1
                yield _Task(chunk, self.limits)
        except Exception as error:  # joblib asks in threads of its own, where an error would be lost
            self.failure = error

    def _take(self, part: _Part | None) -> None:
        """Writes a part, once the library's own model agrees; None stands for one that was cut short."""
        if part is None:
            self.all_whole = False
        else:
            if part.evidence is not None:
                with counted(range(part.first_row, part.first_row + len(part.evidence)), where=part.name):
                    check_agreement(self.ensemble, part.evidence.X)
                    replay_witnesses(self.ensemble, part.evidence)
            self.parts.add(part.place, f".{self.question.format}", part.content, part.counts, part.proofs)
        self.answered += 1


def _verify_chunk(question: _Question, task: _Task) -> _Part | None:
    """Verifies one chunk, in whichever worker joblib chose; None if there was no time for all of it."""
    if task.limits.is_over():
        return None
    table, _ = task.chunk.load()
    X, labels = table.model_rows(question.ensemble, question.columns), table.labels(question.label, question.ensemble)
    with table.counted_here():
        asked = Request.of_chunk(question.ensemble, X, labels, question.attacker, question.relations, question.actors)
    first, name = task.chunk.first_row, task.chunk.name
    with counted(range(first, first + len(asked.X)), where=name):
        result, proofs = verify_here(asked, question.epsilons, task.limits, question.proof_limit)
    if task.limits.is_over() and result.rows.is_open.any():
        return None
    content = _content(question, task.chunk, result)
    counts = counts_of(result, question.ensemble.classes.tolist())
    written: dict[str, bytes] = {}
    if question.proof_limit:
        header = header_of(asked.ensemble, asked.attacker, question.relations, question.epsilons, asked.X)
        written = {".json": result.to_json().encode(), ".tpp": whole_file(header, proofs)}
    return _Part(task.chunk.place, name, first, content, counts, result.rows if question.has_source else None, written)


def _content(question: _Question, chunk: Chunk, result: Verification) -> bytes:
    """The file of a part."""
    n = len(result)
    columns = {
        "file": [chunk.name] * n,
        "row": list(range(chunk.first_row, chunk.first_row + n)),
        **result.to_columns(moved=question.witnesses),
    }
    if question.format == FORMATS[0]:
        return as_parquet(columns)
    return as_csv([list(columns), *zip(*columns.values(), strict=True)], question.raw).encode()
