"""Results: measures as bounds, tables, and JSON that comes back exactly or is refused in one line."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.applicants import applicants
from tests.support.results import changed
from treeproof.importers import EnsembleBuilder
from treeproof.results.verdicts import Bounds, Outcome, Witness
from treeproof.results.verification import Verification

P, R, U = Outcome.PROVED, Outcome.REFUTED, Outcome.UNKNOWN
NAN = math.nan


def stump(classes: Any = (0, 1), names: tuple[str, ...] | None = ("age", "income")) -> tp.Ensemble:
    builder = EnsembleBuilder(n_features=2, classes=classes, feature_names=names, handles_missing=True)
    builder.add_tree(
        feature=[0, -1, -1],
        threshold=[0.5, 0, 0],
        left=[1, -1, -1],
        right=[2, -1, -1],
        scores=[[0, 0], [1, 0], [0, 1]],
        nan_left=[True, True, True],
    )
    return builder.build()


def result(classes: Any = (0, 1), **options: Any) -> Verification:
    """Four rows: unstable, stable but not resilient, missing (so nobody moves it), and wrong."""
    first = np.asarray(classes).tolist()[0]
    X = [[0.45, 0.1], [0.3, NAN], [NAN, -0.0], [0.9, 1e-300]]
    return tp.verify(
        stump(classes, names=options.pop("names", ("age", "income"))),
        X,
        [first] * 4,
        tp.Attacker.linf(0.1),
        **({"epsilons": [0.15]} | options),
    )


# --- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "lower", "upper"),
    [
        ([P, P, R, P], 0.75, 0.75),
        ([P, U, R, P], 0.5, 0.75),
        ([U, U], 0.0, 1.0),
        ([R, R, R], 0.0, 0.0),
        ([P], 1.0, 1.0),
        ([P, R, U] * 3, 1 / 3, 2 / 3),
    ],
)
def test_open_rows_may_go_either_way(outcomes: list[Outcome], lower: float, upper: float) -> None:
    bounds = Bounds.of(np.array(outcomes, dtype=np.int8))
    assert (bounds.lower, bounds.upper) == (lower, upper)
    assert bounds.exact == (U not in outcomes)
    if bounds.exact:
        assert float(bounds) == lower
    else:
        with pytest.raises(ValueError, match=f"undecided: between {lower} and {upper}; use .lower or .upper"):
            float(bounds)


def test_the_share_of_no_rows_is_nan() -> None:
    bounds = Bounds.of(np.empty(0, dtype=np.int8))
    assert bounds.exact and math.isnan(float(bounds)) and repr(bounds) == "Bounds(nan)"


def test_bounds_show_one_number_or_two() -> None:
    assert repr(Bounds(0.75, 0.75)) == "Bounds(0.75)"
    assert repr(Bounds(0.5, 0.75)) == "Bounds(0.5 … 0.75)"


def test_outcomes_are_words() -> None:
    assert [str(outcome) for outcome in Outcome] == ["proved", "refuted", "unknown"]


# --- results ---------------------------------------------------------------------------------------------------------


def test_a_result_says_what_holds_for_each_row() -> None:
    found = result()
    assert [tuple(v)[:3] for v in map(dataclasses.astuple, found.verdicts)] == [
        (R, R, R),
        (P, P, R),
        (P, P, P),
        (P, R, R),
    ]
    assert [verdict.witness is not None for verdict in found.verdicts] == [True, True, False, False]
    assert (found.accuracy, float(found.robustness), float(found.resilience)) == (0.75, 0.5, 0.25)
    assert found.resilience_at == {0.15: Bounds(0.25, 0.25)}
    unstable, fragile = found.verdicts[0].witness, found.verdicts[1].witness
    assert isinstance(unstable, Witness) and isinstance(fragile, Witness)
    assert unstable.neighbour.tolist() == unstable.x.tolist() == [0.45, 0.1]
    assert fragile.neighbour[0] > 0.3 and math.isnan(fragile.attacked[1])
    assert unstable.moved == {"age": (0.45, math.nextafter(0.5, 1))} and fragile.moved.keys() == {"age"}
    assert unstable.moved_by_position == {0: (0.45, math.nextafter(0.5, 1))}
    assert unstable.in_words() == "age 0.45 → 0.5000000000000001"


def test_without_a_neighbourhood_there_is_no_resilience() -> None:
    found = result(epsilons=None)
    assert found.resilience is None and found.resilience_at == {}
    assert {verdict.resilience for verdict in found.verdicts} == {None}
    assert "resilience" not in repr(found) and "resilience" not in found.to_frame().columns


def test_a_result_in_one_line() -> None:
    missing = "missing cells in 2 rows stay missing"
    assert repr(result()) == (
        f"Verification(4 rows, accuracy 0.750, robustness 0.500, resilience 0.250 at ε = 0.15, {missing})"
    )
    assert repr(result(max_seconds=0)) == (
        "Verification(4 rows, accuracy 0.750, robustness 0.000 to 0.750, resilience 0.000 to 0.750 at ε = 0.15, "
        f"{missing})"
    )
    interrupted = dataclasses.replace(result(epsilons=None), interrupted=True)
    assert repr(interrupted).endswith(f"robustness 0.500, {missing}, interrupted)")


def test_the_frame_has_one_line_per_row() -> None:
    frame = result(("no", "yes")).to_frame()
    above = math.nextafter(0.5, 1)
    assert frame.columns.tolist() == ["label", "predicted", "stability", "robustness", "resilience", "moved"]
    assert frame["label"].tolist() == ["no"] * 4 and frame["predicted"].tolist() == ["no", "no", "no", "yes"]
    assert frame["stability"].tolist() == ["refuted", "proved", "proved", "proved"]
    assert frame["robustness"].tolist() == ["refuted", "proved", "proved", "refuted"]
    assert frame["resilience"].tolist() == ["refuted", "refuted", "proved", "refuted"]
    assert frame["moved"][0] == f"age 0.45 → {above!r}"
    assert frame["moved"][1].startswith("age ") and frame["moved"][2:].tolist() == ["", ""]


def test_the_frame_of_a_sweep_has_a_column_per_neighbourhood() -> None:
    frame = result(epsilons=[0.0, 0.15], names=None).to_frame()
    assert frame["resilience at 0.0"].tolist() == ["refuted", "proved", "proved", "refuted"]
    assert frame["resilience at 0.15"].tolist() == ["refuted", "refuted", "proved", "refuted"]
    assert frame["moved"][0].startswith("0 0.45 → ")


def test_neighbourhoods_are_named_by_their_columns() -> None:
    found = result(epsilons=[{"age": 0.2}, {1: 1500.0, 0: 0.5}, (0.0, 0.25)])
    names = ["age 0.2", "income 1,500, age 0.5", "income 0.25"]
    assert found.names_of_epsilons == [f"ε = {name}" for name in names]
    assert [f"resilience at {name}" for name in names] == found.to_frame().columns[4:7].tolist()
    # A column of a table must not replace another.
    same = result(epsilons=[(0.0, 0.25), {"income": 0.25}])
    assert same.names_of_epsilons == ["ε1 per feature", "ε2 per feature"]


# --- classes ---------------------------------------------------------------------------------------------------------


def two_classes(**options: Any) -> Verification:
    """The same four rows, of which the last two are labelled "bad" and rightly so for the last."""
    rows = [[0.45, 0.1], [0.3, NAN], [NAN, -0.0], [0.9, 1e-300]]
    labels, model = ["good", "good", "bad", "bad"], stump(("good", "bad"))
    return tp.verify(model, rows, labels, tp.Attacker.linf(0.1), **({"epsilons": [0.15, 0.5]} | options))


def test_measures_by_class_are_those_of_the_rows_of_each_class() -> None:
    found = two_classes()
    assert list(found.by_class) == ["bad", "good"]
    for label, one in found.by_class.items():
        rows = found.y == label
        assert one.rows == len(one) == rows.sum() == 2 and one.open_rows == 0
        assert one.accuracy == found.correct[rows].mean()
        assert one.robustness == Bounds.of(found.robustness_outcomes[rows])
        assert one.resilience_by_epsilon == tuple(Bounds.of(each[rows]) for each in found.resilience_by_epsilon)
        assert one.resilience == one.resilience_by_epsilon[0]
    good, bad = found.by_class["good"], found.by_class["bad"]
    assert (good.accuracy, float(good.robustness), float(good.resilience)) == (1.0, 0.5, 0.0)
    assert (bad.accuracy, float(bad.robustness), float(bad.resilience)) == (0.5, 0.5, 0.5)
    assert repr(good) == (
        "Measures(2 rows, accuracy 1.000, robustness 0.500, resilience 0.000, 0.000, 1 with missing cells)"
    )


def test_open_rows_are_counted_for_each_class() -> None:
    found = two_classes(max_seconds=0)
    # A wrong label is not robust, whether or not it is stable.
    assert {label: one.open_rows for label, one in found.by_class.items()} == {"bad": 1, "good": 2}
    assert found.measures.open_rows == 3 and "2 rows, accuracy 0.500, robustness 0.000 to 0.500" in repr(found)


def test_one_line_and_notebooks_speak_of_each_class() -> None:
    found = two_classes(epsilons=None)
    missing = "missing cells in 2 rows stay missing"
    bad = "bad: 2 rows, accuracy 0.500, robustness 0.500, 1 with missing cells"
    good = "good: 2 rows, accuracy 1.000, robustness 0.500, 1 with missing cells"
    assert repr(found) == f"Verification(4 rows, accuracy 0.750, robustness 0.500, {missing}; {bad}; {good})"
    assert '<th scope="row">bad</th><td>2</td><td>50.0 %</td><td>50.0 %</td><td>0</td>' in found._repr_html_()
    assert "true class" not in result()._repr_html_(), "there is but one"


def test_one_line_does_not_list_a_hundred_classes() -> None:
    builder = EnsembleBuilder(n_features=1, classes=list(range(100)))
    builder.add_tree(feature=[-1], threshold=[0], left=[-1], right=[-1], scores=[[1] + [0] * 99])
    shown = repr(tp.verify(builder.build(), [[0.0]] * 100, list(range(100)), tp.Attacker.linf(0.1)))
    assert shown.endswith("; 4: 1 rows, accuracy 0.000, robustness 0.000; and 95 more classes)")


def test_the_file_has_the_measures_of_each_class() -> None:
    content = json.loads(two_classes().to_json())
    assert content["by_class"][0] == {
        "class": "bad",
        "rows": 2,
        "accuracy": 0.5,
        "robustness": [0.5, 0.5],
        "resilience": [[0.5, 0.5], [0.0, 0.0]],
        "open_rows": 0,
        "rows_with_missing": 1,
    }


# --- missing values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attacker", "rows"),
    [
        (tp.Attacker.linf(0.1), [1, 2]),
        (tp.Attacker.linf(0.1, features=["age"]), [2]),
        (tp.Attacker({"income": (0, 1)}), [1]),
        (tp.Attacker((0.0, 0.0)), []),
        (tp.Attacker.lp(2, 0.1, features=["income"]), [1]),
        (tp.Attacker.lp(2, 0.0), []),
        (tp.Attacker((-0.1, 0.1), costs={"age": 3}, budget=2), [1]),
        (tp.Attacker((-0.1, 0.1), budget=0), []),
        (tp.Attacker((-0.1, 0.1), fill=["age"]), [1]),
        (tp.Attacker((-0.1, 0.1), fill={"age": 3, 1: 2}, budget=2), [2]),
        (tp.Attacker({}, blank=["age", "income"]), [1, 2]),
    ],
    ids=repr,
)
def test_rows_are_counted_whose_missing_cells_the_attacker_could_touch(attacker: tp.Attacker, rows: list[int]) -> None:
    X = [[0.45, 0.1], [0.3, NAN], [NAN, -0.0], [0.9, 1e-300]]
    found = tp.verify(stump(), X, [0, 1, 0, 1], attacker)
    assert np.flatnonzero(found.has_missing).tolist() == rows and found.rows_with_missing == len(rows)
    assert [verdict.has_missing for verdict in found.verdicts] == found.has_missing.tolist()
    alone = tp.Verifier(stump(), attacker).verdicts(X)
    assert [verdict.has_missing for verdict in alone] == found.has_missing.tolist()
    assert ("missing" in repr(found)) == ("does not fill them" in found._repr_html_()) == bool(rows)
    again = Verification.from_json(found.to_json())
    assert again.rows_with_missing == len(rows) == json.loads(found.to_json())["rows_with_missing"]
    assert sum(one.rows_with_missing for one in again.by_class.values()) == len(rows)


# --- JSON ------------------------------------------------------------------------------------------------------------

RESULTS: dict[str, Callable[[], Verification]] = {
    "int": result,
    "negative int": lambda: result(np.array([-1, 1], dtype=np.int8)),
    "float": lambda: result((0.1, 2.0)),
    "bool": lambda: result((False, True)),
    "strings": lambda: result(("no", "certainly")),
    "objects": lambda: result(np.array(["no", "yes"], dtype=object)),
    "no resilience": lambda: result(epsilons=None),
    "sweep": lambda: result(epsilons=[0.1, math.inf, {"age": 0.2}, {0: math.inf, 1: 0.5}, [0.1, math.inf], 3]),
    "array": lambda: result(epsilons=np.array([[0.1, 0.2], [0.3, 0.4]])),
    "no names": lambda: result(names=None),
    "open": lambda: result(max_seconds=0),
    "interrupted": lambda: dataclasses.replace(result(), interrupted=True),
    "no rows": lambda: tp.verify(stump(), np.empty((0, 2)), [], tp.Attacker.linf(0.1), epsilon=0.1),
}


def bits(value: Any) -> Any:
    """The value such that == compares every bit and type, NaN and -0.0 included."""
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype == object else value.tobytes()
        return (value.shape, value.dtype.str, content)
    if isinstance(value, tuple):
        return tuple(bits(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, tp.Attacker):
        return {field.name: bits(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return (type(value), value)


@pytest.mark.parametrize("kind", RESULTS)
def test_results_survive_json_exactly(kind: str, tmp_path: Path) -> None:
    found = RESULTS[kind]()
    text = found.to_json(tmp_path / "result.json")
    assert (tmp_path / "result.json").read_text(encoding="utf-8") == text
    for again in (Verification.from_json(text), Verification.from_json(tmp_path / "result.json")):
        for field in dataclasses.fields(Verification):
            assert bits(getattr(again, field.name)) == bits(getattr(found, field.name)), field.name
        assert repr(again) == repr(found) and again.to_json() == text


def test_json_is_strict_and_missing_values_are_null() -> None:
    def refuse(token: str) -> Any:
        raise AssertionError(f"{token} is not JSON")

    content = json.loads(RESULTS["sweep"]().to_json(), parse_constant=refuse)
    assert content["X"][1] == [0.3, None] and content["attacked"][2][0] is None
    assert content["epsilons"][1] == {"all": None}


def test_a_shorter_label_column_does_not_cut_the_predictions() -> None:
    found = result(("no", "certainly"))
    again = Verification.from_json(found.to_json())
    assert again.predicted.tolist() == ["no", "no", "no", "certainly"]
    assert again.attacked_label.tolist()[0] == "certainly"


def test_labels_that_json_cannot_hold_are_refused() -> None:
    found = dataclasses.replace(result(), y=np.array([b"a", (1,), None, 2], dtype=object))
    with pytest.raises(tp.InvalidInput, match="a label of type bytes cannot be written as JSON: b'a'"):
        found.to_json()


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match="cannot write .*: .*none is not a folder"):
        result().to_json(tmp_path / "none" / "result.json")
    with pytest.raises(tp.InvalidInput, match="expected a path, got 3"):
        result().to_json(3)  # type: ignore[arg-type]


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"format": "treeproof-attacker"}, 'it lacks "format": "treeproof-verification"'),
    ({"version": 9}, "it has version 9; this treeproof reads version 4, so verify again"),
    ({"version": 3}, "it has version 3; this treeproof reads version 4, so verify again"),
    ({"version": True}, "it has version True"),
    ({"treeproof": 1}, "treeproof has the wrong type: 1"),
    ({"extra": 1}, "it has the unknown fields extra"),
    ({"y": 3}, "y is not a list"),
    ({"y": [0, 0, 0]}, "entries instead of 3"),
    ({"y": [0, 0, 0, None]}, "y must not contain None"),
    ({"y": [0, 0, 0, "a"]}, "y must not contain 'a'"),
    ({"y": [0, 0, 0, True]}, "y must not contain True"),
    ({"y": [0, 0, 0, 2**70]}, "is not a valid verification"),
    ({"predicted": [0, 0]}, "predicted has 2 entries instead of 4"),
    ({"attacked_label": [[0], [0], [0], [0]]}, r"attacked_label must not contain \[0\]"),
    ({"label_dtype": "V8"}, "label_dtype .* is not a dtype of labels"),
    ({"label_dtype": "<U1"}, "must not contain 0"),
    ({"label_dtype": "|i1", "y": [0, 0, 0, 300]}, "is not a valid verification"),
    ({"label_dtype": "nonsense"}, "is not a valid verification"),
    ({"label_dtype": 7}, "label_dtype has the wrong type: 7"),
    ({"label_dtype": "i4," * 1000}, "label_dtype .* is not a dtype of labels"),
    ({"label_dtype": "<U1000000000"}, "label_dtype '<U1000000000' is not a dtype of labels"),
    ({"stability": [0, 1, 2]}, "stability has 3 entries instead of 4"),
    ({"stability": [0, 1, 2, 3]}, "3 is not a valid Outcome"),
    ({"stability": [0, 1, 2, 300]}, "300 is not a valid Outcome"),
    ({"stability": [0, 1, 2, 1.5]}, "stability must not contain 1.5"),
    ({"stability": [0, 1, 2, True]}, "stability must not contain True"),
    ({"resilience": []}, "resilience has 0 entries instead of 1"),
    ({"resilience": [[0, 0, 0]]}, "resilience has 3 entries instead of 4"),
    ({"resilience": [3]}, "resilience must not contain 3"),
    ({"epsilons": []}, "resilience has 1 entries instead of 0"),
    ({"epsilons": [0.1]}, "epsilons must not contain 0.1"),
    ({"epsilons": [{"all": -1}]}, "epsilon must be at least 0, got -1"),
    ({"epsilons": [{"all": "a"}]}, "epsilon must be a number, got 'a'"),
    ({"epsilons": [{"some": 1}]}, "epsilon must be one of"),
    ({"refuted": ["stability", 1, None, None]}, 'refuted must not contain 1; an entry is null, "stability" or the num'),
    ({"refuted": ["stability", -2, None, None]}, "refuted must not contain -2"),
    ({"refuted": ["resilience", 0, None, None]}, "refuted must not contain 'resilience'"),
    ({"refuted": [True, 0, None, None]}, "refuted must not contain True"),
    ({"refuted": ["stability"]}, "refuted has 1 entries instead of 4"),
    ({"X": [[0.0, 0.0]] * 3}, "X has 3 entries instead of 4"),
    ({"X": [[0.0, 0.0]] * 3 + [[0.0]]}, "X has 1 entries instead of 2"),
    ({"X": [[0.0, "1.5"]] * 4}, "X must not contain '1.5'"),
    ({"X": [[0.0, True]] * 4}, "X must not contain True"),
    ({"X": [0.0] * 4}, "X must not contain 0.0"),
    ({"neighbour": None}, "neighbour is not a list"),
    ({"attacked": [[0.0, 10**400]] * 4}, "is not a valid verification"),
    ({"n_features": 3}, "for 3 features"),
    ({"n_features": -1, "feature_names": None}, "entries instead of -1"),
    ({"n_features": 10**12, "feature_names": None}, "X has 2 entries instead of 1000000000000"),
    ({"n_features": True}, "n_features has the wrong type: True"),
    ({"feature_names": ["a"]}, "it has 1 feature names for 2 features"),
    ({"feature_names": "ab"}, "feature_names is not a list"),
    ({"feature_names": [1, 2]}, "feature_names must not contain 1"),
    ({"seconds": "1"}, "seconds has the wrong type: '1'"),
    ({"interrupted": 0}, "interrupted has the wrong type: 0"),
    ({"boxes": 1.5}, "boxes has the wrong type: 1.5"),
    ({"model": None}, "model has the wrong type: None"),
    ({"movable": [0, 2]}, r"movable must list columns from 0 to 1 in order, got \[0, 2\]"),
    ({"movable": [1, 0]}, "movable must list columns"),
    ({"movable": [True]}, "movable must not contain True"),
    ({"rows_with_missing": 0}, "rows_with_missing is not what the rows add up to"),
    ({"movable": []}, "rows_with_missing is not what the rows add up to"),
    ({"unreached": [2]}, "unreached must list columns from 0 to 1 in order"),
    ({"untested": [1, 1]}, "untested must list columns from 0 to 1 in order"),
    ({"actors": "good"}, "actors is not a list"),
    ({"actors": [None]}, "actors must not contain None"),
    ({"actors": [1]}, "rows_with_missing is not what the rows add up to"),
    ({"by_class": []}, "by_class is not what the rows add up to"),
    ({"stability": [0, 0, 0, 0]}, "by_class is not what the rows add up to"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_files_that_contradict_themselves_are_refused(change: dict[str, Any], message: str) -> None:
    content = json.loads(result().to_json()) | change
    with pytest.raises(tp.InvalidInput, match=message) as caught:
        Verification.from_json(json.dumps(content))
    assert "\n" not in str(caught.value)


def test_files_say_which_treeproof_answered() -> None:
    found = result()
    assert json.loads(found.to_json())["treeproof"] == found.treeproof == tp.__version__
    old = Verification.from_json(json.dumps(json.loads(result(max_seconds=0).to_json()) | {"treeproof": "0.0.9"}))
    assert json.loads(old.to_json())["treeproof"] == "0.0.9"
    went_on = tp.verify(stump(), old.X, old.y, old.attacker, epsilons=old.epsilons, resume=old)
    assert went_on.treeproof == "0.0.9", "it holds what the earlier one decided"


def test_a_missing_field_is_named() -> None:
    content = json.loads(result().to_json())
    for name in content:
        less = {key: value for key, value in content.items() if key != name}
        with pytest.raises(tp.InvalidInput, match=f'it lacks {name}$|lacks "format"|version None'):
            Verification.from_json(json.dumps(less))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is not a valid verification"),
        ("{}", 'it lacks "format"'),
        ('{"a": ' * 100_000, "the text is not a valid verification"),
        ('{"format": NaN}', "NaN is not a JSON number"),
        ('{"format": -Infinity}', "-Infinity is not a JSON number"),
    ],
)
def test_text_that_is_not_a_result_is_refused(text: str, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        Verification.from_json(text)


def test_truncated_text_is_refused_wherever_it_ends() -> None:
    text = result().to_json()
    for end in range(1, len(text), 37):
        with pytest.raises(tp.InvalidInput, match="the text is not a valid verification"):
            Verification.from_json(text[:end])


def test_numbers_too_large_for_a_double_are_refused() -> None:
    text = result().to_json()
    assert "0.45" in text
    with pytest.raises(tp.InvalidInput, match="1e999 is too large for a double"):
        Verification.from_json(text.replace("0.45", "1e999", 1))


def test_sources_that_are_not_result_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match=r"cannot read .*none.json: No such file"):
        Verification.from_json(tmp_path / "none.json")
    with pytest.raises(tp.InvalidInput, match="cannot read .*: Is a directory"):
        Verification.from_json(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(tp.InvalidInput, match="binary is not a text file"):
        Verification.from_json(tmp_path / "binary")
    (tmp_path / "list").write_text("[1, 2]")
    with pytest.raises(tp.InvalidInput, match='list is not a valid verification: it lacks "format"'):
        Verification.from_json(tmp_path / "list")
    for source in (5, None, "", b"{}", "a\0b"):
        with pytest.raises(tp.InvalidInput, match="expected a path, got"):
            Verification.from_json(source)  # type: ignore[arg-type]


# --- notebooks -------------------------------------------------------------------------------------------------------


def test_notebooks_show_measures_and_first_witnesses() -> None:
    shown = result(epsilons=[0.15, {"age": 0.2}])._repr_html_()
    assert "<td>75.0 %</td><td>exact</td>" in shown and "resilience, ε = 0.15" in shown
    assert "resilience, ε = age 0.2" in shown and "age 0.45 → 0.5000000000000001" in shown
    many = changed(result(), has_witness=np.ones(4, dtype=bool))
    # A row that is labelled wrongly needs no attack.
    assert many._repr_html_().count("<tr>") == 4 + 1 + int(many.correct.sum())


def test_notebooks_say_what_is_undecided_and_how_many_witnesses_there_are() -> None:
    open_rows = result(timeout=0, max_seconds=0)._repr_html_()
    assert "0 % to 75.0 %" in open_rows and "75.0 % undecided" in open_rows and "Attacks break" not in open_rows
    rows = [[0.45, 0.1]] * 7
    seven = tp.verify(stump(), rows, [0] * 7, tp.Attacker.linf(0.1))._repr_html_()
    assert "Attacks break 7 rows; the first 5:" in seven and seven.count('<th scope="row">') == 2 + 5


def test_notebooks_run_no_name_as_code() -> None:
    nasty = "<script>alert(1)</script>"
    shown = result(classes=(nasty, "b"), names=(nasty, "income"))._repr_html_()
    assert "<script" not in shown and "&lt;script&gt;" in shown


def test_labels_take_no_more_memory_than_allowed() -> None:
    content = json.loads(result().to_json())
    n = len(content["y"])
    labels = {name: ["a"] * n for name in ("y", "predicted", "neighbour_label", "attacked_label")}
    for change in ({"label_dtype": "<U99999999"}, {"label_dtype": "<U1", "y": ["a"] * (n - 1) + ["b" * 10**6]}):
        text = json.dumps(content | labels | change)
        with pytest.raises(tp.InvalidInput, match="max_bytes is 1,500,000, but y takes"):
            Verification.from_json(text, max_bytes=1_500_000)
    named = json.loads(result(("a", "b")).to_json())
    assert Verification.from_json(json.dumps(named | {"label_dtype": "<U9"})).y.dtype == "<U9"


def test_rows_are_not_wider_than_memory_where_there_are_none() -> None:
    content = json.loads(result().to_json())
    empty = {name: [] for name, value in content.items() if isinstance(value, list) and name != "epsilons"}
    content |= empty | {"resilience": [[] for _ in content["epsilons"]], "feature_names": None, "n_features": 10**12}
    content |= {"epsilon_names": None}
    with pytest.raises(tp.InvalidInput, match="max_bytes is .*, but one row takes 8,000,000,000,000"):
        Verification.from_json(json.dumps(content))


def test_large_files_are_refused_unread(tmp_path: Path) -> None:
    with open(tmp_path / "r.json", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(tp.InvalidInput, match="max_bytes is 1,073,741,824, but .*r.json takes 1,099,511,627,776"):
        Verification.from_json(tmp_path / "r.json")


def test_a_table_for_spreadsheets_has_no_formulas(tmp_path: Path) -> None:
    named = dataclasses.replace(result(), feature_names=("=a", "b"), y=np.array(["=x", "-1", "+y", "z"]))
    named.to_csv(tmp_path / "r.csv")
    neutral = csv.DictReader((tmp_path / "r.csv").read_text(encoding="utf-8").splitlines())
    assert [line["label"] for line in neutral] == ["'=x", "-1", "'+y", "z"]
    named.to_csv(tmp_path / "r.csv", raw=True)
    raw = csv.DictReader((tmp_path / "r.csv").read_text(encoding="utf-8").splitlines())
    assert [line["label"] for line in raw] == ["=x", "-1", "+y", "z"]


def test_missing_values_are_filled_in_whatever_the_model_calls_their_column() -> None:
    names = ["score_ext", "months", "purpose", "age", "rating"]
    ensemble = dataclasses.replace(applicants(names), blanks_underscored=True)
    rows = [[np.nan, 1, "tv", 1, 1], [3.0, 1, "tv", 1, 1]]
    found = tp.verify(ensemble, rows, ["unclear", "good"], tp.Attacker({}, fill=["score ext"]))
    assert found.rows_with_missing == 0 and "stay missing" not in repr(found)
    assert tp.Verification.from_json(found.to_json()).rows_with_missing == 0
