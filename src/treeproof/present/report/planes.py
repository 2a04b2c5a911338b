"""The slices of the page: planes chosen, cut as finely as time allows, and packed for the page's script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.present.report.instances import KINDS, kinds_of
from treeproof.present.slices import Slice, cut_slice, frame_of
from treeproof.results.verdicts import Outcome
from treeproof.results.verification import Verification
from treeproof.run import clock
from treeproof.threat.attacker import Attacker
from treeproof.verification.witnesses import moved_features

MAX_FEATURES = 5
RESOLUTIONS = (24, 64)
"""Squares per side: all slices are first cut with the fewest, and then again while there is time."""
SQUARE_TIMEOUT = 0.5
MAX_POINTS = 400


@dataclass(frozen=True, eq=False)
class Planes:
    """The slices, and why there are no more of them."""

    features: list[int]
    through: list[int]
    """The rows of the test set that slices go through."""
    slices: dict[tuple[int, int, int], Slice]
    """By position in `through` and by both features, in the order of `features`."""
    points: list[list[Any]]
    """Rows to draw: `[row, label's index, kind, values of features…]`."""
    start: tuple[int, int, int] | None
    """The slice to show first: the one with the most to see."""
    missing: int
    """The number of slices that were left out because time ran out."""


def choose_features(
    ensemble: Ensemble, attacker: Attacker, result: Verification, wanted: Sequence[Any] | None, names: tuple[str, ...]
) -> list[int]:
    """The features of the slices: those wanted, or those that counterexamples move most, then those tested most."""
    if wanted is not None:
        features = [names.index(one) if one in names else ensemble.feature_index(one) for one in wanted]
    else:
        tested = np.bincount(ensemble.feature[ensemble.feature >= 0], minlength=ensemble.n_features)
        by_use = np.argsort(-tested, kind="stable")
        movable = attacker.bind(ensemble).movable
        features = [moved.feature for moved in moved_features(result)]
        features += [int(f) for f in by_use if tested[f] and movable[f]] + [int(f) for f in by_use if tested[f]]
    unique = list(dict.fromkeys(features))
    numbers = [f for f in unique if f not in dict(ensemble.categories)]
    return [f for f in numbers if frame_of(ensemble, attacker, result.X, f) is not None][:MAX_FEATURES]


def cut_planes(
    ensemble: Ensemble,
    attacker: Attacker,
    result: Verification,
    features: list[int],
    seconds: float,
    n_jobs: int | None,
) -> Planes:
    """All pairs of the features, through a broken row and through a safe one, until time runs out."""
    end = clock.now() + seconds
    frames = {f: frame_of(ensemble, attacker, result.X, f) for f in features}
    through = _through(result)
    wanted = [(k, f, g) for f, g in combinations(features, 2) for k in range(len(through))]

    def cut(key: tuple[int, int, int], squares: int, left: float) -> Slice:
        (low_f, high_f), (low_g, high_g) = frames[key[1]] or (0, 0), frames[key[2]] or (0, 0)
        return cut_slice(
            ensemble,
            attacker,
            result.X[through[key[0]]],
            key[1:],
            (low_f, low_g),
            (high_f, high_g),
            resolution=squares,
            timeout=SQUARE_TIMEOUT,
            max_seconds=left,
            n_jobs=n_jobs,
        )

    slices: dict[tuple[int, int, int], Slice] = {}
    for key in wanted:
        if clock.now() < end:
            slices[key] = cut(key, RESOLUTIONS[0], end - clock.now())
    # Those with the most to see come first: if time runs out, the others stay coarse.
    order = sorted(slices, key=lambda key: -_variety(slices[key]))
    for resolution in RESOLUTIONS[1:]:
        for key in order:
            if clock.now() < end:
                finer = cut(key, resolution, end - clock.now())
                if not (finer.status == Outcome.UNKNOWN).any() or clock.now() < end:
                    slices[key] = finer
    start = order[0] if order else None
    points = _points(ensemble, result, features)
    return Planes(features, through, slices, points, start, len(wanted) - len(slices))


def pack(cut: Slice) -> dict[str, Any]:
    """A slice for the page: runs of equal squares, row by row, as `[code, length, …]`; code = 3 · label + status."""
    codes = (3 * cut.labels + cut.status).ravel()
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    lengths = np.diff(np.concatenate((starts, [len(codes)])))
    status = cut.status.ravel()
    return {
        "n": cut.resolution,
        "low": list(cut.low),
        "high": list(cut.high),
        "runs": np.column_stack((codes[starts], lengths)).ravel().tolist(),
        "stable": int((status == Outcome.PROVED).sum()),
        "unstable": int((status == Outcome.REFUTED).sum()),
    }


def _variety(cut: Slice) -> float:
    """How evenly labels, and stable and unstable squares, share the plane."""
    shares = [np.unique(values, return_counts=True)[1] / values.size for values in (cut.labels, cut.status)]
    return float(sum(1 - (share**2).sum() for share in shares))


def _through(result: Verification) -> list[int]:
    """A row that an attack breaks and one that it does not, each close to the middle of the rows."""
    if not len(result):
        return []
    centre = _nan_safe(np.nanmedian, result.X)
    spread = _nan_safe(np.nanstd, result.X)
    with np.errstate(invalid="ignore"):
        away = np.nan_to_num(np.abs(result.X - centre) / np.where(spread > 0, spread, 1.0), nan=0.0).sum(axis=1)
    kind = kinds_of(result)
    chosen = []
    for group in (("broken", "fragile"), ("resilient", "robust")):
        for name in group:
            rows = np.flatnonzero(kind == [key for key, _, _ in KINDS].index(name))
            if len(rows):
                chosen.append(int(rows[np.argmin(away[rows])]))
                break
    return chosen or [int(np.argmin(away))]


def _nan_safe(statistic: Any, X: FloatArray) -> npt.NDArray[np.float64]:
    """The statistic of each feature over the rows that have it; 0 for a feature that no row has."""
    empty = np.isnan(X).all(axis=0)
    return np.asarray(statistic(np.where(empty, 0.0, X), axis=0))


def _points(ensemble: Ensemble, result: Verification, features: list[int]) -> list[list[Any]]:
    """Rows to draw: at most MAX_POINTS, chosen at random, half of them unsafe if there are enough."""
    kind = kinds_of(result)
    safe = np.isin(kind, [i for i, (key, _, _) in enumerate(KINDS) if key in ("robust", "resilient")])
    rng = np.random.default_rng(0)
    unsafe_rows, safe_rows = rng.permutation(np.flatnonzero(~safe)), rng.permutation(np.flatnonzero(safe))
    n_unsafe = min(len(unsafe_rows), max(MAX_POINTS // 2, MAX_POINTS - len(safe_rows)))
    chosen = np.concatenate((safe_rows[: MAX_POINTS - n_unsafe], unsafe_rows[:n_unsafe]))
    labels = ensemble.class_index(result.y[chosen])
    return [
        [int(row), int(label), int(kind[row]), *(_short(value) for value in result.X[row, features])]
        for row, label in zip(chosen, labels, strict=True)
    ]


def _short(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.7g}")
