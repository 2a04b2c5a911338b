"""The doors: what comes in through files, frames, arrays, pipelines and saved models, against the libraries themselves.

    python -m tests.fuzz_doors --cases 2000 --seed 0        # a part of make fuzz
    python -m tests.fuzz_doors --one tables:17              # one question again
    python -m tests.fuzz_doors --parts steps --keep-going   # all differences, not only the first

A case is one row or value at one door: its label must be that of the library's own `predict` for what the owner means,
its verdict what trying all moves finds, or the refusal must be by name; what is harmless may not be refused. There are
at least so many cases for each format and command, and each kind of step and library. Ends with exit code 1 at the
first difference.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from random import Random

from tests.support import clock
from tests.support.fuzz import doors
from tests.support.fuzz.tally import Difference, Part, Tally

MOST_TRIES = 400
"""The number of questions per cell after which a cell that still has too few cases is said to be out of reach."""


def ask(part: Part, seed: int, number: int, tally: Tally) -> str | None:
    """Asks one question; what is wrong with the answer, if anything, and how to see it again."""
    again = f"again: python -m tests.fuzz_doors --seed {seed} --one {part.name}:{number}"
    try:
        part.check(Random(f"{seed} {part.name} {number}"), number, tally)
    except Difference as error:
        if os.environ.get("TREEPROOF_TRACEBACK"):
            raise
        return f"{part.name}:{number}: {error}\n{again}"
    return None


def run(parts: list[Part], cases: int, seed: int, *, keep_going: bool = False, talk: bool = False) -> dict[str, Tally]:
    """Questions about each part's cells until each has enough cases, or, unless it goes on, an answer is wrong."""
    totals = {part.name: Tally() for part in parts}
    for part in parts:
        tally, said, number = totals[part.name], clock.now(), 0
        while number < MOST_TRIES * len(part.cells) and any(tally.cases[cell] < cases for cell in part.cells):
            number += 1
            if tally.cases[part.cells[(number - 1) % len(part.cells)]] >= cases:
                continue
            wrong = ask(part, seed, number - 1, tally)
            if wrong:
                tally.found.append(wrong)
                if talk:
                    print(wrong, flush=True)
                if not keep_going:
                    return totals
            if talk and clock.now() - said > 30:
                said = clock.now()
                print(f"{part.name}: {number:,} questions, {sum(tally.cases.values()):,} cases", flush=True)
    return totals


def table(part: Part, tally: Tally) -> str:
    """The counts of each cell: rows and columns in the order of the part's."""
    rows = list(dict.fromkeys(row for row, _ in (*part.cells, *tally.cases)))
    columns = list(dict.fromkeys(column for _, column in (*part.cells, *tally.cases)))
    lines = [f"{part.name:32}" + "".join(f"{column:>16}" for column in columns)]
    lines += [f"{row:32}" + "".join(f"{tally.cases[row, column]:>16,}" for column in columns) for row in rows]
    refused: Counter[str] = Counter()
    for (kind, why), n in tally.refused.items():
        refused[f"{kind}, {why}"] += n
    lines += [f"  refused: {what:40}{n:>8,}" for what, n in sorted(refused.items())]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", default=",".join(doors.PARTS), help="of " + ", ".join(doors.PARTS))
    parser.add_argument("--one", metavar="PART:NUMBER", help="only this question")
    parser.add_argument("--keep-going", action="store_true")
    options = parser.parse_args()
    began = clock.now()
    if options.one:
        name, _, number = options.one.rpartition(":")
        wrong = ask(doors.PARTS[name], options.seed, int(number), Tally())
        print(wrong or "no difference")
        return wrong is not None
    parts = [doors.PARTS[name] for name in options.parts.split(",")]
    totals = run(parts, options.cases, options.seed, keep_going=options.keep_going, talk=True)
    for part in parts:
        print(table(part, totals[part.name]))
    cases = sum(sum(tally.cases.values()) for tally in totals.values())
    found = sum(len(tally.found) for tally in totals.values())
    few = [
        f"{part.name}: {row} × {column}"
        for part in parts
        for row, column in part.cells
        if totals[part.name].cases[row, column] < options.cases
    ]
    if few and not found:
        print(f"too few cases: {'; '.join(few[:9])}")
    print(f"{cases:,} cases in {clock.now() - began:.0f} s; {found} differences")
    return found > 0 or bool(few)


if __name__ == "__main__":
    sys.exit(main())
