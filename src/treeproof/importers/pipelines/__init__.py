"""Pipelines: steps that make each column from one column, folded into the tests of the model behind them.

Each number that the steps pass on depends on one column of the user. Where that is a category, every value goes
through the steps' own `transform`, and each test of the model becomes the set of values that it sends left. Where it is
a number, a step is monotone but for a few places that are known, so each test becomes a few cuts, found by bisection
over doubles. No tree is changed otherwise: there are as many nodes as in the library's model.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import UnsupportedModel, disbelieved
from treeproof.importers._refusals import check_methods, feature_names_of
from treeproof.importers.lightgbm import BELOW_ZERO, ROWS_ARE_CSR, ZERO
from treeproof.importers.pipelines.categories import listed_columns
from treeproof.importers.pipelines.given import Given, base_of, columns_given
from treeproof.importers.pipelines.intake import Intake
from treeproof.importers.pipelines.lines import Lines
from treeproof.importers.pipelines.plan import Plan, columns_of
from treeproof.importers.registry import Voting, from_model
from treeproof.model.agreement import probe_rows
from treeproof.model.columns import Category, Column, check_names_differ, given_values, renamed
from treeproof.model.ensemble import Ensemble
from treeproof.model.other_tests import Bools, Tests, with_tests
from treeproof.numbers.doubles import LARGEST

COMPARED = 200
"""The number of rows on which the folded steps are compared with the steps themselves."""


def import_pipeline(pipeline: Any, *, voting: Voting | None) -> Ensemble:
    """The ensemble of the last step on the columns that the pipeline is given."""
    *steps, model = _flattened(pipeline)
    ensemble = from_model(model, voting=voting)
    if not steps:
        return dataclasses.replace(ensemble, source=pipeline)
    names = feature_names_of(steps[0])
    n = int(steps[0].n_features_in_)
    if names is not None:
        check_names_differ(names)
    frame = names is not None
    ways = Plan(steps, n, frame=frame)
    if len(ways.made.slots) != ensemble.n_features:
        raise UnsupportedModel(
            f"the pipeline's steps make {len(ways.made.slots)} columns, but its model takes {ensemble.n_features}"
        )
    columns = columns_given(ways, n, ensemble, frame=frame)
    plan = Plan(steps, n, frame=frame, bases=[base_of(column) for column in columns])
    ensemble = _as_rows_come(ensemble, model, plan, voting)
    bases = [plan.slots[slot].base for slot in plan.made.slots]
    no_limit = bool(((ensemble.value_low == -LARGEST) & (ensemble.value_high == LARGEST)).all())
    intake = Intake(
        plan,
        ensemble,
        blank_zeros=bool(plan.made.sparse) and _is_from("xgboost", model),
        takes_infinite=no_limit and _takes(-np.inf, model, bases, plan.made.sparse),
        takes_missing=not plan.made.sparse or _takes(np.nan, model, bases, plan.made.sparse),
    )
    folded = _Folding(intake, columns, frame=frame).ensemble(
        names,
        blanks_underscored=False,
        origin=f"{ensemble.origin} after {', '.join(type(step).__name__ for step in steps)}",
        source=_source(pipeline, steps, model, ensemble),
    )
    _compare(folded, steps, intake)
    # What is a code to the model and a value to an encoder is nothing that an array could hold.
    agree = all(column.own is None or column.numbers == column.own.numbers for column in columns)
    return folded.with_arrays(not frame or (agree and _takes_arrays(steps, folded.as_given(probe_rows(folded, 4)))))


def _as_rows_come(ensemble: Ensemble, model: Any, plan: Plan, voting: Voting | None) -> Ensemble:
    """The model as it treats the rows that it is given: of LightGBM's there are two, if it has tests close to zero."""
    zone = np.isin(ensemble.threshold[ensemble.feature >= 0], (BELOW_ZERO, ZERO)).any()
    if not (plan.made.sparse == "csr" and zone and _is_from("lightgbm", model)):
        return ensemble
    token = ROWS_ARE_CSR.set(True)
    try:
        return from_model(model, voting=voting)
    finally:
        ROWS_ARE_CSR.reset(token)


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


def _is_from(library: str, model: Any) -> bool:
    """Whether a model, or the one that it is wrapped around, is one of this library's."""
    while model is not None:
        if any(base.__module__.partition(".")[0] == library for base in type(model).__mro__):
            return True
        inside = (getattr(model, name, None) for name in ("best_estimator_", "estimator_", "estimator"))
        model = next((one for one in inside if one is not None), None)
    return False


def _takes(value: float, model: Any, row: Sequence[Any], sparse: str) -> bool:
    """Whether a model takes an infinite or missing number; tried on the row with one in its first column."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given: Any = np.array([[value, *row[1:]]], dtype=np.float64)
            if sparse:
                from scipy.sparse import csr_matrix

                given = csr_matrix(given).asformat(sparse)
            model.predict(given)
        except (ValueError, TypeError):
            return False
    return True


def _source(pipeline: Any, steps: Sequence[Any], model: Any, ensemble: Ensemble) -> Any:
    """What predicts as the ensemble does: the pipeline, unless the model was asked to decide otherwise."""
    own = ensemble.source
    other = own is not model and own is not None and type(own).__module__.partition(".")[0] == "treeproof"
    return AfterSteps(steps, own) if other else pipeline


def _takes_arrays(steps: Sequence[Any], frame: Any) -> bool:
    """Whether steps that were fitted on a data frame find their columns in arrays, too: of objects or of numbers."""
    for dtype in (object, float):
        with warnings.catch_warnings(), suppress(ValueError, TypeError, LookupError, ArithmeticError):
            warnings.simplefilter("ignore")
            given = frame.to_numpy(dtype=dtype)
            for step in steps:
                given = step.transform(given)
            return True
    return False


class AfterSteps:
    """Predicts with something other than a pipeline's own last step."""

    def __init__(self, steps: Sequence[Any], source: Any) -> None:
        self.steps = steps
        self.source = source

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The label of each row."""
        for step in self.steps:
            X = step.transform(X)
        return np.asarray(self.source.predict(X.toarray() if hasattr(X, "toarray") else X))


class _Folding:
    """The columns of the user, each as a line of numbers or a list of categories."""

    def __init__(self, intake: Intake, columns: Sequence[Given], *, frame: bool) -> None:
        self._plan, self._intake, self._columns = intake.plan, intake, columns
        self._frame = frame
        listed = {
            f: column for f, column in enumerate(columns) if column.coded or (column.is_category and not column.unseen)
        }
        self.listed = listed_columns(intake, listed, frame=frame)
        lines = [f for f in range(len(columns)) if f not in listed]
        self._lines = Lines(intake, lines)
        self.missing = self._missing_in(lines)

    def _missing_in(self, lines: Sequence[int]) -> dict[int, tuple[bool, dict[int, float]]]:
        """For each column of numbers, whether it may be missing, and what the model's columns are then."""
        if not lines:
            return {}
        run = self._plan.run({f: np.array([np.nan]) for f in lines})
        made = {f: {column: float(own[0]) for column, own in self._intake.made(run, f).items()} for f in lines}
        return {f: (not self._intake.refused(run, f)[0], made[f]) for f in lines}

    def ensemble(self, names: Sequence[str] | None, **changes: Any) -> Ensemble:
        """The model on the user's columns."""
        model, n = self._intake.model, len(self._columns)
        tests = self._intake.tests
        sides = [one for listed in self.listed.values() for one in listed.sides(tests)] + self._lines.sides(tests)
        return with_tests(
            model,
            tests,
            sides,
            [self._plan.slots[slot].origin for slot in self._plan.made.slots],
            self._missing_left(tests),
            columns=renamed(list(map(self._column, range(n))), names),
            takes_frames=self._frame,
            **changes,
        )

    def _column(self, f: int) -> Column:
        refused = self._columns[f].dtypes
        if f in self.listed:
            own = self.listed[f]
            return Column(None, float(own.rows[0]), float(own.rows[-1]), own.takes_missing, own.category, refused)
        given, line = self._columns[f], self._lines.lines[f]
        category = Category(given.values, coded=False, unseen=True, dtype="float64") if given.is_category else None
        return Column(None, line.low, line.high, self.missing[f][0], category, refused)

    def _missing_left(self, tests: Tests) -> Bools:
        """Where each test sends a missing value."""
        left = np.zeros(len(tests), dtype=bool)
        for column, slot in enumerate(self._plan.made.slots):
            f = self._plan.slots[slot].origin
            double = self.listed[f].made[column][-1] if f in self.listed else self.missing[f][1][column]
            own = tests.on(column)
            left[own] = tests.sides(own, np.full(len(own), double))
        return left


def _compare(folded: Ensemble, steps: Sequence[Any], intake: Intake) -> None:
    """Raises SoundnessError unless the steps themselves make what was folded into the tests, of some rows."""
    plan, rows = intake.plan, probe_rows(folded, COMPARED)
    given: Any = folded.as_given(rows)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in steps:
            given = step.transform(given)
    run = plan.run({f: _column(folded, f, rows[:, f], plan) for f in range(folded.n_features)})
    for column, (slot, theirs) in enumerate(zip(plan.made.slots, columns_of(given), strict=True)):
        made, wanted = intake.compared(column, run.values[slot]), intake.compared(column, theirs)
        differ = np.flatnonzero((made != wanted) & ~(np.isnan(made) & np.isnan(wanted)))
        if len(differ):
            raise disbelieved(
                f"the pipeline's steps make {wanted[differ[0]]!r} of their column {column} where treeproof expected "
                f"{made[differ[0]]!r}, so nothing is proved about it"
            )


def _column(ensemble: Ensemble, f: int, numbers: npt.NDArray[np.float64], plan: Plan) -> npt.NDArray[Any]:
    """What the steps are given for the doubles of rows."""
    category = ensemble.columns[f].category
    if category is None or not category.coded:
        return numbers
    return given_values(category, numbers).astype(object if plan.slots[f].coded else np.float64)
