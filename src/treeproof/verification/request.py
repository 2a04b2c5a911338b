"""What a user asks about a test set, checked: model, rows, labels and attacker."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, counted
from treeproof.importers import as_ensemble
from treeproof.model.agreement import check_agreement
from treeproof.model.columns import changed_frame, in_own_values
from treeproof.model.ensemble import Ensemble, labels_for
from treeproof.numbers.doubles import FloatArray
from treeproof.numbers.patience import in_time
from treeproof.results.attacker_words import attacker_on_model
from treeproof.results.verdicts import differ
from treeproof.run.limits import Limits
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.binding import with_own_goal
from treeproof.threat.one_hot import ValidAround, bind_neighbours
from treeproof.threat.reached import InVain, moved_in_vain
from treeproof.threat.threat import Threat
from treeproof.verification.possible import bind_possible

MOST_NAMES = 4
"""The number of columns that a warning names."""


@dataclass(frozen=True, eq=False)
class Request:
    """A model, an attacker bound to it, and labelled rows that both accept."""

    ensemble: Ensemble
    attacker: Attacker
    threat: Threat
    X: FloatArray
    y: npt.NDArray[np.int64]
    """The index of each row's label in `ensemble.classes`."""
    given: Any = None
    """X, if it is a data frame of pandas."""
    actors: tuple[Any, ...] | None = None
    """The labels of the rows that are attacked at all; None stands for all."""

    @classmethod
    def of(
        cls, model: Any, X: Any, y: Any, attacker: Any, voting: Any = None, relations: Any = None, actors: Any = None
    ) -> Request:
        """The request as the user makes it, or InvalidInput; the rows are a copy that outlives the caller's array.

        SoundnessError if the library's own model gives a row another label than the ensemble.
        """
        return cls.unlabelled(model, X, attacker, voting, relations)._labelled(y, actors)

    @classmethod
    def of_chunk(cls, model: Any, X: Any, y: Any, attacker: Any, relations: Any, actors: Any) -> Request:
        """The same for some of the rows that are asked about."""
        return cls._bound(model, X, attacker, None, relations, are_all=False)._labelled(y, actors)

    def _labelled(self, y: Any, actors: Any) -> Request:
        labels = labels_for(self.ensemble, y, len(self.X))
        return replace(self, y=labels, actors=None if actors is None else as_actors(actors, self.ensemble))

    @classmethod
    def unlabelled(cls, model: Any, X: Any, attacker: Any, voting: Any = None, relations: Any = None) -> Request:
        """The same where nothing but the model's own labels matters."""
        return cls._bound(model, X, attacker, voting, relations, are_all=True)

    @classmethod
    def _bound(cls, model: Any, X: Any, attacker: Any, voting: Any, relations: Any, are_all: bool) -> Request:
        ensemble = as_ensemble(model, voting=voting).named_after(X)
        attacker = with_own_goal(check_attacker(attacker), ensemble)
        rows = ensemble.check_rows(X).copy()
        threat = bind_possible(attacker, ensemble, relations, rows if are_all else None)
        threat.check_domain(rows, ensemble)
        given = X if hasattr(X, "columns") and hasattr(X, "iloc") else None
        asked = cls(ensemble, attacker, threat, rows, ensemble.predict_index(rows), given)
        with asked.told():
            check_agreement(ensemble, rows, X)
        _warn_of_truth_values(X, ensemble, threat)
        return asked

    def told(self) -> AbstractContextManager[None]:
        """Inside `with`, a SoundnessError calls rows as the user's data frame does, too."""
        return counted(index=None if self.given is None else self.given.index)

    def like_given(self, rows: FloatArray) -> Any:
        """What the rows have become, in the user's own values: a data frame if they were one."""
        if self.given is None:
            return in_own_values(rows, self.ensemble.categories)
        return changed_frame(self.given, rows, differ(rows, self.X), self.ensemble.categories)

    @property
    def about_model(self) -> tuple[str, str, tuple[str, ...] | None]:
        """Where the model comes from, its fingerprint, and the names of its features."""
        return self.ensemble.origin, self.ensemble.fingerprint.hex(), self.ensemble.feature_names

    @property
    def attacker_words(self) -> str:
        """What the attacker may do to the columns of the model, in sentences."""
        names = self.ensemble.feature_names or tuple(f"feature {f}" for f in range(self.ensemble.n_features))
        return attacker_on_model(self.attacker, self.ensemble, self.threat.relations, names)

    @cached_property
    def is_attacked(self) -> npt.NDArray[np.bool_]:
        """Which rows belong to a class whose rows are attacked."""
        if self.actors is None:
            return np.ones(len(self.X), dtype=bool)
        known = self.ensemble.classes.tolist()
        return np.isin(self.y, [known.index(label) for label in self.actors])

    def with_neighbours(self, epsilons: Iterable[Any]) -> tuple[Request, tuple[ValidAround, ...]]:
        """The request about neighbours, too, and these as each ε says."""
        threat, around = bind_neighbours(epsilons, self.ensemble, self.threat)
        return replace(self, threat=threat), around

    def moved_in_vain(self, limits: Limits, epsilons: Iterable[ValidAround] = ()) -> InVain | None:
        """The columns that the attacker moves in vain from all rows that it attacks; None if time is up before."""
        rows, sizes = self.X[self.is_attacked], [one.sizes for one in epsilons]
        work = partial(moved_in_vain, self.threat, self.ensemble, rows, sizes)
        # Searches have had the time of the rows; half as much again is enough.
        is_over = limits.for_rows(len(self.X), (limits.timeout or 0.0) * len(self.X) / 2)
        return in_time(is_over, work, None)


@dataclass(frozen=True, eq=False)
class RowTask:
    """A few rows; it travels to other processes, so it carries no model."""

    threat: Threat
    limits: Limits
    numbers: npt.NDArray[np.int64]
    """Those that the caller counts the rows by."""
    X: FloatArray
    y: npt.NDArray[np.int64]
    """The index of each row's label."""


def as_actors(given: Any, ensemble: Ensemble) -> tuple[Any, ...]:
    """One or more classes of the model, in its order; InvalidInput for anything else."""
    known = ensemble.classes.tolist()
    wanted = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
    wanted = [one.item() if isinstance(one, np.generic) else one for one in wanted]
    unknown = [one for one in wanted if one not in known]
    if unknown:
        raise InvalidInput(f"actors: the model has no class {unknown[0]!r}; it has {', '.join(map(repr, known))}")
    if not wanted:
        raise InvalidInput("actors is empty: nobody would attack; leave it out, or name a class of the model")
    return tuple(label for label in known if label in wanted)


def _warn_of_truth_values(X: Any, ensemble: Ensemble, threat: Threat) -> None:
    """Says that columns of truth values are moved like numbers, where the model compares them so."""
    kinds = [getattr(dtype, "kind", "") for dtype in getattr(X, "dtypes", ())]
    numbers = [column.category is None for column in ensemble.columns]
    moved = [f for f, kind in enumerate(kinds) if kind == "b" and numbers[f] and threat.movable[f]]
    if moved:
        names = ", ".join(ensemble.feature_name(f) for f in moved[:MOST_NAMES])
        more = f" and {len(moved) - MOST_NAMES} more" if len(moved) > MOST_NAMES else ""
        warnings.warn(
            f"the model compares the truth values of {names}{more} as numbers, so the attacker may also move them to "
            "0.5; encode such columns as categories, or leave them out of the attacker",
            stacklevel=4,
        )
