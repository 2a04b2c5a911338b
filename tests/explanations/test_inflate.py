"""Ranges and sets of values against their definition."""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from random import Random

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.applicants import applicants
from tests.support.fast_oracle import TooManyPairs
from tests.support.judged_reasons import judge_block, judge_question
from tests.support.random_blocks import block
from tests.support.relation_questions import question
from treeproof.results.asked import OneOf, Range


def test_ranges_of_tiny_models_are_those_of_the_definition() -> None:
    random, counts = Random(12), 0
    for number in range(40):
        counts += judge_block(block(12, number), random, 3, ("reason", "inflate"))["ranges"]
    assert counts > 60


@pytest.mark.long
@pytest.mark.slow
def test_with_categories_groups_and_relations() -> None:
    random, counts = Random(13), 0
    for number in range(1, 70, 2):
        with suppress(TooManyPairs, NotImplementedError):
            counts += judge_question(question(number), random, ("reason", "inflate"))["ranges"]
    assert counts > 60


def test_ends_are_exact_doubles() -> None:
    clf = DecisionTreeClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    (one,) = tp.explain(clf, [[1.0]], inflate=True)
    low, high = one.ranges[0]
    beyond = math.nextafter(low, -1.0), math.nextafter(high, 2.0)
    assert clf.predict([[low], [high], [beyond[0]], [beyond[1]]]).tolist() == [1, 1, 0, 0]
    (below,) = tp.explain(clf, [[0.25]], inflate=True)
    assert below.ranges == {0: Range(-math.inf, beyond[0])}
    (inside,) = tp.explain(clf, [[0.25]], inflate=True, domain=(0.0, 3.0))
    assert inside.ranges == {0: Range(0.0, beyond[0])}


def test_values_of_categories_need_not_be_neighbours() -> None:
    model = applicants()
    (good,) = tp.explain(model, np.array([[5.0, 12.0, 1.0, 30.0, 2.0]]), inflate=True)
    assert good.ranges == {"income": Range(math.nextafter(2.5, 3.0), math.inf), "purpose": OneOf(["radio", "tv"])}


def test_a_relation_over_sums_ends_between_thresholds() -> None:
    # The label is "low" while b is at most a threshold near 1; what b may be depends on a.
    frame = pd.DataFrame({"a": [0.0, 0.0, 3.0, 3.0], "b": [0.0, 2.0, 0.0, 2.0]})
    clf = DecisionTreeClassifier().fit(frame, ["low", "high", "low", "high"])
    threshold = float(tp.from_model(clf).grid.cuts_of(1)[0])
    row = pd.DataFrame({"a": [0.5], "b": [0.25]})
    assert tp.explain(clf, row)[0].columns == ("b",)
    (one,) = tp.explain(clf, row, inflate=True, relations=["b <= a"], order=["a"])
    assert one.ranges == {"a": Range(-math.inf, threshold)}
    (more,) = tp.explain(clf, row, inflate=True, relations=["b + 0.25 <= a"], order=["a"])
    # The last a whose b may not be above the threshold, as real numbers.
    last = more.ranges["a"][1]
    above = Fraction(math.nextafter(threshold, 2.0)) + Fraction(1, 4)
    assert more.columns == ("a",) and Fraction(last) < above <= Fraction(math.nextafter(last, 2.0))


def test_nothing_outside_of_a_range_could_be_added() -> None:
    X, y = load_wine(return_X_y=True)
    forest = RandomForestClassifier(15, max_depth=4, random_state=1).fit(X, y)
    rng, model = np.random.default_rng(0), tp.from_model(forest)
    for one in tp.explain(model, X[::40], inflate=True):
        x, names = X[40 * one.row], list(one.ranges)
        others = rng.choice(X, 2000) * rng.choice([1.0, 0.3, 3.0], (2000, 13))
        for column, (low, high) in one.ranges.items():
            inside = [end for end in (low, high, x[column]) if math.isfinite(end)]
            others[:, column] = rng.choice(inside, 2000)
        assert (forest.predict(others) == one.label).all()
        last = names[-1]
        # The last one is as wide as can be with all others as they are now.
        for beyond in (np.nextafter(one.ranges[last][1], math.inf), np.nextafter(one.ranges[last][0], -math.inf)):
            if math.isfinite(beyond):
                row = x.copy()
                row[last] = beyond
                free = {f: tp.ANY for f in range(13) if f not in one.ranges}
                moves = {f: (one.ranges[f][0] - x[f], one.ranges[f][1] - x[f]) for f in names[:-1]}
                outcome = tp.verify(
                    model, row[None], model.predict(x[None]), tp.Attacker({**free, **moves}), n_jobs=1
                ).robustness
                assert float(outcome) == 0.0
