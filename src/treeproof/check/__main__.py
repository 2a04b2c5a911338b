"""`python -m treeproof.check MODEL RESULT PROOFS`: checks a result with nothing but Python's standard library."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from treeproof import __version__
from treeproof.check.attacks import Attacks, question_of
from treeproof.check.maps import OPEN, MapQuestion, check_boxes
from treeproof.check.proof_file import ProofFile
from treeproof.check.results import check_result
from treeproof.check.rows import Checked, check_header, check_rows
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
    found, rows = Checked(), None
    try:
        model, rows, each = (_of_map if is_map else _of_result)(given.files, given.rows)
        for _, one in each:
            found.add(one)
    except (Rejected, OSError) as error:
        why = f"cannot read {error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(_line(f"treeproof.check: {why}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("treeproof.check: interrupted", file=sys.stderr)
        if rows is None:
            return 1
    if not given.quiet:
        what, several = ("box", "boxes") if is_map else ("row", "rows")
        lines = [f"checked    {len(found.checked)} of {len(rows)} {several}, by treeproof {__version__}"]
        lines += [f"           {found.counterexamples} counterexamples, {found.boxes} closed boxes of proofs"]
        lines += [f"           about the model with the hash {model}"]
        for word, reasons in (("rejected", found.rejected), ("unchecked", found.unchecked)):
            lines += [f"{word:10} {what} {row}: {why}" for row, why in reasons.items()]
        print("\n".join(map(_line, lines)))
    return 0 if len(found.checked) == len(rows) else 1


Found: TypeAlias = "tuple[str, list[int], Iterator[tuple[int, Checked]]]"
"""The hash of the model that it is about, the numbers of rows or boxes, and what becomes of each."""


def _of_result(files: list[Path], chosen: str | None) -> Found:
    model, result, proofs = files
    question, file = question_of(content_of(model), content_of(result)), ProofFile.open(proofs)
    check_header(question, file)
    rows = _chosen(chosen, list(range(len(question.result["X"]))))
    check_all = check_rows if isinstance(question, Attacks) else check_result
    return question.model.hash, rows, check_all(question, file, rows)


def _of_map(files: list[Path], chosen: str | None) -> Found:
    path, proofs = files
    question, file = MapQuestion.of(path), ProofFile.open(proofs)
    check_header(question, file)
    boxes = _chosen(chosen, [node for node, _, status in question.map.boxes() if status != OPEN])
    return question.model.hash, boxes, check_boxes(question, file, frozenset(boxes))


def _line(text: str) -> str:
    """One line, harmless to show, whatever a file says."""
    return "".join(each if each.isprintable() else "?" for each in text)


def content_of(path: Path) -> dict[str, Any]:
    """The object in a JSON file, in which no name stands twice."""
    try:
        content = json.loads(path.read_text("utf-8"), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise Rejected(f"{path} is no JSON object")
    return content


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError(f"a name stands twice among {[name for name, _ in pairs][:9]}")
    return dict(pairs)


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
