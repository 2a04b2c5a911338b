"""The paper's evaluation, rerun: one module per table or figure, each with `run(bench)`; see docs/reproduce.md."""

from __future__ import annotations

import importlib

from treeproof.paper.workbench import Workbench

EXPERIMENTS = {
    "figure-robustness": "Figure 2: two close test sets, very different robustness, equal resilience",
    "shortcomings": "Table III: accuracy and robustness of close test sets, sampled and over all of them",
    "results": "Table IV: a, r, r̂, r̄, R̂ and exact R of 3 data sets × 6 sizes, standard and robust",
    "epsilon": "Figure 4: R̂, r̄ and exact R as ε grows",
    "ensemble-size": "Figure 5: time for 9 to 17 trees, and up to 51 of ours",
    "iterations": "Figure 6: r̂ and R̂ per iteration, 17 trees",
    "budget": "Figure 7: time for budgets 1 to 5, 11 trees",
}
"""Every experiment and what it shows, in the order of the paper."""

_MODULES = {
    "figure-robustness": "figure2_robustness",
    "shortcomings": "table3_shortcomings",
    "results": "table4_results",
    "epsilon": "figure4_epsilon",
    "ensemble-size": "figure5_ensemble_size",
    "iterations": "figure6_iterations",
    "budget": "figure7_budget",
}


def run(name: str, bench: Workbench) -> None:
    """Runs one experiment; its tables and pictures are in the bench's folder afterwards."""
    importlib.import_module(f"treeproof.paper.{_MODULES[name]}").run(bench)


__all__ = ["EXPERIMENTS", "Workbench", "run"]
