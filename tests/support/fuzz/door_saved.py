"""Models saved and loaded again: labels and refusals as the library's, and the fingerprint that they had in memory."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import treeproof as tp
from tests.support.fuzz.answers import REFUSED, each
from tests.support.fuzz.asked_tables import subject_of, table
from tests.support.fuzz.door_decisions import data, model_of
from tests.support.fuzz.door_frames import CONTAINERS, ODD
from tests.support.fuzz.subjects import KINDS
from tests.support.fuzz.tally import Part, Tally, ensure
from tests.support.fuzz.tally import told as telling

PLAIN = ("tree", "forest", "gradient", "histogram", "ada", "xgboost", "lightgbm", "catboost")
WAYS = {
    **dict.fromkeys(KINDS, ("own", "pickle", "skops")),
    "lightgbm": ("own", "pickle", "text"), "xgboost": ("own", "pickle", "json", "ubj"), "catboost": ("own", "cbm"),
}  # fmt: skip
PLAIN_WAYS = {
    **dict.fromkeys(PLAIN[:5], ("own", "joblib", "skops")),
    "tree": ("own", "joblib", "skops", "onnx"), "forest": ("own", "joblib", "skops", "onnx"), "gradient": ("own",
    "joblib", "skops", "onnx"),
    "xgboost": ("own", "joblib", "json", "ubj"), "lightgbm": ("own", "joblib", "text"), "catboost": ("own", "cbm",
    "cat-json"),
}  # fmt: skip
CELLS = (
    *((f"frames: {kind}", way) for kind, ways in WAYS.items() for way in ways),
    *((f"plain: {kind}", way) for kind, ways in PLAIN_WAYS.items() for way in ways),
)
RENUMBERED = ("json", "ubj", "text")
"""Files in which classes are numbers."""


def save(way: str, model: Any, ensemble: tp.Ensemble, folder: Path, X: Any) -> Path:
    """The model in a file."""
    if way == "own":
        tp.save_model(ensemble, folder / "m.json")
        return folder / "m.json"
    if way == "pickle":
        (folder / "m.pkl").write_bytes(pickle.dumps(model))
        return folder / "m.pkl"
    if way == "joblib":
        import joblib

        joblib.dump(model, folder / "m.joblib", compress=3)
        return folder / "m.joblib"
    if way == "skops":
        import skops.io

        skops.io.dump(model, folder / "m.skops")
        return folder / "m.skops"
    if way == "onnx":
        from skl2onnx import to_onnx

        (folder / "m.onnx").write_bytes(
            to_onnx(model, np.asarray(X[:1], dtype=np.float32), options={"zipmap": False}).SerializeToString()
        )
        return folder / "m.onnx"
    path = folder / {"text": "m.txt", "cat-json": "c.json"}.get(way, f"x.{way}")
    if way == "text":
        model.booster_.save_model(path)
    elif way == "cat-json":
        model.save_model(str(path), format="json")
    else:
        model.save_model(str(path) if way == "cbm" else path)
    return path


def check(random: Random, number: int, tally: Tally) -> None:
    """One model, saved and loaded in one way."""
    what, way = CELLS[number % len(CELLS)]
    source, _, kind = what.partition(": ")
    with telling(f"{kind} as {way}"), tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n = (_frames if source == "frames" else _plain)(random, number, kind, way, Path(folder), tally)
        tally.count(what, way, n)


def _frames(random: Random, number: int, kind: str, way: str, folder: Path, tally: Tally) -> int:
    try:
        made, _ = subject_of(kind, number // len(CELLS) + 900_000)
    except (tp.InvalidInput, tp.UnsupportedModel) as error:
        tally.refuse("model", " ".join(str(error).split()[:6]))
        return 0
    path = save(way, made.model, made.ensemble, folder, None)
    more: dict[str, Any] = {"allow_pickle": True} if way == "pickle" else {}
    if way == "cbm":
        more["categories"] = made.train
    if way in RENUMBERED:
        more["classes"] = np.unique(made.y).tolist()
    try:
        loaded = tp.load_model(path, **more)
    except (tp.InvalidInput, tp.UnsupportedModel) as error:
        tally.refuse(f"{kind} as {way}", " ".join(str(error).split()[-8:]))
        ensure(way != "own", f"treeproof's own file is refused: {error}")
        return 0
    with telling(f"classes {np.unique(made.y).tolist()}, columns {made.columns}"):
        if way == "own":
            ensure(loaded.fingerprint == made.ensemble.fingerprint, "the fingerprint changes")
            again = tp.load_model(save("own", None, loaded, folder, None))
            ensure(again.fingerprint == loaded.fingerprint, "the fingerprint changes the second time")
        ensure(
            way in RENUMBERED or loaded.columns == made.ensemble.columns,
            f"columns {loaded.columns}, not {made.ensemble.columns}",
        )
        n = 0
        for container in ("frame", *random.sample(sorted(CONTAINERS), 2)):
            drawn = table(made, 60, random, "parquet")
            own = made.as_given(made.frame(drawn.rows))
            given = CONTAINERS[container](made, own, random)
            odd = container in ODD
            theirs = each(made.model.predict, given, ours=False, split=odd)
            memory = each(made.ensemble.predict, given, ours=True, split=odd)
            ours = each(loaded.predict, given, ours=True, split=odd)
            for row, (a, b, c) in enumerate(zip(ours, memory, theirs, strict=True)):
                shown = given.iloc[row].tolist() if hasattr(given, "iloc") else given[row]
                ensure(
                    a == b or (way != "own" and a == REFUSED),
                    f"{container}: row {shown!r}: {a!r} loaded, {b!r} in memory",
                )
                ensure(a in (c, REFUSED) or c == REFUSED, f"{container}: row {shown!r}: {a!r} loaded, {c!r} there")
            n += len(ours)
    return n


def _plain(random: Random, number: int, kind: str, way: str, folder: Path, tally: Tally) -> int:
    X, y, rows = data(random, random.choice([2, 3]))
    model = model_of(kind, random).fit(X, y)
    ensemble = tp.from_model(model)
    path = save(way, model, ensemble, folder, X)
    try:
        loaded = tp.load_model(path, allow_pickle=way == "joblib")
    except (tp.InvalidInput, tp.UnsupportedModel) as error:
        tally.refuse(f"{kind} as {way}", " ".join(str(error).split()[-8:]))
        ensure(way != "own", f"treeproof's own file is refused: {error}")
        return 0
    if way == "own":
        ensure(loaded.fingerprint == ensemble.fingerprint, "the fingerprint changes")
    special = np.concatenate([rows, np.nan * rows[:2], rows[:9] * 1e300, rows[:9] * 1e-320, -0.0 * rows[:2]])
    predict: Any = model.predict
    if way == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        special = special[: len(rows)].astype(np.float32).astype(np.float64)
        name = session.get_inputs()[0].name

        def predict(some: Any) -> Any:
            return session.run(None, {name: some.astype(np.float32)})[0]

    ours, theirs = each(loaded.predict, special, ours=True), each(predict, special, ours=False)
    for row, a, b in zip(special.tolist(), ours, theirs, strict=True):
        ensure(a == REFUSED or b == REFUSED or int(a) == int(b), f"row {row}: {a!r} loaded, {b!r} there")
        ensure(
            a != REFUSED or b == REFUSED or not np.isfinite(row).all() or max(map(abs, row)) > 1e30,
            f"row {row} is refused",
        )
    return len(special)


PART = Part("saved", CELLS, check)
