"""`treeproof guard`: the label of a row where it is proved, "abstain" elsewhere."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treeproof.cli import screen
from treeproof.cli.attackers import AttackerChoice, say_attacker
from treeproof.cli.options import (
    ModelFile,
    Source,
    chunk_rows_option,
    jobs_option,
    option,
    raw_csv_option,
    relations_option,
    say_assumed,
    say_cut,
    seconds_option,
    takes,
)
from treeproof.cli.outputs import Outputs
from treeproof.cli.stopping import postponed
from treeproof.errors import InvalidInput
from treeproof.files import file_stamp, write_parts
from treeproof.numbers.patience import in_time
from treeproof.results.attacker_words import in_vain_in_words
from treeproof.results.csv_text import appended, as_csv
from treeproof.results.measures import MISSING_STAYS, missing_in_words
from treeproof.results.relation_words import CHECK_RELATIONS, are_doubtful, broken_in_short
from treeproof.run.limits import Limits
from treeproof.run.parts import Parts
from treeproof.run.progress import progress_line
from treeproof.tables.chunks import RowFiles
from treeproof.tables.csv_files import ending_of
from treeproof.tables.parquet_files import ARROW, arrow_rows, as_parquet, need_pyarrow
from treeproof.threat.one_hot import bind_valid
from treeproof.threat.reached import InVain, moved_in_vain

if TYPE_CHECKING:
    from treeproof import Attacker, Ensemble, GuardedClassifier
    from treeproof.tables.table import Matched, Table
    from treeproof.threat.relations import Relation

ABSTAIN = "abstain"
PARQUET = ".parquet"


@dataclass(frozen=True)
class GuardOptions:
    """What an answer promises, and where the answers go."""

    relations_file: str | None = relations_option()
    map_file: str | None = option("--map", metavar="FILE", help="A map of the model; it comes with its attacker.")
    out: str = option(
        required=True,
        metavar="PATH",
        help="Where DATA goes with one more column: a .csv, .tsv or .parquet file; or a folder (with a slash), in "
        "parts of the kind of DATA.",
    )
    column: str = option(default="prediction", show_default=True, metavar="NAME", help="The name of that column.")
    raw_csv: bool = raw_csv_option()
    chunk_rows: int | None = chunk_rows_option()
    resume: bool = option(is_flag=True, help="Go on from what is already in the folder.")
    promise: str | None = option(
        metavar="genuine|stable",
        help="Whether rows may be attacked already (genuine; the default for a goal), or are as before an attack.",
    )
    timeout: float | None = seconds_option(help="Seconds per row before abstaining.")
    jobs: int = jobs_option()


@click.command()
@takes(ModelFile, Source, AttackerChoice, GuardOptions)
def guard(model: ModelFile, source: Source, choice: AttackerChoice, asked: GuardOptions) -> None:
    """Predict the rows of DATA, but abstain wherever the attacker could change the answer.

    \b
    treeproof guard model.json new.csv --delta 0.05 --relative --ranges train.csv --out labelled.csv
    treeproof guard model.json new.csv --map model.tpm --out labelled.csv
    treeproof guard model.json 'new/*.parquet' --delta 0.05 --out labelled/
    """
    import treeproof as tp

    relations, out = choice.relations(asked.relations_file), asked.out
    in_parts = out.endswith("/")
    if not in_parts and (asked.chunk_rows is not None or asked.resume):
        raise InvalidInput("--chunk-rows and --resume need a folder as --out; end it with a slash")
    read = {"MODEL": model.path, "DATA": source.file, "--map": asked.map_file, "--relations": asked.relations_file}
    outputs = Outputs(
        {} if in_parts else {"--out": out}, {**read, **choice.files}, {"--out": (".csv", ".tsv", PARQUET)}
    )
    if out.lower().endswith(PARQUET):
        need_pyarrow("--out")
    rows = source.files(asked.chunk_rows, keep=True) if in_parts else source.table(keep=True)
    matched = rows.matched(model.load(), source.label, source.dropped)
    ensemble = matched.ensemble
    _refuse_column(rows.heads if isinstance(rows, RowFiles) else [rows], asked.column)
    smap = None if asked.map_file is None else tp.StabilityMap.load(asked.map_file, ensemble)
    if smap is not None and (relations or any(vars(choice).values())):
        raise InvalidInput("a map comes with its attacker; leave out --map, or --delta, --relations and the like")
    attacker = _attacker(choice, source, ensemble, relations) if smap is None else smap.attacker
    screen.announce_compilation()
    guarded = tp.GuardedClassifier(
        ensemble,
        attacker,
        mode="online" if smap is None else "map",
        promise=asked.promise,
        stability_map=smap,
        relations=relations or None,
        timeout=asked.timeout,
        n_jobs=asked.jobs,
    ).fit()
    say_assumed(matched)
    say_cut(ensemble)
    say_attacker(attacker, ensemble, choice, relations)
    answers = _Answers(guarded, matched, source, asked)
    if isinstance(rows, RowFiles):
        _write_parts(answers, rows, asked)
        answers.show()
        return
    content = answers.content(rows, Path(out))
    answers.show()
    outputs.save(out, lambda file: write_parts(file, [content]))
    outputs.finish()


def _attacker(choice: AttackerChoice, source: Source, ensemble: Ensemble, relations: list[Relation]) -> Attacker:
    """The attacker, but never scaled by the rows to label: a promise must not depend on which rows come together."""
    if choice.relative and choice.ranges is None:
        raise InvalidInput(
            "--relative needs --ranges FILE here: the data, such as training data, to take the ranges from"
        )
    return choice.attacker(ensemble, choice.reference(source, ensemble, None), relations)


def _refuse_column(heads: list[Table], column: str) -> None:
    for head in heads:
        if column in head.columns:
            raise InvalidInput(f"{head.source} already has a column {column!r}; choose another name with --column")


class _Answers:
    """Tables with one more column, and what is counted on the way."""

    def __init__(self, guarded: GuardedClassifier, matched: Matched, source: Source, asked: GuardOptions) -> None:
        self.guarded, self.matched, self.source, self.asked = guarded, matched, source, asked
        self.counts: Counter[str] = Counter()
        """Sums over all tables so far."""
        self.threat = bind_valid(guarded.attacker, matched.ensemble, guarded.relations)

    def of(self, table: Table) -> list[str]:
        """The label of each row where it is proved, elsewhere that the guard abstains."""
        ensemble = self.matched.ensemble
        X = table.model_rows(ensemble, self.matched.columns)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=f".*{MISSING_STAYS}")  # said with the counts
            proved, predicted = self.guarded.is_proved(X), ensemble.predict(X)
        missing = int(self.guarded.has_missing(X).sum())
        broken = int(self.guarded.breaks_relations(X).sum())
        self.counts.update(rows=len(X), answered=int(proved.sum()), missing=missing, broken=broken)
        is_over = Limits.of(timeout=self.asked.timeout).for_rows(len(X))
        in_vain = in_time(is_over, lambda: moved_in_vain(self.threat, ensemble, X), InVain())
        self.counts.update(in_vain.counts(len(X)))
        if self.source.label in table.columns:
            right = predicted == table.labels(self.source.label, ensemble)
            self.counts.update(labelled=len(X), right=int(right.sum()), right_answers=int(right[proved].sum()))
        return [str(name) if known else ABSTAIN for name, known in zip(predicted.tolist(), proved, strict=True)]

    def content(self, table: Table, out: Path) -> bytes:
        """The table with the answers as the content of a file, of the kind that its name says."""
        if out.suffix.lower() != PARQUET:
            return self.as_csv(table, out)
        data = Path(self.source.file)
        answers: dict[str, Any] = {self.asked.column: self.of(table)}
        if data.suffix.lower() in ARROW:
            return as_parquet(answers, arrow_rows(data, self.source.max_bytes))
        return as_parquet({**table.plain_columns(), **answers})

    def as_csv(self, table: Table, file: Path) -> bytes:
        """The table with the answers as CSV text, written as DATA is or, if the file is a .tsv, with tabs."""
        style, raw = self.source.style, self.asked.raw_csv
        separator = "\t" if file.suffix.lower() == ".tsv" else style.separator_of(file)
        answers = [self.asked.column, *self.of(table)]
        columns = [[name, *column.tolist()] for name, column in table.columns.items()]
        if table.raw is None or separator != style.separator_of(Path(table.source)):
            text = as_csv(zip(*columns, answers, strict=True), raw, separator, style.decimal)
        else:
            records = [table.raw.head, *table.raw.records]
            text = appended(records, zip(*columns, answers, strict=True), raw, separator, style.decimal)
        return text.encode("utf-8", "backslashreplace")

    def show(self) -> None:
        """Prints how many rows have an answer, and how many answers are right if there are labels."""
        n, answered = self.counts["rows"], self.counts["answered"]
        screen.say(f"answered   {answered} of {n} rows, {answered / n:.1%}; the others are {ABSTAIN!r}")
        screen.say(f"promise    {self.guarded.promise_}: {self.guarded.promised}")
        movable = self.threat.movable.nonzero()[0].tolist()
        vain = InVain.of_counts(self.counts, n, movable)
        for statement in in_vain_in_words(vain, len(movable), self.matched.ensemble.feature_names):
            screen.say(f"in vain    {statement}")
        if self.counts["broken"]:
            doubtful = are_doubtful(self.counts["broken"], n)
            more = f", but {CHECK_RELATIONS}" if doubtful else ""
            said = f"{broken_in_short(self.counts['broken'])}; they are answered all the same, if proved{more}"
            screen.say(f"{'WARNING' if doubtful else 'invalid'}    {said}")
        if self.counts["missing"]:
            assumed = MISSING_STAYS if self.guarded.mode == "online" else "a map has no answer for them"
            screen.say(f"missing    {missing_in_words(self.counts['missing'], n, assumed)}")
        if self.counts["labelled"] == n:
            screen.say(f"accuracy   {self.counts['right'] / n:.3f} without the guard")
            if answered:
                share = self.counts["right_answers"] / answered
                screen.say(f"           {share:.3f} of the answers")


def _write_parts(answers: _Answers, files: RowFiles, asked: GuardOptions) -> None:
    """Writes the answers chunk by chunk; after Ctrl-C, chunks that are done stay."""
    guarded = answers.guarded
    question = {
        "model": answers.matched.ensemble.fingerprint.hex(),
        "attacker": json.loads(guarded.attacker.to_json()),
        "set of relations": list(map(str, guarded.relations or ())),
        "--promise": guarded.promise_,
        "map": None if asked.map_file is None else file_stamp(Path(asked.map_file)),
        "set of files": files.sources,
        "set of columns": [*answers.matched.columns, answers.source.label],
        "chunk_rows": files.chunk_rows,
        "--column or --raw-csv": [asked.column, asked.raw_csv],
        "--separator or --decimal": list(answers.source.style),
    }
    parts = Parts.open(asked.out, question, asked.resume)
    # Whatever earlier runs counted counts, too.
    answers.counts = parts.counts.copy()
    try:
        with progress_line(True, "guarding") as say:
            for chunk in files.chunks(parts.has):
                table, rows = chunk.load()
                before = answers.counts.copy()
                if rows is None:
                    ending = ".tsv" if ending_of(chunk.path) == ".tsv" else ".csv"
                    content = answers.as_csv(table, Path(f"part{ending}"))
                else:
                    ending, content = ".parquet", as_parquet({asked.column: answers.of(table)}, rows)
                with postponed():
                    parts.add(chunk.place, ending, content, dict(answers.counts - before))
                say(f"{answers.counts['rows']:,} rows")
            files.check_unchanged()
            parts.finish()
    except KeyboardInterrupt:
        screen.say(f"stopped    after {parts.counts['rows']} rows; go on with the same command and --resume")
        raise
    screen.say(f"wrote      {asked.out}")
