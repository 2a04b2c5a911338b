"""The checker's own reading of relations, beside the engine's definition, which is another program."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.judged_relations import satisfies
from treeproof.check.relation_texts import Relations
from treeproof.check.rules import Rejected
from treeproof.threat.relations import as_relations

NAMES = ("a", "b", "c d", "one", "two")
TEXTS = (
    "a <= b",
    "a + 2*b - `c d`/4 < 1",
    "0 <= a <= b",
    "a == 0.3 or not b > 0.1",
    "a + b == 0.3",
    "a + b != `c d`",
    "3*(a - b) >= -`c d`",
    "-a <= -0.1",
    "a in (0.1, 0.3) and b not in (1, 0.2)",
    "implies(a is missing, b is present)",
    "any_of(a is not missing, not_(b == 1), all_of(a <= 1, b < 1))",
    "one_of(one, two, name='it')",
    "at_most_one(one, two)",
    "not at_most_one(one, two) or a > 0.1",
    "not (a <= b and b <= `c d`)",
    "a <= 1/3 # a third",
    "0.1*a + 1 == 1.03",
)
Known = tuple[tp.Ensemble, dict[str, Any]]
VALUES = (0.0, 0.1, 0.2, 0.3, 1.0, 0.1 + 0.2, 1 / 3, -1.0, math.nan)


@pytest.fixture(scope="module", name="known")
def _known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    """A model, and what its file says."""
    path = tmp_path_factory.mktemp("model") / "model.json"
    X = pd.DataFrame(np.random.default_rng(0).random((40, len(NAMES))), columns=NAMES)
    ensemble = tp.from_model(DecisionTreeClassifier(max_depth=3).fit(X, X.a > 0.5))
    tp.save_model(ensemble, path)
    return ensemble, json.loads(path.read_text())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("steps", [(), (0, 1, 2), (1,)])
def test_rows_are_valid_as_the_definition_says(known: Known, text: str, steps: tuple[int, ...]) -> None:
    """Rows of doubles and of decimals, with and without missing values."""
    ensemble, model = known
    relations, own = as_relations([text]), Relations(model, [text], steps)
    rng = np.random.default_rng(1)
    for row in rng.choice(VALUES, (150, len(NAMES))):
        assert (not own.broken(row.tolist())) == satisfies(ensemble, relations, row, steps), row


@pytest.mark.parametrize("text", TEXTS)
def test_what_relations_may_be_for_many_rows_holds_what_they_are_for_each(known: Known, text: str) -> None:
    """If a relation is said to be false for a box of values, no row of the box is valid."""
    _, model = known
    own = Relations(model, [text])
    rng, n_broken = np.random.default_rng(2), 0
    numbers = sorted(value for value in VALUES if value == value)
    for _ in range(60):
        ends = [sorted(rng.choice(len(numbers), 2)) for _ in NAMES]
        spans = [(numbers[low], numbers[high]) for low, high in ends]
        spans = [(low, low) if rng.random() < 0.7 else (low, high) for low, high in spans]
        missing = rng.random(len(NAMES)) < 0.1
        where = {f: (f, (span, None) if missing[f] else (span,)) for f, span in enumerate(spans)}
        if own.may_hold(where):
            continue
        n_broken += 1
        choices = [
            [number for number in numbers if low <= number <= high] + [math.nan] * bool(gone)
            for (low, high), gone in zip(spans, missing, strict=True)
        ]
        assert not any((not own.broken(row)) for row in itertools.islice(itertools.product(*choices), 500))
    assert n_broken or text in (TEXTS[9], TEXTS[10], TEXTS[15])


def test_categories_go_by_their_values(tmp_path: Path) -> None:
    """A value that the model never saw equals nothing, and a missing one is unknown."""
    frame = pd.DataFrame({"home": pd.Categorical(["own", "rent", "free"] * 20), "n": np.arange(60.0)})
    lightgbm = pytest.importorskip("lightgbm")
    clf = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1).fit(frame, np.arange(60) % 3 == 0)
    ensemble = tp.from_model(clf)
    tp.save_model(ensemble, tmp_path / "model.json")
    model = json.loads((tmp_path / "model.json").read_text())
    for text in ("home == 'own'", "home in ('rent', 'free')", "not home == 'own' or n <= 3", "home != 'rent'"):
        own = Relations(model, [text])
        for code, n in itertools.product((0.0, 1.0, 2.0, 3.0, math.nan), (1.0, 5.0)):
            row = np.array([code, n])
            assert (not own.broken(row.tolist())) == satisfies(ensemble, as_relations([text]), row), (text, row)


@pytest.mark.parametrize("text", ["a <=", "a * b <= 1", "a ? b", "a <= 'x'", "one_of(a", "a", "f(a <= b)", "a <= b b"])
def test_what_is_no_relation_is_refused(known: Known, text: str) -> None:
    """So that nobody takes it for one that always holds."""
    _, model = known
    with pytest.raises(Rejected):
        Relations(model, [text])
