"""Damaged model files: thousands of mutations, and never anything but a clear refusal or a valid model."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.clock import ending
from tests.support.zoo.case import data

X, y = data(3)
MUTATIONS = 300
SLOW = {"catboost cbm": 12}  # each file is read in a process of its own, because catboost crashes on some


def _own(folder: Path) -> Path:
    from sklearn.ensemble import RandomForestClassifier

    tp.save_model(RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y), folder / "model.json")
    return folder / "model.json"


def _authors(folder: Path) -> Path:
    tree = [[1, 2, 0, 0, 0], [0.5, 0.25, -1, -1, -1], [2, 3, 0, 0, 0], [5, 4, 0, 0, 0], [0, 0, -1, 1, 1]]
    (folder / "model.json").write_text(json.dumps([5, [-1, 1], [tree, tree]]))
    return folder / "model.json"


def _skops(folder: Path) -> Path:
    skops_io = pytest.importorskip("skops.io")
    from sklearn.tree import DecisionTreeClassifier

    skops_io.dump(DecisionTreeClassifier(max_depth=3).fit(X, y), folder / "model.skops")
    return folder / "model.skops"


def _xgboost(ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        xgboost = pytest.importorskip("xgboost")
        xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X, y).save_model(folder / f"model.{ending}")
        return folder / f"model.{ending}"

    return write


def _lightgbm(folder: Path) -> Path:
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=4, n_jobs=1, verbose=-1).fit(X, y)
    model.booster_.save_model(folder / "model.txt")
    return folder / "model.txt"


def _catboost(ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        catboost = pytest.importorskip("catboost")
        model = catboost.CatBoostClassifier(
            iterations=3, depth=2, verbose=False, allow_writing_files=False, thread_count=1, loss_function="MultiClass"
        ).fit(X, y)
        model.save_model(str(folder / f"model.{ending}"), format=ending)
        return folder / f"model.{ending}"

    return write


def _onnx(folder: Path) -> Path:
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.tree import DecisionTreeClassifier

    model = skl2onnx.to_onnx(DecisionTreeClassifier(max_depth=3).fit(X, y), X[:1].astype(np.float32))
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


SAMPLES: dict[str, Callable[[Path], Path]] = {
    "treeproof": _own,
    "authors": _authors,
    "skops": _skops,
    "xgboost json": _xgboost("json"),
    "xgboost ubj": _xgboost("ubj"),
    "lightgbm": _lightgbm,
    "catboost json": _catboost("json"),
    "catboost cbm": _catboost("cbm"),
    "onnx": _onnx,
}


def damage(data: bytes, rng: random.Random) -> bytes:
    """One to three small accidents: flipped, lost, doubled or foreign bytes, or a cut-off end."""
    mutated = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(mutated))
        length = rng.choice([1, 1, 2, 4, 16, 64])
        match rng.randrange(6):
            case 0:
                mutated[at] ^= 1 << rng.randrange(8)
            case 1:
                mutated[at : at + length] = bytes(rng.randrange(256) for _ in range(length))
            case 2:
                del mutated[at : at + length]
            case 3:
                mutated[at:at] = mutated[at : at + length]
            case 4:
                mutated[at : at + 1] = rng.choice([b"-", b"9", b"0", b"e", b"}", b"]", b"null", b"\x00", b"\xff"])
            case 5:
                mutated = mutated[:at]
        if not mutated:
            break
    return bytes(mutated)


ODD = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    -(2**70),
    0.5,
    1e308,
    1e-320,
    float("nan"),
    float("inf"),
    "",
    "1e5",
    "x",
    [],
    {},
    [[]],
    [1, 2],
]


def _places(content: Any, path: tuple = ()) -> Iterator[tuple]:
    if path:
        yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from _places(value, (*path, key))


def rewrite(content: Any, rng: random.Random) -> bytes:
    """Valid JSON with one value replaced by an odd one, dropped, doubled or swapped with its neighbour."""
    content = json.loads(json.dumps(content))
    places = list(_places(content))
    for _ in range(rng.randint(1, 2)):
        *parents, key = rng.choice(places)
        holder = content
        try:
            for parent in parents:
                holder = holder[parent]
            match rng.randrange(4):
                case 0 | 1:
                    holder[key] = rng.choice(ODD)
                case 2:
                    del holder[key]
                case 3 if isinstance(holder, list):
                    holder.insert(key, holder[rng.randrange(len(holder))])
        except (KeyError, IndexError, TypeError):
            continue  # the first change took this place away
    return json.dumps(content).encode()


def load_or_refuse(file: Path, content: bytes, keep: Path) -> str:
    """Loads the file; what is loaded must also predict. Anything but our two refusals fails the test."""
    file.write_bytes(content)
    try:
        with ending(f"{keep} holds the file"):
            ensemble = tp.load_model(file)
            ensemble.predict(np.zeros((2, ensemble.n_features)))
    except (tp.InvalidInput, tp.UnsupportedModel) as error:
        assert "\n" not in str(error), f"more than one line: {error}"
        return "refused"
    except BaseException:
        keep.write_bytes(content)
        raise
    return "loaded"


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLES)
def test_damaged_bytes_are_refused_or_still_valid(kind: str, tmp_path: Path) -> None:
    file = SAMPLES[kind](tmp_path)
    good = file.read_bytes()
    assert load_or_refuse(file, good, tmp_path / "kept") == "loaded"
    rng = random.Random(f"bytes of {kind}")
    mutations = SLOW.get(kind, MUTATIONS)
    results = [load_or_refuse(file, damage(good, rng), tmp_path / "kept") for _ in range(mutations)]
    assert results.count("refused") > mutations / 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["treeproof", "authors", "xgboost json", "catboost json"])
def test_odd_values_are_refused_or_still_valid(kind: str, tmp_path: Path) -> None:
    file = SAMPLES[kind](tmp_path)
    good = json.loads(file.read_bytes())
    rng = random.Random(f"values of {kind}")
    results = [load_or_refuse(file, rewrite(good, rng), tmp_path / "kept") for _ in range(MUTATIONS)]
    assert results.count("refused") > MUTATIONS / 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLES)
def test_every_cut_off_file_is_refused(kind: str, tmp_path: Path) -> None:
    file = SAMPLES[kind](tmp_path)
    good = file.read_bytes()
    steps = SLOW.get(kind, 120) // 2
    for length in {*range(0, min(len(good), steps)), *range(0, len(good) - 1, max(1, len(good) // steps))}:
        if load_or_refuse(file, good[:length], tmp_path / "kept") == "loaded":
            # Only what ends in text that decides nothing may be lost: LightGBM prints its parameters last.
            assert kind == "lightgbm" and b"end of trees" in good[:length], f"accepts the first {length} bytes"
