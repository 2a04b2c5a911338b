"""A small model of loans whose columns depend on each other: a one-hot purpose, and payments that add up."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp

PURPOSES = ["p_car", "p_radio", "p_other"]


class Loans(NamedTuple):
    """A forest, and rows that it has not seen; some of these break the relations."""

    forest: Any
    X: pd.DataFrame
    y: np.ndarray


RELATIONS = [
    tp.one_of(*PURPOSES, name="purpose"),
    "max_30d <= max_12m",
    tp.implies("loans == 0", "max_12m <= 4"),
]
ATTACKER = tp.Attacker(
    {"purpose": tp.ANY, "max_30d": tp.steps(-2, 2, 1), "max_12m": tp.steps(-1, 3, 1)}, costs={"purpose": 2}, budget=3
)


@cache
def loans() -> Loans:
    """The same every time."""
    rng = np.random.default_rng(7)
    n = 260
    purpose = rng.integers(0, 3, n)
    frame = pd.DataFrame({name: (purpose == k).astype(float) for k, name in enumerate(PURPOSES)})
    frame["max_12m"] = rng.integers(0, 9, n).astype(float)
    frame["max_30d"] = np.minimum(frame["max_12m"], rng.integers(0, 9, n))
    frame["loans"] = np.where(frame["max_12m"] <= 4, rng.integers(0, 3, n), rng.integers(1, 3, n)).astype(float)
    score = frame["max_12m"] - 2 * frame["max_30d"] + 3 * frame["p_car"] - frame["p_radio"] + rng.normal(0, 0.7, n)
    y = np.where(score > 0, "good", "bad")
    forest = RandomForestClassifier(7, max_depth=4, random_state=0).fit(frame[:200], y[:200])
    X, labels = frame[200:].reset_index(drop=True), y[200:]
    X.loc[3, "p_radio"] = 1.0 - X.loc[3, "p_radio"]
    X.loc[5, ["max_30d", "max_12m"]] = [6.0, 2.0]
    X.loc[11, ["loans", "max_12m"]] = [0.0, 7.0]
    return Loans(forest, X, labels)


def is_valid(row: Any) -> bool:
    """Whether a row keeps the relations, in plain words."""
    p_car, p_radio, p_other, max_12m, max_30d, count = row
    ones = sorted((p_car, p_radio, p_other)) == [0.0, 0.0, 1.0]
    return bool(ones and max_30d <= max_12m and (count != 0 or max_12m <= 4))


def attacks(row: Any) -> list[tuple[float, ...]]:
    """All rows that the attacker can make of a row, itself too: valid ones, and the row as it is."""
    found = [tuple(row)]
    purposes = [tuple(row[:3]), *map(tuple, np.eye(3).tolist())]
    for purpose in purposes:
        for up in range(-1, 4):
            for soon in range(-2, 3):
                cost = 2 * (purpose != tuple(row[:3])) + (up != 0) + (soon != 0)
                made = (*purpose, row[3] + up, row[4] + soon, row[5])
                if cost <= 3 and is_valid(made):
                    found.append(made)
    return found
