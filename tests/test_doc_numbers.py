"""Numbers that pages quote from benchmarks are those of `benchmarks/RESULTS.md`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = (ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
COMPARISON = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")

QUOTED = [
    # page, what it says, what RESULTS.md says; in the order of pages
    ("README.md", "0.008 CPU s; veritas 0.3.1: 4.18 s", "breast cancer, forest 100 × 8 0.05 114 81 0 512 0.008s 4.18s"),
    ("README.md", "| 1.5 s, warm |", "2.17 s and the warm round 1.45 s"),
    ("README.md", "4.4 times scikit-learn's rate", "forest 100 × depth 8 1,063,754 r/s 243,195 r/s 4.37"),
    ("README.md", "1.5 s on 2 threads; the paper bounds it in 16 min on 20", "forest 17 × 3 1,491,731 740,965 1.53s"),
    ("README.md", "one of 4,620 rows was still open", "One of 4,620 rows was left open"),
    ("README.md", "Compiling peaked at 351 MB", "compiling everything (first case): 351 MB"),
    ("docs/index.md", "mean accuracy is 0.820, robustness 0.727 and resilience 0.689", "mean .820 .727 .689"),
    ("docs/proved.md", "1,000,123 cases without a mismatch", "1,000,123 cases"),
    (
        "docs/comparison.md",
        "took 0.01 s, against 57 s for the authors' C++",
        "forest 5 × 3 complete 33 2942 1260 0.01s",
    ),
    (
        "docs/comparison.md",
        "the 9 × 3 TREANT forest took 0.01 s, against 111 s",
        "TREANT 9 × 3 complete 21 1471 499 0.01s",
    ),
    ("docs/comparison.md", "up to 0.026 (r̂) and 0.044 (R̂) lower", "up to 0.026 (r̂) and 0.044 (R̂) lower"),
    ("docs/income.md", "HistGradientBoostingClassifier: accuracy 0.872, robustness 0.696", "0.872 / 0.696"),
    ("docs/income.md", "RobustBoostingClassifier: accuracy 0.864, robustness 0.862", "0.864 / 0.862"),
]


@pytest.mark.parametrize(("page", "said", "measured"), QUOTED, ids=lambda value: value[:30])
def test_what_a_page_quotes_was_measured(page: str, said: str, measured: str) -> None:
    assert said in _plain((ROOT / page).read_text(encoding="utf-8"))
    assert measured in _plain(RESULTS)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _section(name: str) -> str:
    return COMPARISON.split(f"\n## {name}\n")[1].split("\n## ")[0]


def _numbers(text: str) -> set[str]:
    return {found.rstrip(",") for found in NUMBER.findall(text)}


TABLES = {
    # section: which lines of RESULTS.md a line's first cells are found in, by its words
    "Time": "## Exact robustness against veritas",
    "Training": "### The protocol of Andriushchenko and Hein",
    "treecf's constraints": "### Under relations",
    "Explanations": "## Explanations",
}


@pytest.mark.parametrize("name", TABLES)
def test_every_number_of_a_comparison_is_found_where_it_was_measured(name: str) -> None:
    """What is measured, in tables and in sentences, but for numbers in names of tools, code and settings."""
    title = TABLES[name]
    level = title.partition(" ")[0]
    measured = _numbers(re.split(rf"\n#{{1,{len(level)}}} ", RESULTS.split(f"\n{title}\n")[1])[0])
    text = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", "", _section(name))
    text = re.sub(r"^\| `?[A-Z–].*$|^\| –.*$|^\| any other.*$", _measured_only, text, flags=re.MULTILINE)
    known = measured | SETTINGS | set(COUNTED)
    wrong = {number for number in _numbers(text) if number not in known and number.replace(",", "") not in known}
    assert not wrong


def _measured_only(line: re.Match[str]) -> str:
    """The line of a table, unless it has no number with a decimal point: then it is about what tools can do."""
    return line[0] if re.search(r"\d\.\d", line[0]) else ""


SETTINGS = {"0", "1", "2", "3", "0.3", "0.05", "0.025", "0.3.1", "0.3.2", "2.0", "2.0.1", "0.0.17", "0.0", "17", "2026"}
"""Numbers of versions, norms and attackers."""

COUNTED = {"58": "open", "300": "times", "12": "rows", "1e": "1e-5", "9": "1e-9", "6": "1e-6", "10": "a limit, splits"}
"""Numbers that are counted from others, and why they stand there."""


def test_rows_that_veritas_left_open_add_up() -> None:
    table = RESULTS.split("## Exact robustness against veritas")[1].split("```")[1]
    open_rows = [int(line.split()[-3]) for line in table.splitlines()[2:] if line.strip()]
    assert len(open_rows) == 17 and sum(open_rows) == 58
    assert "veritas left 58 open" in _section("Time") and "17 pairs" in _section("Time")


def test_lines_of_the_table_under_constraints_are_those_measured() -> None:
    measured = _plain(RESULTS.replace("breast_cancer", "breast cancer"))
    lines = re.findall(r"^\| ([^|]+) \| (breast cancer|diabetes|german|adult) \| (.*) \|$", COMPARISON, re.MULTILINE)
    assert len(lines) == 13
    for constraints, rows, cells in lines:
        for model, cell in zip(("30 × 3", "100 × 4", "100 × 6"), cells.split(" | "), strict=True):
            treecf, ours, ratio = re.findall(r"[\d.]+", cell)
            assert f"{constraints} {rows} {model} {treecf}s {ours}s {ratio}×" in measured
    ratios = [float(ratio) for _, _, cells in lines for ratio in re.findall(r"\(([\d.]+) ×\)", cells)]
    assert [one for one in ratios if one < 12.7] == [9.3] and max(ratios) == 315.7


def test_no_cell_of_a_comparison_is_blank() -> None:
    for line in re.findall(r"^\|.*\|$", COMPARISON, re.MULTILINE)[1:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert all(cells[1:]), line
