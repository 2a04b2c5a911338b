"""Explanations against brute force over all subsets of columns: as many random questions as there is time for.

    python -m tests.fuzz_explanations --cases 100000 --seed 0
    python -m tests.fuzz_explanations --question 123        # one question again

A case is one answer about one row: a reason, the ranges of a reason, a smallest one, a contrastive set, a change to a
wanted label, a resilient one, or what to protect. Even questions are plain models with attackers of intervals and
costs, odd ones have categories, relations and attackers of every kind. Where columns are on no grid and relations add
them up, not everything is enumerated: there, what is said must not be refuted, and elsewhere it is equal.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from random import Random

import treeproof as tp
from tests.support import clock, judged_changes, judged_protection, judged_reasons
from tests.support.fast_oracle import TooManyPairs
from tests.support.random_blocks import block
from tests.support.relation_questions import question

PART = 10
SECONDS = 30.0
"""Questions that take longer are named."""
N_ROWS = 4
KINDS = ("reason", "inflate", "smallest", "contrastive")
CASES = ("reason", "ranges", "smallest", "contrastive", "changes", "protections")
REFUSED = ("no value of column", "holds for no row", "no row that the model takes")


def check(number: int) -> Counter[str]:
    """Compares the answers to one question; AssertionError says what differs."""
    random = Random(number)
    if number % 2 == 0:
        asked = block(number // 10**6, number // 2 % 10**6)
        tasks = [
            lambda: judged_reasons.judge_block(asked, random, N_ROWS, KINDS),
            lambda: judged_changes.judge_block(asked, random, N_ROWS, epsilon=False),
            lambda: judged_changes.judge_block(asked, random, N_ROWS, epsilon=True),
            lambda: judged_protection.judge_block(asked, random),
        ]
    else:
        stated = question(number)
        tasks = [
            lambda: judged_reasons.judge_question(stated, random, KINDS),
            lambda: judged_changes.judge_question(stated, random),
            lambda: judged_changes.judge_question(stated, random, epsilon=True),
            lambda: judged_protection.judge_question(stated, random),
        ]
    counts: Counter[str] = Counter()
    for task in tasks:
        counts += counted(task)
    counts["cases"] = sum(counts[kind] for kind in CASES)
    return counts


def counted(task: Callable[[], Counter[str]]) -> Counter[str]:
    """What a task counts, or that it was too large, or that no row is valid."""
    try:
        return task()
    except (TooManyPairs, NotImplementedError):
        return Counter({"too many rows": 1})
    except tp.InvalidInput as error:
        if not any(each in str(error) for each in REFUSED):
            raise
        return Counter({"refused": 1})


def check_part(numbers: range) -> tuple[Counter[str], list[str]]:
    """The questions of these numbers, and what differs."""
    counts: Counter[str] = Counter()
    wrong = []
    for number in numbers:
        began = clock.now()
        try:
            found = check(number)
            counts += found
            if found["OPEN"]:
                counts[f"open: question {number}"] += found["OPEN"]
        except Exception as error:  # an engine that fails is as wrong as one that lies
            what = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
            asked = f"block {number // 2 % 10**6} of seed {number // 10**6}" if number % 2 == 0 else question(number)
            wrong.append(f"question {number}: {what}\n{asked}")
        if clock.now() - began > SECONDS:
            counts[f"slow: question {number}"] += 1
    return counts, wrong


def run(cases: int, seed: int, n_jobs: int) -> tuple[Counter[str], list[str]]:
    """Questions from seed * 10**6 on, until there are enough cases or some differ."""
    counts: Counter[str] = Counter()
    first = seed * 10**6
    parts = (range(n, n + PART) for n in range(first, first + 10**6, PART))
    if n_jobs == 1:
        for part in parts:
            more, wrong = check_part(part)
            counts += more
            if wrong or counts["cases"] >= cases:
                return counts, wrong
    with multiprocessing.get_context("spawn").Pool(n_jobs) as pool:
        for more, wrong in pool.imap_unordered(check_part, parts):
            counts += more
            if wrong or counts["cases"] >= cases:
                pool.terminate()
                return counts, wrong
    return counts, []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--question", type=int, help="only this one")
    options = parser.parse_args()
    if options.question is not None:
        counts, wrong = check_part(range(options.question, options.question + 1))
    else:
        counts, wrong = run(options.cases, options.seed, options.jobs)
    for each in wrong:
        print(f"MISMATCH in {each}", file=sys.stderr)
    print("\n".join(f"{count:>9,} {name}" for name, count in sorted(counts.items())))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
