"""What a model makes of the columns that steps give it: the doubles that it compares."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.importers.pipelines.plan import Plan, Run
from treeproof.model.ensemble import Ensemble
from treeproof.model.other_tests import Bools, Tests
from treeproof.numbers.doubles import LARGEST, FloatArray


@dataclass(frozen=True)
class Intake:
    """The columns of a model behind the steps of a plan."""

    plan: Plan
    model: Ensemble
    blank_zeros: bool
    """Whether zeros that a sparse matrix leaves out are missing, as they are for XGBoost."""
    takes_infinite: bool
    """Whether the model takes infinite numbers; it then sends them where it sends the largest ones."""
    takes_missing: bool
    """Whether it takes missing ones; scikit-learn's trees do in an array, but not in a sparse matrix."""

    @cached_property
    def tests(self) -> Tests:
        """The tests of the model."""
        return Tests(self.model)

    def compared(self, column: int, values: npt.NDArray[Any] | None) -> FloatArray:
        """What the model compares for each value of a column: its own codes of categories, -1 for one it refuses."""
        assert values is not None
        category = self.model.columns[column].category
        if category is not None and category.coded:
            return np.array([category.code_of(value) for value in values.tolist()], dtype=np.float64)
        is_text = None
        if values.dtype == object:
            is_text = np.array([isinstance(value, str) for value in values], dtype=bool)
            values = np.where(is_text, 0, values)
        values = values.astype(np.float64, copy=False)
        if self.blank_zeros:
            # A negative zero stands for one that the matrix stores.
            stored = self.plan.slots[self.plan.made.slots[column]].sparse
            blank = (values == 0) & ~np.signbit(values) if stored else values == 0
            values = np.where(blank, np.nan, values)
        if self.takes_infinite:
            values = np.clip(values, -LARGEST, LARGEST)
        # Text where the model takes numbers is refused, as what is beyond all numbers is.
        return values if is_text is None else np.where(is_text, np.inf, values)

    def made(self, run: Run, f: int) -> dict[int, FloatArray]:
        """For each column of the model that depends on column f of the user, what the model compares after a run."""
        return {column: self.compared(column, run.values[slot]) for column, slot in self.plan.made_of[f]}

    def refused(self, run: Run, f: int) -> Bools:
        """Which values of a column a step or the model refuses."""
        by_model = [self.refuses(column, compared) for column, compared in self.made(run, f).items()]
        return np.asarray(np.logical_or.reduce([run.refused[f], *by_model]))

    def twofold_zeros(self, columns: Collection[int]) -> list[int]:
        """The columns in which -0.0, which is 0.0 here, is something else to the model, as behind a reciprocal."""
        run = self.plan.run({f: np.array([0.0, -0.0]) for f in columns})
        found = []
        for f in columns:
            (refused, other), made = self.refused(run, f), self.made(run, f)
            if refused != other or any(self.parts(column, own[:1], own[1:])[0] for column, own in made.items()):
                found.append(f)
        return found

    def parts(self, column: int, compared: FloatArray, other: FloatArray) -> Bools:
        """Where two numbers that the model would compare are not the same to it."""
        own, refused = self.tests.on(column)[:, None], self.refuses(column, compared)
        differ = (self.tests.sides(own, compared[None]) != self.tests.sides(own, other[None])).any(axis=0)
        return np.asarray((differ & ~refused) | (refused != self.refuses(column, other)))

    def refuses(self, column: int, compared: FloatArray) -> Bools:
        """Which of the numbers that it would compare the model refuses."""
        model = self.model
        refused = ~((compared >= model.value_low[column]) & (compared <= model.value_high[column]))
        if self.takes_missing and model.may_be_missing[column]:
            refused &= ~np.isnan(compared)
        return np.asarray(refused)
