"""Attackers that tables suggest: grids, ranges, values, gaps, and what is left out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from treeproof.threat.suggest.columns import read_columns

N = 400


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def step_of(values: Any) -> Fraction | None:
    return read_columns({"x": values}).columns[0].step


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (rng().integers(0, 90, N), "1"),
        (rng().integers(0, 90, N).astype(float), "1"),
        (rng().random(N) < 0.5, "1"),
        (rng().integers(0, 9000, N) / 100, "1/100"),
        (rng().integers(0, 90, N) * 0.25, "1/4"),
        (rng().integers(0, 90, N) + 0.5, "1"),
        (rng().integers(0, 90, N) * 50.0, "50"),
        (rng().integers(0, 2, N) * 50.0, "1"),  # two values are no grid of 50
        (np.array([3, 9]), "1"),
        (np.where(rng().random(N) < 0.1, np.nan, rng().integers(0, 9, N)), "1"),
    ],
)
def test_numbers_on_grids(values: Any, step: str) -> None:
    assert step_of(values) == Fraction(step)


@pytest.mark.parametrize(
    "values",
    [
        rng().normal(size=N),
        rng().normal(size=N).astype(np.float32),
        np.array([1.0, 2.0, 3.0]),  # whole by accident
        (rng().integers(0, 90, N) / 10).astype(np.float32),  # as doubles, these are no decimals
        np.append(rng().integers(0, 90, N), 0.123456),
        np.append(rng().integers(0, 90, N), np.inf),
        rng().integers(0, 9, N) * 1e300,
        np.ones(N),
    ],
)
def test_numbers_on_no_grid(values: Any) -> None:
    assert step_of(values) is None


def test_steps_are_those_of_the_decimals_that_doubles_print_as() -> None:
    cents = rng().integers(0, 10**6, 5000) / 100
    assert step_of(cents) == Fraction(1, 100)
    assert step_of(np.append(cents, np.nextafter(1.1, 2))) is None


def test_every_column_that_varies_may_become_what_was_seen() -> None:
    frame = pd.DataFrame(
        {
            "id": np.arange(N),
            "age": np.append(rng().integers(18, 80, N - 2), [18, 79]),
            "income": rng().normal(size=N).clip(0, 2),
            "paid": np.append(rng().integers(0, 1000, N - 2) / 100, [0, 10]),
            "job of mine": np.where(rng().random(N) < 0.1, None, rng(1).choice(["b", "a a"], N)),  # type: ignore[call-overload]
            "country": rng().choice([f"c{i}" for i in range(60)], N),
            "planet": "earth",
            "one": 1.0,
        }
    )
    proposal = tp.suggest_attacker(frame)
    attacker = tp.Attacker(
        {
            "age": tp.ANY,
            "income": tp.ANY,
            "paid": tp.ANY,
            "job of mine": tp.values("a a", "b"),
            "country": tp.ANY,
        },
        budget=1,
        domain={"age": (18, 79), "income": (0, 2), "paid": (0, 10)},
        step={"age": 1, "paid": 0.01},
        blank={"job of mine": 1},
        fill={"job of mine": 1},
    )
    assert proposal.attacker == attacker
    assert proposal.relations == []
    text = repr(proposal)
    assert "nothing: rows have values of their own, as ids have" in text
    assert "nothing: it is always earth" in text and "nothing: it is always 1 " in text
    assert "whole numbers from 18 to 79" in text and "steps of 0.01 from 0 to 10" in text
    assert "Only you know what an attacker can reach" in text


@pytest.mark.parametrize("name", ["id", "patient id", "customer_ID", "customerId"])
def test_ids_may_occur_twice_if_they_are_called_so(name: str) -> None:
    numbers = rng().integers(0, 10**9, N)
    numbers[:20] = numbers[20:40]
    for values in (numbers, numbers.astype(str)):
        columns = read_columns({name: values, "paid": values, "n": rng().integers(0, 9, N)}).columns
        assert [column.is_id for column in columns] == [True, False, False]


def test_a_one_hot_group_is_one_column() -> None:
    job = pd.get_dummies(pd.DataFrame({"job": rng().choice(["x", "y", "z"], N)}))
    proposal = tp.suggest_attacker(job.assign(age=rng().integers(0, 9, N)))
    assert proposal.relations == ["one_of(job_x, job_y, job_z, name='job')"]
    assert proposal.attacker == tp.Attacker(
        {"age": tp.ANY, "job": tp.ANY}, budget=1, domain={"age": (0, 8)}, step={"age": 1}
    )
    assert "give relations=" in repr(proposal)


def test_columns_without_names_go_by_position() -> None:
    rows = np.column_stack((rng().normal(size=N).clip(-1, 1), np.ones(N), rng().integers(0, 9, N)))
    assert tp.suggest_attacker(rows).attacker == tp.Attacker(
        {0: tp.ANY, 2: tp.ANY}, budget=1, domain={0: (-1, 1), 2: (0, 8)}, step={2: 1}
    )


def test_pandas_types_of_its_own() -> None:
    frame = pd.DataFrame(
        {
            "count": pd.array([1, 2, None, 4] * 50, dtype="Int64"),
            "yes": pd.array([True, False, None, True] * 50, dtype="boolean"),
            "code": pd.Categorical([3, 1, 2, 1] * 50),
            "when": pd.date_range("2020-01-01", periods=200),
        }
    )
    proposal = tp.suggest_attacker(frame)
    assert proposal.attacker == tp.Attacker(
        {"count": tp.ANY, "yes": tp.ANY, "code": tp.values(1, 2, 3)},
        budget=1,
        domain={"count": (1, 4), "yes": (0, 1)},
        step={"count": 1, "yes": 1},
        blank={"count": 1, "yes": 1},
        fill={"count": 1, "yes": 1},
    )
    assert "column when holds neither numbers nor categories" in repr(proposal)


def test_a_table_of_constants_has_no_attacker() -> None:
    with pytest.raises(tp.InvalidInput, match="no column varies"):
        tp.suggest_attacker({"a": np.ones(5)})


@pytest.mark.slow
def test_verify_takes_what_is_proposed() -> None:
    rent, food = rng().integers(0, 90_000, (2, N)) / 100
    X = pd.DataFrame({"rent": rent, "food": food, "total": np.round(rent + food, 2)})
    y = X.total > 900
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    attacker, relations = tp.suggest_attacker(X).attacker, tp.suggest_relations(X).relations
    free = tp.verify(model, X[:40], y[:40], attacker)
    assert float(free.robustness) == 0
    # Who changes one of three columns that add up, breaks the sum.
    bound = tp.verify(model, X[:40], y[:40], attacker, relations=relations)
    assert float(bound.robustness) == bound.accuracy == 1
