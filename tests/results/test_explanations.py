"""Explanations as objects, tables, JSON and HTML: the same answers everywhere, in the user's own names and values."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.hand_made import ROW, asked, explanation
from treeproof.results.asked import Asked, OneOf, Range, units_of
from treeproof.results.explanations import Explanations
from treeproof.results.verdicts import Outcome
from treeproof.threat.relations import bind_relations


def frame_of_loans(n: int = 120) -> tuple[pd.DataFrame, pd.Series]:
    """Loans with a number, a whole number with gaps, and a category."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "months": rng.integers(6, 60, n),
            "rate": rng.uniform(0, 1, n).round(3),
            "purpose": pd.Categorical(rng.choice(["car", "radio", "tv"], n)),
        },
        index=[f"loan {k}" for k in range(n)],
    )
    label = np.where((frame.months > 30) & (frame.purpose != "tv") | (frame.rate > 0.6), "bad", "good")
    frame.loc[frame.index[::7], "rate"] = math.nan
    return frame, pd.Series(label, index=frame.index)


@pytest.fixture(scope="module")
def loans() -> tuple[Any, pd.DataFrame]:
    X, y = frame_of_loans()
    model = lgb.LGBMClassifier(n_estimators=15, num_leaves=6, min_child_samples=5, verbose=-1, random_state=0).fit(X, y)
    return model, X


@pytest.fixture(scope="module")
def reasons(loans: tuple[Any, pd.DataFrame]) -> Explanations:
    return tp.explain(loans[0], loans[1][:30], domain={"months": (1, 72), "rate": (0, 1)})


def test_rows_are_called_as_in_the_frame(reasons: Explanations) -> None:
    assert [one.index for one in reasons[:2]] == ["loan 0", "loan 1"]
    assert reasons.to_frame().index.tolist() == [f"loan {k}" for k in range(30)]
    assert str(reasons).startswith(f"row loan 0: {reasons[0]}\n")


def test_ranges_are_the_values_of_the_row(reasons: Explanations, loans: tuple[Any, pd.DataFrame]) -> None:
    for one in reasons:
        own = loans[1].iloc[one.row]
        for name, allowed in one.ranges.items():
            if name == "purpose":
                assert isinstance(allowed, OneOf) and allowed == (own[name],)
            else:
                assert isinstance(allowed, Range) and allowed.low is not None
                np.testing.assert_equal([*allowed], [own[name]] * 2)


def test_counts_are_those_of_the_rows(reasons: Explanations) -> None:
    for name, n in reasons.counts.items():
        assert n == sum(name in one.columns for one in reasons)
    assert list(reasons.counts.values()) == sorted(reasons.counts.values(), reverse=True)
    assert sum(reasons.counts.values()) == sum(len(one.columns) for one in reasons)


def test_slices_are_explanations(reasons: Explanations) -> None:
    some = reasons[3:5]
    assert isinstance(some, Explanations) and [one.row for one in some] == [3, 4]
    assert len(some) == 2 and some[1] is reasons[4]
    assert reasons[-1].row == 29


def test_json_says_everything(reasons: Explanations, loans: tuple[Any, pd.DataFrame], tmp_path: Path) -> None:
    text = reasons.to_json(tmp_path / "reasons.json")
    assert (tmp_path / "reasons.json").read_text() == text
    content = json.loads(text)
    assert content["format"] == "treeproof-explanations" and content["version"] == 1
    assert content["kind"] == "reason" and content["assumptions"] == reasons.assumptions
    assert tp.Attacker.from_json(json.dumps(content["attacker"])) == reasons.about.attacker
    assert dict(map(tuple, content["counts"])) == reasons.counts
    predicted = loans[0].predict(loans[1][:30])
    for one, said, label in zip(reasons, content["explanations"], predicted, strict=True):
        assert said["columns"] == list(one.columns) and said["label"] == label == one.label
        assert said["sentence"] == str(one) and said["index"] == one.index
        values = dict(map(tuple, said["ranges"]))
        for name, allowed in one.ranges.items():
            if isinstance(allowed, OneOf):
                assert values[name] == {"values": list(allowed)}
            elif math.isnan(allowed.low):
                assert values[name] == {"missing": True}
            else:
                assert values[name] == {"low": allowed.low, "high": allowed.high}


def test_infinite_ends_are_null_in_json() -> None:
    one = explanation({"duration": (33.5, math.inf)})
    content = json.loads(Explanations([one], one.about, seconds=0.0).to_json())
    assert content["explanations"][0]["ranges"] == [["duration", {"low": 33.5, "high": None}]]


def test_csv_is_the_same_table(reasons: Explanations, tmp_path: Path) -> None:
    reasons.to_csv(tmp_path / "reasons.csv")
    with open(tmp_path / "reasons.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["explanation"] for line in lines] == [str(one) for one in reasons]
    assert lines[0]["row"] == "loan 0" and lines[0]["minimal"] == "True"


def test_the_short_form_counts_and_warns(reasons: Explanations) -> None:
    sizes = [len(one.columns) for one in reasons]
    assert f"30 reasons, {min(sizes)} to {max(sizes)} of 3 columns, 30 proved minimal" in repr(reasons)
    about = asked()
    unknown = explanation(about=about, outcome=Outcome.UNKNOWN, minimal=False)
    short = repr(Explanations([unknown], about, seconds=0.0, interrupted=True))
    assert short == "Explanations(1 reason, 1 not found in time, no domain, interrupted)"


def test_notebooks_show_sentences_counts_and_assumptions(reasons: Explanations) -> None:
    page = reasons._repr_html_()
    assert "loan 0" in page and "reasons with it, of 30" in page and "and 10 more rows" in page
    assert "do not become missing" in page
    nasty = explanation({"purpose": ["<script>alert(1)</script>"]}, label="<b>")
    for shown in (nasty._repr_html_(), Explanations([nasty], nasty.about, seconds=0.0)._repr_html_()):
        assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_changed_rows_are_in_the_users_own_values(loans: tuple[Any, pd.DataFrame]) -> None:
    model, X = loans
    ensemble = tp.from_model(model)
    rows = ensemble.check_rows(X[:1])
    other = rows[0].copy()
    other[2] = 2.0
    about = Asked.of(ensemble, "contrastive", tp.Attacker(tp.ANY), rows, given=X[:1])
    one = explanation({}, about, columns=("purpose",), other=other, changed_label="good")
    assert one.changed.purpose.tolist() == ["tv"] and one.changed.index.tolist() == ["loan 0"]
    assert one.changed.drop(columns="purpose").equals(X[:1].drop(columns="purpose"))
    assert model.predict(one.changed).tolist() == ensemble.classes[ensemble.predict_index(other[None])].tolist()
    assert one.changes == {"purpose": (X.purpose.iloc[0], "tv")}
    plain = explanation({}, asked(kind="contrastive"), columns=("purpose",), other=ROW + np.array([0, 0, 0, 1, 0, 0]))
    assert plain.changed.tolist() == [36.0, 4200.0, 0.4, "radio", 1.0, 0.0]
    assert explanation().changed is None and explanation().changes == {}


def test_groups_are_one_column() -> None:
    rng = np.random.default_rng(0)
    purpose = rng.integers(0, 3, 200)
    X = pd.DataFrame({"amount": rng.uniform(0, 9, 200), **{f"p{k}": (purpose == k) * 1.0 for k in range(3)}})
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, (purpose == 1) & (X.amount > 4))
    relations = [tp.one_of("p0", "p1", "p2", name="purpose")]
    ensemble = tp.from_model(model)
    units = units_of(ensemble, bind_relations(relations, ensemble))
    assert [(unit.name, unit.features) for unit in units] == [("amount", (0,)), ("purpose", (1, 2, 3))]
    found = tp.explain(model, X[:20], relations=relations)
    seen = {one.ranges["purpose"][0] for one in found if "purpose" in one.columns}
    assert seen <= {"p0", "p1", "p2"} and seen
    for one in found:
        if "purpose" in one.columns:
            assert one.ranges["purpose"] == (f"p{purpose[one.row]}",)
    assert "Only rows that keep 1 relation count" in found.assumptions[2]


def test_whole_numbers_are_known_by_their_type_or_their_values() -> None:
    X, _ = frame_of_loans(3)
    ensemble = tp.from_model(RandomForestClassifier(2, random_state=0).fit([[1, 0.5, 0], [2, 0.1, 1]], [0, 1]))
    numbers = X.assign(purpose=0)
    about = Asked.of(ensemble, "reason", tp.Attacker(tp.ANY), np.asarray(numbers, dtype=float), given=numbers)
    assert about.whole == {0, 2}
    plain = np.array([[1.0, 0.5, 3.0], [2.0, 0.1, 3.0]])
    assert Asked.of(ensemble, "reason", tp.Attacker(tp.ANY), plain).whole == {0}
