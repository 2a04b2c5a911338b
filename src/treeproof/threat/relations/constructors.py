"""Relations made in Python: each argument is a relation or its text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.threat.relations.expressions import AllOf, AnyOf, Group, Implies, Key, Not, Relation
from treeproof.threat.relations.grammar import parse_relation

_FILE = re.compile(r"[^<>=()]*\.(?:txt|json|rel)\s*")
"""What can be the name of a file, and cannot be a relation."""


def as_relation(given: str | Relation) -> Relation:
    """A relation, or the one that a text states."""
    if isinstance(given, Relation):
        return given
    if isinstance(given, str):
        return parse_relation(given)
    raise InvalidInput(f"a relation is a text such as 'a <= b', or made by tp.one_of and its like, got {given!r}")


def as_relations(given: str | Relation | Iterable[str | Relation] | None) -> tuple[Relation, ...]:
    """Relations from a list of them, from a single one, or from None."""
    if given is None:
        return ()
    if isinstance(given, os.PathLike) or (isinstance(given, str) and _FILE.fullmatch(given)):
        raise InvalidInput(
            f"relations are a list of texts such as 'a <= b', got {given!r}; tp.read_relations reads a file",
            argument="relations",
        )
    if isinstance(given, (str, Relation)):
        return (as_relation(given),)
    if not isinstance(given, Iterable):
        raise InvalidInput(f"relations are a list of texts such as 'a <= b', got {given!r}", argument="relations")
    return tuple(map(as_relation, given))


def one_of(*columns: str | int, name: str | None = None) -> Relation:
    """Exactly one of these columns is 1, and all others are 0: a one-hot group.

    Columns go by name or position. `name` is what the group is called where it is shown.

    >>> one_of("p_car", "p_radio", "p_other", name="purpose")
    one_of(p_car, p_radio, p_other, name='purpose')
    """
    return _group("one_of", columns, name)


def at_most_one(*columns: str | int, name: str | None = None) -> Relation:
    """At most one of these columns is 1, and all others are 0: a one-hot group with a dropped first column.

    >>> at_most_one("is_student", "is_retired")
    at_most_one(is_student, is_retired)
    """
    return _group("at_most_one", columns, name)


def implies(condition: str | Relation, conclusion: str | Relation) -> Relation:
    """Wherever the condition holds, the conclusion does.

    >>> implies("loans == 0", "amount == 0")
    implies(loans == 0, amount == 0)
    """
    return Implies(as_relation(condition), as_relation(conclusion))


def any_of(*relations: str | Relation) -> Relation:
    """At least one of these relations holds.

    >>> any_of("age >= 18", "guardian is present")
    age >= 18 or guardian is present
    """
    parts = _several("any_of", relations)
    return parts[0] if len(parts) == 1 else AnyOf(parts)


def all_of(*relations: str | Relation) -> Relation:
    """Every one of these relations holds.

    >>> all_of("0 <= low", "low <= high")
    0 <= low and low <= high
    """
    parts = _several("all_of", relations)
    return parts[0] if len(parts) == 1 else AllOf(parts)


def not_(relation: str | Relation) -> Relation:
    """The relation does not hold.

    >>> not_("housing == 'own'")
    housing != 'own'
    """
    return Not(as_relation(relation))


def _several(kind: str, relations: tuple[str | Relation, ...]) -> tuple[Relation, ...]:
    if not relations:
        raise InvalidInput(f"{kind} takes one relation or more, got none")
    return tuple(map(as_relation, relations))


def _group(kind: str, columns: tuple[Any, ...], name: Any) -> Relation:
    if name is not None and not isinstance(name, str):
        raise InvalidInput(f"the name of a group is a text, got {name!r}", argument="name")
    if len(columns) == 1 and isinstance(columns[0], (list, tuple)):
        raise InvalidInput(f"{kind} takes the columns one by one, as in {kind}('a', 'b'); put a star before the list")
    return Group(tuple(_key(kind, column) for column in columns), kind == "one_of", name)


def _key(kind: str, column: Any) -> Key:
    if isinstance(column, str) and column:
        return column
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < 2**31:
        return int(column)
    raise InvalidInput(f"{kind} takes columns by name or position, got {column!r}")
