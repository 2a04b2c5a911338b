"""`python -m treeproof.check MODEL RESULT PROOFS`: checks a result with nothing but Python's standard library."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from treeproof import __version__
from treeproof.check.attacks import Attacks, question_of
from treeproof.check.fields import read_json
from treeproof.check.maps import OPEN, MapQuestion, check_boxes
from treeproof.check.proof_file import ProofFile
from treeproof.check.results import check_result, check_told, in_words
from treeproof.check.rows import Checked, Question, check_header, check_rows
from treeproof.check.rules import Rejected


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if everything holds, 1 if something does not or has no proof, 2 if files are not what they must be."""
    parser = argparse.ArgumentParser(prog="treeproof.check", description="Checks a result or a map, and its proofs.")
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE",
        help="a model (treeproof.save_model), its result (treeproof verify --json) or its cheapest attacks, and their"
        " proofs (.tpp);"
        " or a map (.tpm) and its proofs",
    )  # fmt: skip
    parser.add_argument("--rows", metavar="N,…", help="only these rows, counted from 0; of a map, these boxes")
    parser.add_argument("--quiet", action="store_true", help="print nothing; the exit code says it")
    parser.add_argument("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    is_map = given.files[0].suffix == ".tpm"
    if len(given.files) != (2 if is_map else 3):
        parser.error("there must be three files, MODEL RESULT PROOFS, or two, MAP PROOFS")
    found, rows, told = Checked(), None, ""
    try:
        question, rows, each = (_of_map if is_map else _of_result)(given.files, given.rows)
        for _, one in each:
            found.add(one)
        told = _told(question)
    except (Rejected, OSError) as error:
        why = f"cannot read {error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(_line(f"treeproof.check: {why}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("treeproof.check: interrupted", file=sys.stderr)
        if rows is None:
            return 1
    checked = len({*found.checked} - found.unchecked.keys())
    if not given.quiet:
        what, several = ("box", "boxes") if is_map else ("row", "rows")
        lines = [f"checked    {checked} of {len(rows)} {several}, by treeproof {__version__}"]
        lines += [f"           {found.counterexamples} counterexamples, {found.boxes} closed boxes of proofs"]
        lines += [f"           about the model with the hash {question.model.hash}", *_follows(question, found, rows)]
        for word, reasons in (("rejected", found.rejected), ("unchecked", found.unchecked)):
            lines += [f"{word:10} {what} {row}: {why}" for row, why in reasons.items()]
        lines += [f"rejected   {told}"] * bool(told)
        print("\n".join(map(_line, lines)))
    return 0 if checked == len(rows) and not told else 1


def _told(question: Question | MapQuestion) -> str:
    """What a result says of all its rows, and is not so."""
    try:
        if isinstance(question, Question) and not isinstance(question, Attacks):
            check_told(question)
    except Rejected as error:
        return str(error)
    return ""


def _follows(question: Question | MapQuestion, found: Checked, rows: list[int]) -> list[str]:
    """What a result proves of these rows, as far as it was checked."""
    if not isinstance(question, Question):
        return []
    proved = set(question.proved_rows) & set(rows)
    left = len(proved - {*found.checked})
    lines = [f"proved     {len(proved)} rows: {len(proved) - left} checked, {left} not checked"]
    return lines + [f"follows    {one}" for one in in_words(question, found, rows)]


Found: TypeAlias = "tuple[Question | MapQuestion, list[int], Iterator[tuple[int, Checked]]]"
"""What is asked, the numbers of rows or boxes, and what becomes of each."""


def _of_result(files: list[Path], chosen: str | None) -> Found:
    model, result, proofs = files
    question, file = question_of(read_json(model), read_json(result)), ProofFile.open(proofs)
    check_header(question, file)
    rows = _chosen(chosen, list(range(len(question.result["X"]))))
    check_all = check_rows if isinstance(question, Attacks) else check_result
    return question, rows, check_all(question, file, rows)


def _of_map(files: list[Path], chosen: str | None) -> Found:
    path, proofs = files
    question, file = MapQuestion.of(path), ProofFile.open(proofs)
    check_header(question, file)
    boxes = _chosen(chosen, [node for node, _, status in question.map.boxes() if status != OPEN])
    return question, boxes, check_boxes(question, file, frozenset(boxes))


def _line(text: str) -> str:
    """One line, harmless to show, whatever a file says."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _chosen(text: str | None, known: list[int]) -> list[int]:
    """What somebody names, or everything."""
    if text is None:
        return known
    rows = sorted({int(one) if one.strip().isdecimal() else -1 for one in text.split(",")})
    if not set(rows) <= set(known):
        raise Rejected(f"--rows {text} must name what there is, by numbers from 0")
    return rows


if __name__ == "__main__":
    sys.exit(main())
