"""Attackers and neighbourhoods as their files say them, on the columns of a model file.

Columns of one-hot groups that relations declare, and relations, are not known here yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from treeproof.check.chains import Rule
from treeproof.check.columns import ANY, Column, Size
from treeproof.check.doubles import printed

FIELDS = {
    *("format", "version", "intervals", "costs", "budget", "domain", "power", "radius", "scale", "up", "down"),
    *("step", "blank", "fill", "unseen", "groups", "rules", "goal"),
}


class _Names:
    """How a model calls its columns, and the values of those that are categories."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self.n = int(model["n_features"])
        self._names = model["feature_names"] or ()
        self._blank = "_" if model.get("blanks_underscored") else " "
        self.categories = {each["feature"]: _Category(each) for each in model.get("categories", ())}

    def position(self, key: Any) -> int:
        """The position of a column that is given by its name or position."""
        if isinstance(key, str):
            name = key.replace(" ", self._blank)
            if name in self._names:
                return self._names.index(name)
        elif type(key) is int and 0 <= key < self.n:
            return key
        raise ValueError(f"the model has no column {key!r}")

    def each(self, given: Any, default: Any) -> list[Any]:
        """What is given once for all columns, for each, or for some by name or position."""
        match given:
            case None:
                return [default] * self.n
            case {"all": value}:
                return [value] * self.n
            case {"each": list(values)} if len(values) == self.n:
                return values
            case {"by_feature": list(pairs)}:
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


class _Category:
    """The values of a category that a model knows, as rows hold them."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        values, self._coded, self._by_text = content["values"], content["coded"], content["by_text"]
        self._codes = {self._key(value): float(code if self._coded else value) for code, value in enumerate(values)}
        self.known = sorted(map(float, range(len(values)) if self._coded else values))
        self.unseen = [float(len(values))] if self._coded and content["unseen"] else []
        """What rows hold for all values that the model does not know."""
        self.has_range = not self._coded

    def _key(self, value: Any) -> Any:
        """The value, or its text, where the model goes by that: whole numbers have no point there."""
        if not (self._coded and self._by_text) or isinstance(value, str):
            return value
        return str(int(value)) if isinstance(value, int) or (isinstance(value, float) and value.is_integer()) else None

    def double(self, value: Any) -> float | None:
        """What rows hold for a value that the model knows."""
        return self._codes.get(self._key(value))


def columns_of(model: Mapping[str, Any], attacker: Mapping[str, Any]) -> list[Column]:
    """What the attacker of a file can do to each column of the model of a file."""
    if (attacker.get("format"), attacker.get("version")) not in (("treeproof-attacker", 1), ("treeproof-attacker", 2)):
        raise ValueError(f"an attacker of format {attacker.get('format')!r} {attacker.get('version')!r} is not known")
    if attacker.keys() - FIELDS:
        raise ValueError(f"an attacker has no {', '.join(sorted(attacker.keys() - FIELDS))}")
    names = _Names(model)
    columns = [Column(domain) for domain in _domains(names, model, attacker.get("domain"))]
    for change in (_with_moves, _with_costs, _with_distances, _with_rules):
        columns = change(names, attacker, columns)
    budget = attacker["budget"]
    limit = None if budget is None else Fraction(budget)
    if attacker["power"] is not None:
        limit = _radius(attacker, columns)
    return [replace(column, budget=limit) for column in columns]


def _domains(names: _Names, model: Mapping[str, Any], domain: Any) -> list[tuple[float, float]]:
    domains = []
    for f, (given, low, high) in enumerate(
        zip(names.each(domain, None), model["value_low"], model["value_high"], strict=True)
    ):
        # Codes of categories have no order that a range could go by.
        is_coded = f in names.categories and not names.categories[f].has_range
        first, last = ANY if given is None or is_coded else _pair(given)
        domains.append((max(float(low), first), min(float(high), last)))
    return domains


def _with_moves(names: _Names, attacker: Mapping[str, Any], columns: list[Column]) -> list[Column]:
    """Intervals, values and steps."""
    found = []
    given = zip(names.each(attacker["intervals"], [0, 0]), names.each(attacker.get("step"), None), columns, strict=True)
    for f, (move, step, column) in enumerate(given):
        category, ends = names.categories.get(f), None
        if isinstance(move, dict) and "values" in move:
            ends = names.doubles(f, move["values"])
            reach = ANY if ends else (0.0, 0.0)
        else:
            reach = _pair(move["steps"] if isinstance(move, dict) else move)
        step = move["step"] if isinstance(move, dict) and "step" in move else step
        if category is not None:
            # No distance leads from one category to another.
            reach = reach if reach == ANY and attacker["power"] is None else (0.0, 0.0)
            if ends is None:
                ends = category.known + (category.unseen if attacker.get("unseen") and reach == ANY else [])
        low, high = column.domain
        inside = None if ends is None else tuple(sorted({end for end in ends if low <= end <= high}))
        grid = None if step is None or category is not None else _decimal(step)
        if grid is not None and grid <= 0:
            raise ValueError(f"a step must be above 0, got {step!r}")
        found.append(replace(column, reach=reach, ends=inside, step=grid, is_category=category is not None))
    return found


def _with_costs(names: _Names, attacker: Mapping[str, Any], columns: list[Column]) -> list[Column]:
    """What moves cost, and blanks and filled-in values."""
    found = []
    given = (names.each(attacker["costs"], 1), *(names.each(attacker.get(name), None) for name in ("blank", "fill")))
    for f, (column, cost, blank, fill) in enumerate(zip(columns, *given, strict=True)):
        matrix: dict[tuple[float, float], int] | None = None
        if isinstance(cost, dict):
            matrix = {}
            for one, other, price in cost["matrix"]:
                start, end = names.double(f, one), names.double(f, other)
                inside = end is not None and column.domain[0] <= end <= column.domain[1]
                if start is not None and end is not None and inside and (column.ends is None or end in column.ends):
                    matrix[start, end] = min(price, matrix.get((start, end), price))
            cost = 0
        found.append(replace(column, cost=cost, matrix=matrix, blank=blank, fill=fill))
    return found


def _with_distances(names: _Names, attacker: Mapping[str, Any], columns: list[Column]) -> list[Column]:
    """What distances cost an Lp attacker, and columns that only rise or only fall."""
    if attacker["power"] is None:
        return columns
    only_up, only_down = ({names.position(key) for key in attacker.get(name) or ()} for name in ("up", "down"))
    found = []
    for f, (column, unit) in enumerate(zip(columns, names.each(attacker.get("scale"), 1.0), strict=True)):
        low, high = column.reach
        reach = max(low, 0.0) if f in only_up else low, min(high, 0.0) if f in only_down else high
        size = Fraction(float(unit)) if column.step is None else printed(float(unit))
        found.append(replace(column, reach=reach, power=attacker["power"], unit=size))
    return found


def _with_rules(names: _Names, attacker: Mapping[str, Any], columns: list[Column]) -> list[Column]:
    """Rewriting rules; an attacker with some has no other moves."""
    rules: list[list[Rule]] = [[] for _ in columns]
    for rule in attacker.get("rules") or ():
        f = names.position(rule["column"])
        rules[f] += _rules(names, f, rule, columns[f].domain)
        if columns[f].reach != (0.0, 0.0) or columns[f].matrix is not None or columns[f].step is not None:
            raise ValueError(f"column {rule['column']!r} has rules beside other moves")
    return [replace(column, rules=tuple(own)) for column, own in zip(columns, rules, strict=True)]


def _rules(names: _Names, f: int, rule: Mapping[str, Any], domain: tuple[float, float]) -> list[Rule]:
    """A rule of numbers, or of each category that it is for, as decimals."""
    category, when = names.categories.get(f), rule.get("when")
    if (category is None) != ("change" in rule):
        raise ValueError(f"column {rule['column']!r} cannot have the rule {rule!r}")
    if category is None:
        low, high = ANY if when is None else _pair(when)
        first, last = printed(domain[0] if math.isinf(low) else low), printed(domain[1] if math.isinf(high) else high)
        least, most = rule["change"] if isinstance(rule["change"], list) else [rule["change"]] * 2
        return [Rule(first, last, _decimal(least), _decimal(most), rule["cost"])]
    to, starts = category.double(rule["to"]), category.known if when is None else names.doubles(f, when["values"])
    if to is None:
        return []
    pairs = [(printed(start), printed(to) - printed(start)) for start in starts]
    return [Rule(start, start, away, away, rule["cost"]) for start, away in pairs]


def sizes_of(model: Mapping[str, Any], epsilon: Any) -> list[Size]:
    """ε of each column, from what a result file says of a neighbourhood."""
    names = _Names(model)
    return [_size(names, f, given) for f, given in enumerate(names.each(epsilon, 0.0))]


def _size(names: _Names, f: int, given: Any) -> Size:
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
    names = _Names(model)
    return [(most, frozenset(range(len(columns))))] + [
        (Fraction(group["budget"]), frozenset(map(names.position, group["columns"])))
        for group in attacker.get("groups") or ()
    ]


def is_affordable(purses: Sequence[tuple[Fraction, frozenset[int]]], prices: Mapping[int, Fraction]) -> bool:
    """Whether prices of columns can be paid from all purses."""
    return all(sum(prices.get(f, Fraction(0)) for f in columns) <= budget for budget, columns in purses)


def _radius(attacker: Mapping[str, Any], columns: Sequence[Column]) -> Fraction:
    """What distances of an Lp attacker add up to at most; where columns have steps, its radius is a decimal."""
    radius = float(attacker["radius"])
    in_decimals = any(column.step is not None for column in columns)
    return (printed(radius) if in_decimals else Fraction(radius)) ** int(attacker["power"])


def _pair(given: Any) -> tuple[float, float]:
    """An interval, where null is no end."""
    low, high = given
    return -math.inf if low is None else float(low), math.inf if high is None else float(high)


def _decimal(given: Any) -> Fraction:
    """A decimal: a whole number, a double for what it prints as, or text."""
    return printed(given) if isinstance(given, float) else Fraction(given)
