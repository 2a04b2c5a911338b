"""What an attacker may do to one column, in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from treeproof.model.columns import Category
from treeproof.numbers.decimals import plain_decimal
from treeproof.results.markup import number
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.rule_chains import BoundRule
from treeproof.visible import visible

EITHER_WAY = " either way"

MOST_VALUES = 6
"""The most values, or changes with a cost of their own, that a sentence names."""

MOST_WHOLE = 1e15
"""Below this, every whole number is shown with all of its digits."""


def quantity(value: float) -> str:
    """A number in a sentence, with commas between thousands.

    >>> quantity(5000.0), quantity(0.1 + 0.2), quantity(1234567.0), quantity(12345.678)
    ('5,000', '0.3', '1,234,567', '12,345.7')
    """
    if not math.isfinite(value):
        return number(value)
    return f"{value:,.0f}" if value == int(value) and abs(value) < MOST_WHOLE else f"{value:,.6g}"


def joined(parts: Sequence[str], word: str = "and") -> str:
    """`a`, `a and b`, or `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def how_far(low: float, high: float) -> str:
    """A range of distances."""
    if math.isinf(low) and math.isinf(high):
        return "to any value"
    if low == -high:
        return f"by up to {quantity(high)}{EITHER_WAY}"
    if low == 0:
        return "up to any value above" if math.isinf(high) else f"up by at most {quantity(high)}"
    if high == 0:
        return "down to any value below" if math.isinf(low) else f"down by at most {quantity(-low)}"
    return f"by {quantity(low)} to {quantity(high)}"


def how_it_moves(moves: ColumnMoves, category: Category | None) -> str:
    """All that an attacker may do to a column but blank and fill; "" if there is nothing else."""
    if moves.rules:
        return _by_rules(moves.rules, category)
    if moves.interval is None:
        return ""
    if moves.costs is not None:
        return _by_matrix(moves.costs, category)
    if moves.ends is not None:
        are_all = category is not None and len(moves.ends) >= len(category.values)
        return "to any value" if are_all else _to_one_of(moves.ends, category)
    far = how_far(*moves.interval)
    return far if moves.step is None else f"{far} in steps of {plain_decimal(moves.step)}"


def _value(end: float, category: Category | None) -> str:
    return quantity(end) if category is None or not category.coded else visible(category.value_of(end))


def _to_one_of(ends: Sequence[float], category: Category | None) -> str:
    if len(ends) > MOST_VALUES:
        return f"to one of {len(ends)} values"
    return f"to {joined([_value(end, category) for end in ends], 'or')}"


def _by_matrix(costs: Mapping[tuple[float, float], int | Fraction], category: Category | None) -> str:
    if len(costs) > MOST_VALUES:
        return f"in {len(costs)} ways, at a cost of {min(costs.values())} to {max(costs.values())}"
    ways = [f"from {_value(a, category)} to {_value(b, category)} (cost {cost})" for (a, b), cost in costs.items()]
    return joined(ways, "or")


def _by_rules(rules: Sequence[BoundRule], category: Category | None) -> str:
    if len(rules) > MOST_VALUES:
        return f"by {len(rules)} rules"
    return joined([_rule(rule, category) for rule in rules], "or")


def _rule(rule: BoundRule, category: Category | None) -> str:
    if rule.change is None:
        codes = rule.codes or ()
        assert rule.to is not None
        if category is not None and len(codes) == len(category.values):
            start = ""
        elif len(codes) > MOST_VALUES:
            start = f"from {len(codes)} values "
        else:
            values = [_value(code, category) for code in codes] or ["no value that the model knows"]
            start = f"from {joined(values, 'or')} "
        return f"{start}to {_value(rule.to, category)} (cost {rule.cost})"
    low, high = map(_decimal, rule.change)
    by = f"by {low}" if low == high else f"by {low} to {high}"
    return f"{by}{_where(rule)} (cost {rule.cost})"


def _where(rule: BoundRule) -> str:
    if rule.low is not None and rule.high is not None:
        return f" where it is {_decimal(rule.low)} to {_decimal(rule.high)}"
    if rule.low is not None:
        return f" where it is at least {_decimal(rule.low)}"
    return "" if rule.high is None else f" where it is at most {_decimal(rule.high)}"


def _decimal(value: Fraction) -> str:
    return quantity(float(value))
