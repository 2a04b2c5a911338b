"""Does the library's own model say what the ensemble says? Asked before any verdict, wherever that model is at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, counted, disbelieved
from treeproof.model.columns import CodedRows
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray

SAMPLE = 256
"""The number of rows on thresholds that stand for a model where there are no data."""

MOST_WORDS = 300
"""Of a library's error, so many characters are shown."""

PROBES = "of treeproof's own rows beside thresholds"
"""Where rows are that nobody asked about."""

FIRST = 32
"""A spot check compares the first so many rows that come along…"""

EVERY, SOME = 10_000, 16
"""… and after each so many rows the first few of a call."""


def check_on_probes(ensemble: Ensemble) -> None:
    """Raises SoundnessError if the library's own model gives other labels to rows where a difference would show."""
    if ensemble.source is not None:
        rows = probe_rows(ensemble, SAMPLE)
        with counted(where=PROBES):
            compare_labels(ensemble, rows, ensemble.source_labels(rows), "the library's own model")


def check_agreement(ensemble: Ensemble, rows: FloatArray, given: Any = None) -> None:
    """Raises SoundnessError if the library's own model gives one of these rows another label; one batch for all.

    If the rows hold values of categories, the library is asked about them as the user has `given` them: there may be
    more ways to write a value, or a missing one, than treeproof knows. What the library refuses is refused.
    """
    if ensemble.source is None or not len(rows):
        return
    coded = [category for _, category in ensemble.categories if category.coded]
    is_table = hasattr(given, "columns")
    if hasattr(given, "dtype") and not isinstance(given, CodedRows):
        is_table |= given.dtype.kind == "O" or any(category.numbers != "codes" for category in coded)
    try:
        labels = ensemble.source_labels(rows, given if is_table and (coded or ensemble.takes_frames) else None)
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInput(f"the model's own predict refuses these rows: {words[:MOST_WORDS]}") from None
    compare_labels(ensemble, rows, labels, "the library's own model")


def compare_labels(ensemble: Ensemble, rows: FloatArray, labels: npt.NDArray[Any], whose: str) -> None:
    """Raises SoundnessError, with both labels, unless the ensemble gives these rows these labels."""
    ours = ensemble.classes[ensemble.predict_index(rows)]
    if labels.shape != ours.shape:
        raise disbelieved(
            f"{whose} answers {len(rows)} rows with labels of shape {labels.shape}, so it cannot be compared"
        )
    differ = np.flatnonzero(np.asarray(ours != labels))
    if len(differ):
        row = int(differ[0])
        raise disbelieved(
            f"{whose} predicts {labels.tolist()[row]!r} and treeproof {ours.tolist()[row]!r} for "
            f"{rows[row].tolist()!r} ({len(differ)} of {len(rows)} rows differ), so nothing is proved about it; if the "
            "model was changed after it was imported, import it again",
            differ,
        )


class SpotCheck:
    """Compares a few of the rows that come along: the library takes milliseconds where a guard takes microseconds."""

    def __init__(self) -> None:
        self._seen = 0
        self._due = 0

    def check(self, ensemble: Ensemble, rows: FloatArray) -> None:
        """Compares the first rows of all, and some whenever many have passed since; SoundnessError at a difference."""
        if ensemble.source is None:
            return
        before, self._seen = self._seen, self._seen + len(rows)
        if before < FIRST:
            check_agreement(ensemble, rows[: FIRST - before])
            self._due = EVERY
        elif self._seen >= self._due:
            check_agreement(ensemble, rows[:SOME])
            self._due = self._seen + EVERY


def probe_rows(ensemble: Ensemble, n: int, seed: int = 0) -> FloatArray:
    """n rows where a difference would show: values on thresholds, one step beside them, between them and far away.

    Steps are those of doubles and of float32. A feature that no tree tests takes the values of all others, as the
    library may test it. Coded categories take every code. Every fourth row has values missing, if the model accepts
    that.
    """
    rng = np.random.default_rng(seed)
    cuts = [ensemble.grid.cuts_of(f) for f in range(ensemble.n_features)]
    everywhere = np.concatenate([*cuts, [0.0]])
    rows = np.empty((n, ensemble.n_features))
    for f, own in enumerate(cuts):
        rows[:, f] = _probes(own if len(own) else rng.choice(everywhere, size=min(64, len(everywhere))), n, rng)
        np.clip(rows[:, f], ensemble.value_low[f], ensemble.value_high[f], out=rows[:, f])
    for f, category in ensemble.categories:
        if category.coded:
            rows[:, f] = rng.permutation(np.arange(n) % category.n_codes)
        elif not category.unseen and category.values:
            rows[:, f] = rng.choice(category.known(), size=n)
    if ensemble.may_be_missing.any():
        blank = rng.random(rows.shape) < 0.3
        blank[np.arange(n) % 4 != 3] = False
        rows[blank & ensemble.may_be_missing] = np.nan
    return rows.view(CodedRows)


def _probes(cuts: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """n values around these thresholds in random order; each threshold and step occurs if there is room."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = cuts.astype(np.float32)
        beside = [cuts, narrow, *(np.nextafter(narrow, np.float32(end)) for end in (-np.inf, np.inf))]
        steps = np.concatenate(beside).astype(np.float64)
        steps = np.unique(np.concatenate((steps, np.nextafter(steps, -np.inf), np.nextafter(steps, np.inf))))
        low, high = float(cuts[0]), float(cuts.max())
        wide = max(high - low, abs(low), abs(high)) * 0.25
        between = rng.uniform(size=n) * (high / 2 - low / 2 + wide) * 2 + (low - wide)
    values = np.resize(rng.permutation(steps[np.isfinite(steps)]), n)
    chosen = rng.random(n)
    values = np.where(chosen < 0.25, between, values)
    values = np.where(chosen > 0.9, np.rint(between), values)
    values = np.where(chosen > 0.97, rng.choice([0.0, -0.0, -np.inf, np.inf, 1e-40, -1e-40], size=n), values)
    return np.asarray(rng.permutation(np.nan_to_num(values, nan=0.0)))
