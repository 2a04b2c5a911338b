"""The door to explanations: why rows have their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, disbelieved
from treeproof.explanations.inflate import Wide
from treeproof.explanations.inflate import inflate as widened
from treeproof.explanations.questions import Found, Questions
from treeproof.explanations.reasons import dropping_order, reason
from treeproof.explanations.smallest import contrastive, smallest
from treeproof.importers import as_ensemble
from treeproof.model.ensemble import Ensemble
from treeproof.results.asked import Asked, ColumnName, Kind, OneOf, Range, Unit
from treeproof.results.explanations import Explanation, Explanations
from treeproof.results.verdicts import Outcome
from treeproof.run import clock
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.progress import progress_bar
from treeproof.run.workers import in_groups, run_groups
from treeproof.threat.attacker import Attacker
from treeproof.threat.moves import ANY
from treeproof.threat.settings import as_prices
from treeproof.verification.request import Request, RowTask

ROWS = 16
"""Rows per task."""


@dataclass(frozen=True, eq=False)
class _Task(RowTask):
    """A few rows, and what is asked about them."""

    kind: Kind
    order: npt.NDArray[np.int64]
    inflate: bool


class _Made(NamedTuple):
    """An explanation of a row, with ranges if these are asked for."""

    found: Found
    wide: Wide | None = None


def explain(
    model: Any,
    X: Any,
    *,
    kind: Kind = "reason",
    inflate: bool = False,
    order: Any = None,
    attacker: Attacker | None = None,
    domain: Any = None,
    missing: Any = None,
    relations: Any = None,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> Explanations:
    """Why the model gives each row its label, proved.

    A `kind="reason"` is a set of columns that is enough for the label: whatever the others are, within the `domain`,
    the label is the same, and no column can be dropped from it. By default columns that few tests use are dropped
    first; `order` lists those that are wanted, the most wanted first. Values become missing in the columns of
    `missing=` only, and those that are missing may become anything. With `inflate`, each number of a reason is widened
    to the largest range and each category to the largest set of values, one column after another, which are still
    enough. `kind="smallest"` has the fewest columns that are enough, `kind="contrastive"` the fewest whose change can
    give the row another label, with such a row.

    With an `attacker`, the question is which columns, if they were out of his reach, would make the row robust.
    `relations`, as in `verify`, say which rows are possible; rows that break them are refused. `timeout` is for a row;
    what was not found by then is said to be not minimal. `n_jobs` is as in `verify`. One parameter per choice that
    users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], ["no", "yes"])
    >>> tp.explain(clf, [[0.25, 3.0]])[0].columns
    (0,)
    """
    began = clock.now()
    _check_words(X, kind, inflate, order, attacker is not None)
    ensemble = as_ensemble(model, voting=voting).named_after(X)
    whose = _attacker(ensemble, X, attacker, domain, missing)
    asked = Request.unlabelled(ensemble, X, whose, None, relations)
    whose = asked.attacker
    _refuse_broken(asked)
    check_jobs(n_jobs)
    limits = Limits.of(timeout=timeout, max_seconds=max_seconds)
    about = Asked.of(
        asked.ensemble, kind, whose, asked.X, asked.threat.relations,
        against=attacker is not None, attacker_words="" if attacker is None else asked.attacker_words,
        missing=() if whose.blank is None or attacker is not None else tuple(whose.blank.keys or ()),
        given=asked.given, inflate=inflate,
    )  # fmt: skip
    numbers = dropping_order(asked.ensemble, about.units, order)
    groups = in_groups(len(asked.X), ROWS)
    tasks = [_Task(asked.threat, limits, rows, asked.X[rows], asked.y[rows], kind, numbers, inflate) for rows in groups]
    found = [_Made(_unfinished(kind, len(about.units)))] * len(asked.X)
    with progress_bar(progress, len(asked.X), "explaining") as advance, asked.told():

        def take(number: int, answer: list[_Made]) -> None:
            some = groups[number]
            found[some[0] : some[-1] + 1] = answer
            advance(len(some))

        run_groups(_answer, asked.ensemble, tasks, limits, n_jobs, take)
        return _result(asked, about, found, seconds=clock.now() - began, interrupted=limits.interrupted)


def _check_words(X: Any, kind: Any, inflate: Any, order: Any, against: bool) -> None:
    """Refuses what is no table, no kind of explanation, and choices that mean nothing for this kind."""
    if X is None or isinstance(X, (str, bytes, Mapping)):
        raise InvalidInput(
            f"X is a table of rows, an array or a data frame, got {type(X).__name__}",
            argument="X",
            way_out="one row is [[1.0, 2.0, …]], or a data frame with one row",
        )
    if kind not in get_args(Kind):
        raise InvalidInput(f"kind is one of {', '.join(map(repr, get_args(Kind)))}, got {kind!r}", argument="kind")
    if not isinstance(inflate, (bool, np.bool_)):
        raise InvalidInput(f"inflate is True or False, got {inflate!r}", argument="inflate")
    if inflate and (against or kind == "contrastive"):
        what = "an attacker says how far values go" if against else "a contrastive set has no ranges"
        raise InvalidInput(f"inflate=True, but {what}; leave it out", argument="inflate")
    if order is not None and kind == "contrastive":
        raise InvalidInput(
            "order says which columns are wanted in a reason, and a contrastive set has the fewest that there are",
            argument="order",
            way_out="leave it out",
        )


def _attacker(ensemble: Ensemble, X: Any, attacker: Attacker | None, domain: Any, missing: Any) -> Attacker:
    """Who may change columns: the user's attacker, or anybody within the domain."""
    if attacker is not None:
        for name, given, own in (("domain", domain, "domain="), ("missing", missing, "blank=")):
            if given is not None:
                raise InvalidInput(
                    f"{name}= is for explanations without an attacker",
                    argument=name,
                    way_out=f"give the attacker {own}",
                )
        return attacker
    ends = domain.items() if isinstance(domain, Mapping) else ((None, domain),)
    for column, pair in ends:
        if isinstance(pair, str) or (isinstance(pair, (list, tuple)) and any(isinstance(end, str) for end in pair)):
            where = "" if column is None else f" of {column!r}"
            raise InvalidInput(f"domain{where} is a pair of numbers, (low, high), got {pair!r}", argument="domain")
    blank = as_prices(missing, "missing")
    for key in () if blank is None else blank.keys or ():
        f = ensemble.feature_index(key)
        if not ensemble.may_be_missing[f]:
            raise InvalidInput(
                f"missing names column {ensemble.feature_name(f)}, where the model takes no missing values; leave it "
                "out",
                argument="missing",
            )
    gaps = np.flatnonzero(np.isnan(ensemble.check_rows(X)).any(axis=0)).tolist()
    return Attacker(ANY, domain=domain, blank=blank, fill=gaps or None)


def _refuse_broken(asked: Request) -> None:
    """Refuses to explain no rows at all, and rows that are not possible."""
    if not len(asked.X):
        raise InvalidInput("X has no rows; give at least one", argument="X")
    for row, relation in asked.threat.relations.which_broken(asked.X):
        raise InvalidInput(
            f"row {row} breaks the relation {str(relation)!r}: of a row that is not possible everything would be true",
            argument="relations",
            way_out="leave the row out, or mend the relation",
        )


def _unfinished(kind: Kind, n_units: int) -> Found:
    """What is known of a row before anything is asked: all columns are enough for its label."""
    if kind == "contrastive":
        return Found(np.zeros(n_units, dtype=bool), Outcome.UNKNOWN, minimal=False)
    return Found(np.ones(n_units, dtype=bool), Outcome.PROVED, minimal=False)


def _answer(ensemble: Ensemble, task: _Task) -> list[_Made]:
    """The explanations of the rows of a task."""
    questions = Questions(ensemble, task.threat, task.X, task.limits)
    if task.kind == "contrastive":
        return [_Made(found) for found in contrastive(questions, task.order)]
    find, made = {"reason": reason, "smallest": smallest}[task.kind], []
    for row in range(len(task.X)):
        found = find(questions, row, task.order)
        made.append(_Made(found, widened(questions, row, found.units) if task.inflate else None))
    return made


def _result(asked: Request, about: Asked, made: Sequence[_Made], *, seconds: float, interrupted: bool) -> Explanations:
    """The explanations in the user's own names and values."""
    labels, changed = asked.ensemble.classes[asked.y].tolist(), _replayed(asked, made)
    explanations = []
    for row, (found, wide) in enumerate(made):
        units = {number: about.units[number] for number in np.flatnonzero(found.units).tolist()}
        ranges: dict[ColumnName, Range | OneOf] = {
            unit.name: _allowed(about, row, unit, number, wide) for number, unit in units.items()
        }
        minimal = found.minimal and (wide is None or wide.complete)
        allowed = {} if about.kind == "contrastive" else ranges
        explanations.append(
            Explanation(
                row, tuple(ranges), labels[row], found.outcome, minimal, allowed, about, found.other, changed.get(row)
            )
        )
    return Explanations(explanations, about, seconds=seconds, interrupted=interrupted)


def _replayed(asked: Request, made: Sequence[_Made]) -> dict[int, Any]:
    """The labels of the rows that contrastive sets lead to, as the source model has them."""
    rows = {row: found.other for row, (found, _) in enumerate(made) if found.other is not None}
    if not rows:
        return {}
    labels = dict(zip(rows, asked.ensemble.source_labels(np.array(list(rows.values()))).tolist(), strict=True))
    wanted = asked.ensemble.classes[list(asked.threat.goal)].tolist()
    for row, label in labels.items():
        if label == asked.ensemble.classes[asked.y[row]] or (wanted and label not in wanted):
            raise disbelieved(f"the change that was found gives it {label!r}", [row])
    return labels


def _allowed(about: Asked, row: int, unit: Unit, number: int, wide: Wide | None) -> Range | OneOf:
    """What a column of a reason may be: what it is in the row, unless it was widened."""
    own = about.value(row, unit.name)
    if wide is not None and number in wide.ranges:
        # An end of what the model takes is no end to people.
        (low, high), (first, last) = wide.ranges[number], about.domain[unit.features[0]]
        return Range(first if low is None else low, last if high is None else high)
    if unit.category is None:
        return Range(own, own)
    if wide is None or number not in wide.values:
        return OneOf([own])
    code = float(about.X[row, unit.features[0]])
    return OneOf(
        own if not unit.is_group and value == code else unit.category.value_of(value) for value in wide.values[number]
    )
