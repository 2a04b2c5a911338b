"""A slice of `make fuzz-files`, and that it would find what it looks for."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator

import numpy as np
import pytest

from tests import fuzz_files
from tests.support.fuzz import document
from tests.support.fuzz.formats import _as_ubjson, _mutator, _with_markers, mutant
from tests.support.fuzz.samples import MAKERS, sample
from tests.support.fuzz.sides import Gone, Loaded
from treeproof.importers import _ubjson


@pytest.fixture(scope="module")
def pair() -> Iterator[fuzz_files.Pair]:
    pair = fuzz_files.Pair()
    yield pair
    pair.stop()


@pytest.mark.long
@pytest.mark.slow
def test_what_both_accept_both_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_files, "PER_TASK", 4)
    totals = fuzz_files.run(80, 0, 2, list(MAKERS), talk=False)
    found = [one for tally in totals.values() for one in tally.found]
    assert not found, "\n".join(found[:3])


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_every_kind_of_file_is_comparable_before_it_is_changed(kind: str, pair: fuzz_files.Pair) -> None:
    tally = fuzz_files.Tally()
    pair.try_file(kind, sample(kind), sample(kind).content, "nothing", tally)
    assert tally.counts == {"files": 1, "cases": 1}, tally.found


def _mistaken(content: bytes) -> bytes:
    """The same trees with one leaf changed, as an importer that overlooks a field would see them."""
    model = json.loads(content)
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_conditions"] = [value + 5.0 for value in tree["split_conditions"]]
    return json.dumps(model).encode()


@pytest.mark.slow
def test_a_difference_is_found_and_said(pair: fuzz_files.Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    given = sample("xgboost-json-binary")
    read = pair.read
    monkeypatch.setattr(pair, "read", lambda given, content, earlier: read(given, _mistaken(content), earlier))
    tally = fuzz_files.Tally()
    pair.try_file("xgboost-json-binary", given, given.content, "the trees", tally)
    assert tally.counts["differences"] == 1
    assert "the trees" in tally.found[0] and "differ" in tally.found[0]


@pytest.mark.slow
def test_a_crash_and_a_hang_are_told_apart_and_the_next_file_is_read(pair: fuzz_files.Pair) -> None:
    given = sample("xgboost-json-binary")
    pair.library.ask(("predict", "xgboost", given.content, None), 60)
    os.kill(pair.library._process.pid, signal.SIGSTOP)
    with pytest.raises(Gone) as raised:
        pair.library.ask(("predict", "xgboost", given.content, None), 0.2)
    assert raised.value.hangs
    tally = fuzz_files.Tally()
    pair.try_file("xgboost-json-binary", given, given.content, "nothing", tally)
    assert tally.counts["cases"] == 1
    pair.library._process.kill()
    pair.library._process.join()
    with pytest.raises(Gone) as raised:
        pair.library.ask(("predict", "xgboost", given.content, None), 60)
    assert not raised.value.hangs
    pair.try_file("xgboost-json-binary", given, given.content, "nothing", tally)
    assert tally.counts["cases"] == 2


@pytest.mark.parametrize("kind", ["xgboost-json-dart", "xgboost-ubj-three", "lightgbm-categories", "onnx-forest"])
def test_changed_files_are_the_same_each_time_and_say_what_is_changed(kind: str) -> None:
    given = sample(kind)
    files = [mutant(kind, given, random.Random(number)) for number in range(60)]
    assert files == [mutant(kind, given, random.Random(number)) for number in range(60)]
    assert len({content for content, _ in files}) > 50, "nearly all of them differ"
    assert all(what for _, what in files)


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind.startswith("xgboost-ubj")])
def test_ubjson_is_written_as_it_is_read(kind: str) -> None:
    content = sample(kind).content
    read = _ubjson.parse(_as_ubjson(_with_markers(_ubjson.parse(content))))
    np.testing.assert_equal(read, _ubjson.parse(content))


def test_every_field_gets_changed() -> None:
    given = sample("xgboost-json-categories")
    changed = {str(_mutator("xgboost-json-categories", given)(random.Random(number))[1]) for number in range(2000)}
    for field in document.groups_of(json.loads(given.content)):
        last = field.rpartition(".")[2].removesuffix("[]")
        assert any(last in what for what in changed), field


def test_bare_numbers_and_doubled_keys_reach_the_text() -> None:
    rng = random.Random(0)
    texts = {str(document._spelled(0.1, rng)) for _ in range(100)}
    assert any(len(text) > 30 for text in texts), "more digits than a double has"
    assert document.as_json({"a": "\x011.0e0", "a\x02": 2}) == b'{"a": 1.0e0, "a": 2}'


def test_differences_in_labels_and_in_scores_are_differences() -> None:
    rows = np.zeros((2, 1))
    ours = Loaded("loaded", "", rows, np.array([0, 1]), np.array([[0.5], [1.5]]))
    assert fuzz_files.difference(ours, ours._replace(rows=None)) == ""
    assert "1 of 2 rows" in fuzz_files.difference(ours, ours._replace(labels=np.array([0, 0])))
    assert "scores of 1 rows" in fuzz_files.difference(ours, ours._replace(scores=np.array([[0.5], [2.0]])))
    assert "shape" in fuzz_files.difference(ours, ours._replace(labels=np.array([0])))
