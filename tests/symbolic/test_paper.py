"""The paper's worked example (Figure 1, Table II) and its published results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import treeproof as tp
from tests.support.golden import needs_golden, split, standard_row
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.symbolic import SymbolicAttack, analyze_tree, annotate

ATTACKER = tp.Attacker((-1.0, 1.0), budget=1)

ALL = "(-∞, +∞)"
TABLE_II = {
    1: [f"⟨{ALL}, {ALL}⟩ ▷ ⟨{ALL}, {ALL}⟩_0"],
    2: [f"⟨(-∞, 10], {ALL}⟩ ▷ ⟨(-∞, 10], {ALL}⟩_0", f"⟨(10, 11], {ALL}⟩ ▷ ⟨(9, 10], {ALL}⟩_1"],
    3: [
        "⟨(-∞, 10], (-∞, 5]⟩ ▷ ⟨(-∞, 10], (-∞, 5]⟩_0",
        "⟨(-∞, 10], (5, 6]⟩ ▷ ⟨(-∞, 10], (4, 5]⟩_1",
        "⟨(10, 11], (-∞, 5]⟩ ▷ ⟨(9, 10], (-∞, 5]⟩_1",
    ],
    4: [
        "⟨(-∞, 10], (5, +∞)⟩ ▷ ⟨(-∞, 10], (5, +∞)⟩_0",
        "⟨(-∞, 10], (4, 5]⟩ ▷ ⟨(-∞, 10], (5, 6]⟩_1",
        "⟨(10, 11], (5, +∞)⟩ ▷ ⟨(9, 10], (5, +∞)⟩_1",
    ],
    5: [f"⟨(10, +∞), {ALL}⟩ ▷ ⟨(10, +∞), {ALL}⟩_0", f"⟨(9, 10], {ALL}⟩ ▷ ⟨(10, 11], {ALL}⟩_1"],
    6: [
        "⟨(10, +∞), (-∞, 8]⟩ ▷ ⟨(10, +∞), (-∞, 8]⟩_0",
        "⟨(10, +∞), (8, 9]⟩ ▷ ⟨(10, +∞), (7, 8]⟩_1",
        "⟨(9, 10], (-∞, 8]⟩ ▷ ⟨(10, 11], (-∞, 8]⟩_1",
    ],
    7: [
        "⟨(10, +∞), (8, +∞)⟩ ▷ ⟨(10, +∞), (8, +∞)⟩_0",
        "⟨(10, +∞), (7, 8]⟩ ▷ ⟨(10, +∞), (8, 9]⟩_1",
        "⟨(9, 10], (8, +∞)⟩ ▷ ⟨(10, 11], (8, +∞)⟩_1",
    ],
}
"""Per node of the paper's figure its symbolic attacks."""

LISTED = {
    3: {"⟨(-∞, 10], (4, 5]⟩ ▷ ⟨(-∞, 10], (5, 6]⟩_1"},
    4: {"⟨(-∞, 10], (5, 6]⟩ ▷ ⟨(-∞, 10], (4, 5]⟩_1", "⟨(9, 10], (5, 8]⟩ ▷ ⟨(10, 11], (4, 8]⟩_1"},
    6: {"⟨(10, +∞), (7, 8]⟩ ▷ ⟨(10, +∞), (8, 9]⟩_1", "⟨(10, 11], (5, 8]⟩ ▷ ⟨(9, 10], (5, 9]⟩_1"},
    7: {"⟨(10, +∞), (8, 9]⟩ ▷ ⟨(10, +∞), (7, 8]⟩_1"},
}
"""The paper's list of symbolic attacks per leaf where instances start."""

TIGHTER = {
    "⟨(9, 10], (5, 8]⟩ ▷ ⟨(10, 11], (4, 8]⟩_1": "⟨(9, 10], (5, 8]⟩ ▷ ⟨(10, 11], (5, 8]⟩_1",
    "⟨(10, 11], (5, 8]⟩ ▷ ⟨(9, 10], (5, 9]⟩_1": "⟨(10, 11], (5, 8]⟩ ▷ ⟨(9, 10], (5, 8]⟩_1",
}
"""Where the paper lists the left attack, we find the right one: the budget is spent, so feature 2 stays as it is."""

# The paper numbers nodes from the root down, left first; ours stand level by level.
NODES = [1, 2, 5, 3, 4, 6, 7]


def figure_1() -> Ensemble:
    builder = EnsembleBuilder(n_features=2, classes=[-1, 1])
    plus, minus = [0, 1], [1, 0]
    builder.add_tree(
        feature=[0, 1, LEAF, LEAF, 1, LEAF, LEAF],
        threshold=[10.0, 5.0, 0, 0, 8.0, 0, 0],
        left=[1, 2, LEAF, LEAF, 5, LEAF, LEAF],
        right=[4, 3, LEAF, LEAF, 6, LEAF, LEAF],
        scores=[[0, 0], [0, 0], plus, minus, [0, 0], plus, minus],
    )
    return builder.build()


def leaf_of(attack: SymbolicAttack) -> int:
    """The leaf of the figure in which the instances of an attack start."""
    first, second = (part.high for part in attack.pre)
    if first <= 10:
        return 3 if second <= 5 else 4
    return 6 if second <= 8 else 7


def test_the_figure_predicts_as_the_paper_says() -> None:
    assert figure_1().predict([[12, 7], [8, 6]]).tolist() == [1, -1]


def test_annotations_of_table_2() -> None:
    annotations = annotate(figure_1(), ATTACKER)
    found = {number: [str(attack) for attack in attacks] for number, attacks in zip(NODES, annotations, strict=True)}
    assert {number: set(attacks) for number, attacks in found.items()} == {k: set(v) for k, v in TABLE_II.items()}
    assert {number: len(attacks) for number, attacks in found.items()} == {k: len(v) for k, v in TABLE_II.items()}


def test_unstable_regions_of_the_worked_example() -> None:
    found = analyze_tree(figure_1(), ATTACKER)
    by_leaf: dict[int, set[str]] = {3: set(), 4: set(), 6: set(), 7: set()}
    for attack in found:
        by_leaf[leaf_of(attack)].add(str(attack))
    assert by_leaf == {leaf: {TIGHTER.get(text, text) for text in texts} for leaf, texts in LISTED.items()}
    assert len(found) == sum(map(len, LISTED.values()))


def test_the_analysis_of_the_example_lists_the_same_attacks() -> None:
    analysis = tp.analyze(figure_1(), ATTACKER)
    assert analysis.complete
    assert {str(analysis[i]) for i in range(len(analysis))} == {str(a) for a in analyze_tree(figure_1(), ATTACKER)}
    # (4, 5], (5, 6] where x1 <= 10; (7, 8], (8, 9] where x1 > 10; and jumps over x1 = 10 where x2 in (5, 8].
    rows = [[0, 4], [0, 4.5], [0, 6], [0, 6.5], [9.5, 6.5], [9, 6.5], [11, 6.5], [12, 6.5], [12, 7.5], [12, 9.1]]
    assert analysis.is_stable(rows).tolist() == [True, False, False, True, False, True, False, True, False, True]


@needs_golden
@pytest.mark.parametrize("row", range(18))
def test_estimates_lie_between_the_papers_and_the_exact_ones(row: int) -> None:
    line, data, forest, attacker = standard_row(row)
    analysis = tp.analyze(forest, attacker, max_iterations=400, voting="hard")
    r_hat = analysis.robustness(data.X_test, data.y_test)
    resilience_hat = analysis.resilience(data.X_test, data.y_test, line["epsilon"])
    assert line["standard"]["r_hat"] <= round(r_hat, 3)
    assert line["standard"]["R_hat"] <= round(resilience_hat, 3)
    exact = tp.verify(forest, data.X_test, data.y_test, attacker, epsilon=line["epsilon"], voting="hard")
    assert r_hat <= float(exact.robustness)
    assert resilience_hat <= float(exact.resilience)
    # More than asked for: all 18 converge, and then nothing is lost.
    assert analysis.complete
    assert (r_hat, resilience_hat) == (float(exact.robustness), float(exact.resilience))


@needs_golden
@pytest.mark.parametrize("n_trees", [5, 7, 9, 11, 13, 15, 17])
def test_treant_forests_of_the_authors(n_trees: int) -> None:
    model = tp.load_model(Path(os.environ["TREEPROOF_GOLDEN"], "models", f"treant_diabetes_trees{n_trees}_depth3.json"))
    data = split("diabetes")
    attacker = tp.Attacker((-0.03, 0.0), budget=1)
    analysis = tp.analyze(model, attacker)
    exact = tp.verify(model, data.X_test, data.y_test, attacker, epsilon=0.01)
    assert analysis.complete
    assert analysis.robustness(data.X_test, data.y_test) == float(exact.robustness)
    assert analysis.resilience(data.X_test, data.y_test, 0.01) == float(exact.resilience)
