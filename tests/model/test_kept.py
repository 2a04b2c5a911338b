"""What is kept with a model: found again by its key, never more than a few, and gone with the model."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from treeproof.model.builder import blank_ensemble
from treeproof.model.kept import MOST, Kept


def test_the_last_few_are_kept() -> None:
    kept: Kept[int] = Kept()
    one, other = blank_ensemble(1, [0, 1], None), blank_ensemble(1, [0, 1], None)
    made = []

    def get(model: tp.Ensemble, key: int) -> int:
        return kept.get(model, key, lambda: made.append(key) or key)

    assert [get(one, key) for key in range(MOST + 1)] == list(range(MOST + 1))
    assert (get(one, MOST), get(one, 1), len(made)) == (MOST, 1, MOST + 1)
    assert (get(one, 0), get(other, 1), len(made)) == (0, 1, MOST + 3)


def one_hot_forest() -> tuple[tp.Ensemble, pd.DataFrame]:
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=80)
    X = pd.DataFrame({name: (kind == i).astype(float) for i, name in enumerate("pqr")}).assign(a=rng.integers(0, 9, 80))
    y = (X.a + 3 * X.p - 2 * X.q > 4).astype(int)
    return tp.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X.astype(float), y)), X.astype(
        float
    )


def test_answers_do_not_depend_on_what_was_asked_before() -> None:
    shared, X = one_hot_forest()
    questions = [
        (relation, attacker)
        for relation in (
            [tp.one_of("p", "q", "r", name="kind")],
            [tp.at_most_one("p", "q", "r", name="kind")],
            [tp.one_of("p", "q"), "a <= 6"],
            [tp.one_of("p", "q", "r"), tp.implies("p == 1", "a >= 2"), "a + p <= 8"],
        )
        for attacker in (
            tp.Attacker.lp(1, 1.0, domain={"a": (0, 9)}),
            tp.Attacker.lp(1, 1.0, scale={"p": 3}, up=["q"], domain={"a": (0, 9)}),
            tp.Attacker([(-1, 1)] * 4, costs=[1, 2, 1, 3], budget=9, domain=[(0, 9)] * 4),
        )
    ]
    fresh = [tp.cheapest_attack(one_hot_forest()[0], X[:6], attacker, relations=said) for said, attacker in questions]
    for _ in range(2):
        for (said, attacker), expected in zip(questions, fresh, strict=True):
            found = tp.cheapest_attack(shared, X[:6], attacker, relations=said)
            assert found.price.tolist() == expected.price.tolist()
    assert len({tuple(one.price.tolist()) for one in fresh}) > 6


def test_nothing_that_is_kept_keeps_a_model_alive() -> None:
    ensemble, X = one_hot_forest()
    relations = [tp.one_of("p", "q", "r"), tp.implies("p == 1", "a >= 2")]
    tp.cheapest_attack(ensemble, X[:3], tp.Attacker.lp(1, 1.0), relations=relations)
    gone = weakref.ref(ensemble)
    del ensemble
    gc.collect()
    assert gone() is None
