"""Relations that tables suggest: what was put into a table is found, what is there by accident is not."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from treeproof.model.builder import EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.threat.relations import bind_relations
from treeproof.threat.suggest.columns import read_columns

N = 2000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def found(X: Any, kind: str = "") -> list[str]:
    return [one.text for one in tp.suggest_relations(X) if kind in one.kind]


def relations(X: Any) -> list[str]:
    return tp.suggest_relations(X).relations


def broken_rows(frame: pd.DataFrame, suggested: list[str]) -> int:
    """How many rows break relations, by their exact evaluator, with the steps of the proposed attacker."""
    columns = dict(enumerate(read_columns(frame).columns))
    builder = EnsembleBuilder(
        n_features=len(columns),
        classes=[0, 1],
        feature_names=list(frame.columns),
        handles_missing=True,
        categories={f: Category(column.values) for f, column in columns.items() if column.values is not None},
    )
    builder.add_tree(feature=[-1], threshold=[0.0], left=[-1], right=[-1], scores=[[1.0, 0.0]])
    step = json.loads(tp.suggest_attacker(frame).attacker.to_json()).get("step") or {}
    proposed = {name: Fraction(str(size)) for name, size in step.get("by_feature", [])}
    steps = {f: proposed[column.key] for f, column in columns.items() if column.key in proposed}
    bound = bind_relations(suggested, builder.build(), steps)
    return int(bound.broken(np.stack([column.numbers for column in columns.values()], axis=1)).sum())


def test_chance_suggests_nothing() -> None:
    for seed in range(3):
        draw = rng(seed)
        frame = pd.DataFrame(
            {
                **{f"number {i}": draw.normal(size=N) for i in range(6)},
                **{f"count {i}": draw.poisson(1, N) for i in range(6)},
                **{f"flag_{i}": draw.random(N) < 0.3 for i in range(6)},
                **{f"kind {i}": draw.choice(list("abcdef"), N) for i in range(6)},
                **{f"gap {i}": np.where(draw.random(N) < 0.1, np.nan, draw.normal(size=N)) for i in range(4)},
            }
        )
        assert found(frame) == []


def test_one_hot_groups_are_found_by_name_and_by_place() -> None:
    purpose = pd.Series(rng().choice(["car", "radio", "other"], N))
    frame = pd.get_dummies(pd.DataFrame({"loan purpose": purpose})).assign(has_car=rng(1).random(N) < 0.5)
    group = "one_of(`loan purpose_car`, `loan purpose_other`, `loan purpose_radio`, name='loan purpose')"
    assert found(frame) == [group]
    assert found(frame.to_numpy(dtype=float)) == ["one_of([0], [1], [2], name='group 1')"]


def test_a_group_with_its_first_column_dropped_is_at_most_one() -> None:
    frame = pd.get_dummies(pd.DataFrame({"job": rng().choice(["a", "b", "c"], N)}), drop_first=True)
    assert found(frame) == ["at_most_one(job_b, job_c, name='job')"]


def test_a_group_has_a_name_of_its_own() -> None:
    job = rng().choice(["a", "b", "c"], N)
    frame = pd.get_dummies(pd.DataFrame({"job": job})).assign(job=rng(1).normal(size=N))
    assert found(frame) == ["one_of(job_a, job_b, job_c, name='job group')"]


def test_flags_that_are_rare_are_no_group() -> None:
    rare = rng().permutation(N)
    frame = pd.DataFrame({"has_a": rare < 20, "has_b": (rare >= 20) & (rare < 40)})
    assert found(frame) == []


def test_cents_add_up_as_decimals_although_their_doubles_do_not() -> None:
    rent, food = rng().integers(0, 100_000, (2, N)) / 100
    frame = pd.DataFrame({"rent": rent, "food": food, "total": np.round(rent + food, 2)})
    assert (frame.rent + frame.food != frame.total).sum() > 100
    assert relations(frame) == ["rent + food == total"]
    assert broken_rows(frame, relations(frame)) == 0


def test_sums_of_other_numbers_have_a_tolerance() -> None:
    a, b = rng().normal(size=(2, N))
    frame = pd.DataFrame({"a": a, "b": b, "c": a + b})
    low, high = relations(frame)
    assert low.startswith("a + b - c >= -0.00000000") and high.startswith("a + b - c <= 0.00000000")
    assert broken_rows(frame, [low, high]) == 0


def test_parts_of_a_whole_multiples_and_shifts() -> None:
    a, b = rng().integers(0, 50, (2, N))
    years = rng(1).integers(1, 40, N)
    frame = pd.DataFrame({"a": a, "b": b, "rest": 100 - a - b, "months": 12 * years, "years": years})
    frame["born"] = 1990.5 - years
    assert set(found(frame)) == {"a + b + rest == 100", "months == 12*years", "years + born == 1990.5"}
    assert broken_rows(frame, relations(frame)) == 0


def test_sums_are_found_beside_columns_that_are_mostly_missing() -> None:
    a, b = rng().normal(size=(2, N))
    frame = pd.DataFrame(
        {f"gap {i}": np.where(rng(i).random(N) < 0.9, np.nan, rng(-i % 99).normal(size=N)) for i in range(1, 9)}
    )
    frame = frame.assign(a=a, b=np.where(rng(9).random(N) < 0.1, np.nan, b), c=a + b, huge=a * 1e300, most=a * np.inf)
    assert [one.relations[0][:12] for one in tp.suggest_relations(frame) if one.kind == "sum"] == ["a + b - c >="]


def test_four_columns_that_balance_wherever_they_stand() -> None:
    draw = rng()
    begin, inflow, outflow, other, much = (draw.integers(0, most, N) / 100 for most in (9000, 5000, 4000, 70, 900_000))
    end = np.round(begin + inflow - outflow, 2)
    frame = pd.DataFrame({"end": end, "much": much, "begin": begin, "other": other, "out": outflow, "in": inflow})
    assert found(frame, "sum") == ["end + out == begin + `in`"]
    all_three = frame.assign(end=np.round(begin + inflow + other, 2))
    assert found(all_three, "sum") == ["begin + other + `in` == end"]
    assert broken_rows(frame, relations(frame)) == 0


def test_what_follows_from_sums_is_not_repeated() -> None:
    parts = rng().integers(0, 50, (4, N))
    frame = pd.DataFrame({f"part {i}": part for i, part in enumerate(parts)})
    frame["half"] = parts[0] + parts[1]
    frame["total"] = parts.sum(axis=0)
    assert len(found(frame, "sum")) == 2
    assert found(frame, "order") == []
    assert broken_rows(frame, relations(frame)) == 0


def test_columns_that_never_exceed_another_without_what_follows() -> None:
    days = rng().poisson(3, N)
    frame = pd.DataFrame({"max_30d": days, "max_6m": days + rng(1).poisson(2, N)})
    frame["max_12m"] = frame.max_6m + rng(2).poisson(2, N)
    frame["always above"] = rng(3).uniform(1000, 2000, N)
    assert set(found(frame)) == {"max_30d <= max_6m", "max_6m <= max_12m"}
    frame.loc[7, "max_30d"] = 99
    assert "max_30d <= max_6m" not in found(frame)


def test_columns_that_are_0_together_are_not_ordered() -> None:
    loans = rng().poisson(1, N)
    has = loans > 0
    frame = pd.DataFrame({"loans": loans, "amount": np.where(has, rng(1).integers(1, 9000, N), 0)})
    frame["rate"] = np.where(has, rng(2).uniform(1, 9, N), 0.0)
    (only,) = tp.suggest_relations(frame)
    assert only.text == "loans == 0, amount == 0 and rate == 0 go together"
    assert only.rows == int((~has).sum())
    assert broken_rows(frame, list(only.relations)) == 0


def test_an_order_of_columns_that_add_up() -> None:
    most = rng().integers(50, 101, N)
    frame = pd.DataFrame({"most": most, "rest": 100 - most, "other": rng(1).normal(size=N)})
    frame.loc[0, ["most", "rest"]] = 50
    assert found(frame) == ["most + rest == 100"]  # ranges say the rest


def test_a_few_rows_say_nothing() -> None:
    frame = pd.DataFrame({"a": [0, 0, 1.0, 2], "b": [0, 0, 3.0, 4], "c": [0, 0, 4.0, 6], "d": list("xxyy")})
    assert found(frame) == []


def test_copies_are_told_once() -> None:
    a = rng().normal(size=N)
    frame = pd.DataFrame({"a": a, "again": a, "c": a + rng(1).exponential(size=N)})
    assert set(found(frame)) == {"a == again", "a <= c"}
    job = pd.Series(rng().choice(["x", "y y"], N))
    assert relations(pd.DataFrame({"job": job, "same": job})) == [
        "implies(job == 'x', same == 'x')",
        "implies(job == 'y y', same == 'y y')",
    ]


def test_ids_and_constants_say_nothing() -> None:
    frame = pd.DataFrame({"id": np.arange(N), "code": [f"u{i}" for i in range(N)], "one": 1, "none": np.nan})
    frame["later id"] = frame.id + 5
    assert found(frame) == []


def test_a_category_decides_a_number() -> None:
    level = rng().integers(0, 5, N)
    frame = pd.DataFrame({"number": level + 3, "school": np.array(list("abcde"))[level]})
    (only,) = tp.suggest_relations(frame)
    assert only.text == "school decides number, as in implies(school == 'a', number == 3)"
    assert only.relations[4] == "implies(school == 'e', number == 7)"


def test_values_of_categories_that_never_meet() -> None:
    marital = rng().choice(["married", "single", "widowed"], N)
    role = np.where(marital == "married", rng(1).choice(["husband", "wife"], N), rng(2).choice(["child", "other"], N))
    frame = pd.DataFrame({"marital": marital, "role": role})
    (only,) = tp.suggest_relations(frame)
    assert set(only.relations) == {
        "implies(marital == 'married', role not in ('child', 'other'))",
        "implies(marital == 'single', role not in ('husband', 'wife'))",
        "implies(marital == 'widowed', role not in ('husband', 'wife'))",
    }
    dummies = relations(pd.get_dummies(frame))
    assert "implies(marital_married == 1, role_child == 0 and role_other == 0)" in dummies


def test_missing_together_and_where_a_category_says_so() -> None:
    single = rng().random(N) < 0.3
    frame = pd.DataFrame({"status": np.where(single, "single", "married or so")})
    frame["spouse age"] = np.where(single, np.nan, rng(1).normal(40, 9, N))
    frame["spouse job"] = np.where(single, None, rng(2).choice(["a", "b"], N))  # type: ignore[call-overload]
    (only,) = tp.suggest_relations(frame)
    assert set(only.relations) >= {"implies(`spouse age` is missing, `spouse job` is missing)"}
    assert "status == 'single'" in only.text


def test_zeros_that_depend_on_a_flag_or_a_category() -> None:
    has = rng().random(N) < 0.5
    kind = rng(1).choice(["a", "b", "c"], N)
    frame = pd.DataFrame({"has_card": has, "spent": np.where(has, rng(2).integers(0, 9, N), 0), "kind": kind})
    frame["bonus"] = np.where(kind == "a", 0.0, rng(3).normal(size=N).clip(0))
    assert set(found(frame)) == {"implies(has_card == 0, spent == 0)", "implies(kind == 'a', bonus == 0)"}


def test_exceptions_of_missing_values_are_none() -> None:
    days = rng().poisson(3, N).astype(float)
    more = days + rng(1).poisson(2, N)
    frame = pd.DataFrame({"days": np.where(rng(2).random(N) < 0.1, np.nan, days), "more": more})
    (only,) = tp.suggest_relations(frame)
    assert only.text == "days <= more"
    assert only.rows == int((frame.days.notna() & ~((frame.days == 0) & (frame.more == 0))).sum())
    assert broken_rows(frame, list(only.relations)) == 0


def test_suggestions_are_picked_by_number_and_read_as_a_table() -> None:
    rent, food = rng().integers(0, 1000, (2, N))
    few = rng(1).poisson(2, N)
    table = {"rent": rent, "food": food, "total": rent + food, "few": few, "more": few + rng(2).poisson(1, N)}
    suggested = tp.suggest_relations(table)
    assert suggested.accept(1) == ["few <= more"]
    assert suggested[:1].relations == suggested.accept(0) == ["rent + food == total"]
    assert isinstance(suggested[0], tp.Suggestion) and len(suggested) == 2
    lines = repr(suggested).splitlines()
    assert lines[1].split()[:6] == ["0", "rent", "+", "food", "==", "total"]
    assert "accept those that you know to hold" in lines[-1]
    with pytest.raises(tp.InvalidInput, match="no suggestion 2; they have the numbers 0 to 1"):
        suggested.accept(2)
    assert len(tp.suggest_relations(table, limit=1)) == 2  # one of each kind
    with pytest.raises(tp.InvalidInput, match="limit must be a whole number of at least 1, got 0"):
        tp.suggest_relations(table, limit=0)


def test_of_an_implication_and_its_contrapositive_one_is_proposed() -> None:
    plan = rng().choice(["basic", "plus", "pro"], N)
    discount = np.where(plan == "pro", rng(1).choice([0, 5, 10], N), 0)
    assert found({"plan": plan, "discount": discount}) == ["implies(discount > 0, plan == 'pro')"]


def test_what_is_no_table_is_refused() -> None:
    for X, message in (
        ([1, 2], "expected rows and columns, got 1 dimension; give a data frame$"),
        ("train.csv", "got 0 dimensions; give a data frame$"),
        (np.empty((0, 3)), "nothing to learn from an empty one"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are named 'a'"),
    ):
        with pytest.raises(tp.InvalidInput, match=message):
            tp.suggest_relations(X)


def test_columns_of_other_types_are_named() -> None:
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=30), "a": 1})
    assert "column when holds neither numbers nor categories" in repr(tp.suggest_relations(frame))


def test_text_of_others_cannot_pass_for_lines() -> None:
    a = rng().normal(size=N)
    frame = pd.DataFrame({"a\n0  lies": a, "b": a})
    assert len(repr(tp.suggest_relations(frame)).splitlines()) == 3


def real(name: str) -> pd.DataFrame:
    folder = os.environ.get("TREEPROOF_DATA")
    if folder is None:
        pytest.skip("data sets are found through TREEPROOF_DATA")
    file, label = {"adult": ("adult.csv.xz", "income"), "german": ("german_credit.csv", "label")}[name]
    return pd.read_csv(Path(folder, file), na_values="?").drop(columns=label)


def test_adult_reads_as_a_person_would_expect() -> None:
    frame = real("adult")
    suggested = tp.suggest_relations(frame)
    assert suggested[0].text.startswith("education decides `education-num`")
    assert "implies(workclass is missing, occupation is missing)" in suggested.relations
    assert "implies(`capital-gain` > 0, `capital-loss` == 0)" in suggested.relations
    husband = "implies(relationship == 'Husband', `marital-status` in ('Married-AF-spouse', 'Married-civ-spouse'))"
    assert husband in suggested.relations
    assert len(suggested) < 10
    assert broken_rows(frame, suggested.relations) == 0


@pytest.mark.slow
def test_one_hot_columns_say_what_their_categories_said() -> None:
    frame = pd.get_dummies(real("adult"))
    suggested = tp.suggest_relations(frame)
    assert sum(one.kind == "one-hot group" for one in suggested) == 8
    assert "implies(education_Bachelors == 1, `education-num` == 13)" in suggested.relations
    assert len(suggested) < 20
    assert broken_rows(frame, suggested.relations) == 0


@pytest.mark.parametrize("drop_first", [False, True])
def test_german_credit_is_all_groups(drop_first: bool) -> None:
    frame = real("german")
    assert found(frame) == []
    suggested = tp.suggest_relations(pd.get_dummies(frame, drop_first=drop_first))
    assert {one.kind for one in suggested} == {"one-hot group"}
    assert len(suggested) == (10 if drop_first else 13)
    assert broken_rows(pd.get_dummies(frame, drop_first=drop_first), suggested.relations) == 0


def test_decimals_are_not_ordered_with_doubles_that_lie_just_below_them() -> None:
    """A column with a step stands for decimals, and 0.3 as a double is less than that."""
    draw = rng()
    price = np.round(draw.uniform(0, 100, N), 1)
    bid = np.where(draw.random(N) < 0.3, price, price + draw.gamma(2, 5, N))
    frame = pd.DataFrame({"price": price, "bid": bid})
    assert (frame.price <= frame.bid).all()
    above = [Fraction(repr(p)) > Fraction(b) for p, b in zip(price.tolist(), bid.tolist(), strict=True)]
    assert any(above) and "price" in str(tp.suggest_attacker(frame).attacker)
    assert "price <= bid" not in relations(frame)
    both = pd.DataFrame({"price": price, "bid": np.round(bid, 1)})
    assert relations(both) == ["price <= bid"] and broken_rows(both, relations(both)) == 0


@pytest.mark.parametrize("seed", range(60))
def test_no_row_breaks_what_is_proposed(seed: int) -> None:
    draw = rng(seed)
    n = int(draw.choice([60, 200, 400]))
    base = np.round(draw.uniform(0, 100, n), int(draw.integers(0, 4)))
    kinds = [
        lambda: base,
        lambda: np.nextafter(base, draw.choice([-1e9, 1e9])),
        lambda: base + np.where(draw.random(n) < 0.3, 0, draw.gamma(2, 5, n)),
        lambda: np.round(base + draw.gamma(2, 5, n), 1),
        lambda: base + np.round(base / 3, 1),
        lambda: draw.choice(list("abcd"), n),
        lambda: (draw.random(n) < 0.3).astype(int),
        lambda: np.where(base > 50, 1, 0),
        lambda: np.where(base > 50, "x", "y"),
        lambda: np.where(draw.random(n) < 0.5, 0.0, np.round(draw.gamma(2, 5, n), 2)),
        lambda: np.where(draw.random(n) < 0.15, np.nan, base),
    ]
    chosen = [kinds[k]() for k in draw.integers(0, len(kinds), int(draw.integers(3, 9)))]
    frame = pd.DataFrame({"base": base, **{f"column {i}": values for i, values in enumerate(chosen)}})
    assert broken_rows(frame, relations(frame)) == 0
    by_place = frame.set_axis([i if i % 2 else name for i, name in enumerate(frame)], axis=1)
    assert len(tp.suggest_relations(by_place)) >= 0
