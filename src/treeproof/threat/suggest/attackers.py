"""An attacker to begin with: what a table says about its columns, for a person to edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from treeproof.errors import InvalidInput
from treeproof.numbers.decimals import plain_decimal
from treeproof.threat.attacker import Attacker
from treeproof.threat.moves import ANY, values
from treeproof.threat.relations.expressions import number_text
from treeproof.threat.suggest.columns import FEW_VALUES, SeenColumn, read_columns
from treeproof.threat.suggest.kept import steps_of
from treeproof.threat.suggest.one_hot import one_hot_groups, without_members
from treeproof.threat.suggest.suggestions import in_columns, shown
from treeproof.visible import visible

MOST_NAMED = 4
"""Values of a category that are shown."""


@dataclass(frozen=True, eq=False, repr=False)
class AttackerSuggestion:
    """An attacker to begin with, and why it is as it is; nothing is used unless you hand it on."""

    attacker: Attacker
    relations: list[str]
    """The one-hot groups that the attacker names as columns, for `relations=`."""
    lines: list[tuple[str, str, str, str]]
    """A table of columns, what the attacker may make of them, rows that speak for it, and missing values."""
    notes: tuple[str, ...] = ()
    """What else there is to say about the table."""

    HEAD = ("column", "may become", "rows", "missing")

    @property
    def remark(self) -> str:
        """What somebody should know who uses it."""
        return (
            "One column at a time may become anything that was seen. Only you know what an attacker can reach, and at "
            "what cost: remove columns that nobody can change, and narrow the others. Ranges are a domain that all "
            "rows must lie in, also those that you verify: widen it to what can be."
        )

    def __repr__(self) -> str:
        groups = ["It names one-hot groups: give relations=….relations with it."] if self.relations else []
        return "\n".join([in_columns(self.HEAD, self.lines), self.remark, *groups, *self.notes])


def suggest_attacker(X: Any) -> AttackerSuggestion:
    """An attacker to begin with, from the columns of `X`: a data frame, an array, or `{name: values}`.

    Every column that varies may become anything that was seen, one at a time: numbers within their range and, if all
    are whole or lie on another grid, in steps; categories one of their values. Columns that are sometimes missing may
    be blanked and filled. A one-hot group is one column, with the name that `.relations` gives it. Columns that are
    always the same and ids are left out. What an attacker can reach in truth only a person knows.

    >>> import numpy as np
    >>> months = np.random.default_rng(0).integers(1, 72, 500)
    >>> suggest_attacker({"months": months}).attacker
    Attacker({'months': (-inf, inf)}, budget=1, domain={'months': (1.0, 71.0)}, step={'months': 1})
    """
    table = read_columns(X)
    groups = one_hot_groups(table)
    moved = [*without_members(table, groups), *(group.as_category() for group in groups)]
    varying = [column for column in moved if not (column.is_constant or column.is_id)]
    if not varying:
        raise InvalidInput("no column varies, so there is nothing for an attacker to change; give more rows")
    numbers = [column for column in varying if not column.is_category]
    gaps = {column.key: 1 for column in varying if column.n_missing} or None
    attacker = Attacker(
        {column.key: _move(column) for column in varying},
        budget=1,
        domain={column.key: (column.low, column.high) for column in numbers} or None,
        step={key: plain_decimal(step) for key, step in steps_of(numbers).items()} or None,
        blank=gaps,
        fill=gaps,
    )
    relations = [relation for group in groups for relation in group.suggestion().relations]
    lines = [_line(column) for column in moved]
    return AttackerSuggestion(attacker, relations, lines, tuple(table.unread))


def _move(column: SeenColumn) -> Any:
    """Anything that was seen; many values are not worth a list."""
    if column.values is None or column.is_group or len(column.values) > FEW_VALUES:
        return ANY
    return values(*column.values)


def _line(column: SeenColumn) -> tuple[str, str, str, str]:
    missing = f"{column.n_missing:,}" if column.n_missing else "never"
    return visible(column.key), shown(_words(column)), f"{column.n_present:,}", missing


def _words(column: SeenColumn) -> str:
    """What the attacker may make of a column."""
    gaps = "; may be blanked and filled" if column.n_missing else ""
    if not len(column.levels):
        return "nothing: it has no values"
    if column.is_constant:
        value = column.value_of(column.low)
        return f"nothing: it is always {_plain(value) if column.values is None else value}"
    if column.is_id:
        return "nothing: rows have values of their own, as ids have"
    if column.values is None:
        return f"{_grid(column)} from {_plain(column.low)} to {_plain(column.high)}{gaps}"
    named = ", ".join(str(value) for value in column.values[:MOST_NAMED])
    kind = "one of the columns" if column.is_group else f"one of {len(column.values)} values:"
    return f"{kind} {named}{', …' if len(column.values) > MOST_NAMED else ''}{gaps}"


def _plain(number: float) -> str:
    return f"{number:.10g}"


def _grid(column: SeenColumn) -> str:
    if column.is_binary:
        return "0 or 1,"
    if column.step is None:
        return "numbers"
    return "whole numbers" if column.step == 1 else f"steps of {number_text(column.step)}"
