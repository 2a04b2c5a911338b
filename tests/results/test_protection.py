"""What to protect, in words, tables and JSON."""

from __future__ import annotations

import json

from sklearn.tree import DecisionTreeClassifier

import treeproof as tp

CLF = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])
X, y = [[0.25, 0.0], [0.75, 3.0]], [0, 1]


def test_what_to_protect_is_said_with_the_attacker() -> None:
    found = tp.protect(CLF, X, y, tp.Attacker.linf(0.3), to=1.0)
    lines = str(found).splitlines()
    assert lines[0] == "Protect feature 0: then 1.000 of 2 rows are robust, 0.000 if nothing is protected."
    assert lines[1] == "That is one column, and it is proved that nothing less reaches 1."
    assert lines[2] == "The attacker may move any feature by up to 0.3 either way, any number of them at once."
    page = found._repr_html_()
    assert "<td>0.000</td>" in page and '<th scope="row">feature 0</th><td>1</td><td>1.000</td>' in page


def test_nothing_to_protect_is_said() -> None:
    found = tp.protect(CLF, X, y, tp.Attacker.linf(0.1), to=1.0)
    assert str(found).startswith("Nothing needs protection: 1.000 of 2 rows are robust as it is.")
    assert repr(found).startswith("Protection(nothing at a cost of 0, exact")


def test_a_share_that_time_left_open_is_not_said() -> None:
    found = tp.protect(CLF, X, y, tp.Attacker.linf(0.3), to=1.0, max_seconds=1e-9)
    assert found.curve == () and str(found).startswith(
        "Protect feature 0 and feature 1: then 1.000 of 2 rows are robust."
    )
    assert "nothing is protected" not in str(found)


def test_json_has_neighbourhoods_as_results_do() -> None:
    found = tp.protect(CLF, X, y, tp.Attacker.linf(0.1), epsilon=0.05, to=1.0)
    assert str(found).endswith("Neighbours of a row are within ε = 0.05.")
    content = json.loads(found.to_json())
    assert content["format"] == "treeproof-protection" and content["epsilon"] == {"all": 0.05}
