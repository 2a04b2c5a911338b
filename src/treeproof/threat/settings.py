"""What users say about an attacker as a whole, checked: budget, groups, goal, and what is given per column."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.columns import is_missing
from treeproof.model.per_feature import PerFeature, as_key, as_number
from treeproof.threat.moves import Move, Rule, Steps, Values, as_cost, as_move, as_named_move

MOST_RULES = 10_000
"""Of an attacker; the checker takes as many."""


@dataclass(frozen=True)
class Group:
    """Columns that have a budget of their own, on top of the overall one."""

    name: str
    columns: tuple[int | str, ...]
    budget: int


def as_moves(given: Any) -> PerFeature[Move]:
    """What the attacker may do to the columns: one move for all, one per column, or {column: move}."""
    parse = as_named_move if isinstance(given, Mapping) else as_move
    return PerFeature.of(given, "interval", parse, _is_one_move)


def _is_one_move(given: Any) -> bool:
    return not isinstance(given, (list, tuple)) or not any(
        isinstance(each, (Values, Steps)) or (hasattr(each, "__len__") and not isinstance(each, str)) for each in given
    )


def as_budget(given: Any) -> int | None:
    """What the attacker may spend; None: no limit."""
    if given is None:
        return None
    number = as_number(given, "budget")
    if number < 0:
        raise InvalidInput(
            f"budget must be at least 0, got {given!r}", argument="budget", way_out="None means no limit"
        )
    if math.isinf(number):
        return None
    if number != math.floor(number):
        raise InvalidInput(
            f"budget must be a whole number, got {given!r}", argument="budget", way_out="scale costs and budget up"
        )
    return math.floor(number)


def as_unit(value: Any, where: str) -> float:
    """What the distances of a column are divided by."""
    number = as_number(value, where)
    if not 0 < number < math.inf:
        raise InvalidInput(f"{where} must be above 0 and finite, got {value!r}")
    return number


def as_prices(given: Any, what: str) -> PerFeature[int] | None:
    """Columns with a cost each: {column: cost}, or some columns at a cost of 1."""
    if given is None or (isinstance(given, PerFeature) and given.keys is not None):
        return given
    if isinstance(given, str):
        given = [given]
    if isinstance(given, (list, tuple, set, frozenset)):
        listed = given if isinstance(given, (list, tuple)) else sorted(given, key=str)
        given = dict.fromkeys([as_key(column, what) for column in listed], 1)
    if isinstance(given, PerFeature) or not (isinstance(given, Mapping) or hasattr(given, "to_dict")):
        raise InvalidInput(f"{what} takes columns, as in {what}=['income'] or {what}={{'income': 2}}, got {given!r}")
    return PerFeature.of_numbers(given, what, as_cost)


def as_groups(groups: Any, budgets: Any) -> tuple[Group, ...]:
    """The groups, `{name: columns}`, with what `budgets`, `{name: budget}`, says about each."""
    for given, what in ((groups, "groups={name: columns}"), (budgets, "budgets={name: budget}")):
        if given is not None and not isinstance(given, Mapping):
            raise InvalidInput(f"{what} is a mapping, got {given!r}")
    groups, budgets = groups or {}, budgets or {}
    for name in budgets:
        if name not in groups:
            known = f"there are {', '.join(map(repr, groups))}" if groups else "no groups are given"
            raise InvalidInput(f"budgets names the group {name!r}, but {known}")
    found: list[Group] = []
    owner: dict[int | str, str] = {}
    for name, columns in groups.items():
        if not isinstance(name, str):
            raise InvalidInput(f"groups have names, got {name!r}")
        if name not in budgets:
            raise InvalidInput(f"the group {name!r} has no budget; give budgets={{{name!r}: …}}")
        listed = [columns] if isinstance(columns, (str, int)) else list(columns)
        keys = tuple(as_key(column, f"group {name!r}") for column in listed)
        if not keys:
            raise InvalidInput(f"the group {name!r} has no columns")
        for key in keys:
            if key in owner:
                raise InvalidInput(f"column {key!r} is in the groups {owner[key]!r} and {name!r}; it can be in one")
            owner[key] = name
        found.append(Group(name, keys, as_cost(budgets[name], f"the budget of group {name!r}")))
    return tuple(found)


def as_rules(given: Any) -> tuple[Rule, ...]:
    """One rule or several."""
    rules = (given,) if isinstance(given, Rule) else tuple(given) if isinstance(given, Iterable) else given
    if not isinstance(rules, tuple) or not all(isinstance(rule, Rule) for rule in rules):
        raise InvalidInput(f"rules are a list of tp.Rule, got {given!r}")
    if not rules:
        raise InvalidInput("there are no rules: the attacker could do nothing")
    if len(rules) > MOST_RULES:
        raise InvalidInput(
            f"an attacker has at most {MOST_RULES:,} rules, got {len(rules):,}; let one say more: a range"
        )
    return rules


def as_goal(given: Any) -> tuple[Any, ...]:
    """The labels that the attacker wants, each once; none if nothing is given."""
    if given is None:
        return ()
    if hasattr(given, "tolist"):
        given = given.tolist()
    labels = list(given) if isinstance(given, (list, tuple, set, frozenset)) else [given]
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    is_one = all(isinstance(label, Hashable) and not is_missing(label) for label in labels)
    labels = list(dict.fromkeys(labels)) if is_one else []
    if not labels:
        raise InvalidInput(f"goal names labels that the attacker wants, got {given!r}; None means any other label")
    return tuple(labels)


def as_one_way(given: Any, name: str, features: tuple[int | str, ...] | None) -> tuple[int | str, ...]:
    """Features that only rise, or only fall: of those that are moved, if only some are."""
    if given is None:
        return ()
    names = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
    keys = tuple(dict.fromkeys(as_key(one, name) for one in names))
    for key in keys:
        if features is not None and key not in features:
            raise InvalidInput(
                f"{name} names {key!r}, which is not in features and stays what it is; name it there, too"
            )
    return keys
