"""The paper's numbers, to print next to ours: Tables III and IV, and what its text says about its figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PERTURBATION = {"diabetes": 0.03, "cod-rna": 0.07, "breast-cancer": 0.15}
"""δ for each data set; in the published experiments the attacker lowers one feature by up to δ: I = [-δ, 0], b = 1."""

EPSILON = {"diabetes": 0.01, "cod-rna": 0.01, "breast-cancer": 0.05}
"""ε of Table IV."""

EPSILONS = {
    "diabetes": (0.01, 0.02, 0.03, 0.04),
    "cod-rna": (0.01, 0.02, 0.03, 0.04),
    "breast-cancer": (0.05, 0.06, 0.07, 0.08),
}
"""ε of Table III."""

TREES_OF_TABLE_III = 7

_TABLE_III = """
diabetes      0.01  0.714 0.708 0.721 0.649 0.643 0.662  0.727 0.721 0.727 0.714 0.675 0.714
diabetes      0.02  0.714 0.708 0.714 0.649 0.630 0.662  0.727 0.714 0.740 0.714 0.669 0.721
diabetes      0.03  0.714 0.688 0.714 0.649 0.636 0.682  0.727 0.721 0.747 0.714 0.669 0.727
diabetes      0.04  0.714 0.688 0.727 0.649 0.630 0.701  0.727 0.708 0.747 0.714 0.675 0.734
cod-rna       0.01  0.775 0.774 0.775 0.686 0.676 0.690  0.750 0.748 0.753 0.714 0.710 0.721
cod-rna       0.02  0.775 0.773 0.775 0.686 0.665 0.686  0.750 0.749 0.758 0.714 0.711 0.725
cod-rna       0.03  0.775 0.773 0.775 0.686 0.657 0.686  0.750 0.750 0.760 0.714 0.705 0.723
cod-rna       0.04  0.775 0.768 0.775 0.686 0.650 0.686  0.750 0.752 0.761 0.714 0.703 0.723
breast-cancer 0.05  0.948 0.948 0.948 0.926 0.926 0.941  0.970 0.933 0.963 0.956 0.919 0.963
breast-cancer 0.06  0.948 0.933 0.956 0.926 0.911 0.956  0.970 0.933 0.970 0.956 0.911 0.963
breast-cancer 0.07  0.948 0.941 0.956 0.926 0.904 0.956  0.970 0.926 0.963 0.956 0.911 0.963
breast-cancer 0.08  0.948 0.933 0.970 0.926 0.904 0.963  0.970 0.926 0.956 0.956 0.904 0.956
"""
"""For each data set and ε: a, a_min, a_max, r, r_min, r_max of the standard and of the robust model."""

_TABLE_IV = """
diabetes      1 3  0.675 0.623 0.623 0.623 0.623  0.682 0.643 0.643 0.643 0.643
diabetes      1 5  0.721 0.636 0.636 0.617 0.617  0.675 0.636 0.636 0.630 0.630
diabetes      1 7  0.727 0.610 0.610 0.539 0.539  0.695 0.675 0.675 0.636 0.636
diabetes      5 3  0.708 0.662 0.643 0.656 0.636  0.727 0.714 0.701 0.675 0.662
diabetes      7 3  0.714 0.649 0.630 0.636 0.623  0.727 0.714 0.708 0.675 0.662
diabetes      9 3  0.747 0.656 0.630 0.623 0.617  0.753 0.740 0.727 0.695 0.688
cod-rna       1 3  0.774 0.683 0.683 0.638 0.637  0.750 0.714 0.714 0.698 0.698
cod-rna       1 5  0.874 0.433 0.433 0.334 0.330  0.810 0.703 0.703 0.643 0.641
cod-rna       1 7  0.804 0.575 0.575 0.474 0.472  0.810 0.700 0.700 0.637 0.634
cod-rna       5 3  0.775 0.686 0.672 0.639 0.621  0.752 0.715 0.707 0.698 0.691
cod-rna       7 3  0.775 0.686 0.666 0.640 0.612  0.750 0.714 0.713 0.698 0.697
cod-rna       9 3  0.769 0.677 0.663 0.625 0.605  0.750 0.714 0.713 0.698 0.697
breast-cancer 1 3  0.948 0.904 0.904 0.874 0.874  0.948 0.941 0.941 0.859 0.859
breast-cancer 1 5  0.956 0.911 0.911 0.874 0.874  0.956 0.941 0.941 0.793 0.793
breast-cancer 1 7  0.948 0.904 0.904 0.867 0.867  0.956 0.941 0.941 0.793 0.793
breast-cancer 5 3  0.941 0.926 0.904 0.904 0.867  0.978 0.948 0.941 0.889 0.881
breast-cancer 7 3  0.948 0.926 0.911 0.926 0.881  0.970 0.956 0.941 0.889 0.874
breast-cancer 9 3  0.963 0.941 0.919 0.933 0.889  0.970 0.956 0.933 0.889 0.867
"""
"""For each data set, number of trees and depth: a, r, r̂, r̄, R̂ of the standard and of the robust model."""

SAYS = {
    "epsilon": "R̂ and r̄ are never more than 0.02 apart for ε from 0.01 to 0.05",
    "ensemble-size": "9 trees in a matter of seconds, 17 trees in around 16 minutes, on 20 threads",
    "iterations": "r̂ and R̂ grow in the first 120 iterations, then reach a plateau",
    "budget": "from around 12 seconds at budget 1 to around 40 seconds at budget 5, on 20 threads",
}
"""What the text says about Figures 4 to 7; the plots themselves are not available as numbers."""

MODELS = ("standard", "robust")


def table_iii() -> list[dict[str, Any]]:
    """The lines of Table III, one per data set, ε and model."""
    return _lines(_TABLE_III, {"dataset": str, "epsilon": float}, ("a", "a_min", "a_max", "r", "r_min", "r_max"))


def table_iv() -> list[dict[str, Any]]:
    """The lines of Table IV, one per data set, size and model."""
    return _lines(_TABLE_IV, {"dataset": str, "trees": int, "depth": int}, ("a", "r", "r_hat", "r_bar", "R_hat"))


def _lines(table: str, keys: dict[str, Callable[[str], Any]], measures: tuple[str, ...]) -> list[dict[str, Any]]:
    """The lines of a table: what each is about, the model, and the measures of the model."""
    found, n = [], len(measures)
    for words in map(str.split, table.strip().splitlines()):
        about = {name: kind(word) for (name, kind), word in zip(keys.items(), words, strict=False)}
        numbers = [float(word) for word in words[len(keys) :]]
        for model, its in zip(MODELS, (numbers[:n], numbers[n:]), strict=True):
            found.append({**about, "model": model, **dict(zip(measures, its, strict=True))})
    return found


def beside(row: dict[str, Any], lines: list[dict[str, Any]], measures: tuple[str, ...]) -> dict[str, Any]:
    """The published measures for a row; everything trained robustly is compared with the paper's robust models."""
    about = {**row, "model": "standard" if row["model"] == "standard" else "robust"}
    line = next(line for line in lines if all(about[key] == line[key] for key in line.keys() - {*measures}))
    return {f"paper_{name}": line[name] for name in measures}
