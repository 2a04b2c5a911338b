"""The map against the oracle, cell by cell; queries against their definitions; limits, order and going on."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path
from random import Random
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support import oracles
from tests.support.category_models import CODED, is_stable, random_model, random_moves, random_row
from tests.support.clock import press_ctrl_c, until
from tests.support.small_maps import ATTACKERS, blurred, cell_corners, drawn, in_domain, small_forest
from tests.support.strategies import neighbourhoods, points
from treeproof.errors import InvalidInput
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.maps import partition
from treeproof.maps.stability_map import StabilityMap
from treeproof.model.pieces import Pieces
from treeproof.results.verdicts import Status
from treeproof.run.limits import Limits


def assert_status_equals_the_oracle(data: st.DataObject, several: bool | None = None) -> None:
    ensemble, plain, smap = drawn(data, several)
    rows = cell_corners(smap)
    more = [data.draw(points(ensemble)) for _ in range(3)]
    rows += [x for x in more if not any(map(math.isnan, x)) and in_domain(plain, x)]
    found = smap.status(rows)
    for x, status in zip(rows, found.tolist(), strict=True):
        if status == Status.OPEN:
            assert blurred(smap, x)
            continue
        truth = oracles.stable(ensemble, plain, x)
        assert status == (Status.STABLE if truth else Status.UNSTABLE), x
    assert smap.complete or not smap.grid.sure.all()


@pytest.mark.slow
@settings(max_examples=250, deadline=None, database=None)
@given(st.data())
def test_status_equals_the_oracle_in_every_fine_cell(data: st.DataObject) -> None:
    assert_status_equals_the_oracle(data)


@settings(max_examples=25, deadline=None, database=None)
@given(st.data())
def test_status_equals_the_oracle_where_tests_have_several_cuts(data: st.DataObject) -> None:
    assert_status_equals_the_oracle(data, several=True)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=250, deadline=None, database=None)
@given(st.data())
def test_status_equals_the_oracle_in_many_cases_where_tests_have_several_cuts(data: st.DataObject) -> None:
    assert_status_equals_the_oracle(data, several=True)


@pytest.mark.parametrize("seed", range(4))
def test_status_equals_brute_force_on_categories(seed: int) -> None:
    random = Random(seed)
    for _ in range(3):
        model, moves, budget = random_model(random), random_moves(random), random.choice((None, 1, 2))
        smap = StabilityMap.build(model, tp.Attacker(moves, budget=budget), n_jobs=1)
        rows = [random_row(random) for _ in range(20)]
        assert smap.complete
        for row, status in zip(rows, smap.status(np.array(rows)).tolist(), strict=True):
            stable = is_stable(model, row, moves, budget, oracles.predict(model, row))
            assert status == (Status.STABLE if stable else Status.UNSTABLE), (row, moves, budget)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, database=None)
@given(st.data())
def test_covers_equals_the_definition(data: st.DataObject) -> None:
    """Every fine cell that meets the neighbourhood is stable, found by listing them; refuted iff one is unstable."""
    ensemble, plain, smap = drawn(data)
    x = data.draw(points(ensemble))
    if any(map(math.isnan, x)) or not in_domain(plain, x):
        return
    eps = data.draw(neighbourhoods(ensemble.n_features))
    per_feature = []
    for f in range(ensemble.n_features):
        near = oracles.neighbours(plain, x, eps, f).meet(oracles.taken(ensemble, f))
        cuts = smap.grid.bounds.cuts_of(f)
        inside = [c for c in cuts.tolist() if near.first <= c < near.last]
        per_feature.append([*inside, near.last])
    rows = list(itertools.product(*per_feature))[:2000]
    if len(rows) == 2000:
        return
    statuses = smap.status(rows)
    assert smap.covers([x], list(eps))[0] == (statuses == Status.STABLE).all()
    right, wrong = ensemble.predict([x]), [c for c in ensemble.classes.tolist() if c != ensemble.predict([x])[0]]
    bounds = smap.resilience([x], right, list(eps))
    assert bounds.lower == float((statuses == Status.STABLE).all())
    assert bounds.upper == float(not (statuses == Status.UNSTABLE).any())
    assert smap.resilience([x], wrong[:1], list(eps)).upper == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("attacker", ATTACKERS, ids=repr)
def test_complete_maps_agree_with_verify_row_by_row(attacker: tp.Attacker, classes: int, voting: str) -> None:
    clf, X, y = small_forest(4, 3, classes)
    smap = StabilityMap.build(clf, attacker, voting=voting, max_seconds=60)
    assert smap.complete
    rows = np.concatenate((X, np.random.default_rng(1).random((500, 4))))
    labels = np.concatenate((y, tp.from_model(clf, voting=voting).predict_index(rows[300:])))
    result = tp.verify(clf, rows, labels, attacker, epsilon=0.02, voting=voting)
    assert smap.status(rows).tolist() == result.stability.tolist()
    assert smap.resilience_outcomes(rows, labels, 0.02).tolist() == result.resilience_by_epsilon[0].tolist()
    assert smap.robustness(rows, labels) == result.robustness


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_workers_do_not_change_any_status(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from treeproof.maps import partition

    clf, _, _ = small_forest()
    whole = StabilityMap.build(clf, ATTACKERS[0], n_jobs=1)
    monkeypatch.setattr(partition, "SMALL_TASK_BOXES", 50)
    monkeypatch.setattr(partition, "TASK_BOXES", 200)
    smap = StabilityMap.build(clf, ATTACKERS[0], n_jobs=n_jobs)
    assert smap.complete and whole.complete
    rows = np.random.default_rng(0).random((5000, 4))
    assert (smap.status(rows) == whole.status(rows)).all()


@pytest.mark.slow
def test_a_dask_cluster_gives_what_threads_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    from treeproof.maps import partition

    clf, X, _ = small_forest()
    expected = StabilityMap.build(clf, ATTACKERS[0], n_jobs=1)
    original, folder = partition.cut_up, str(tmp_path)

    def cut_up(*task: Any) -> Any:
        Path(folder, str(os.getpid())).touch()
        return original(*task)

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        monkeypatch.setattr(partition, "SMALL_TASK_BOXES", 100)
        monkeypatch.setattr(partition, "TASK_BOXES", 400)
        monkeypatch.setattr(partition, "cut_up", cut_up)
        smap = StabilityMap.build(clf, ATTACKERS[0], n_jobs=2)
    assert smap.complete and (smap.status(X) == expected.status(X)).all()
    assert {int(file.name) for file in tmp_path.iterdir()} - {os.getpid()}


def test_stopped_maps_are_sound_and_go_on_to_the_end() -> None:
    clf, _, _ = small_forest(9, 4)
    attacker = tp.Attacker((-0.05, 0.05), budget=1)
    whole = StabilityMap.build(clf, attacker)
    rows = np.random.default_rng(0).random((20000, 4))
    truth = whole.status(rows)
    smap = None
    for most in (1, 2, 100, 1000):
        smap = StabilityMap.build(clf, attacker, max_boxes=most, resume=smap)
        assert smap.n_boxes <= most and not smap.complete
        found = smap.status(rows)
        assert (found[found != Status.OPEN] == truth[found != Status.OPEN]).all()
    smap = StabilityMap.build(clf, attacker, resume=smap)
    assert smap.complete
    assert (smap.status(rows) == truth).all()
    assert smap.visited > whole.visited / 2
    timed = StabilityMap.build(clf, attacker, max_seconds=0)
    assert timed.n_boxes == 1 and set(timed.status(rows).tolist()) == {Status.OPEN}
    small = StabilityMap.build(clf, attacker, max_bytes=1)
    assert not small.complete


def test_ctrl_c_keeps_what_the_task_under_way_has_cut(
    monkeypatch: pytest.MonkeyPatch, ctrl_c: None, interrupts: list[Limits]
) -> None:
    """All the work in one task, so that nothing is left if that task is thrown away."""
    clf, _, _ = small_forest(60, 8)
    monkeypatch.setattr(partition, "FIRST_TASK_BOXES", 5000)
    real = partition.cut_up

    def stopped_before_it_answers(*asked: Any) -> Any:
        piece = real(*asked)
        press_ctrl_c()
        until(lambda: interrupts)
        return piece

    monkeypatch.setattr(partition, "cut_up", stopped_before_it_answers)
    smap = StabilityMap.build(clf, tp.Attacker((-0.03, 0.0), budget=1), n_jobs=1, voting="hard")
    assert smap.interrupted and not smap.complete
    assert smap.counts[Status.STABLE] + smap.counts[Status.UNSTABLE] > 100


def test_ctrl_c_leaves_a_sound_map(monkeypatch: pytest.MonkeyPatch) -> None:
    clf, _, _ = small_forest(9, 4)
    attacker = tp.Attacker((-0.05, 0.05), budget=1)
    calls = []

    def interrupted(*args: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args)

    real = partition.cut_up
    monkeypatch.setattr(partition, "SMALL_TASK_BOXES", 50)
    monkeypatch.setattr(partition, "TASK_BOXES", 50)
    monkeypatch.setattr(partition, "cut_up", interrupted)
    smap = StabilityMap.build(clf, attacker, n_jobs=1)
    monkeypatch.undo()
    assert smap.interrupted and not smap.complete and smap.n_boxes > 1
    rows = np.random.default_rng(0).random((5000, 4))
    found, truth = smap.status(rows), StabilityMap.build(clf, attacker, resume=smap).status(rows)
    assert (found[found != Status.OPEN] == truth[found != Status.OPEN]).all()


def test_rows_that_guide_the_work_are_decided_first() -> None:
    clf, X, _ = small_forest(40, 5)
    attacker = tp.Attacker((-0.02, 0.02), budget=1)
    plain = StabilityMap.build(clf, attacker, max_boxes=20000)
    guided = StabilityMap.build(clf, attacker, max_boxes=20000, order=X[:100])
    assert guided.shares(X[:100])[Status.OPEN] < plain.shares(X[:100])[Status.OPEN]
    truth = tp.verify(clf, X[:100], clf.predict(X[:100]), attacker).stability
    found = guided.status(X[:100])
    assert (found[found != Status.OPEN] == truth[found != Status.OPEN]).all()


def test_a_domain_limits_the_map_and_not_the_attacker() -> None:
    clf, X, _ = small_forest()
    attacker = tp.Attacker((-0.3, 0.3), budget=1)
    whole = StabilityMap.build(clf, attacker)
    smap = StabilityMap.build(clf, attacker, domain={0: (0.2, 0.6), 1: (0.1, 0.9)})
    inside = (X[:, 0] >= 0.2) & (X[:, 0] <= 0.6) & (X[:, 1] >= 0.1) & (X[:, 1] <= 0.9)
    assert smap.complete and smap.n_boxes < whole.n_boxes
    assert (smap.status(X[inside]) == whole.status(X[inside])).all()
    assert set(smap.status(X[~inside]).tolist()) == {Status.OPEN}
    edge = np.array([[0.2, 0.1, 0.5, 0.5], [0.6, 0.9, 0.5, 0.5]])
    assert (smap.status(edge) == whole.status(edge)).all()
    # A neighbourhood that leaves the domain is not covered.
    stable = X[inside & (whole.status(X) == Status.STABLE)]
    assert not smap.covers(stable, {0: 1.0}).any()


def test_volumes_add_up_and_fit_a_sample() -> None:
    clf, _, _ = small_forest()
    smap = StabilityMap.build(clf, ATTACKERS[0])
    volume = smap.volume((0, 1))
    assert sum(volume.values()) == pytest.approx(1.0, abs=1e-9)
    sample = smap.shares(np.random.default_rng(0).random((200_000, 4)))
    for status in Status:
        assert volume[status] == pytest.approx(sample[status], abs=0.01)
    with pytest.raises(InvalidInput, match="finite"):
        smap.volume()
    assert StabilityMap.build(clf, ATTACKERS[0], domain=(0, 1)).volume() == pytest.approx(volume)


def test_explanations_hold_in_their_whole_box() -> None:
    clf, X, _ = small_forest()
    smap = StabilityMap.build(clf, ATTACKERS[0])
    rng = np.random.default_rng(0)
    for x in X[:40]:
        told = smap.explain(x)
        assert told.status == smap.status([x])[0]
        rows = rng.random((200, 4))
        for condition in told.conditions:
            f = int(condition.feature)
            assert condition.low < x[f] <= condition.high
            rows[:, f] = rng.uniform(max(condition.low, -1), min(condition.high, 2), 200)
        rows = rows[[all(c.low < row[int(c.feature)] <= c.high for c in told.conditions) for row in rows]]
        assert set(smap.status(rows).tolist()) <= {told.status}
        if told.status == Status.UNSTABLE:
            assert told.breaking and told.attacked_label != told.label
            assert clf.predict([told.attacked])[0] == told.attacked_label
            for f in told.breaking:
                alone = tp.verify(clf, [x], clf.predict([x]), tp.Attacker({f: (-0.05, 0.0)}))
                assert alone.stability[0] == tp.Outcome.REFUTED


def test_explanations_name_the_values_of_categories() -> None:
    builder = EnsembleBuilder(
        n_features=2, classes=["no", "yes"], feature_names=["colour", "size"], categories={0: CODED}
    )
    builder.add_tree(
        feature=[0, LEAF, 1, LEAF, LEAF], threshold=[0, 0, 0.5, 0, 0], left=[1, LEAF, 3, LEAF, LEAF],
        right=[2, LEAF, 4, LEAF, LEAF], scores=[[0, 0], [1, 0], [0, 0], [1, 0], [0, 1]],
        pieces={0: Pieces.of_codes([False, True, True, False, False, False])},
    )  # fmt: skip
    smap = StabilityMap.build(builder.build(), tp.Attacker.linf(0.25))
    assert str(smap.explain(["mauve", 0.5]).conditions[0]) == "colour is grey or black or (never seen)"
    assert str(smap.explain(["red", 0.5]).conditions[0]) == "colour is red"
    told = StabilityMap.build(builder.build(), tp.Attacker({"colour": tp.ANY})).explain(["grey", 0.9])
    assert told.status == Status.UNSTABLE and told.breaking == ("colour",)
    assert told.attacked is not None and told.attacked[0] in ("green", "blue")


def test_rules_are_the_largest_stable_boxes() -> None:
    clf, _, _ = small_forest()
    smap = StabilityMap.build(clf, ATTACKERS[0])
    rules = smap.rules(top=5, domain=(0, 1))
    shares = [rule.share for rule in rules]
    assert len(rules) == 5 and shares == sorted(shares, reverse=True) and shares[-1] > 0
    rows = np.random.default_rng(0).random((50_000, 4))
    for rule in rules:
        inside = np.ones(len(rows), dtype=bool)
        for condition in rule.conditions:
            f = int(condition.feature)
            inside &= (rows[:, f] > condition.low) & (rows[:, f] <= condition.high)
        assert inside.mean() == pytest.approx(rule.share, abs=0.01)
        assert smap.is_stable(rows[inside]).all()
        assert set(clf.predict(rows[inside]).tolist()) <= {rule.label}
        assert str(rule)


def test_missing_values_are_open() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    clf = HistGradientBoostingClassifier(max_iter=3, max_depth=2).fit(X, rng.integers(0, 2, 200))
    smap = StabilityMap.build(clf, tp.Attacker.linf(0.05))
    missing = np.isnan(X).any(axis=1)
    assert set(smap.status(X[missing]).tolist()) == {Status.OPEN}
    assert not smap.covers(X[missing], 0.0).any()
    labels = clf.predict(X)
    result = tp.verify(clf, X[~missing], labels[~missing], tp.Attacker.linf(0.05))
    assert smap.status(X[~missing]).tolist() == result.stability.tolist()
    assert smap.resilience(X, labels, 0.01).upper > smap.resilience(X, labels, 0.01).lower
    assert smap.explain(X[missing][0]).conditions == ()


def test_trees_with_many_leaves_are_cut_down_to_size() -> None:
    clf, _, _ = small_forest(2, 9)
    attacker = tp.Attacker({0: (-0.01, 0.01)})
    smap = StabilityMap.build(clf, attacker, domain={2: (0.4, 0.5), 3: (0.4, 0.5)})
    assert max(smap.ensemble.depths) > 6 and smap.complete
    rows = np.random.default_rng(0).random((2000, 4))
    rows[:, 2:] = 0.4 + 0.1 * rows[:, 2:]
    truth = tp.verify(clf, rows, clf.predict(rows), attacker).stability
    assert (smap.status(rows) == truth).all()


def test_wrong_input_is_refused() -> None:
    clf, _, _ = small_forest()
    for options, words in [
        ({"order": "data"}, "order"),
        ({"max_boxes": 0}, "max_boxes"),
        ({"max_seconds": -1}, "max_seconds"),
        ({"domain": [(0, 1)]}, "domain has 1"),
        ({"resume": 3}, "resume"),
        ({"resume": StabilityMap.build(clf, ATTACKERS[1], max_boxes=3)}, "resume was made for another attacker"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            StabilityMap.build(clf, ATTACKERS[0], **options)
    with pytest.raises(InvalidInput, match="Attacker"):
        StabilityMap.build(clf, 0.1)


def test_budgets_with_too_many_sets_are_covered_by_larger_ones() -> None:
    from treeproof.maps.problem import MAX_ATTACKS, attacked_sets

    costs = dict.fromkeys(range(30), 1)
    for budget in (1, 2, 3, 10, 29, 30):
        sets = [frozenset(one) for one in attacked_sets(costs, budget)]
        assert len(sets) <= max(MAX_ATTACKS, 1)
        rng = np.random.default_rng(budget)
        for _ in range(200):
            some = set(rng.choice(30, size=budget, replace=False).tolist())
            assert any(some <= one for one in sets)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.integers(0, 6), st.integers(0, 5), max_size=6), st.integers(0, 12))
def test_affordable_sets_lie_in_the_attacked_ones(costs: dict[int, int], budget: int) -> None:
    from treeproof.maps.problem import attacked_sets

    sets = [set(one) for one in attacked_sets(costs, budget)]
    for size in range(len(costs) + 1):
        for some in itertools.combinations(costs, size):
            if some and sum(costs[f] for f in some) <= budget:
                assert any(set(some) <= one for one in sets)
    assert all(sum(costs[f] for f in one) <= budget for one in sets)


def test_kernels_number_statuses_as_everybody_does() -> None:
    from treeproof._kernels.maps import status

    assert {one.name: int(one) for one in Status} == {one.name: getattr(status, one.name) for one in Status}
    assert status.PENDING not in set(Status) and status.CUT_AGAIN not in set(Status)


def test_attacked_sets_are_only_listed_where_they_are_bits_of_a_word() -> None:
    from treeproof._kernels.maps.boxed import boxed_model, scan_trees
    from treeproof._kernels.maps.tables import MARK, Boxed
    from treeproof.maps.fine_grid import FineGrid
    from treeproof.maps.problem import Problem

    for n in (60, 70):
        # One test of each feature after the other.
        builder, tests = EnsembleBuilder(n_features=n, classes=(0, 1)), 2 * np.arange(n)
        feature, left, right = np.full((3, 2 * n + 1), LEAF)
        feature[tests], left[tests], right[tests] = np.arange(n), tests + 1, tests + 2
        scores = [(0, k % 2) for k in range(2 * n + 1)]
        builder.add_tree(feature=feature, threshold=np.zeros(2 * n + 1), left=left, right=right, scores=scores)
        ensemble = builder.build()
        threat = tp.Attacker((-1, 1), budget=1).bind(ensemble)
        grid = FineGrid.of(ensemble, threat, np.full(n, -2.0), np.full(n, 2.0))
        problem = Problem(ensemble, threat, grid)
        box = np.zeros(n, dtype=[("low", "i4"), ("high", "i4")])
        box["high"] = grid.n_cells - 1
        reach, marks = problem.reach(box), np.empty(ensemble.n_nodes, dtype=MARK)
        scan_trees(ensemble.compiled[0], problem.leaf_groups, reach, marks)
        fits, tables = boxed_model(ensemble.compiled[0], problem.space, reach, marks)
        sets = Boxed(*tables).members
        assert fits == (n == 60)
        assert sorted(sets.tolist()) == (sorted([0, 2**n - 1, *(2**f for f in range(n))]) if fits else [])
