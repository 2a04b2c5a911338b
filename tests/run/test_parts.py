"""The manifest of a folder of parts is true at any moment, however the parts arrive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import treeproof as tp
from treeproof.run.parts import Parts

QUESTION = {"model": "m", "sizes": (1, 2)}


def test_parts_may_arrive_in_any_order(tmp_path: Path) -> None:
    parts = Parts.open(tmp_path / "new" / "out", QUESTION, resume=False)
    for number, place in enumerate([(0, 2), (1, 0), (0, 0), (0, 5), (0, 1)], start=1):
        assert not parts.has(place)
        parts.add(place, ".csv", b"content", {"rows": 10})
        again = Parts.open(parts.folder, QUESTION, resume=True)
        assert again.has(place) and again.counts["rows"] == 10 * number and not again.complete
    assert json.loads((parts.folder / "manifest.json").read_text())["done"] == [[0, [[0, 3], [5, 6]]], [1, [[0, 1]]]]
    assert not any(again.has(place) for place in [(0, 3), (0, 4), (0, 6), (1, 1), (2, 0)])
    assert (parts.folder / "part-00001-000000.csv").read_bytes() == b"content"
    parts.finish()
    assert Parts.open(parts.folder, QUESTION, resume=True).complete


def test_time_adds_up(tmp_path: Path) -> None:
    Parts.open(tmp_path, QUESTION, resume=False)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "seconds": 100.0}))
    assert 100 < Parts.open(tmp_path, QUESTION, resume=True).seconds < 200


def test_another_question_is_refused_by_name(tmp_path: Path) -> None:
    Parts.open(tmp_path, QUESTION, resume=False)
    for other, what in (({"model": "n", "sizes": (1, 2)}, "model"), ({**QUESTION, "more": 1}, "more"), ({}, "model")):
        with pytest.raises(tp.InvalidInput, match=f"holds results for a different {what}; choose another folder"):
            Parts.open(tmp_path, other, resume=True)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    # What a write that was cut off leaves behind does not count.
    (tmp_path / ".treeproof-0").touch()
    Parts.open(tmp_path, QUESTION, resume=False)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(tp.InvalidInput, match="is not an empty folder, and has no manifest.json; choose another"):
        Parts.open(tmp_path, QUESTION, resume=True)
    with pytest.raises(tp.InvalidInput, match="cannot make the folder .*notes.txt"):
        Parts.open(tmp_path / "notes.txt" / "out", QUESTION, resume=True)


def test_a_part_that_cannot_be_written_is_not_counted(tmp_path: Path) -> None:
    parts = Parts.open(tmp_path, QUESTION, resume=False)
    (tmp_path / "part-00000-000000.csv").mkdir()
    with pytest.raises(tp.InvalidInput, match="cannot write .*part-00000-000000.csv: it is a folder"):
        parts.add((0, 0), ".csv", b"", {"rows": 1})
    assert not Parts.open(tmp_path, QUESTION, resume=True).has((0, 0))
