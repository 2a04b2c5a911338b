"""What the user's columns are: numbers, categories with their values, or nothing that the model looks at."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from treeproof.errors import UnsupportedModel
from treeproof.importers.pipelines.plan import Leaf, Plan
from treeproof.importers.pipelines.steps import categories_of, is_nan
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble


@dataclass(frozen=True)
class Given:
    """One of the user's columns."""

    coded: bool = False
    """Whether it is a category that rows hold codes for."""
    values: tuple[Any, ...] = ()
    """Those that the steps know, if it is a category."""
    is_category: bool = False
    unseen: bool = False
    """Whether encoders take a number that is none of the values."""
    dtypes: tuple[str, ...] = ()
    """The types of columns that the steps treat otherwise than doubles."""
    numbers: Literal["codes", "values", "refused"] = "values"
    """What a column of numbers is to the steps: an encoder of text fails at one."""
    own: Category | None = None
    """What the model itself takes it for, if its values reach the model."""


def columns_given(plan: Plan, n: int, model: Ensemble, *, frame: bool) -> list[Given]:
    """What each of the n columns is, from the encoders that its values reach, or the model if it takes categories."""
    reached: list[list[tuple[Leaf, int]]] = [[] for _ in range(n)]
    dtypes: list[set[str]] = [set() for _ in range(n)]
    for leaf in plan.leaves:
        for column, slot in enumerate(leaf.given.slots):
            if not _through_encoder(plan, slot):
                dtypes[plan.slots[slot].origin].update(leaf.kind.dtypes)
            if plan.slots[slot].kept:
                reached[plan.slots[slot].origin].append((leaf, column))
    every = [_given(plan, f, own, tuple(sorted(dtypes[f])), frame=frame) for f, own in enumerate(reached)]
    for column, category in model.categories:
        made = plan.slots[plan.made.slots[column]]
        if category.coded:
            if not made.kept:
                raise UnsupportedModel(
                    f"the pipeline's model takes categories in its column {model.feature_name(column)}, which a step "
                    "makes; let them pass through to the model, or encode them in the pipeline"
                )
            every[made.origin] = _with_categories(every[made.origin], category)
    # Beside text, a column that nothing looks at may hold text as well.
    takes_text = frame or any(column.coded for column in every)
    used = {plan.slots[slot].origin for leaf in plan.leaves for slot in leaf.given.slots}
    used |= {plan.slots[slot].origin for slot in plan.made.slots}
    ignored = Given(coded=True, is_category=True, unseen=True)
    return [ignored if takes_text and f not in used else column for f, column in enumerate(every)]


def _given(plan: Plan, f: int, reached: Sequence[tuple[Leaf, int]], dtypes: tuple[str, ...], *, frame: bool) -> Given:
    encoders = [(leaf, column) for leaf, column in reached if leaf.kind.encodes]
    if not encoders:
        return Given(dtypes=dtypes)
    kinds = {leaf.step.categories_[column].dtype.kind for leaf, column in encoders}
    values = dict.fromkeys(value for leaf, column in encoders for value in categories_of(leaf.step, column))
    for leaf, _ in reached:
        stand_in = getattr(leaf.step, "missing_values", None)
        if stand_in is not None and not is_nan(stand_in) and type(stand_in).__name__ != "NAType":
            values.setdefault(stand_in)
    if "b" in kinds and frame:
        return Given(coded=True, values=(False, True), is_category=True, dtypes=dtypes)
    if kinds & set("OUS"):
        dtypes = tuple(name for name in dtypes if name not in ("object", "bool"))
        takes: Any = "refused" if all(isinstance(value, str) for value in values) else "values"
        return Given(coded=True, values=tuple(values), is_category=True, dtypes=dtypes, numbers=takes)
    encoded_only = all(_through_encoder(plan, slot) for _, slot in plan.made_of[f])
    takes_unseen = all(_takes_unseen(leaf) for leaf, _ in encoders)
    if kinds & set("mM"):
        raise UnsupportedModel(f"the pipeline's {encoders[0][0].name} has dates or times for categories")
    far = next((value for value in values if float(value) != value), None)
    if far is not None:
        raise UnsupportedModel(
            f"the pipeline's {encoders[0][0].name} has the category {far}, which is no double; encode it as text"
        )
    numbers = tuple(sorted(float(value) for value in values))
    if "b" not in kinds and not {0.0, 1.0} <= set(numbers):
        dtypes = (*dtypes, "bool")  # an encoder takes an unknown one for a value that truth values are not
    return Given(values=numbers, is_category=encoded_only or not takes_unseen, unseen=takes_unseen, dtypes=dtypes)


def _with_categories(column: Given, category: Category) -> Given:
    """A column whose values also reach the model, which knows them by itself."""
    values = tuple(dict.fromkeys((*category.values, *column.values)))
    numbers = category.numbers if values == category.values and not column.is_category else "values"
    return dataclasses.replace(column, coded=True, is_category=True, values=values, numbers=numbers, own=category)


def _through_encoder(plan: Plan, slot: int) -> bool:
    return any(leaf.kind.encodes for leaf in plan.leaves_behind(slot))


def _takes_unseen(leaf: Leaf) -> bool:
    return type(leaf.step).__name__ == "TargetEncoder" or leaf.step.handle_unknown != "error"


def base_of(column: Given) -> Any:
    """A value of a coded category to begin with; None for a number."""
    if not column.coded:
        return None
    return column.values[0] if column.values else "any"


def as_objects(values: Sequence[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """A column of values of a category."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
