"""`treeproof verify`: which predictions on a data file hold, with a report and a gate for CI."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from treeproof.cli import screen
from treeproof.cli.attackers import AttackerChoice, say_attacker
from treeproof.cli.epsilon import Neighbourhood, neighbourhoods
from treeproof.cli.gates import Found, Gates
from treeproof.cli.options import (
    ModelFile,
    Source,
    chunk_rows_option,
    jobs_option,
    named_classes,
    option,
    raw_csv_option,
    relations_option,
    say_actors,
    say_assumed,
    seconds_option,
    takes,
)
from treeproof.cli.outputs import Outputs
from treeproof.cli.stopping import Checkpoints
from treeproof.errors import InvalidInput
from treeproof.files import write_whole
from treeproof.results.attacker_words import larger_steps_in_words, neighbours_in_words
from treeproof.results.markup import number
from treeproof.results.measures import Measures, missing_in_words
from treeproof.results.sentences import RESILIENT, RIGHT, ROBUST
from treeproof.results.table_summary import FORMATS
from treeproof.results.verdicts import Bounds, short
from treeproof.threat.larger_steps import in_larger_steps
from treeproof.threat.one_hot import bind_valid_epsilon
from treeproof.threat.relations import bind_relations
from treeproof.verification.witnesses import moved_features

if TYPE_CHECKING:
    from treeproof import Attacker, Verification
    from treeproof.tables.table import Matched
    from treeproof.threat.relations import Relation

ENDINGS = {"--json": (".json",), "--csv": (".csv",), "--report": (".html", ".htm"), "--proofs": (".tpp",)}
"""What the names of files that are written end in."""

WITNESSES, CLASSES = 3, 20
"""How many counterexamples and classes are printed."""


@dataclass(frozen=True)
class VerifyOptions:
    """What is asked, within which limits, and where the answers go."""

    epsilon: str | None = option(
        metavar="E[,E…]", help="Neighbourhoods of resilience, or one as name=E,name=any,name=A,B,…"
    )
    relations_file: str | None = relations_option()
    actors: str | None = option(metavar="CLASS,…", help="Only rows of these true classes are attacked.")
    timeout: float | None = seconds_option(help="Seconds per row and neighbourhood before it is left open.")
    max_seconds: float | None = seconds_option()
    jobs: int = jobs_option()
    report: str | None = option(metavar="FILE", help="Write a report, one HTML file that needs nothing else.")
    json_file: str | None = option("--json", metavar="FILE", help="Write every verdict and counterexample, exactly.")
    csv_file: str | None = option("--csv", metavar="FILE", help="Write one line per row.")
    raw_csv: bool = raw_csv_option()
    proofs: str | None = option(metavar="FILE", help="Write what proves rows, for others to check.")
    proof_limit: int | None = option(type=int, metavar="BYTES", help="Leave out longer proofs, and say so; 16 MiB.")
    out: str | None = option(
        metavar="FOLDER", help="Write verdicts in parts as they come: DATA may be larger than memory."
    )
    chunk_rows: int | None = chunk_rows_option()
    out_format: str | None = option(
        "--format", type=click.Choice(FORMATS), help="With --out: what is written; as DATA is."
    )
    part_proofs: bool = option(is_flag=True, help="With --out: write what proves each part, and its result.")
    witnesses: bool = option(is_flag=True, help="With --out: write what counterexamples move.")
    resume: bool = option(is_flag=True, help="Go on from what is already in the --json file, or in the --out folder.")
    fail_under_robustness: tuple[str, ...] = option(
        multiple=True,
        metavar="[CLASS=]X",
        help="Exit with 1 unless at least X of the rows, or of those of a class, are proved. Repeat it, or use commas.",
    )
    fail_under_resilience: tuple[str, ...] = option(
        multiple=True, metavar="[CLASS=]X", help="The same for resilience, at every ε given."
    )
    strict: bool = option(
        is_flag=True,
        help="Exit with 1 if a column that may move reaches no threshold, most rows break relations, or some are "
        "resumed.",
    )

    @property
    def gates(self) -> Gates:
        """What must be proved for an exit code of 0."""
        gates = Gates.of(self.fail_under_robustness, self.fail_under_resilience, self.strict)
        if gates.resilience and self.epsilon is None:
            raise InvalidInput("--fail-under-resilience needs --epsilon, the size of the neighbourhoods")
        return gates

    @property
    def limits(self) -> dict[str, Any]:
        """The limits of a search, as the library takes them."""
        return {"timeout": self.timeout, "max_seconds": self.max_seconds, "n_jobs": self.jobs, "progress": True}


@click.command()
@takes(ModelFile, Source, AttackerChoice, VerifyOptions)
def verify(model: ModelFile, source: Source, choice: AttackerChoice, asked: VerifyOptions) -> None:
    """Which predictions of MODEL on the rows of DATA hold, whatever the attacker does?

    \b
    treeproof verify model.json test.csv --label y --delta 0.05 --epsilon 0.01,0.02 --report report.html
    treeproof verify model.onnx test.parquet --label y --attacker attacker.json --fail-under-robustness 0.9
    treeproof verify model.json 'rows/*.parquet' --label y --delta 0.05 --out verdicts
    """
    gates = asked.gates
    relations = choice.relations(asked.relations_file)
    written = {"--json": asked.json_file, "--csv": asked.csv_file, "--report": asked.report, "--proofs": asked.proofs}
    read = {"MODEL": model.path, "DATA": source.file, "--relations": asked.relations_file, **choice.files}
    outputs = Outputs(written, read, ENDINGS)
    if asked.proof_limit is not None and not (asked.proofs or asked.part_proofs):
        raise InvalidInput("--proof-limit goes with --proofs, or with --part-proofs")
    if asked.out is None:
        of_parts = {"--chunk-rows": asked.chunk_rows, "--format": asked.out_format, "--witnesses": asked.witnesses}
        _refuse({**of_parts, "--part-proofs": asked.part_proofs}, "goes with --out")
        found = _verify_at_once(model, source, choice, asked, relations, outputs)
    else:
        parts = "is one file for all rows; with --out, --part-proofs writes one for each part"
        _refuse({"--proofs": asked.proofs}, parts)
        _refuse(written, "needs all rows at once; leave it or --out out")
        found = _verify_in_parts(model, source, choice, asked, relations)
    gates.apply(found)


def _refuse(options: dict[str, Any], why: str) -> None:
    """Refuses options that do not go with the others."""
    for name, value in options.items():
        if value:
            raise InvalidInput(f"{name} {why}")


def _verify_at_once(
    model: ModelFile,
    source: Source,
    choice: AttackerChoice,
    asked: VerifyOptions,
    relations: list[Relation],
    outputs: Outputs,
) -> Found:
    """Verifies all rows, writes the files and prints what was found."""
    import treeproof as tp

    rows = source.rows(model.load())
    ensemble = rows.matched.ensemble
    asked.gates.check_classes(ensemble)
    y = rows.table.labels(source.label, ensemble)
    reference = choice.reference(source, ensemble, rows.X)
    attacker = choice.attacker(ensemble, reference, relations)
    around = neighbourhoods(asked.epsilon, choice.relative, reference, ensemble, relations)
    names = tuple(one.text for one in around)
    kept = Path(asked.json_file) if asked.json_file else Path(f"{Path(source.file).stem}.partial.json")
    attacked = named_classes(asked.actors, "--actors", ensemble)
    _say_question(rows.matched, f"{source.file}: {len(rows.X)} rows", attacker, choice, relations, around)
    say_actors(attacked)
    checkpoints, earlier = Checkpoints(kept), _earlier(kept, source.max_bytes) if asked.resume else None
    result = tp.verify(
        ensemble,
        rows.X,
        y,
        attacker,
        epsilons=[one.value for one in around] or None,
        actors=attacked,
        relations=relations,
        **asked.limits,
        resume=earlier,
        checkpoint=lambda now: checkpoints.save(replace(now, epsilon_names=names).to_json),
        proofs=asked.proofs,
        proof_limit=asked.proof_limit,
    )
    result = replace(result, epsilon_names=names)
    # Files come first: whoever reads the output may be gone.
    outputs.save(kept if asked.json_file or result.interrupted else None, result.to_json)
    outputs.save(asked.csv_file, lambda file: result.to_csv(file, raw=asked.raw_csv))
    if asked.proofs is not None and not result.interrupted:
        screen.say(f"wrote      {asked.proofs}")
    if asked.json_file is None and not result.interrupted and (checkpoints.written or asked.resume):
        checkpoints.remove()
    show(result)
    if result.interrupted:
        _stop(outputs, f"--resume{'' if asked.json_file else f' --json {kept}'}", asked.report)
    if asked.report:
        page = tp.report_html(ensemble, result, n_jobs=asked.jobs)
        outputs.save(asked.report, lambda file: write_whole(file, page))
    outputs.finish()
    return Found.of(result)._replace(is_resumed=earlier is not None)


def _verify_in_parts(
    model: ModelFile, source: Source, choice: AttackerChoice, asked: VerifyOptions, relations: list[Relation]
) -> Found:
    """Verifies files of any size, writes the verdicts to a folder and returns what they add up to."""
    import treeproof as tp

    assert asked.out is not None
    ensemble = model.load()
    actors = named_classes(asked.actors, "--actors", ensemble)
    asked.gates.check_classes(ensemble)
    files = source.files(asked.chunk_rows)
    matched = files.matched(ensemble, source.label, source.dropped)
    reference = choice.reference(source, matched.ensemble, None)
    attacker = choice.attacker(matched.ensemble, reference, relations)
    around = neighbourhoods(asked.epsilon, choice.relative, reference, matched.ensemble, relations)
    data = f"{source.file}{f': {len(files.names)} files' * (len(files.names) > 1)}"
    _say_question(matched, data, attacker, choice, relations, around)
    say_actors(actors)
    summary = tp.verify_table(
        matched.ensemble,
        files.names,
        attacker,
        out=asked.out,
        label=source.label,
        drop=source.dropped,
        epsilons=[one.value for one in around] or None,
        actors=actors,
        relations=relations,
        **asked.limits,
        chunk_rows=files.chunk_rows,
        format=asked.out_format,
        witnesses=asked.witnesses,
        raw=asked.raw_csv,
        proofs=asked.part_proofs,
        proof_limit=asked.proof_limit,
        resume=asked.resume,
        max_bytes=source.max_bytes,
        separator=source.separator,
        decimal=source.decimal,
    )
    summary = replace(summary, epsilon_names=tuple(one.text for one in around))
    screen.say(f"wrote      {asked.out}")
    _show_measures(Found.of(summary), summary.seconds)
    if not summary.complete:
        screen.say("stopped    before the last row; go on with the same command and --resume")
    if summary.interrupted:
        raise KeyboardInterrupt
    return Found.of(summary)._replace(is_resumed=asked.resume)


def _stop(outputs: Outputs, more: str, report: str | None) -> NoReturn:
    """Says how to go on after Ctrl-C; a report would take time that nobody wants to wait now."""
    outputs.finish()
    screen.say(f"stopped    go on with the same command and {more}")
    if report:
        screen.say(f"           {report} is not written: it is made when all is decided")
    raise KeyboardInterrupt


def _say_question(
    matched: Matched,
    data: str,
    attacker: Attacker,
    choice: AttackerChoice,
    relations: list[Relation],
    around: list[Neighbourhood],
) -> None:
    ensemble = matched.ensemble
    screen.say(f"model      {ensemble}")
    screen.say(f"data       {data}")
    say_assumed(matched)
    say_attacker(attacker, ensemble, choice, relations)
    names = screen.feature_names(ensemble.feature_names, ensemble.n_features)
    bound = bind_relations(relations, ensemble)
    for one in around:
        near = bind_valid_epsilon(one.value, ensemble, bound)
        known = [f for f, _ in ensemble.categories]
        shared = [f for f in in_larger_steps(attacker, one.value, names, len(names), known) if near.sizes[f]]
        near.sizes[shared] = 0.0
        said = neighbours_in_words(near, ensemble, names)
        said += f"; it is {larger_steps_in_words(shared, names)}" if shared else ""
        screen.say(f"near       ε = {one.text}: {said}")
    screen.announce_compilation()


def _earlier(file: Path, max_bytes: int) -> Verification | None:
    """The result to go on from, if there is one."""
    import treeproof as tp

    if not file.exists():
        screen.say(f"resume     there is no {file} yet: every row is verified")
        return None
    earlier = tp.Verification.from_json(file, max_bytes=max_bytes)
    known = int((earlier.stability != tp.Outcome.UNKNOWN).sum())
    screen.say(
        f"resume     {known} of {len(earlier)} rows taken over from {file}, not checked (treeproof check does that)"
    )
    return earlier


def show(result: Verification) -> None:
    """Prints the measures, the weakest features and the first counterexamples."""
    _show_measures(Found.of(result), result.seconds)
    weakest = _weakest(result)
    if weakest:
        screen.table(
            "features that counterexamples move", ("feature", "counterexamples", "typical move", "largest"), weakest
        )
    for name, which in (("broken", result.is_broken), ("nearby", result.is_broken_nearby)):
        rows = which.nonzero()[0].tolist()
        for row in rows[:WITNESSES]:
            screen.say(f"{name:11}{screen.in_words(result, row)}")
        if len(rows) > WITNESSES:
            screen.say(f"           and {len(rows) - WITNESSES} more rows")


def _show_measures(found: Found, seconds: float) -> None:
    """Prints the measures, of all rows and of each class."""
    all_rows = found.all_rows
    n = all_rows.rows
    lines: list[tuple[Any, ...]] = [
        ("accurate", f"{all_rows.accuracy:.3f}", all_rows.n_correct, RIGHT),
        _line("robust", all_rows.robustness, n, ROBUST),
    ]
    for name, bounds in zip(found.epsilons, all_rows.resilience_by_epsilon, strict=True):
        lines.append(_line(f"resilient, {name}", bounds, n, RESILIENT))
    screen.say()
    screen.table(f"{n} rows, {seconds:.2f} s", ("", "share", "rows", ""), lines)
    for statement in found.in_vain:
        screen.say(f"in vain    {statement}")
    if found.broken is not None:
        screen.say(f"{'WARNING' if found.is_doubtful else 'invalid'}    {found.broken}")
    if all_rows.rows_with_missing:
        screen.say(f"missing    {missing_in_words(all_rows.rows_with_missing, n)}")
        screen.say()
    if len(found.by_class) > 1:
        head = ("true class", "rows", "accurate", "robust", *(f"resilient, {name}" for name in found.epsilons), "open")
        screen.table("by true class", head, [_class_line(*one) for one in list(found.by_class.items())[:CLASSES]])
        if len(found.by_class) > CLASSES:
            screen.say(f"           and {len(found.by_class) - CLASSES} more classes; --json has them all")


def _class_line(label: Any, one: Measures) -> tuple[Any, ...]:
    shares = [short(bounds) for bounds in (one.robustness, *one.resilience_by_epsilon)]
    return (label, one.rows, f"{one.accuracy:.3f}", *shares, one.open_rows)


def _line(name: str, bounds: Bounds, n: int, meaning: str) -> tuple[str, str, int | str, str]:
    if bounds.exact:
        return name, short(bounds), round(bounds.lower * n) if n else 0, meaning
    undecided = bounds.upper - bounds.lower
    return name, short(bounds), f"{undecided:.1%} undecided", meaning


def _weakest(result: Verification, most: int = 5) -> list[tuple[str, int, str, str]]:
    names = screen.feature_names(result.feature_names, result.X.shape[1])
    return [
        (
            names[one.feature],
            one.count,
            one.most_often or number(one.median),
            "" if one.most_often else number(one.largest),
        )
        for one in moved_features(result, result.correct)[:most]
    ]
