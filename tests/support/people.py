"""People who ask for a loan, as a data frame with a text column and missing values, and models of five libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp

JOBS = ("clerk", "driver", "nurse", "teacher")


def people(n: int = 240) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with missing incomes, and whether each gets a loan."""
    random = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 75, n).astype(float),
            "income": random.normal(3000, 900, n).round(1),
            "job": random.choice(JOBS, n),
        }
    )
    pays = (frame.income > 2900).to_numpy() ^ (frame.job == "driver").to_numpy() ^ (frame.age > 60).to_numpy()
    frame.loc[random.random(n) < 0.1, "income"] = np.nan
    return frame, np.where(pays, "yes", "no")


def trained(library: str) -> tuple[Any, Any, pd.DataFrame]:
    """A model, the same as treeproof takes it, and rows."""
    model, frame = _trained(library)
    # CatBoost keeps no values of categories.
    return model, tp.from_model(model, categories=frame) if library == "CatBoost" else model, frame


def _trained(library: str) -> tuple[Any, pd.DataFrame]:
    """A model, and the rows as it takes them."""
    frame, y = people()
    as_category = frame.astype({"job": "category"})
    if library == "XGBoost":
        from xgboost import XGBClassifier

        model = XGBClassifier(n_estimators=12, max_depth=3, enable_categorical=True, n_jobs=1)
        return model.fit(as_category, y == "yes"), as_category
    if library == "LightGBM":
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(n_estimators=12, num_leaves=6, min_child_samples=5, verbose=-1, n_jobs=1)
        return model.fit(as_category, y), as_category
    if library == "CatBoost":
        from catboost import CatBoostClassifier

        model = CatBoostClassifier(
            iterations=12, depth=3, cat_features=["job"], verbose=0, thread_count=1, allow_writing_files=False,
            one_hot_max_size=8,
        )  # fmt: skip
        return model.fit(frame, y), frame
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    if library == "HistGradientBoosting":
        boosted = HistGradientBoostingClassifier(max_iter=10, max_depth=3, categorical_features=["job"])
        return boosted.fit(as_category, y), as_category
    encoder = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    forest = RandomForestClassifier(15, max_depth=5, random_state=0)
    whole = frame.fillna({"income": 0.0})
    return make_pipeline(encoder, forest).fit(whole, y), whole
