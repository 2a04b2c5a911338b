"""Chains of rules on grids that threads share."""

from __future__ import annotations

import numpy as np
import pytest

import treeproof as tp
from tests.support.applicants import NAMES, applicants
from tests.support.at_once import at_once
from treeproof.threat import rule_chains
from treeproof.threat.column_moves import ColumnMoves

N_THREADS = 8
CUTS = np.array([-np.inf, 1.0, 2.5, 3.0])
CELLS = np.nextafter(CUTS, np.inf), np.append(CUTS[1:], np.inf)


def income() -> ColumnMoves:
    """What can be done to the income, from a fresh attacker."""
    rules = [tp.Rule("income", when=(0, 3), change=(-0.5, 0.5)), tp.Rule("income", when=(1, 4), change=1, cost=2)]
    attacker = tp.Attacker.rules(rules, budget=3, step={"income": 0.25}, domain={"income": (0, 10)})
    return attacker.bind(applicants()).moves_of(NAMES.index("income"))


def test_threads_that_share_chains_find_what_one_alone_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_chains, "MOST_GRIDS", 2)  # so that every other row clears what is kept
    values = np.round(np.random.default_rng(0).uniform(0, 5, 40), 3)

    def prices(moves: ColumnMoves, i: int) -> list[float]:
        row = values[i % len(values)][None]
        return list(moves.table(row, row, row, *CELLS, False)[0])

    alone = [prices(income(), i) for i in range(len(values))]
    assert len({str(each) for each in alone}) > 3
    shared = income()
    every = range(len(values))
    together = at_once(N_THREADS, lambda k: [prices(shared, i + 5 * k) for i in every], rule_chains)
    for k, found in enumerate(together):
        assert found == [alone[(i + 5 * k) % len(values)] for i in every]
