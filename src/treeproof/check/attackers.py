"""Attackers and neighbourhoods as their files say them, on the columns of a model file.

Columns of one-hot groups are added to a model by named_groups.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from treeproof.check.chains import MOST_RULES, Leap, Rule
from treeproof.check.columns import ANY, Column, Size
from treeproof.check.doubles import printed
from treeproof.check.model_file import categories_of, names_of
from treeproof.check.rules import Rejected

PER_COLUMN = {"intervals": [0, 0], "costs": 1, "domain": None, "scale": 1, "step": None, "blank": None, "fill": None}
"""What may be given for each column, and what holds for columns that are not named."""


class Names:
    """How a model calls its columns, and the values of those that are categories."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self.n, names = len(model["columns"]), names_of(model)
        self._places = {name: f for f, name in enumerate(names)}
        if len(self._places) < len(names):
            raise ValueError("two columns have the same name")
        self._blank = "_" if model.get("blanks_underscored") else " "
        self.categories = {f: Category(each) for f, each in categories_of(model).items()}

    def position(self, key: Any) -> int:
        """The position of a column that is given by its name or position."""
        if isinstance(key, str):
            name = key.replace(" ", self._blank)
            if name in self._places:
                return self._places[name]
        elif isinstance(key, int) and key < self.n:
            return key
        raise ValueError(f"the model has no column {key!r}")

    def each(self, given: Any, default: Any) -> list[Any]:
        """What is given once for all columns, for each, or for some by name or position."""
        match given:
            case None:
                return [default] * self.n
            case {"all": value}:
                return [value] * self.n
            case {"each": values} if len(values) == self.n:
                return list(values)
            case {"by_feature": pairs}:
                found = {self.position(key): value for key, value in pairs}
                if len(found) == len(pairs):
                    return [found.get(f, default) for f in range(self.n)]
        raise ValueError(f"{given!r} is nothing that can be given for {self.n} columns")

    def double(self, f: int, value: Any) -> float | None:
        """What rows hold for a value; None for one that the column cannot have."""
        if f in self.categories:
            return self.categories[f].double(value)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def doubles(self, f: int, values: Sequence[Any]) -> list[float]:
        """The same for several; values that the column cannot have are left out."""
        found = [self.double(f, value) for value in values]
        return [number for number in found if number is not None]


class Category:
    """The values of a category that a model knows, as rows hold them."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        values, self.coded, self._by_text = content["values"], content["coded"], content["by_text"]
        self._codes = {self._key(value): float(code if self.coded else value) for code, value in enumerate(values)}
        self.known = sorted(map(float, range(len(values)) if self.coded else values))
        self.unseen = [float(len(values))] if self.coded and content["unseen"] else []
        """What rows hold for all values that the model does not know."""
        self.all = frozenset(self.known)

    def _key(self, value: Any) -> Any:
        """The value, or its text, where the model goes by that: whole numbers have no point there."""
        if not (self.coded and self._by_text) or isinstance(value, str):
            return value
        return str(int(value)) if isinstance(value, int) or (isinstance(value, float) and value.is_integer()) else None

    def double(self, value: Any) -> float | None:
        """What rows hold for a value that the model knows."""
        return self._codes.get(self._key(value))


def columns_of(model: Mapping[str, Any], attacker: Mapping[str, Any]) -> list[Column]:
    """What the attacker of a file can do to each column of the model of a file."""
    names = Names(model)
    given = {name: names.each(attacker.get(name), default) for name, default in PER_COLUMN.items()}
    accepted = [(float(own["low"]), float(own["high"])) for own in model["columns"]]
    each = [{name: values[f] for name, values in given.items()} for f in range(names.n)]
    columns = [_column(names, f, attacker, each[f], accepted[f]) for f in range(names.n)]
    rules = attacker.get("rules") or ()
    if len(rules) > MOST_RULES:
        raise Rejected(f"the attacker has more than {MOST_RULES:,} rules; let one say more: a range")
    for rule in rules:
        f = names.position(rule["column"])
        if columns[f].reach != (0.0, 0.0) or columns[f].matrix is not None:
            raise ValueError(f"column {rule['column']!r} has rules beside other moves")
        columns[f] = replace(columns[f], rules=(*columns[f].rules, *_rules(names, f, rule, columns[f].domain)))
    limit = None if attacker["budget"] is None else Fraction(attacker["budget"])
    if attacker["power"] is not None:
        limit = _radius(attacker, columns)
        for name, (least, most) in (("up", (0.0, math.inf)), ("down", (-math.inf, 0.0))):
            for f in map(names.position, attacker.get(name) or ()):
                low, high = columns[f].reach
                columns[f] = replace(columns[f], reach=(max(low, least), min(high, most)))
    return [replace(column, budget=limit) for column in columns]


def check_kind(attacker: Mapping[str, Any]) -> None:
    """Rejects fields that an attacker of its kind does not obey: distances in an Lp norm, rules, or intervals."""
    ((how, given),) = attacker["intervals"].items()
    moves = [given] if how == "all" else given if how == "each" else [move for _, move in given]
    radius, is_lp, rules = attacker["radius"], attacker["power"] is not None, attacker.get("rules")
    others = ("budget", "blank", "fill", "unseen", "groups", "rules") if is_lp else ("scale", "up", "down")
    odd = any(attacker.get(name) not in (None, []) and attacker[name] is not False for name in others)
    odd |= not is_lp and radius != 0
    if is_lp or rules:
        odd |= attacker["costs"] != {"all": 1} or any(move != [-radius, radius] for move in moves)
    if odd:
        raise Rejected("the attacker has fields that do not go with each other: an Lp norm, rules, or intervals")


def accepts(model: Mapping[str, Any], columns: Sequence[Column], row: Sequence[float]) -> bool:
    """Whether a model accepts every value of a row, and the domain contains it."""
    return all(
        own["missing"] if math.isnan(value) else column.domain[0] <= value <= column.domain[1]
        for own, value, column in zip(model["columns"], row, columns, strict=False)
    )


def names_in(attacker: Mapping[str, Any]) -> list[Any]:
    """How an attacker calls the columns that it names."""
    given = [(attacker.get(name) or {}).get("by_feature", ()) for name in PER_COLUMN]
    named = [*(attacker.get("up") or ()), *(attacker.get("down") or ())]
    named += [key for group in attacker.get("groups") or () for key in group["columns"]]
    return (
        [key for pairs in given for key, _ in pairs] + named + [rule["column"] for rule in attacker.get("rules") or ()]
    )


def _column(
    names: Names, f: int, attacker: Mapping[str, Any], given: Mapping[str, Any], accepted: tuple[float, float]
) -> Column:
    """All but rules, ways and budgets."""
    category, power, move = names.categories.get(f), attacker["power"], given["intervals"]
    # Codes of categories have no order that a domain could go by.
    is_limited = given["domain"] is not None and not (category is not None and category.coded)
    low, high = _pair(given["domain"]) if is_limited else ANY
    low, high = max(low, accepted[0]), min(high, accepted[1])
    words = move if isinstance(move, dict) else {}
    ends = names.doubles(f, words["values"]) if "values" in words else None
    if ends is None:
        reach = _pair(words.get("steps", move))
    else:
        reach = ANY if ends else (0.0, 0.0)
    step = words.get("step", given["step"])
    if category is not None:
        # No distance leads from one category to another.
        step, reach = None, ANY if reach == ANY else (0.0, 0.0)
        if ends is None:
            ends = category.known + (category.unseen if attacker.get("unseen") and reach == ANY else [])
    if step is not None and _decimal(step) <= 0:
        raise ValueError(f"a step must be above 0, got {step!r}")
    inside = None if ends is None else tuple(sorted({end for end in ends if low <= end <= high}))
    matrix: dict[tuple[float, float], int] | None = None
    if isinstance(given["costs"], dict):
        matrix, allowed = {}, None if inside is None else set(inside)
        for one, other, cost in given["costs"]["matrix"]:
            start, end = names.double(f, one), names.double(f, other)
            if start is not None and end is not None and low <= end <= high and (allowed is None or end in allowed):
                matrix[start, end] = min(cost, matrix.get((start, end), cost))
    unit = float(given["scale"])
    if not unit > 0:
        raise ValueError(f"there are no distances in units of {unit!r}")
    return Column(
        domain=(low, high),
        reach=reach,
        cost=given["costs"] if matrix is None else 0,
        matrix=matrix,
        ends=inside,
        step=None if step is None else _decimal(step),
        blank=given["blank"],
        fill=given["fill"],
        power=power,
        unit=Fraction(unit) if step is None else printed(unit),
        is_category=category is not None,
    )


def _rules(names: Names, f: int, rule: Mapping[str, Any], domain: tuple[float, float]) -> list[Rule | Leap]:
    """A rule of numbers, as decimals, or of categories; none that leads to a value that the model does not know."""
    category, when = names.categories.get(f), rule.get("when")
    if (category is None) != ("change" in rule):
        raise ValueError(f"column {rule['column']!r} cannot have the rule {rule!r}")
    if category is None:
        low, high = ANY if when is None else _pair(when)
        first, last = printed(domain[0] if math.isinf(low) else low), printed(domain[1] if math.isinf(high) else high)
        least, most = rule["change"] if isinstance(rule["change"], list) else [rule["change"]] * 2
        return [Rule(first, last, _decimal(least), _decimal(most), rule["cost"])]
    to, starts = category.double(rule["to"]), category.all if when is None else names.doubles(f, when["values"])
    return [] if to is None else [Leap(frozenset(starts), to, rule["cost"])]


def sizes_of(model: Mapping[str, Any], epsilon: Any) -> list[Size]:
    """ε of each column, from what a result file says of a neighbourhood."""
    names = Names(model)
    return [_size(names, f, given) for f, given in enumerate(names.each(epsilon, 0.0))]


def _size(names: Names, f: int, given: Any) -> Size:
    category = names.categories.get(f)
    if category is None:
        size = math.inf if given is None or given == "any" else float(given)
        if not size >= 0:
            raise ValueError(f"nothing is {given!r} away")
        return size
    if isinstance(given, dict):
        return tuple(frozenset(names.doubles(f, values)) for values in given["values"])
    return (frozenset(category.known),) if given == "any" else 0.0


def purses_of(
    model: Mapping[str, Any], attacker: Mapping[str, Any], columns: Sequence[Column]
) -> list[tuple[Fraction, frozenset[int]]]:
    """What may be spent: on all columns, first of all, and on those of each group."""
    if attacker["power"] is not None:
        most = _radius(attacker, columns)
    else:
        # More than all columns cost at most is as good as no budget.
        dearest = sum(column.dearest for column in columns)
        most = Fraction(dearest if attacker["budget"] is None else min(attacker["budget"], dearest))
    names = Names(model)
    return [(most, frozenset(range(len(columns))))] + [
        (Fraction(group["budget"]), frozenset(map(names.position, group["columns"])))
        for group in attacker.get("groups") or ()
    ]


def is_affordable(purses: Sequence[tuple[Fraction, frozenset[int]]], prices: Mapping[int, Fraction]) -> bool:
    """Whether prices of columns can be paid from all purses."""
    return all(sum(price for f, price in prices.items() if f in columns) <= budget for budget, columns in purses)


def _radius(attacker: Mapping[str, Any], columns: Sequence[Column]) -> Fraction:
    """What distances of an Lp attacker add up to at most; where columns have steps, its radius is a decimal."""
    radius = float(attacker["radius"])
    if not radius >= 0:
        raise ValueError(f"nothing is {radius!r} away")
    in_decimals = any(column.step is not None for column in columns)
    power: int = attacker["power"]
    return (printed(radius) if in_decimals else Fraction(radius)) ** power


def _pair(given: Any) -> tuple[float, float]:
    """An interval, where null is no end."""
    low, high = given
    ends = -math.inf if low is None else float(low), math.inf if high is None else float(high)
    if not ends[0] <= ends[1]:
        raise ValueError(f"nothing lies between {low!r} and {high!r}")
    return ends


def _decimal(given: Any) -> Fraction:
    """A decimal: a whole number, a double for what it prints as, or text."""
    return printed(given) if isinstance(given, float) else Fraction(given)
