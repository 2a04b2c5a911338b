"""TREANT's data and attack files, as its authors left them: verdicts against attacks that they, or we, enumerated.

All columns of its tables are features, by the names that its attack files use, but for the last one, the label, which
is -1 or 1; XGBoost calls these 0 and 1. Text columns of census are categories.
"""

from __future__ import annotations

import ast
import functools
import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeproof as tp
from tests.support.commands import run

DATA = os.environ.get("TREEPROOF_DATA")
FOLDER = Path(str(DATA)) / "treant"
LABELS = {"census": "income_greater_than_50k", "credit": "default.payment.next.month", "wine": "quality"}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(DATA is None, reason="TREEPROOF_DATA is not set")]

OLDER_RULES = [
    tp.Rule("PAY_0", when=(2, 9), change=(-1, 0), cost=10),
    tp.Rule("PAY_2", when=(2, 9), change=(-1, 0), cost=10),
    tp.Rule("BILL_AMT1", when=(60000, 80000), change=(-10000, 0), cost=10),
    tp.Rule("LIMIT_BAL", when=(150000, 250000), change=(0, 20000), cost=10),
]
"""What the enumerated attacks were made with; TREANT's attack file is newer, and so are the rows of its test set."""


@functools.cache
def table(name: str, part: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows and labels of a data set; text as categories, the same for all parts."""
    frame = pd.read_csv(FOLDER / name / f"{part}.csv.bz2")
    y = frame.pop(LABELS[name]).to_numpy()
    if part == "train":
        return frame.astype(
            {column: "category" for column in frame if not pd.api.types.is_numeric_dtype(frame[column])}
        ), y
    train, _ = table(name, "train")
    return frame.astype({column: train[column].dtype for column in train if is_text(train, column)}), y


def is_text(frame: pd.DataFrame, column: str) -> bool:
    return isinstance(frame[column].dtype, pd.CategoricalDtype)


def trained(kind: str, name: str, n_trees: int, **words: Any) -> Any:
    """A model of the training rows."""
    X, y = table(name, "train")
    if kind == "LightGBM":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=n_trees, verbose=-1, random_state=0, n_jobs=1).fit(X, y)
    if kind == "XGBoost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=n_trees, enable_categorical=True, n_jobs=1).fit(X, y > 0)
    forest = RandomForestClassifier(n_trees, random_state=0, **words)
    text = [column for column in X if is_text(X, column)]
    if not text:
        return forest.fit(X, y)
    encoder = ColumnTransformer([("text", OneHotEncoder(handle_unknown="ignore"), text)], remainder="passthrough")
    return make_pipeline(encoder, forest).fit(X, y)


def labels_for(model: Any, y: np.ndarray) -> np.ndarray:
    """Labels -1 and 1 as the model calls them."""
    return np.asarray(model.classes_)[(y > 0).astype(int)]


def robust_rows(result: tp.Verification) -> np.ndarray:
    """Which rows are robust; none is unknown."""
    assert (result.robustness_outcomes != tp.Outcome.UNKNOWN).all()
    return np.asarray(result.robustness_outcomes == tp.Outcome.PROVED)


# --- attacks that TREANT's authors enumerated ------------------------------------------------------------------------


@functools.cache
def enumerated() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """All attacks for budget 15, where those of each row begin, which is with the row itself, and labels of rows."""
    frame = pd.read_csv(FOLDER / "credit" / "test_B15.atks.csv.bz2")
    first = np.flatnonzero(np.diff(frame.pop("instance_id"), prepend=-1))
    return frame, first, frame.pop(LABELS["credit"]).to_numpy()[first]


def verdicts(model: Any) -> tuple[tp.Verification, np.ndarray, np.ndarray]:
    """What is verified for all rows, which of them are robust, and which are by the library's labels of attacks."""
    attacks, first, y = enumerated()
    y = labels_for(model, y)
    result = tp.verify(model, attacks.iloc[first], y, tp.Attacker.rules(OLDER_RULES, budget=15))
    predicted = np.asarray(model.predict(attacks))
    wrong = predicted != np.repeat(y, np.diff(first, append=len(attacks)))
    return result, robust_rows(result), ~np.logical_or.reduceat(wrong, first)


@pytest.mark.parametrize("kind", ["forest", "LightGBM", "XGBoost"])
def test_verdicts_equal_predictions_for_the_attacks_that_its_authors_enumerated(kind: str) -> None:
    _, robust, expected = verdicts(trained(kind, "credit", 50 if kind == "forest" else 100))
    assert len(robust) == 6000
    np.testing.assert_array_equal(robust, expected)


def test_attacks_that_its_authors_left_out_reach_leaves_that_theirs_do_not() -> None:
    """They list the values of the test set only, and trees may tell others apart."""
    model = trained("forest", "credit", 100, max_depth=8)
    result, robust, expected = verdicts(model)
    assert not (robust & ~expected).any()
    attacks, first, _ = enumerated()
    last = np.append(first[1:], len(attacks))
    more = np.flatnonzero(expected & ~robust).tolist()
    assert 0 < len(more) < 10
    for row in more:
        leaves = model.apply(attacks.iloc[first[row] : last[row]])
        attacked = pd.DataFrame(result.attacked[[row]], columns=attacks.columns)
        assert model.predict(attacked) != model.predict(attacks.iloc[[first[row]]])
        assert not (leaves == model.apply(attacked)).all(axis=1).any()


# --- attacks that we enumerate from its files ------------------------------------------------------------------------


def reached(value: Any, rule: dict[str, Any], cuts: list[float]) -> dict[Any, int]:
    """What a column's value can become, with the least price: for numbers, the ends and one value beside each cut."""
    prices = {value: 0}
    if not rule["is_numerical"]:
        words = ast.literal_eval(rule["pre"])
        if value in ([words] if isinstance(words, str) else words):
            prices.setdefault(rule["post"], rule["cost"])
        return prices
    low, high = (float(end) for end in rule["pre"].strip("()").replace("np.", "").split(","))
    at, price = float(value), 0
    while low <= at <= high and price + rule["cost"] <= 200:
        # As far as one more rule leads: what stays inside `pre` may be moved again.
        price, end = price + rule["cost"], at + rule["post"]
        between = sorted((at, end))
        for cut in [end, low, high, *cuts, *(np.nextafter(cut, np.inf) for cut in cuts)]:
            if between[0] <= cut <= between[1]:
                prices.setdefault(cut, price)
        at = end if low <= end <= high else (low if end < low else high) if at not in (low, high) else end
    return prices


def cuts_of(model: Any, column: str) -> list[float]:
    """Doubles around which labels may change: thresholds as the library writes them."""
    frame = model.booster_.trees_to_dataframe()
    found = frame[(frame.split_feature == column) & (frame.decision_type == "<=")].threshold.astype(float)
    return sorted(set(found))


@pytest.mark.parametrize(
    ("name", "budgets"), [("wine", (20, 60, 120)), ("credit", (10, 30, 60)), ("census", (30, 60, 90, 120))]
)
def test_verdicts_equal_predictions_for_all_attacks_of_its_files(name: str, budgets: tuple[int, ...]) -> None:
    """Budgets are its authors'; every product of what single columns can become is tried."""
    model = trained("LightGBM", name, 15)
    X, y = table(name, "test")
    X, y = X[:150], y[:150]
    file = FOLDER / name / "attacks.json"
    rules = {c: rule for attack in json.loads(file.read_text())["attacks"] for c, (rule,) in attack.items()}
    cuts = {column: cuts_of(model, column) for column in rules}
    attacks, of_row, prices = [], [], []
    for row, values in enumerate(X[list(rules)].itertuples(index=False)):
        columns = [reached(value, rules[c], cuts[c]) for value, c in zip(values, rules, strict=True)]
        for choice in itertools.product(*(column.items() for column in columns)):
            price = sum(cost for _, cost in choice)
            if price <= max(budgets):
                attacks.append([value for value, _ in choice])
                of_row.append(row)
                prices.append(price)
    frame = X.iloc[of_row].reset_index(drop=True)
    changed = pd.DataFrame(attacks, columns=list(rules)).astype(
        {c: X[c].dtype if is_text(X, c) else float for c in rules}
    )
    frame[list(rules)] = changed
    wrong = model.predict(frame) != y[of_row]
    for budget in budgets:
        result = tp.verify(model, X, y, tp.Attacker.from_json(file, budget=budget))
        expected = np.ones(len(X), dtype=bool)
        expected[np.array(of_row)[wrong & (np.array(prices) <= budget)]] = False
        np.testing.assert_array_equal(robust_rows(result), expected)


@pytest.mark.parametrize("kind", ["forest", "LightGBM", "XGBoost"])
@pytest.mark.parametrize("name", ["wine", "credit", "census"])
def test_its_files_run_unchanged(kind: str, name: str) -> None:
    """What its authors' smallest budgets break, larger ones break as well; every counterexample is replayed."""
    model = trained(kind, name, 30, max_depth=8)
    X, y = table(name, "valid")
    y = labels_for(model, y)
    results = [
        tp.verify(model, X[:300], y[:300], tp.Attacker.from_json(FOLDER / name / "attacks.json", budget=budget))
        for budget in (20, 60, 120)
    ]
    shares = [robust_rows(result).mean() for result in results]
    assert shares == sorted(shares, reverse=True) and shares[0] > shares[-1]
    for result in results:
        assert (model.predict(result.attacked_frame()) != result.predicted[result.has_witness]).all()


@pytest.mark.parametrize("name", ["wine", "census"])
def test_its_files_run_unchanged_on_the_command_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained("XGBoost", name, 20).save_model(tmp_path / "model.json")
    code, said, _ = run(
        capsys, "verify", tmp_path / "model.json", FOLDER / name / "valid.csv.bz2", "--label", LABELS[name],
        "--classes=-1,1", "--attacker", FOLDER / name / "attacks.json", "--budget", "60",
    )  # fmt: skip
    assert code == 0 and "All changes together cost at most 60" in " ".join(said.split())
