"""Votes of trees, chosen by exact verdicts about the whole forest."""

from __future__ import annotations

import numpy as np
import pytest

import treeproof as tp
from tests.support.toys import blobs
from treeproof.training import RobustForestClassifier, forest
from treeproof.training._select import chosen_votes, is_more


@pytest.mark.parametrize("select", ["robustness", "resilience"])
def test_votes_prove_no_fewer_rows_than_one_each(select: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = blobs(2)
    attacker, epsilon = tp.Attacker.linf(0.3), 0.05 if select == "resilience" else None
    seen = []

    def chosen(n_trees, ensemble_of, scorer, held_out, random):
        votes, score = chosen_votes(n_trees, ensemble_of, scorer, held_out, random)
        shares = []
        for some in ([1] * n_trees, votes.tolist()):
            result = tp.verify(ensemble_of(some), *held_out[:2], attacker, epsilon=epsilon)
            shares.append(float(result.robustness if result.resilience is None else result.resilience))
        seen.append((votes, score, *shares))
        return votes, score

    monkeypatch.setattr(forest, "chosen_votes", chosen)
    for seed in range(6):
        model = RobustForestClassifier(
            attacker, n_estimators=7, max_depth=2, epsilon=epsilon, select=select, max_features=1, random_state=seed
        ).fit(X, y)
        votes, score, before, after = seen[-1]
        np.testing.assert_array_equal(model.votes_, votes)
        assert model.validation_score_ == score == pytest.approx(after)
        assert after >= before and votes.any() and (votes >= 0).all()
    changed = [after > before for _, _, before, after in seen]
    assert any(changed) and any((votes != 1).any() for votes, *_ in seen)


def test_gains_by_chance_do_not_count() -> None:
    before = np.arange(10) < 5
    for gained, lost, more in ((0, 0, False), (1, 0, False), (2, 0, True), (3, 1, False), (5, 1, True), (1, 3, False)):
        after = before.copy()
        after[5 : 5 + gained], after[:lost] = True, False
        assert is_more(after, before) == more
