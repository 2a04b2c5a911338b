"""Compiled questions about frozen columns say what the whole search says, and show it by rows."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.random_blocks import block
from tests.support.relation_questions import question
from treeproof.explanations.questions import Questions
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.verification.possible import bind_possible


def judge(questions: Questions, random: Random) -> list[Outcome]:
    """Asks about random units of all rows; compiled answers must be those of the search, and shown."""
    outcomes = []
    for row in range(len(questions.X)):
        free = np.array([random.random() < 0.6 for _ in questions.units])
        pull = np.array(random.sample(range(len(free)), len(free))) if random.random() < 0.5 else None
        answer = questions.ask(row, free, pull)
        assert answer.outcome == questions.settle(row, free).outcome
        outcomes.append(answer.outcome)
        if answer.outcome == Outcome.REFUTED:
            x, other = questions.X[row], answer.other
            assert other is not None and answer.changed is not None
            goal, relations = questions.threat.goal, questions.threat.relations
            labels = questions.ensemble.predict_index(np.stack((x, other)))
            assert labels[0] != labels[1] and (not goal or labels[1] in goal)
            moved = [f for f in range(len(x)) if x[f] != other[f] and not (math.isnan(x[f]) and math.isnan(other[f]))]
            units = [number for number, unit in enumerate(questions.units) if set(unit) & set(moved)]
            assert units == np.flatnonzero(answer.changed).tolist() and free[units].all()
            assert questions.threat.can_do(x, x, other) if not relations.groups else True
            assert relations.holds(other)
    return outcomes


def test_plain_attackers() -> None:
    random, outcomes = Random(3), []
    for number in range(60):
        asked = block(3, number)
        threat = as_attacker(asked.attacker).bind(asked.ensemble)
        outcomes += judge(Questions(asked.ensemble, threat, np.array(asked.rows[:3])), random)
    assert outcomes.count(Outcome.PROVED) > 30 and outcomes.count(Outcome.REFUTED) > 30


@pytest.mark.long
@pytest.mark.slow
def test_categories_relations_and_all_kinds_of_attackers() -> None:
    random, outcomes, compiled = Random(4), [], 0
    for number in range(1, 120, 2):
        asked = question(number)
        X = np.array(asked.X)
        for attacker in (asked.attacker, tp.Attacker(tp.ANY)):
            try:
                threat = bind_possible(attacker, asked.ensemble, asked.given or None, X)
            except tp.InvalidInput:
                continue
            valid = X[~threat.relations.broken(X)] if threat.relations else X
            if len(valid):
                questions = Questions(asked.ensemble, threat, valid, Limits(timeout=10.0))
                compiled += questions.bound is not None
                outcomes += judge(questions, random)
    assert compiled > 20
    assert outcomes.count(Outcome.PROVED) > 40 and outcomes.count(Outcome.REFUTED) > 40


def test_a_row_with_a_wanted_label_needs_nothing() -> None:
    asked = block(3, 1)
    label = asked.ensemble.predict(np.array(asked.rows[:1]))[0]
    threat = tp.Attacker(tp.ANY, goal=label).bind(asked.ensemble)
    questions = Questions(asked.ensemble, threat, np.array(asked.rows[:1]))
    free = np.ones(asked.ensemble.n_features, dtype=bool)
    assert questions.ask(0, free).outcome == Outcome.PROVED


def test_what_is_hard_for_compiled_questions_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    from treeproof.verification.local_search import Local

    monkeypatch.setattr(Local, "patience", 0)
    random, outcomes = Random(5), []
    for number in range(8):
        asked = block(3, number)
        questions = Questions(asked.ensemble, tp.Attacker(tp.ANY).bind(asked.ensemble), np.array(asked.rows[:2]))
        outcomes += judge(questions, random)
    assert {*outcomes} == {Outcome.PROVED, Outcome.REFUTED}


def test_no_time_is_said() -> None:
    asked = block(3, 1)
    threat = tp.Attacker(tp.ANY).bind(asked.ensemble)
    questions = Questions(asked.ensemble, threat, np.array(asked.rows[:1]), Limits(timeout=0.0))
    assert questions.ask(0, np.ones(asked.ensemble.n_features, dtype=bool)).outcome == Outcome.UNKNOWN


def test_in_large_models_loops_are_watched_and_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(200, 6))
    forest = RandomForestClassifier(15, max_depth=5, random_state=0).fit(X, X[:, :3].sum(axis=1) > 0)
    plain = [tp.explain(forest, X[:4], kind=kind, inflate=True) for kind in ("reason", "smallest")]
    monkeypatch.setattr("treeproof.explanations.bound.MANY_NODES", 0)
    watched = [tp.explain(forest, X[:4], kind=kind, inflate=True) for kind in ("reason", "smallest")]
    assert [[one.ranges for one in some] for some in plain] == [[one.ranges for one in some] for some in watched]
