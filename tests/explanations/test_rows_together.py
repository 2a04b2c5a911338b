"""Rows explained together get what each gets alone: nothing of one row is left in the questions of the next."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import treeproof as tp


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_ranges_of_rows_together_are_those_of_each_alone(seed: int) -> None:
    """Categories with holes in their sets, and missing values, so that some cells are out of reach."""
    rng = np.random.default_rng(seed)
    n = 300
    X = pd.DataFrame(
        {
            "job": pd.Categorical(rng.choice(list("abcdefgh"), n)),
            "home": pd.Categorical(rng.choice(list("uvwxyz"), n)),
            "age": rng.integers(18, 80, n).astype(float),
            "hours": rng.integers(0, 60, n).astype(float),
        }
    )
    score = X.job.cat.codes.to_numpy() * 7 % 5 + X.home.cat.codes.to_numpy() * 5 % 4 + X.age / 20 + X.hours / 30
    X.loc[X.index[::9], "age"] = math.nan
    X.loc[X.index[::7], "job"] = None
    model = HistGradientBoostingClassifier(
        max_iter=8, max_leaf_nodes=6, categorical_features="from_dtype", random_state=0
    ).fit(X, score > score.median())
    some = X[:7]
    domain = {"age": (18, 80), "hours": (0, 60)}
    together = tp.explain(model, some, domain=domain, inflate=True)
    for row, one in enumerate(together):
        # The first row has missing values: then some rows of a batch have cells out of reach.
        (_, alone) = tp.explain(model, some.iloc[[0, row]], domain=domain, inflate=True)
        assert repr(one.ranges) == repr(alone.ranges)
        assert one.columns == tp.explain(model, some.iloc[[row]], domain=domain)[0].columns
