"""`python -m treeproof.check MODEL RESULT PROOFS`: checks proofs with nothing but Python's standard library."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from treeproof import __version__
from treeproof.check.attacks import question_of
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Checked, Question, check_header, check_rows
from treeproof.check.rules import Rejected


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if the proofs of all rows hold, 1 if some do not or are missing, 2 if files are not what they must."""
    parser = argparse.ArgumentParser(prog="treeproof.check", description="Checks the proofs of a result.")
    parser.add_argument("model", type=Path, help="the model, as treeproof.save_model writes it")
    parser.add_argument("result", type=Path, help="the result, as treeproof verify --json writes it")
    parser.add_argument("proofs", type=Path, help="its proofs (.tpp)")
    parser.add_argument("--rows", metavar="N,…", help="only these rows, counted from 0")
    parser.add_argument("--quiet", action="store_true", help="print nothing; the exit code says it")
    parser.add_argument("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    try:
        question, proofs = question_of(content_of(given.model), content_of(given.result)), ProofFile.open(given.proofs)
        check_header(question, proofs)
        rows = question.proved_rows if given.rows is None else _chosen(given.rows, question)
    except (Rejected, OSError) as error:
        why = f"cannot read {error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(_line(f"treeproof.check: {why}"), file=sys.stderr)
        return 2
    found = Checked()
    try:
        for _, one in check_rows(question, proofs, rows):
            found.add(one)
    except KeyboardInterrupt:
        print("treeproof.check: interrupted", file=sys.stderr)
    if not given.quiet:
        print(f"checked    {len(found.checked)} of {len(rows)} proved rows, {found.boxes} boxes, by {__version__}")
        for word, reasons in (("rejected", found.rejected), ("unchecked", found.unchecked)):
            for row, why in reasons.items():
                print(_line(f"{word:10} row {row}: {why}"))
    return 0 if len(found.checked) == len(rows) else 1


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


def _chosen(text: str, question: Question) -> list[int]:
    """The rows that somebody names."""
    rows = sorted({int(one) if one.strip().isdecimal() else -1 for one in text.split(",")})
    if not set(rows) <= set(question.proved_rows):
        raise Rejected(f"--rows {text} must name rows that the result calls proved")
    return rows


if __name__ == "__main__":
    sys.exit(main())
