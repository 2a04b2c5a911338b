"""One row per call: what a call of the guard, of a Verifier and of `verify` takes beyond the search itself.

    python -m benchmarks.one_row [--calls 10000] [--cpu]

One process, digits, a forest of 100 unpruned trees. The time of a search is the time in its compiled code. What is left
is the time that a call adds to it: checks of the row, the model's label, cells, and the answer. Counterexamples are
replayed on the library's own model too, except by the guard; the last line has the median of what that takes. With
`--cpu` times are CPU times of the process, which do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp

Clock = Callable[[], float]

KERNELS = ("rows.race_rows", "spend.spend_rows", "hunt.hunt_rows", "divide.divide_rows")
ATTACKERS = {"L∞ 0.02": tp.Attacker.linf(0.02), "L0 1": tp.Attacker.l0(1)}
EPSILON = 0.01
WARM = 50
"""Calls that are not counted: they load compiled code, and the guard's first rows are compared with the library's."""


@contextmanager
def searches(clock: Clock) -> Iterator[list[float]]:
    """A list whose only entry grows by the seconds that are spent in compiled searches."""
    spent, before = [0.0], {}

    def timed(kernel: Any, *given: Any) -> None:
        began = clock()
        kernel(*given)
        spent[0] += clock() - began

    for name in KERNELS:
        file, _, kernel = name.partition(".")
        module = importlib.import_module(f"treeproof._kernels.search.{file}")
        before[module, kernel] = getattr(module, kernel)
        setattr(module, kernel, partial(timed, getattr(module, kernel)))
    try:
        yield spent
    finally:
        for (module, kernel), own in before.items():
            setattr(module, kernel, own)


def measure(ask: Callable[[int], Any], calls: int, clock: Clock) -> str:
    """Percentiles in milliseconds of calls, of their searches, and of the differences."""
    seconds = np.empty((calls, 2))
    with searches(clock) as spent:
        for i in range(-WARM, calls):
            spent[0], began = 0.0, clock()
            ask(i % calls)
            if i >= 0:
                seconds[i] = clock() - began, spent[0]
    taken = (seconds[:, 0], seconds[:, 1], seconds[:, 0] - seconds[:, 1])
    each = (f"{np.percentile(one * 1e3, 50):7.3f} {np.percentile(one * 1e3, 99):7.3f}" for one in taken)
    return "   ".join(each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    calls, clock = options.calls, time.process_time if options.cpu else time.perf_counter
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=7)
    clf = RandomForestClassifier(100, random_state=7).fit(X_train, y_train)
    model = tp.from_model(clf)
    print(f"{calls} calls, milliseconds: p50 and p99 of the call, of the search, and of the difference")
    for name, attacker in ATTACKERS.items():
        guard = tp.GuardedClassifier(model, attacker).fit()
        plain, nearby = tp.Verifier(model, attacker), tp.Verifier(model, attacker, epsilon=EPSILON)

        def row(i: int) -> slice:
            return slice(i % len(X_test), i % len(X_test) + 1)

        asked: dict[str, Callable[[int], Any]] = {
            "guard.predict": lambda i, guard=guard: guard.predict(X_test[row(i)]),
            "Verifier": lambda i, plain=plain: plain.verdict(X_test[i % len(X_test)]),
            "Verifier, ε": lambda i, nearby=nearby: nearby.verdict(X_test[i % len(X_test)]),
            "verify": lambda i, attacker=attacker: tp.verify(model, X_test[row(i)], y_test[row(i)], attacker),
        }
        for what, ask in asked.items():
            print(f"{name:8} {what:14} {measure(ask, calls, clock)}", flush=True)
        print(f"{name:8} proved: {guard.coverage(X_test):.1%} of {len(X_test)} rows")
    print(f"replay: {measure(lambda _: model.source_labels(X_test[:2]), 200, clock)[:7]}")


if __name__ == "__main__":
    main()
