"""The paper authors' JSON: their forests vote as they should, and damaged files are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import treeproof as tp

STUMP = [2, [-1, 1], [[[1, 0, 0], [0.5, -1, -1], [2, 0, 0], [3, 0, 0], [0, -1, 1]]]]

golden = pytest.mark.skipif("TREEPROOF_GOLDEN" not in os.environ, reason="set TREEPROOF_GOLDEN to the folder of models")


def saved(content: object, folder: Path) -> Path:
    file = folder / "forest.json"
    file.write_text(json.dumps(content))
    return file


def vote(content: list, x: np.ndarray) -> int:
    """Plain reading of the format: walk every tree, count labels, ties to the first label."""
    _, labels, trees = content
    count = dict.fromkeys(labels, 0)
    for feature, threshold, left, right, prediction in trees:
        node = 0
        while feature[node]:
            node = (left[node] if x[feature[node] - 1] <= threshold[node] else right[node]) - 1
        count[prediction[node]] += 1
    return max(labels, key=lambda label: (count[label], -labels.index(label)))


def test_a_stump_goes_left_on_its_threshold(tmp_path: Path) -> None:
    ensemble = tp.load_model(saved(STUMP, tmp_path))
    assert ensemble.predict([[0.5, 0], [np.nextafter(0.5, 1), 0]]).tolist() == [-1, 1]


@golden
def test_all_forests_of_the_authors_vote_as_read_plainly() -> None:
    files = sorted(Path(os.environ["TREEPROOF_GOLDEN"], "models").glob("treant_*.json"))
    assert len(files) >= 16
    rng = np.random.default_rng(0)
    for file in files:
        content = json.loads(file.read_text())
        ensemble = tp.load_model(file)
        rows = rng.random((200, content[0]))
        for f in range(content[0]):
            cuts = ensemble.grid.cuts_of(f)
            if len(cuts):
                rows[:100, f] = rng.choice(np.concatenate((cuts, np.nextafter(cuts, 1))), 100)
        assert ensemble.predict(rows).tolist() == [vote(content, row) for row in rows]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([2, [-1, 1]], r"expected \[n_features, labels, trees\], got a list of 2 entries"),
        ([2, [-1, 1], [[[0], [0], [0], [0]]]], "tree 0 has 4 lists"),
        ([2, [-1, 1], [[[0], [0], [0], [0], [7]]]], r"leaf label 7 is not among \[-1, 1\]"),
        ([2, [-1, 1], [[[-3], [0], [0], [0], [1]]]], "feature number -3"),
        ([1, [-1, 1], [[[2, 0, 0], *STUMP[2][0][1:]]]], "feature 1 is out of range"),
        ([2, [-1, 1], []], "the model has no trees"),
        ([2, [-1, 1], 5], "is not a valid model in the paper authors' JSON"),
        ([2, [-1, 1], [[[1, 0, 0], [0.5, -1, -1], [2, 0, 0], [2, 0, 0], [0, -1, 1]]]], "two parents"),
        ([2, [-1, 1], [[[1, 0, 0], [0.5, -1, -1], [10**12, 0, 0], [2, 0, 0], [0, -1, 1]]]], "is out of range"),
        ([2, [-1, 1], [[[1, 0, False], *STUMP[2][0][1:]]]], "False stands where a number is expected"),
        ([2, [-1, 1], [[STUMP[2][0][0], ["0.5", -1, -1], *STUMP[2][0][2:]]]], "'0.5' stands where a number"),
        ([2, [0, 1], [[*STUMP[2][0][:4], [0, True, 1]]]], "leaf label True is not among"),
        ([2, [-1, "1"], STUMP[2]], "the labels must be numbers or strings"),
        ([2, ["a", "\ud800"], STUMP[2]], "not text"),
    ],
)
def test_damaged_files_are_refused(content: list, message: str, tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        tp.load_model(saved(content, tmp_path))


def test_soft_voting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match="voting is always 'hard'") as caught:
        tp.load_model(saved(STUMP, tmp_path), voting="soft")
    assert "not a valid" not in str(caught.value), "the file is fine"
