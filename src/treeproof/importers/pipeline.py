"""Pipelines of per-feature scalers and a tree model, in the user's own units."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._refusals import check_methods
from treeproof.importers.registry import Voting, from_model
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import LARGEST, FloatArray, from_ordinal, next_down, next_up, ordinal

SCALERS = ("MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler")


def import_pipeline(pipeline: Any, *, voting: Voting | None) -> Ensemble:
    """The ensemble of the last step, with every threshold pulled back through the scalers before it.

    A scaler is monotone in each feature even after rounding, so `scale(x) <= e` is `x <= e'` for one double
    e'. Bisection over doubles with the scaler's own `transform` finds it exactly.
    """
    *scalers, model = _flattened(pipeline)
    for scaler in scalers:
        _check_scaler(scaler)
    ensemble = from_model(model, voting=voting)
    if not scalers:
        return dataclasses.replace(ensemble, source=pipeline)
    grid = ensemble.grid
    depth = int(grid.n_cells.max()) - 1
    cuts = np.zeros((depth, ensemble.n_features))
    for f in range(ensemble.n_features):
        own = grid.cuts_of(f)
        cuts[: len(own), f] = own
    pulled = _last_scaled_at_most(scalers, cuts)
    inner = ensemble.feature >= 0
    threshold = ensemble.threshold.copy()
    threshold[inner] = pulled[
        grid.cell_of_cut(ensemble.feature[inner], ensemble.threshold[inner]), ensemble.feature[inner]
    ]
    threshold.flags.writeable = False
    low, high = _value_range(scalers, ensemble)
    names = getattr(pipeline, "feature_names_in_", None)
    return dataclasses.replace(
        ensemble,
        threshold=threshold,
        value_low=low,
        value_high=high,
        feature_names=ensemble.feature_names if names is None else tuple(str(name) for name in names),
        origin=f"{ensemble.origin} after {', '.join(type(scaler).__name__ for scaler in scalers)}",
        source=pipeline,
    )


def _flattened(pipeline: Any) -> list[Any]:
    """The steps of a pipeline that do something, with those of pipelines inside it in their place."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import Pipeline

    steps: list[Any] = []
    last = len(pipeline.steps) - 1
    for number, (_, step) in enumerate(pipeline.steps):
        check_methods(step)
        if isinstance(step, FrozenEstimator):
            step = step.estimator
            check_methods(step)
        if isinstance(step, Pipeline):
            steps += _flattened(step)
        elif step is None or (isinstance(step, str) and step == "passthrough"):
            if number == last:
                steps.append(None)
        else:
            steps.append(step)
    if not steps or steps[-1] is None:
        raise UnsupportedModel("the pipeline has no step that predicts: its last one is 'passthrough'")
    return [step for step in steps if step is not None]


# What each scaler shifts and scales by, and the flags that say whether it does.
_FIELDS = {
    "MaxAbsScaler": (None, "scale_"),
    "MinMaxScaler": ("min_", "scale_"),
    "RobustScaler": ("center_", "scale_"),
    "StandardScaler": ("mean_", "scale_"),
}


def _check_scaler(scaler: Any) -> None:
    """Refuses what is not a scaler, and one that is not monotone in each feature by itself."""
    from sklearn import preprocessing

    name = type(scaler).__name__
    if type(scaler) is not getattr(preprocessing, name, None) or name not in SCALERS:
        raise UnsupportedModel(
            f"the pipeline has a {name} before the model; only scalers of single features can be "
            f"pulled back exactly: {', '.join(SCALERS)}"
        )
    shift, scale = (None if field is None else getattr(scaler, field, None) for field in _FIELDS[name])
    for values in (shift, scale):
        if values is None:
            continue
        if type(values) is not np.ndarray or values.shape != (scaler.n_features_in_,) or values.dtype.kind != "f":
            raise InvalidInput(f"the pipeline's {name} does not have one number per feature: {values!r}")
    if scale is not None and not ((scale > 0) & (scale < np.inf)).all():
        raise UnsupportedModel(f"the pipeline's {name} has a scale that is not positive: {scale}")
    if shift is not None and not np.isfinite(shift).all():
        raise UnsupportedModel(f"the pipeline's {name} shifts by a number that is not finite: {shift}")
    if getattr(scaler, "clip", False) and name == "MinMaxScaler":
        low, high = scaler.feature_range
        if not -np.inf < low < high < np.inf:
            raise InvalidInput(f"the pipeline's {name} clips to {scaler.feature_range}")


def _transform(scalers: list[Any], rows: FloatArray) -> FloatArray:
    import warnings

    with np.errstate(over="ignore"), warnings.catch_warnings():
        # The rows here are plain arrays, even for scalers that were fitted on a data frame.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for scaler in scalers:
            rows = np.asarray(scaler.transform(rows), dtype=np.float64)
    return rows


def _last_scaled_at_most(scalers: list[Any], bounds: FloatArray) -> FloatArray:
    """The largest double x with scaled(x) <= bound, for each of `bounds` (n, n_features); the lowest double if none."""
    low = np.full(bounds.shape, ordinal(-LARGEST))
    high = np.full(bounds.shape, ordinal(LARGEST))
    while (low < high).any():
        # The rounded-up middle, without the overflow of low + high.
        middle = (low & high) + ((low ^ high) >> 1) + ((low ^ high) & 1)
        fits = _transform(scalers, from_ordinal(middle)) <= bounds
        low = np.where(fits, middle, low)
        high = np.where(fits, high, middle - 1)
    return from_ordinal(low)


def _value_range(scalers: list[Any], ensemble: Ensemble) -> tuple[FloatArray, FloatArray]:
    """The range of each feature that the model accepts after scaling."""
    high = _last_scaled_at_most(scalers, ensemble.value_high.reshape(1, -1))[0]
    too_low = _last_scaled_at_most(scalers, next_down(ensemble.value_low).reshape(1, -1))[0]
    # The lowest double stands for "none"; where no value goes left at all, it is also the threshold.
    low = next_up(too_low)
    for array in (low, high):
        array.flags.writeable = False
    return low, high
