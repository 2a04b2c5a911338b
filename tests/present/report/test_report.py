"""The report: what it says is what was proved, nothing in it is code of others, and it stays small."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.results import changed, tiled
from treeproof.importers import EnsembleBuilder
from treeproof.present.report import curves
from treeproof.present.report.instances import KINDS, choose, kinds_of
from treeproof.results.markup import percent

X, y = load_iris(return_X_y=True)
FOREST = RandomForestClassifier(7, max_depth=3, random_state=0).fit(X, y)
ATTACKER = tp.Attacker.linf(0.2)
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&</script x><!--<script "


@pytest.fixture(scope="module")
def result() -> tp.Verification:
    return tp.verify(FOREST, X, y, ATTACKER, epsilon=0.1)


@pytest.fixture(scope="module")
def page(result: tp.Verification) -> str:
    return tp.report_html(FOREST, result, max_seconds=10)


class Elements(HTMLParser):
    """The elements of a page, with their attributes and the text of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def data_of(page: str) -> dict[str, Any]:
    return json.loads(re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[0])


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(Elements(re.split('<script id="data"', page)[0]).text))


# --- the file --------------------------------------------------------------------------------------------------------


def test_every_column_is_named_with_its_reach_its_cost_and_its_epsilon() -> None:
    frame = pd.DataFrame(X, columns=["amount", "rate", "age", "<b>"])
    attacker = tp.Attacker({"amount": (-5000, 5000), "age": (0, 2)}, costs={"age": 7}, budget=3)
    found = tp.verify(FOREST, frame, y, attacker, epsilons=[{"rate": 0.5, "<b>": 1200}, 0.25])
    shown = tp.report_html(FOREST, found, max_seconds=0)
    text = text_of(shown)
    assert "The attacker may move amount by up to 5,000 either way. Moving age costs more than the budget." in text
    assert "Resilience, ε = rate 0.5, <b> 1,200" in text and "ε = rate 0.5, <b> 1,200; ε = 0.25" in text
    head = '<th scope="col">cost</th><th scope="col">ε = rate 0.5, &lt;b&gt; 1,200</th><th scope="col">ε = 0.25</th>'
    assert head in shown
    for cells in (
        "amount</th><td>-5000</td><td>5000</td><td>1</td><td>0</td><td>0.25</td>",
        "age</th><td>0</td><td>2</td><td>7, above the budget</td><td>0</td><td>0.25</td>",
        "&lt;b&gt;</th><td>–</td><td>–</td><td>–</td><td>1200</td><td>0.25</td>",
    ):
        assert f'<th scope="row">{cells}' in shown


def test_the_page_says_what_was_assumed_about_missing_values(page: str) -> None:
    holed = X.copy()
    holed[:7, 2] = np.nan
    model = HistGradientBoostingClassifier(max_iter=2).fit(holed, y)
    for attacker, said in ((ATTACKER, True), (tp.Attacker.linf(0.2, features=[0]), False)):
        found = tp.report_html(model, tp.verify(model, holed, y, attacker), max_seconds=0)
        assert ("7 of 150 rows have missing cells in columns that the attacker may touch; missing" in found) == said
    assert "missing cells in columns" not in page


def test_measures_of_each_class_are_in_a_table(result: tp.Verification, page: str) -> None:
    for label, one in result.by_class.items():
        shares = (one.accuracy, float(one.robustness), float(one.resilience or 0))
        cells = "".join(f"<td>{percent(share)}</td>" for share in shares)
        assert f'<th scope="row">{label}</th><td>50</td>{cells}<td>0</td>' in page
    one_class = tp.verify(FOREST, X[:9], y[:9], ATTACKER)
    assert "By true class" in page and "By true class" not in tp.report_html(FOREST, one_class, max_seconds=0)


def test_the_page_loads_nothing(page: str) -> None:
    for tag, attributes in Elements(page).found:
        assert tag not in ("iframe", "object", "embed", "base", "img")
        for name in ("src", "href", "action", "srcset", "poster"):
            link = attributes.get(name) or ""
            assert link == "" or link.startswith(("#", "data:")), f"<{tag} {name}={link}>"
    assert set(re.findall(r"https?://[^\"' )]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page
    assert "@import" not in page and "url(http" not in page


def test_write_report_writes_what_report_html_says(tmp_path: Path, result: tp.Verification) -> None:
    file = tp.write_report(tmp_path / "r.html", FOREST, result, title="Iris", max_seconds=0)
    assert file == tmp_path / "r.html"
    text = file.read_text(encoding="utf-8")
    assert "<title>Iris</title>" in text and text.startswith("<!doctype html>")
    with pytest.raises(tp.InvalidInput, match="cannot write"):
        tp.write_report(tmp_path / "no" / "r.html", FOREST, result, max_seconds=0)


def test_measures_are_those_of_the_result(page: str, result: tp.Verification) -> None:
    text = text_of(page)
    for share in (result.accuracy, result.robustness.lower, result.resilience.lower):
        assert f"{100 * share:.1f} %" in text
    assert "Exact: every row was decided." in text
    assert f"as verified: {100 * result.robustness.lower:.1f} %" in text
    assert "Undecided" in text and "rows were not decided" not in text
    assert tp.from_model(FOREST).origin in text and f"treeproof {tp.__version__}" in text
    assert "scikit-learn" in text and "numpy" in text


def test_names_labels_and_title_are_never_markup(tmp_path: Path) -> None:
    builder = EnsembleBuilder(n_features=2, classes=(NASTY, "b"), feature_names=(NASTY, "y & <b>"))
    builder.add_tree(
        feature=[0, -1, -1],
        threshold=[0.5, 0, 0],
        left=[1, -1, -1],
        right=[2, -1, -1],
        scores=[(0, 0), (1, 0), (0, 1)],
    )
    model, rows, labels = builder.build(), [[0.45, 0.0], [0.2, 0.0], [0.9, 1.0]], [NASTY, NASTY, "b"]
    outcome = tp.verify(model, rows, labels, ATTACKER, epsilon=0.1)
    written = tp.report_html(model, outcome, title=NASTY, max_seconds=5)
    elements = Elements(written).found
    assert [tag for tag, _ in elements].count("script") == 2
    # Browsers end a script at less than that, and begin a comment in it.
    assert written.lower().count("</script") == 2 and "<!--" not in written
    assert not any(name.startswith("on") for _, attributes in elements for name in attributes)
    assert not any(tag in ("img", "b") and "src" in attributes for tag, attributes in elements)
    assert data_of(written)["names"]["0"] == NASTY and NASTY in data_of(written)["labels"]
    shown = outcome._repr_html_()
    assert not any(tag in ("script", "img") for tag, _ in Elements(shown).found)


# --- rows ------------------------------------------------------------------------------------------------------------


def test_every_row_has_the_verdict_of_the_result(page: str, result: tp.Verification) -> None:
    data = data_of(page)
    assert sorted(entry[0] for entry in data["entries"]) == list(range(len(X)))
    for row, label, predicted, kind, *rest in data["entries"]:
        verdict = result.verdicts[row]
        assert data["labels"][label] == str(y[row]) and data["labels"][predicted] == str(result.predicted[row])
        expected = "wrong" if y[row] != result.predicted[row] else None
        if expected is None and verdict.robustness == tp.Outcome.REFUTED:
            expected = "broken"
        if expected is None:
            expected = "resilient" if verdict.resilience == tp.Outcome.PROVED else "fragile"
        assert KINDS[kind][0] == expected
        assert bool(rest) == (verdict.witness is not None)
        if rest:
            after, steps, moves = rest
            near, far = X[row].copy(), X[row].copy()
            for f, before, value in steps:
                assert X[row, f] == before
                near[f] = far[f] = value
            for f, before, value in moves:
                assert near[f] == before
                far[f] = value
            flipped = FOREST.predict([near, far])
            assert flipped[0] != flipped[1] and data["labels"][after] == str(flipped[1])


def test_kinds_of_open_rows_are_open() -> None:
    undecided = tp.verify(FOREST, X, y, ATTACKER, epsilon=0.1, timeout=0)
    wrong = FOREST.predict(X) != y
    names = np.array([key for key, _, _ in KINDS])[kinds_of(undecided)]
    assert (names == np.where(wrong, "wrong", "open")).all()
    half = changed(undecided, stability=np.zeros(len(X), dtype=np.int8))  # robust, but resilience is not known
    assert set(np.array([key for key, _, _ in KINDS])[kinds_of(half)[~wrong]]) == {"open"}
    text = text_of(tp.report_html(FOREST, undecided, max_seconds=0))
    assert "0 % to" in text and "of the rows were not decided" in text


@pytest.mark.slow
def test_large_results_stay_small_and_are_counted_honestly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MAX_ROWS", 100)
    data, labels = load_breast_cancer(return_X_y=True)
    data = minmax_scale(data)
    clf = RandomForestClassifier(20, max_depth=6, random_state=0).fit(data[::2], labels[::2])
    attacker = tp.Attacker.linf(0.03)
    large = tiled(tp.verify(clf, data, labels, attacker, epsilon=0.01), 100_000 // len(data) + 1)
    written = tp.report_html(clf, large, max_seconds=10)
    assert len(written.encode()) < 3_000_000
    shown = data_of(written)["entries"]
    kinds = [entry[3] for entry in shown]
    counts = np.bincount(kinds_of(large), minlength=len(KINDS))
    assert kinds == sorted(kinds) and counts[0] > 0
    last = max(kinds)
    # All of every kind that comes before the last one shown.
    assert all(kinds.count(kind) == counts[kind] for kind in range(last))
    text = text_of(written)
    assert f"{len(shown):,} of {len(large):,} rows" in text
    for (key, _, _), count in zip(KINDS, counts, strict=True):
        left_out = count - kinds.count([k for k, _, _ in KINDS].index(key))
        if key not in ("robust", "resilient") and left_out:
            assert f"{left_out:,} {key}" in text
    assert f"Computed on {curves.MAX_ROWS:,} of {len(large):,} rows, drawn at random" in text
    assert "as verified" not in text and text.count("in the sample: ") == 2
    assert f"400 of {len(large):,} rows, with unsafe ones over-represented, are drawn" in text


def test_broken_rows_come_first_where_not_all_fit(result: tp.Verification, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treeproof.present.report.instances.MAX_INSTANCES", 5)
    chosen = choose(result)
    assert [entry[3] for entry in chosen.entries] == sorted(kinds_of(result))[:5]
    assert sum(chosen.shown) == 5 and sum(chosen.counts) == len(result)
    monkeypatch.setattr("treeproof.present.report.instances.MAX_CHARACTERS", 200)
    assert 0 < len(choose(result).entries) < 5


# --- curves ----------------------------------------------------------------------------------------------------------

SHAPES: dict[str, tp.Attacker] = {
    "linf": tp.Attacker.linf(0.1),
    "one-sided": tp.Attacker((-0.2, 0.0), budget=1),
    "per feature": tp.Attacker([(-0.1, 0.2), (0, 0), (-0.3, 0), (-0.1, 0.1)], costs=[1, 1, 2, 1], budget=2),
    "lp": tp.Attacker.lp(2, 0.15),
    "half infinite": tp.Attacker({0: (-math.inf, 0.0), 2: (-0.1, 0.1)}),
    "domain": tp.Attacker.linf(0.2, domain=(0.0, 8.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 6.0])
@pytest.mark.parametrize("name", SHAPES)
def test_curves_hold_what_verify_finds(name: str, seconds: float) -> None:
    attacker, ensemble = SHAPES[name], tp.from_model(FOREST)
    for epsilon in (0.05, [0.05, 0.1, 0.0, 0.2]):
        outcome = tp.verify(FOREST, X, y, attacker, epsilon=epsilon)
        robust = curves.measured_robustness(ensemble, attacker, outcome, seconds, None)
        resilient = curves.measured_resilience(ensemble, attacker, outcome, seconds, None)
        assert isinstance(robust, curves.Curve) and isinstance(resilient, curves.Curve)
        for scale in (0.013, 0.31, 1.0, 1.7, 3.9):
            bigger = attacker.scaled(scale)
            lower, upper = robust.at(scale * robust.asked)
            assert lower <= tp.verify(FOREST, X, y, bigger).robustness.lower <= upper
            lower, upper = resilient.at(scale * resilient.asked)
            exact = tp.verify(FOREST, X, y, attacker, epsilon=np.multiply(epsilon, scale).tolist()).resilience
            assert lower <= exact.lower <= upper
        assert robust.at(robust.asked) == (outcome.robustness.lower,) * 2, "what was verified is known in any case"
        if seconds and name != "half infinite":
            assert robust.open_rows == 0 and (robust.upper - robust.lower).max() < 0.05
        assert (np.diff(robust.lower) <= 0).all() and (robust.lower <= robust.upper).all()


def test_exact_levels_lie_in_the_brackets_that_halving_found(monkeypatch: pytest.MonkeyPatch) -> None:
    attacker, ensemble = SHAPES["linf"], tp.from_model(FOREST)
    outcome = tp.verify(FOREST, X, y, attacker)
    exact = curves.measured_robustness(ensemble, attacker, outcome, 30.0, None)
    assert isinstance(exact, curves.Curve) and exact.exact_rows == len(X)
    monkeypatch.setattr(curves._Brackets, "close", lambda *_, **__: None)
    rough = curves.measured_robustness(ensemble, attacker, outcome, 30.0, None)
    assert isinstance(rough, curves.Curve) and rough.exact_rows < len(X)
    for level in np.linspace(0, exact.end, 400, endpoint=False):
        assert rough.at(level)[0] <= exact.at(level)[0] <= exact.at(level)[1] <= rough.at(level)[1]
    radii = tp.robustness_radius(FOREST, X, y, attacker) * exact.asked
    for level in np.linspace(0, exact.end, 50, endpoint=False):
        assert exact.at(level)[0] == pytest.approx((radii > level).mean(), abs=1e-12)


@pytest.mark.slow
def test_a_neighbourhood_with_units_has_exact_levels_too() -> None:
    attacker, ensemble, unit = SHAPES["linf"], tp.from_model(FOREST), {2: 0.3, 3: 0.1}
    outcome = tp.verify(FOREST, X, y, attacker, epsilon=unit)
    curve = curves.measured_resilience(ensemble, attacker, outcome, 30.0, None)
    assert isinstance(curve, curves.Curve) and curve.exact_rows == len(X)
    assert curve.axis == "multiple of ε = feature 2 0.3, feature 3 0.1"
    exact = tp.resilience_curve(FOREST, X, y, attacker, epsilon=unit)
    for level in np.linspace(0, curve.end, 50, endpoint=False):
        assert curve.at(level)[0] == pytest.approx(exact(level), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attacker", "reason"),
    [
        (tp.Attacker.l0(1), "The reach of this attacker is infinite"),
        (tp.Attacker((0.1, 0.2), budget=1), "An interval of this attacker excludes 0"),
        (tp.Attacker.linf(0.0), "infinite, or 0"),
    ],
)
def test_curves_that_make_no_sense_are_left_out_with_a_reason(attacker: tp.Attacker, reason: str) -> None:
    outcome = tp.verify(FOREST, X, y, attacker)
    text = text_of(tp.report_html(FOREST, outcome, max_seconds=2))
    assert f"Left out. {reason}" in text or reason in text
    assert "Left out. No neighbourhood (ε) was asked for" in text


# --- every kind of question ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_reports_on_every_attacker(name: str) -> None:
    attacker = SHAPES[name]
    outcome = tp.verify(FOREST, X, y, attacker, epsilons=[0.05, 0.1, {2: 0.3}])
    written = tp.report_html(FOREST, outcome, max_seconds=2)
    assert text_of(written).count("Resilience, ε") == 3
    assert data_of(written)["slices"]["cuts"]


@pytest.mark.slow
def test_missing_values_and_no_rows() -> None:
    holes = X.copy()
    holes[::3, 1] = np.nan
    holes[:, 0] = np.nan
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(holes[:, 1:], y)
    rows = holes[:, 1:]
    outcome = tp.verify(tree, rows, y, ATTACKER, epsilon=0.1)
    data = data_of(tp.report_html(tree, outcome, features=[0, 1, 2], max_seconds=3))
    assert any(point[3] is None for point in data["slices"]["points"])
    nothing = tp.verify(FOREST, X[:0], y[:0], ATTACKER, epsilon=0.1)
    assert "The test set has no rows" in tp.report_html(FOREST, nothing)


def test_an_interrupted_verification_says_so(result: tp.Verification) -> None:
    stopped = dataclasses.replace(result, interrupted=True)
    assert "The verification was interrupted" in tp.report_html(FOREST, stopped, max_seconds=0)


@pytest.mark.slow
def test_features_and_names_of_the_slices(result: tp.Verification) -> None:
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    written = tp.report_html(FOREST, result, features=["petal width", 0], feature_names=names, max_seconds=3)
    data = data_of(written)
    assert data["slices"]["features"] == [3, 0] and data["names"]["3"] == "petal width"
    with pytest.raises(tp.InvalidInput, match="3 feature names were given; the model has 4 features"):
        tp.report_html(FOREST, result, feature_names=names[:3])
    with pytest.raises(tp.InvalidInput, match="the model has no feature names; give an index instead of 'stem'"):
        tp.report_html(FOREST, result, features=["stem"])


def test_the_table_is_the_same_with_and_without_names(page: str) -> None:
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    frame = pd.DataFrame(X, columns=names)
    forest = RandomForestClassifier(7, max_depth=3, random_state=0).fit(frame, y)
    data = data_of(tp.report_html(forest, tp.verify(forest, frame, y, ATTACKER, epsilon=0.1), max_seconds=0))
    assert data["entries"] == data_of(page)["entries"]
    assert data["names"] and all(names[int(f)] == name for f, name in data["names"].items())


def test_a_result_for_something_else_is_refused(result: tp.Verification) -> None:
    other = RandomForestClassifier(2, max_depth=1, random_state=1).fit(X, y)
    with pytest.raises(tp.InvalidInput, match="the result is for another model"):
        tp.report_html(other, result)
    with pytest.raises(tp.InvalidInput, match="does not name its attacker"):
        tp.report_html(FOREST, changed(result, attacker=None))
    with pytest.raises(tp.InvalidInput, match="result must be what verify or explain returned"):
        tp.report_html(FOREST, "result")
    with pytest.raises(tp.InvalidInput, match="max_seconds must be at least 0"):
        tp.report_html(FOREST, result, max_seconds=-1)


def test_packed_slices_unpack_to_what_was_cut(result: tp.Verification) -> None:
    from treeproof.present.report.planes import pack
    from treeproof.present.slices import cut_slice

    cut = cut_slice(FOREST, ATTACKER, X[70], (2, 3), (1.0, 0.0), (7.0, 2.5), resolution=20)
    packed = pack(cut)
    codes = np.repeat(packed["runs"][::2], packed["runs"][1::2]).reshape(20, 20)
    assert (codes // 3 == cut.labels).all() and (codes % 3 == cut.status).all()
    assert packed["stable"] + packed["unstable"] == 400


def test_old_report_calls_still_work_with_a_warning(tmp_path: Path, result: tp.Verification) -> None:
    with pytest.warns(FutureWarning, match=r"is now report_html\(model, result\)"):
        written = tp.report_html(FOREST, X, y, ATTACKER, result, max_seconds=0)
    assert text_of(written)[:200] == text_of(tp.report_html(FOREST, result, max_seconds=0))[:200]
    with pytest.warns(FutureWarning, match=r"is now write_report\(path, model, result\)"):
        assert tp.write_report(tmp_path / "r.html", FOREST, X, y, ATTACKER, result, max_seconds=0).exists()
    with pytest.raises(tp.InvalidInput, match="got 3 arguments after the model"):
        tp.report_html(FOREST, X, y, result)


@pytest.mark.parametrize(
    ("attacker", "reach"),
    [
        (tp.Attacker.linf(3), "± 3"),
        (tp.Attacker((0, 3)), "0 to 3"),
        (tp.Attacker.l0(1), "any value"),
        (tp.Attacker(tp.steps(-3, 3, 1)), "by up to 3 either way in steps of 1"),
        (tp.Attacker({0: tp.values(0, 3)}), "to 0 or 3"),
        (tp.Attacker({}, blank=[0]), "missing or not"),
    ],
    ids=repr,
)
def test_what_the_attacker_may_do_stands_beside_the_moves(attacker: tp.Attacker, reach: str) -> None:
    tree = DecisionTreeClassifier(random_state=0).fit([[0.0], [3.0]], [0, 1])
    page = tp.report_html(tree, tp.verify(tree, [[0.0], [3.0]], [0, 1], attacker), max_seconds=1)
    assert f'<td class="n">{reach}</td></tr>' in page
    assert ("blank others" in page) == (attacker.blank is None)
