"""The page about explanations shows what they say, for the same model and the same rows, and nothing as markup."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.hand_made import asked, explanation
from treeproof.present.report import explained as explained_module
from treeproof.present.report.explained import Explained
from treeproof.results.explanations import Explanations

NASTY = "<img src=x onerror=alert(1)>"
FLOWERS, SPECIES = load_iris(return_X_y=True)
X = pd.DataFrame(FLOWERS, columns=["a", NASTY, "c", "d"])[::4]
y = np.array(["setosa", "</script>versicolor", "virginica"])[SPECIES[::4]]
FOREST = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def reasons() -> Explanations:
    return tp.explain(FOREST, X, domain=(0, 8))


@pytest.fixture(scope="module")
def changes() -> tp.Counterfactuals:
    return tp.counterfactual(FOREST, X, to="setosa", attacker=tp.Attacker.l0(4, domain=(0, 8)))


class _Text(HTMLParser):
    """The visible text of a page, one line per element, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.tags: set[str] = set()
        self.feed(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.lines.append(data)


def test_every_row_and_every_count_is_on_the_page(reasons: Explanations, changes: tp.Counterfactuals) -> None:
    page = tp.report_html(FOREST, reasons, counterfactuals=changes, title="Why?")
    lines = _Text(page).lines
    for name, n in reasons.counts.items():
        assert str(name) in lines and f"{n:,} of {len(reasons):,}" in lines
    text = " ".join(lines)
    for one in reasons:
        assert str(one.index) in lines
    for sentence in (*reasons.assumptions, *changes.assumptions):
        assert sentence in lines
    assert text.count("price") == sum(one.price > 0 for one in changes)
    assert text.count("is setosa already") == sum(one.price == 0 for one in changes)
    assert "Why?" in lines


def test_names_and_labels_are_never_markup(reasons: Explanations, changes: tp.Counterfactuals) -> None:
    page = tp.report_html(FOREST, reasons, counterfactuals=changes, title=NASTY)
    assert NASTY not in page and html.escape(NASTY) in page and "</script>versicolor" not in page
    assert not {"img", "script", "iframe", "object"} & _Text(page).tags
    assert "http" not in page.replace("http-equiv", "")


def test_a_verification_gets_a_section(reasons: Explanations) -> None:
    result = tp.verify(FOREST, X, y, tp.Attacker.linf(0.1))
    without = tp.report_html(FOREST, result, max_seconds=0.1)
    page = tp.report_html(FOREST, result, explanations=reasons, max_seconds=0.1)
    assert 'id="why"' in page and 'id="why"' not in without
    assert Explained.of(tp.from_model(FOREST), reasons, None).section in page


def test_write_report_takes_explanations(reasons: Explanations, tmp_path: Path) -> None:
    file = tp.write_report(tmp_path / "why.html", FOREST, reasons)
    assert "<h1>Explanations</h1>" in file.read_text()


def test_what_is_about_something_else_is_refused(reasons: Explanations, changes: tp.Counterfactuals) -> None:
    other = RandomForestClassifier(4, max_depth=2, random_state=1).fit(X, y)
    with pytest.raises(tp.InvalidInput, match="explanations are for another model"):
        tp.report_html(other, reasons)
    with pytest.raises(tp.InvalidInput, match="of other rows"):
        tp.report_html(FOREST, reasons[:5], counterfactuals=changes)
    with pytest.raises(tp.InvalidInput, match="give it as counterfactuals="):
        tp.report_html(FOREST, changes)  # type: ignore[arg-type]
    with pytest.raises(tp.InvalidInput, match="given twice"):
        tp.report_html(FOREST, reasons, explanations=reasons)
    result = tp.verify(FOREST, X, y, tp.Attacker.linf(0.1))
    with pytest.raises(tp.InvalidInput, match="explanations= of the same rows"):
        tp.report_html(FOREST, result, counterfactuals=changes)


def test_many_rows_are_folded_and_those_left_out_are_counted(
    reasons: Explanations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explained_module, "SHOWN_ROWS", 5)
    monkeypatch.setattr(explained_module, "MAX_ROWS", 12)
    section = Explained.of(tp.from_model(FOREST), reasons, None).section
    assert "<summary>7 more rows</summary>" in section
    assert f"and {len(reasons) - 12:,} rows that the page leaves out" in section


def test_contrastive_sets_unfinished_and_stopped_work_are_said_on_the_page() -> None:
    about = replace(asked(kind="contrastive"), fingerprint=tp.from_model(FOREST).fingerprint.hex())
    other = about.X[0] + np.array([1.0, 0, 0, 0, 0, 0])
    flips = explanation({}, about, columns=("duration",), other=other, changed_label="good")
    found = Explanations([flips], about, seconds=0.0, interrupted=True)
    section = Explained(found, None).section
    assert html.escape("a change of duration alone can flip it: 36 → 37 gives good") in section
    assert "interrupted" in section
