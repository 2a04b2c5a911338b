"""The cheapest attack where rows must be valid, against all rows there are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import treeproof as tp

Rows = dict[str, np.ndarray]
Oracle = Callable[[Rows], np.ndarray]
DUMMIES = ("p", "q", "r")


def some_relation(rng: np.random.Generator, names: list[str]) -> tuple[Any, Oracle]:
    """A relation between columns, and what it says about rows."""
    a, b, c = (str(name) for name in rng.permutation(names)[:3])
    k, n, m = int(rng.integers(1, 3)), int(rng.integers(0, 9)), int(rng.integers(0, 5))
    choices: list[tuple[Any, Oracle]] = [
        (f"{a} <= {b}", lambda t: t[a] <= t[b]),
        (f"{k}*{a} + {b} <= {n}", lambda t: k * t[a] + t[b] <= n),
        (f"{a} + {b} - {k}*{c} >= {m}", lambda t: t[a] + t[b] - k * t[c] >= m),
        (f"{a} + {b} == {c} + {m}", lambda t: t[a] + t[b] == t[c] + m),
        (tp.implies(f"{a} <= {m}", f"{b} >= {c}"), lambda t: (t[a] > m) | (t[b] >= t[c])),
        (tp.any_of(f"{a} <= {b}", f"{a} >= {m}"), lambda t: (t[a] <= t[b]) | (t[a] >= m)),
        (tp.implies("p == 1", f"{a} + {b} <= {n}"), lambda t: (t["p"] != 1) | (t[a] + t[b] <= n)),
    ]
    return choices[int(rng.integers(len(choices)))]


def some_rows(rng: np.random.Generator, n: int) -> pd.DataFrame:
    frame = pd.DataFrame(rng.integers(0, 5, (n, 3)).astype(float), columns=list("abc"))
    kind = rng.integers(3, size=n)
    return frame.assign(**{name: (kind == i).astype(float) for i, name in enumerate(DUMMIES)})


def all_rows(values: np.ndarray) -> pd.DataFrame:
    """All rows of these values, with one dummy that is 1."""
    numbers = np.array(list(itertools.product(values, repeat=3)))
    parts = [
        pd.DataFrame(numbers, columns=list("abc")).assign(**dict.fromkeys(DUMMIES, 0.0) | {one: 1.0}) for one in DUMMIES
    ]
    return pd.concat(parts, ignore_index=True)[["a", "b", "c", *DUMMIES]]


def check_questions(seed: int) -> int:
    """Compares a few prices with those of all rows; how many attacks there were."""
    rng = np.random.default_rng(seed)
    train = some_rows(rng, 60)
    model = RandomForestClassifier(int(rng.integers(1, 5)), max_depth=3, random_state=seed)
    model.fit(train, rng.integers(0, 2, 60))
    given = [some_relation(rng, list("abc")) for _ in range(int(rng.integers(1, 4)))]
    relations = [tp.one_of(*DUMMIES, name="kind"), *(relation for relation, _ in given)]
    domain = dict.fromkeys("abc", (-2, 7))
    is_l1, costs = bool(rng.integers(2)), rng.integers(1, 4, 6)
    one_way = {"up": ["a"], "down": ["b"]} if is_l1 and seed % 2 == 0 else {}
    attacker = (
        tp.Attacker.lp(1, 1.0, step=dict.fromkeys("abc", 1), domain=domain, scale={"a": 2, "b": 5}, **one_way)
        if is_l1
        else tp.Attacker([(-3, 3)] * 6, costs=costs.tolist(), budget=30, step=[1] * 6, domain=[(-2, 7)] * 6)
    )
    asked = train.head(4)
    try:
        found = tp.cheapest_attack(model, asked, attacker, relations=relations)
    except tp.InvalidInput as error:
        assert "contradict" in str(error) or "no value" in str(error)
        return 0
    everything = all_rows(np.arange(-2.0, 8.0))
    columns = {name: everything[name].to_numpy() for name in everything}
    valid = np.all([holds(columns) for _, holds in given], axis=0)
    labels = model.predict(everything)
    for i, (row, label) in enumerate(zip(asked.to_numpy(), model.predict(asked), strict=True)):
        away = np.abs(everything.to_numpy() - row)
        if is_l1:
            price = (away / [2, 5, 1, 1, 1, 1]).sum(axis=1)
            wrong_way = (columns["a"] < row[0]) | (columns["b"] > row[1])
            price[wrong_way & bool(one_way)] = np.inf
        else:
            price = np.where((away <= 3).all(axis=1), ((away > 0) * costs).sum(axis=1), np.inf)
        least = price[valid & (labels != label)].min(initial=np.inf)
        assert found.exact[i], (seed, i)
        assert found.price[i] == pytest.approx(least, rel=1e-12), (seed, i, relations)
        if np.isfinite(least):
            after = {name: np.array([found.rows[name].iloc[i]]) for name in everything}
            assert all(holds(after)[0] for _, holds in given)
    return int(np.isfinite(found.price).sum())


def test_prices_are_those_of_the_cheapest_valid_row() -> None:
    assert check_questions(0) >= 1


@pytest.mark.slow
def test_prices_are_those_of_the_cheapest_valid_row_in_many_questions() -> None:
    assert sum(check_questions(seed) for seed in range(1, 16)) >= 25


def test_within_a_radius_relations_may_leave_nothing() -> None:
    rows = pd.DataFrame({"a": [0.0, 4.0], "b": [1.0, 5.0], "c": [0.0, 0.0]})
    model = RandomForestClassifier(1, max_depth=1, max_features=None, bootstrap=False, random_state=0)
    model.fit(rows[["a"]].assign(b=0.0, c=0.0), [0, 1])  # a <= 2
    ways = [(["a <= b"], 3.0), (["a + c <= b"], 3.0), (["a <= b", "b + c <= 1"], np.inf), (["2*a + c <= b"], 5.0)]
    for relations, least in ways:
        domain = {"c": (0.0, 9.0)}
        found = tp.cheapest_attack(model, rows[:1], tp.Attacker.lp(1, 1.0, domain=domain), relations=relations)
        assert found.price[0] == pytest.approx(least) and found.exact[0]
        for radius in (2.5, 4.0, 6.0):
            attacker = tp.Attacker.lp(1, radius, domain=domain)
            found = tp.cheapest_attack(model, rows[:1], attacker, relations=relations, within=True)
            assert found.price[0] == pytest.approx(least if least <= radius else np.inf) and found.exact[0]


@pytest.mark.slow
def test_ten_orders_of_columns_leave_the_search_short() -> None:
    data = load_breast_cancer(as_frame=True)
    X = data.data.rename(columns=lambda name: name.replace(" ", "_"))
    model = XGBClassifier(n_estimators=30, max_depth=3, n_jobs=1).fit(X[::2], data.target[::2])
    attacker = tp.Attacker.lp(1, 1.0, scale=(X.max() - X.min()).to_dict())
    orders = [f"{name} <= {name.replace('mean', 'worst')}" for name in X if name.startswith("mean")]
    found = tp.cheapest_attack(model, X[1::2][:12], attacker, relations=orders, timeout=60)
    assert found.exact.all()
    # The last one cost treecf 0.3.2 5,000,000 nodes and more.
    assert found.price[[5, 8, 11]] == pytest.approx([0.2800254, 0.4387620, 0.9209545], rel=1e-6)
    assert all((found.rows[name] <= found.rows[name.replace("mean", "worst")]).all() for name in X.columns[:10])
