"""Reasons of real models under attack: 1,000 other rows each, which the library itself must give the same label.

For every column of a reason there is a row that flips the label without it, found through `tp.verify` and replayed on
the library. Nothing but the libraries' own `predict` says what a label is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_limits

import treeproof as tp
from tests.support.category_frames import credit
from treeproof.results.asked import Range
from treeproof.results.verdicts import Outcome

pd = pytest.importorskip("pandas")

TEXT = ["purpose", "job"]
N_OTHERS = 1_000
N_ROWS = 6


class Fitted(NamedTuple):
    """A model, and the frame that it was trained on."""

    model: Any
    frame: Any

    @property
    def ensemble(self) -> tp.Ensemble:
        """The imported model; CatBoost does not know the texts of its values."""
        is_catboost = type(self.model).__module__.startswith("catboost")
        return tp.from_model(self.model, **({"categories": self.frame} if is_catboost else {}))

    def labels(self, frame: Any) -> list[Any]:
        """What the library predicts, as plain values."""
        return list(np.asarray(self.model.predict(frame)).ravel().tolist())


def _as_categories(frame: Any) -> Any:
    return frame.astype(dict.fromkeys(TEXT, "category"))


def _xgboost(frame: Any, y: np.ndarray) -> Fitted:
    xgboost = pytest.importorskip("xgboost")
    frame = _as_categories(frame.replace("études", "studies"))  # it mixes up letters other than ASCII
    model = xgboost.XGBClassifier(n_estimators=12, max_depth=4, enable_categorical=True, n_jobs=1, random_state=0)
    return Fitted(model.fit(frame, y), frame)


def _lightgbm(frame: Any, y: np.ndarray) -> Fitted:
    lightgbm = pytest.importorskip("lightgbm")
    frame = _as_categories(frame)
    model = lightgbm.LGBMClassifier(n_estimators=15, num_leaves=12, min_child_samples=5, n_jobs=1, verbose=-1)
    return Fitted(model.fit(frame, y), frame)


def _catboost(frame: Any, y: np.ndarray) -> Fitted:
    catboost = pytest.importorskip("catboost")
    frame = frame.assign(**{name: frame[name].fillna("?") for name in TEXT})
    model = catboost.CatBoostClassifier(
        iterations=15, depth=4, learning_rate=0.4, cat_features=TEXT, one_hot_max_size=4, max_ctr_complexity=1,
        thread_count=1, verbose=False, allow_writing_files=False, random_seed=0,
    )  # fmt: skip
    return Fitted(model.fit(frame, y), frame)


def _hist(frame: Any, y: np.ndarray) -> Fitted:
    frame = _as_categories(frame)
    model = HistGradientBoostingClassifier(max_iter=12, max_depth=4, min_samples_leaf=8, random_state=0)
    return Fitted(model.fit(frame, y), frame)


def _forest(frame: Any, y: np.ndarray) -> Fitted:
    # Encoders of scikit-learn take a missing text for a value of its own.
    frame = frame.assign(**{name: frame[name].fillna("?") for name in TEXT})
    encoder = ColumnTransformer([("text", OneHotEncoder(handle_unknown="ignore"), TEXT)], remainder="passthrough")
    forest = RandomForestClassifier(20, max_depth=6, random_state=0)
    return Fitted(make_pipeline(encoder, forest).fit(frame, y), frame)


def _extra(frame: Any, y: np.ndarray) -> Fitted:
    frame = frame.drop(columns=TEXT).fillna(0.0)
    return Fitted(ExtraTreesClassifier(25, max_depth=7, random_state=0).fit(frame, y), frame)


MODELS = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "hist gradient boosting": _hist,
    "forest of a pipeline": _forest,
    "extra trees": _extra,
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The rows are few, and threads that wait for each other take most of the time."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module", params=MODELS)
def fitted(request: pytest.FixtureRequest) -> Fitted:
    frame, y = credit(300, seed=1)
    return MODELS[request.param](frame, y)


def values_of(fitted: Fitted, ensemble: tp.Ensemble, f: int) -> list[Any]:
    """Values of a column that are worth trying: of the data, beside thresholds, and extreme ones."""
    column = fitted.frame.iloc[:, f]
    values = column.dropna().unique().tolist()
    if column.name in TEXT:
        return values
    cuts = ensemble.grid.cuts_of(f)
    cuts = cuts[abs(cuts) < 1e30]  # some stand for the end of float32
    near = [*cuts, *np.nextafter(cuts, np.inf), *np.nextafter(cuts, -np.inf), *(cuts * 1.001), *(cuts - 1e-3)]
    return [*values, *map(float, near), 0.0, -0.0, 1e-300, -1e6, 1e30, -1e30]


def others(fitted: Fitted, ensemble: tp.Ensemble, row: Any, kept: Mapping[Any, Any], rng: np.random.Generator) -> Any:
    """Rows with kept columns in their ranges and anything in the others; what is missing may stay so."""
    columns: dict[Any, Any] = {}
    for f, name in enumerate(fitted.frame.columns):
        own, pool = row[name].iloc[0], values_of(fitted, ensemble, f)
        if name in kept:
            pool = _inside(kept[name], own, pool)
        elif pd.isna(own):
            pool = [*pool, *[own] * len(pool)]
        values = [pool[i] for i in rng.integers(len(pool), size=N_OTHERS)]
        columns[name] = pd.Series(values, dtype=fitted.frame[name].dtype)
    return pd.DataFrame(columns)


def _inside(kept: Any, own: Any, pool: list[Any]) -> list[Any]:
    """Values of a range or a set."""
    if pd.isna(own):
        return [own]
    if isinstance(kept, Range):
        ends = [end for end in (kept.low, kept.high) if math.isfinite(end) and abs(end) < 1e30]
        return [own, *ends, *(value for value in pool if kept.low <= value <= kept.high)]
    return list(kept)


def attacker_on(fitted: Fitted, row: Any, free: list[Any]) -> tp.Attacker:
    """Somebody who may make anything of the free columns."""
    missing = [name for name in free if pd.isna(row[name].iloc[0])]
    return tp.Attacker(dict.fromkeys(free, tp.ANY), fill=missing or None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["reason", "smallest"])
def test_no_other_row_has_another_label_and_every_column_is_needed(fitted: Fitted, kind: str) -> None:
    ensemble, rng = fitted.ensemble, np.random.default_rng(0)
    rows = fitted.frame.iloc[:: len(fitted.frame) // N_ROWS][:N_ROWS]
    labels = fitted.labels(rows)
    found = tp.explain(fitted.ensemble, rows, kind=kind, timeout=60)
    assert any(one.columns for one in found)
    for number, one in enumerate(found):
        row = rows.iloc[[number]]
        assert one.label == labels[number]
        assert one.minimal
        around = others(fitted, ensemble, row, {name: [row[name].iloc[0]] for name in one.columns}, rng)
        assert set(fitted.labels(around)) == {one.label}, f"row {number}: {one.columns}"
        for name in one.columns:
            free = [other for other in fitted.frame.columns if other == name or other not in one.columns]
            result = tp.verify(ensemble, row, labels[number : number + 1], attacker_on(fitted, row, free))
            assert result.stability[0] == Outcome.REFUTED, f"row {number}: {name} can be dropped from {one.columns}"
            flipped = ensemble.as_given(result.attacked)
            assert fitted.labels(flipped) != [one.label]


@pytest.mark.slow
def test_no_row_in_the_ranges_has_another_label(fitted: Fitted) -> None:
    ensemble, rng = fitted.ensemble, np.random.default_rng(1)
    rows = fitted.frame.iloc[3 :: len(fitted.frame) // N_ROWS][:N_ROWS]
    for number, one in enumerate(tp.explain(fitted.ensemble, rows, inflate=True, timeout=60)):
        row = rows.iloc[[number]]
        around = others(fitted, ensemble, row, one.ranges, rng)
        assert set(fitted.labels(around)) == {one.label}, f"row {number}: {one.ranges}"


@pytest.mark.slow
def test_contrastive_rows_have_another_label_in_the_library(fitted: Fitted) -> None:
    rows = fitted.frame.iloc[5 :: len(fitted.frame) // N_ROWS][:N_ROWS]
    for number, one in enumerate(tp.explain(fitted.ensemble, rows, kind="contrastive", timeout=60)):
        assert one.minimal
        if one.columns:
            assert fitted.labels(one.changed) == [one.changed_label] != [one.label]
            row = rows.iloc[[number]]
            same = [name for name in fitted.frame.columns if name not in one.columns]
            pd.testing.assert_frame_equal(one.changed[same], row[same])
