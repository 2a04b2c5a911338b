"""Models as people deploy them: raw text columns, missing values, five libraries.

    python -m benchmarks.deployed [--only adult] [--rows 200] [--attacker text]

adult and german_credit as they are, the last quarter for testing. Each model is imported from the fitted object, its
nodes are counted against the library's own, and the first test rows are verified for an attacker who changes two text
columns to anything and a number by a little. The labels of all counterexamples come from the library's own `predict` of
a data frame. The wide cases have a category column of 500 values. Seconds are by the clock, of one thread, when
compiled code is loaded; "ratio" is the time of `verify` in calls of the library's own `predict` for the same rows.
Harder attackers change every text column to anything (`text`), or any two columns (`two`); rows have 2 s each then.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp

DATA = Path(os.environ.get("TREEPROOF_DATA", "../shared/data"))


@dataclass(frozen=True)
class Table:
    """A data set, and the attacker that its rows are asked about."""

    X: pd.DataFrame
    y: np.ndarray
    attacker: tp.Attacker

    @property
    def text(self) -> list[str]:
        """The columns that hold text, whichever type pandas gives them."""
        return [name for name in self.X if not pd.api.types.is_numeric_dtype(self.X[name])]

    @property
    def numbers(self) -> list[str]:
        """The others."""
        return [name for name in self.X if name not in self.text]

    def with_categories(self) -> pd.DataFrame:
        """What most libraries take: text as pandas' categories."""
        return self.X.astype(dict.fromkeys(self.text, "category"))

    def with_texts(self) -> pd.DataFrame:
        """What CatBoost takes: no missing text."""
        return self.X.fillna(dict.fromkeys(self.text, "missing"))


def adult() -> Table:
    frame = pd.read_csv(DATA / "adult.csv.xz", skipinitialspace=True, na_values="?")
    y = frame.pop("income").to_numpy().astype(str)
    attacker = tp.Attacker({"occupation": tp.ANY, "workclass": tp.ANY, "hours-per-week": (-5, 5)})
    return Table(frame, y, attacker)


def german_credit() -> Table:
    frame = pd.read_csv(DATA / "german_credit.csv")
    y = np.where(frame.pop("label") == 1, "good", "bad")
    attacker = tp.Attacker({"Purpose": tp.ANY, "Savings": tp.ANY, "CreditAmount": (-500, 500)})
    return Table(frame, y, attacker)


def wide() -> Table:
    random = np.random.default_rng(0)
    zips, jobs, numbers = random.integers(0, 500, 20000), random.integers(0, 12, 20000), random.normal(size=(20000, 4))
    effect, of_job = random.normal(size=500), random.normal(size=12) / 2
    score = effect[zips] + of_job[jobs] + numbers[:, 0] - numbers[:, 1] * (effect[zips] > 0) / 2
    frame = pd.DataFrame(numbers, columns=list("abcd"))
    frame.insert(0, "zip", [f"z{code:03}" for code in zips])
    frame.insert(1, "job", [f"job {code}" for code in jobs])
    y = np.where(score + random.normal(size=20000) / 2 > 0, "yes", "no")
    return Table(frame, y, tp.Attacker({"zip": tp.ANY, "a": (-0.1, 0.1)}))


# --- the models: (the fitted model, the rows that it takes, how many nodes it has) -----------------------------------

Fitted = tuple[Any, pd.DataFrame, int]


def lightgbm(table: Table, train: slice) -> Fitted:
    from lightgbm import LGBMClassifier

    X = table.with_categories()
    model = LGBMClassifier(n_estimators=500, verbose=-1, random_state=0, n_jobs=1).fit(X[train], table.y[train])
    trees = model.booster_.dump_model()["tree_info"]
    return model, X, sum(2 * tree["num_leaves"] - 1 for tree in trees)


def xgboost(table: Table, train: slice) -> Fitted:
    from xgboost import XGBClassifier

    X = table.with_categories()
    y = np.unique(table.y, return_inverse=True)[1]
    model = XGBClassifier(n_estimators=500, enable_categorical=True, tree_method="hist", n_jobs=1)
    model.fit(X[train], y[train])
    return model, X, len(model.get_booster().trees_to_dataframe())


def catboost(table: Table, train: slice) -> Fitted:
    from catboost import CatBoostClassifier

    X = table.with_texts()
    model = CatBoostClassifier(
        iterations=500, one_hot_max_size=600, max_ctr_complexity=1, verbose=False, random_seed=0, thread_count=1,
        cat_features=table.text, allow_writing_files=False,
    )  # fmt: skip
    model.fit(X[train], table.y[train])
    # A symmetric tree of depth d has a test on each level, and 2**d leaves.
    depths = np.log2(model.get_tree_leaf_counts())
    return model, X, int(sum(2 ** (depth + 1) - 1 for depth in depths))


def hist_gradient_boosting(table: Table, train: slice) -> Fitted:
    from sklearn.ensemble import HistGradientBoostingClassifier

    X = table.with_categories()
    model = HistGradientBoostingClassifier(max_iter=300, random_state=0, early_stopping=False)
    model.fit(X[train], table.y[train])
    return model, X, sum(len(tree.nodes) for step in model._predictors for tree in step)


def forest(table: Table, train: slice) -> Fitted:
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    text = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    model = make_pipeline(
        ColumnTransformer([("text", text, table.text), ("numbers", numbers, table.numbers)]),
        RandomForestClassifier(200, random_state=0, n_jobs=1),
    )
    model.fit(table.X[train], table.y[train])
    return model, table.X, sum(tree.tree_.node_count for tree in model[-1].estimators_)


NATIVE = {"LightGBM 500": lightgbm, "XGBoost 500": xgboost, "CatBoost 500": catboost}
MODELS = NATIVE | {"HistGradientBoosting 300": hist_gradient_boosting, "one-hot, scaler, imputer, forest 200": forest}
CASES: dict[str, tuple[Callable[[], Table], dict[str, Callable[[Table, slice], Fitted]]]] = {
    "adult": (adult, MODELS),
    "german_credit": (german_credit, MODELS),
    "500 values": (wide, {name: NATIVE[name] for name in ("LightGBM 500", "XGBoost 500")}),
}


def attacker_of(table: Table, name: str) -> tp.Attacker:
    if name == "two":
        return tp.Attacker.l0(2)
    return tp.Attacker(dict.fromkeys(table.text, tp.ANY)) if name == "text" else table.attacker


def measure(table: Table, fit: Callable[[Table, slice], Fitted], n_rows: int, name: str) -> str:
    n_train = len(table.X) * 3 // 4
    model, X, n_nodes = fit(table, slice(n_train))
    began = time.perf_counter()
    # CatBoost keeps hashes of values only.
    given = {"categories": X[:n_train]} if type(model).__name__ == "CatBoostClassifier" else {}
    ensemble = tp.from_model(model, **given)
    imported = time.perf_counter() - began
    rows = X.iloc[n_train : n_train + n_rows]
    y = ensemble.classes[np.unique(table.y, return_inverse=True)[1][n_train : n_train + n_rows]]
    attacker = attacker_of(table, name)
    tp.verify(ensemble, rows[:2], y[:2], attacker, n_jobs=1, timeout=2)
    began = time.perf_counter()
    result = tp.verify(ensemble, rows, y, attacker, n_jobs=1, timeout=None if name == "given" else 2)
    verified = time.perf_counter() - began
    began = time.perf_counter()
    model.predict(rows)
    ratio = verified / (time.perf_counter() - began)
    flipped = np.asarray(model.predict(result.attacked_frame())).reshape(-1) != result.predicted[result.has_witness]
    nodes = "as the library" if ensemble.n_nodes == n_nodes else f"library {n_nodes:,}"
    return (
        f"{imported:6.2f}s {ensemble.n_nodes:>10,} {nodes:>16} {verified:7.2f}s {ratio:7.1f}  "
        f"{float(result.accuracy):.3f} {result.robustness.lower:.3f} {result.robustness.upper:.3f}  "
        f"{int(flipped.sum())} of {int(result.has_witness.sum())}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the name of a case")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--attacker", choices=("given", "text", "two"), default="given")
    given = parser.parse_args()
    print(f"{'':55} {'import':>7} {'nodes':>10} {'':>16} {'verify':>8} {'ratio':>7}  accuracy, robustness  flipped")
    for data, (load, models) in CASES.items():
        table = load()
        for name, fit in models.items():
            title = f"{data}, {name}"
            if given.only in title:
                print(f"{title:55} {measure(table, fit, given.rows, given.attacker)}", flush=True)


if __name__ == "__main__":
    main()
