"""ε that leads to no neighbour is refused, or said: by name, in all columns, or in some of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.commands import run
from treeproof.threat.larger_steps import in_larger_steps

FRAME = pd.DataFrame({"a": np.arange(12.0), "b": np.arange(12.0) % 5, "c": np.arange(12.0) % 3})
LABEL = (FRAME.a + FRAME.b > 7).astype(int)
CLF = DecisionTreeClassifier(random_state=0).fit(FRAME, LABEL)
STEPS = tp.Attacker({"a": tp.steps(-1, 1, 0.5)}, step={"b": 1})


def test_an_epsilon_below_the_step_of_its_column_is_refused() -> None:
    with pytest.raises(tp.InvalidInput, match=r"ε is 0.4 in column 'a', which moves in steps of 0.5: nothing is so"):
        tp.verify(CLF, FRAME, LABEL, STEPS, epsilon={"a": 0.4})
    tp.verify(CLF, FRAME, LABEL, STEPS, epsilon={"a": 0.5})


@pytest.mark.parametrize("epsilon", [0.4, [0.4, 0.9, 0], [0.0, 0.0, 0.99]])
def test_an_epsilon_that_does_nothing_in_any_column_is_refused(epsilon: Any) -> None:
    attacker = tp.Attacker({"a": tp.steps(-1, 1, 0.5)}, step={"b": 1, "c": 1})
    match = f"ε is at most {np.max(epsilon):g}, and every column where neighbours may differ moves in larger steps"
    with pytest.raises(tp.InvalidInput, match=match):
        tp.verify(CLF, FRAME, LABEL, attacker, epsilon=epsilon)
    with pytest.raises(tp.InvalidInput, match=match):
        tp.Verifier(CLF, attacker, epsilon=epsilon)
    # No neighbours at all are what somebody wants who says so, and other columns may have some.
    assert not tp.verify(CLF, FRAME, LABEL, attacker, epsilon=0).assumptions
    tp.verify(CLF, FRAME, LABEL, STEPS, epsilon=0.4)


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        (0.4, ["ε = 0.4 is less than the step of 2 columns, where neighbours share the value: a, b."]),
        (0.5, ["ε = 0.5 is less than the step of 1 column, where neighbours share the value: b."]),
        ([0.5, 1, 0.1], []),
        ({"c": 0.1}, []),
        (1, []),
    ],
)
def test_results_say_in_which_columns_steps_are_larger(epsilon: Any, said: list[str]) -> None:
    result = tp.verify(CLF, FRAME, LABEL, STEPS, epsilon=epsilon)
    for one in (result, tp.Verification.from_json(result.to_json())):
        assert [text for text in one.assumptions if "the step of" in text] == said
        assert all(text in one._repr_html_() for text in said)
        assert ("ε is less than the step of some columns" in repr(one)) == bool(said)


def test_steps_are_found_by_name_and_by_position_and_not_in_categories() -> None:
    names = ["a", "b", "c"]
    assert in_larger_steps(STEPS, 0.3, names, 3, []) == [0, 1]
    assert in_larger_steps(tp.Attacker((-1, 1), step={1: 1}), 0.3, None, 3, []) == [1]
    assert in_larger_steps(tp.Attacker((-1, 1), step=1), 0.3, names, 3, [1]) == [0, 2]
    assert in_larger_steps(tp.Attacker({"a": tp.ANY, "kind": tp.ANY}, step=[1, 0.1, 1]), (0.3,) * 3, names, 3, []) == [
        0,
        2,
    ]
    assert in_larger_steps(tp.Attacker((-1, 1), step="0.3"), 0.3, names, 3, []) == []


def test_the_command_line_says_it_and_a_gate_stays_closed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tp.save_model(tp.from_model(CLF), tmp_path / "model.json")
    FRAME.assign(y=LABEL).to_csv(tmp_path / "rows.csv", index=False)
    question = ["verify", tmp_path / "model.json", tmp_path / "rows.csv", "--label", "y", "--delta", "a=1"]
    question += ["--epsilon", "0.5", "--fail-under-resilience", "0"]
    code, out, _ = run(capsys, *question, "--step", "a=1,b=1")
    assert code == 0
    shared = "it is less than the step of 2 columns, where neighbours share the value: a, b"
    assert f"ε = 0.5: c by up to 0.5; {shared}" in out.replace("\n           ", " ")
    code, _, err = run(capsys, *question, "--step", "1", "--strict")
    assert code == 2
    assert "every column where neighbours may differ moves in larger steps" in err
