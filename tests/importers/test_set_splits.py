"""Splits by pieces of the number line: the rewritten tree sends every row to an equal leaf."""

from __future__ import annotations

import numpy as np
import pytest

from treeproof.errors import InvalidInput
from treeproof.importers import EnsembleBuilder
from treeproof.importers._set_splits import Pieces, TreeArrays, rewritten

GRID = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
VALUES = np.concatenate((GRID, GRID + 0.5, [-9.0, np.nan]))


def random_pieces(rng: np.random.Generator) -> Pieces:
    cuts = np.sort(rng.choice(GRID, size=rng.integers(2, 6), replace=False)).tolist()
    first = bool(rng.integers(2))
    return Pieces(tuple(cuts), tuple((i % 2 == 0) == first for i in range(len(cuts) + 1)))


def random_tree(rng: np.random.Generator, n_inner: int, n_features: int) -> tuple[TreeArrays, dict[int, Pieces]]:
    """Every node's parent is drawn among the open places; about half of the splits are by pieces."""
    left, right, places = [-1] * (2 * n_inner + 1), [-1] * (2 * n_inner + 1), [0]
    inner = []
    for new in range(1, 2 * n_inner, 2):
        node = places.pop(int(rng.integers(len(places))))
        left[node], right[node] = new, new + 1
        places += [new, new + 1]
        inner.append(node)
    n = len(left)
    feature = np.full(n, -1)
    feature[inner] = rng.integers(0, n_features, size=n_inner)
    tree = TreeArrays(
        feature, rng.choice(GRID, size=n), np.array(left), np.array(right), rng.integers(0, 2, size=n) == 1,
        np.arange(n, dtype=float)[:, None],
    )  # fmt: skip
    return tree, {node: random_pieces(rng) for node in inner if rng.random() < 0.5}


def leaf_of(tree: TreeArrays, special: dict[int, Pieces], row: np.ndarray) -> int:
    node = 0
    while tree.feature[node] >= 0:
        x = row[tree.feature[node]]
        if np.isnan(x):
            goes_left = tree.nan_left[node]
        elif node in special:
            goes_left = special[node].lefts[int(np.searchsorted(special[node].cuts, x, side="left"))]
        else:
            goes_left = x <= tree.threshold[node]
        node = int(tree.left[node] if goes_left else tree.right[node])
    return node


@pytest.mark.parametrize("seed", range(40))
def test_rewritten_trees_send_every_row_to_an_equal_leaf(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree, special = random_tree(rng, n_inner=int(rng.integers(1, 14)), n_features=int(rng.integers(1, 4)))
    builder = EnsembleBuilder(n_features=3, classes=[0], handles_missing=True)
    builder.add_tree(**rewritten(tree, special, number=0, what="pieces")._asdict())
    rows = rng.choice(VALUES, size=(400, 3))
    got = builder.build().scores(rows)[:, 0]
    np.testing.assert_array_equal(got, [leaf_of(tree, special, row) for row in rows])


def test_pieces_that_are_empty_or_go_the_same_way_merge() -> None:
    assert Pieces.of([(1.0, True), (1.0, False), (2.0, True)], last=False) == Pieces((2.0,), (True, False))
    assert Pieces.of([(1.0, True)], last=True) == Pieces((), (True,))
    assert Pieces.of([(1.0, True), (2.0, False)], last=False).threshold == 1.0
    assert Pieces.of([(1.0, False)], last=True).threshold is None


def test_a_cycle_is_refused_and_not_walked() -> None:
    tree = TreeArrays(
        np.array([0, 0, -1]),
        np.zeros(3),
        np.array([1, 1, -1]),
        np.array([2, 2, -1]),
        np.zeros(3, bool),
        np.zeros((3, 1)),
    )
    with pytest.raises(InvalidInput, match="tree 7, node 1 has two parents"):
        rewritten(tree, {1: Pieces((0.0, 1.0), (True, False, True))}, number=7, what="pieces")
