"""Relations, and every kind of attacker, against brute force: as many random questions as there is time for.

    python -m tests.fuzz_relations --cases 100000 --seed 0
    python -m tests.fuzz_relations --question 123           # one question again

A case is one row of one question. "Proved" means that no enumerated pair of rows is a counterexample, and "refuted"
comes with a pair that the definitions accept, whatever the columns are. Where all columns are lists, grids or cannot be
moved, everything is enumerated: then the answers are equal, and nothing may stay open.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import traceback
from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

import treeproof as tp
from tests.support import clock
from tests.support.judged_relations import satisfies
from tests.support.relation_questions import Question, question
from tests.support.valid_pairs import Pairs
from treeproof.check.objects import is_witness
from treeproof.results.verdicts import Outcome, Witness
from treeproof.threat.relations import as_relations, bind_relations

SECONDS = 20.0
MOST_POINTS = 60_000
"""More points than that are not enumerated."""
PART = 20
REFUSED = ("no value of column", "holds for no row", "no row that the model takes")


def check(number: int) -> Counter[str]:
    """Compares the rows of one question; AssertionError says what differs."""
    asked = question(number)
    counts: Counter[str] = Counter()
    X = np.array(asked.X)
    labels = asked.ensemble.predict(X)
    words: dict[str, Any] = {"relations": asked.given or None, "timeout": SECONDS}
    words |= {"voting": asked.voting} if asked.voting else {}
    random = Random(number)
    try:
        result = tp.verify(asked.model, X, labels, asked.attacker, epsilon=asked.epsilon, **words)
    except tp.InvalidInput as error:
        return _refused(asked, str(error), random)
    every = [Pairs(asked, x, random) for x in asked.X]
    for row, pairs in enumerate(every):
        if pairs.n_points > MOST_POINTS:
            counts["too many points"] += 1
            continue
        _check_row(asked, result, row, pairs, counts)
    if not _is_free(asked.attacker):
        within = random.random() < 0.5
        found = tp.cheapest_attack(asked.model, X, asked.attacker, within=within, **words)
        for row, pairs in enumerate(every):
            if pairs.n_points <= MOST_POINTS:
                _check_cheapest(asked, found, row, pairs, within, counts)
    return counts


def _is_free(attacker: tp.Attacker) -> bool:
    return attacker.power is None and attacker.budget is None and set(attacker.costs.values) == {1}


def _refused(asked: Question, message: str, random: Random) -> Counter[str]:
    """A question is refused in one line, and only if no row is valid.

    Where no value of a column is valid, that is said though it may be missing.
    """
    assert "\n" not in message, message
    assert any(each in message for each in REFUSED), message
    for x in asked.X:
        pairs = Pairs(asked, x, random)
        points = pairs._rows(np.array([random.randrange(pairs.n_points) for _ in range(300)]))
        for point in points if "no row that the model takes" in message else points[~np.isnan(points).any(axis=1)]:
            assert not pairs.is_valid(point), f"refused: {message}, but {point.tolist()} is valid"
    return Counter({"refused": 1})


def _check_row(asked: Question, result: tp.Verification, row: int, pairs: Pairs, counts: Counter[str]) -> None:
    places, all_neighbours = pairs.neighbours()
    stable, resilient = Outcome(result.stability[row]), Outcome(result.resilience_by_epsilon[0][row])
    itself = places[0]
    attack = pairs.attack(itself)
    where = f"row {row}, x={asked.X[row]!r}"
    breaks = "" if pairs.is_valid(asked.X[row]) else " of rows that break relations"
    if attack is not None:
        assert stable != Outcome.PROVED, f"{where}: proved stable, but see {attack!r}"
    elif pairs.complete:
        assert stable != Outcome.REFUTED, f"{where}: refuted, but nothing is found"
    _count(counts, f"stability{breaks}", stable, pairs.complete)
    pair = next(((z, w) for z in places if (w := pairs.attack(z)) is not None), None)
    complete = pairs.complete and all_neighbours
    if pair is not None:
        assert resilient != Outcome.PROVED, (
            f"{where}: proved resilient, but {pairs.neighbour(pair[0])!r} to {pair[1]!r}"
        )
    elif complete:
        assert resilient != Outcome.REFUTED, f"{where}: not resilient, but nothing is found"
    _count(counts, f"resilience{breaks}", resilient, complete)
    counts["cases"] += 1
    counts["only in the neighbourhood"] += attack is None and pair is not None
    refuted = Outcome.REFUTED in (stable, resilient)
    assert result.has_witness[row] == refuted, f"{where}: {stable.name}, {resilient.name}, but no witness"
    if refuted:
        _check_witness(asked, result, row, pairs, itself_only=stable == Outcome.REFUTED)


def _count(counts: Counter[str], what: str, outcome: Outcome, complete: bool) -> None:
    counts[f"{what}: {outcome.name.lower()}"] += 1
    if outcome == Outcome.UNKNOWN:
        counts["UNEXPLAINED UNKNOWN" if complete else "unknown with continuous columns"] += 1


def _check_witness(asked: Question, result: tp.Verification, row: int, pairs: Pairs, itself_only: bool) -> None:
    x, z, w = np.array(asked.X[row]), result.neighbour[row], result.attacked[row]
    relations = bind_relations(asked.given, asked.ensemble)
    epsilon = 0.0 if itself_only else asked.epsilon
    where = f"row {row}, x={x.tolist()}: z={z.tolist()}, w={w.tolist()}"
    assert is_witness(asked.ensemble, asked.attacker, epsilon, Witness(x, z, w, None, None), relations), where
    for valid in [w] if np.array_equal(x, z, equal_nan=True) else [z, w]:
        assert pairs.is_valid(valid), f"{where}: {valid.tolist()} is not valid"
        stepped = [asked.names.index(name) for name in asked.stepped]
        assert satisfies(asked.ensemble, as_relations(asked.given), valid, stepped), where


def _check_cheapest(asked: Question, found: Any, row: int, pairs: Pairs, within: bool, counts: Counter[str]) -> None:
    best, price, power = pairs.cheapest(within), float(found.price[row]), asked.attacker.power
    where = f"row {row}, x={asked.X[row]!r}, within={within}: cheapest costs {price}"
    counts["cheapest"] += 1
    w = asked.ensemble.check_rows(found.rows)[row].tolist()
    if math.isfinite(price):
        assert pairs.is_valid(w), f"{where}, but {w!r} is not valid"
        paid = pairs.price_of(w)
        assert paid is not None, f"{where}, but nothing leads to {w!r}"
        assert math.isclose(price, _root(paid, power), rel_tol=1e-11), f"{where}, {w!r} {paid}"
    if not found.exact[row]:
        counts["CHEAPEST NOT KNOWN" if pairs.complete else "cheapest not known with continuous columns"] += 1
        counts[f"cheapest not known, power {power}"] += 1
        return
    if best is not None:
        assert price <= _root(best, power) * (1 + 1e-11), f"{where}, but there is one of {_root(best, power)}"
    if pairs.complete:
        least = math.inf if best is None else _root(best, power)
        assert price == least or math.isclose(price, least, rel_tol=1e-11), f"{where}, expected {least}"


def _root(price: Fraction, power: int | None) -> float:
    return float(price) if power in (None, 1) else float(price) ** (1 / power)  # type: ignore[operator]


def check_part(numbers: range) -> tuple[Counter[str], list[str]]:
    """The questions of these numbers, and what differs."""
    counts: Counter[str] = Counter()
    wrong = []
    for number in numbers:
        began = clock.now()
        try:
            counts += check(number)
        except Exception as error:  # an engine that fails is as wrong as one that lies
            what = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
            wrong.append(f"question {number}: {what}\n{question(number)}")
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
