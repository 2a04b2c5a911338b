"""Explanations in plain sentences. Numbers are exact, or narrower than what is proved; everything assumed is said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from treeproof.model.columns import UNSEEN, is_missing
from treeproof.results import sentences
from treeproof.results.asked import Asked, ColumnName, OneOf, Range, Unit
from treeproof.results.attacker_words import MOST_NAMES, NORMS
from treeproof.results.column_words import MOST_WHOLE, joined, quantity
from treeproof.results.measures import missing_in_short
from treeproof.results.relation_words import count_in_words, listed_in_short
from treeproof.results.verdicts import Outcome
from treeproof.results.verification import names_of
from treeproof.threat.attacker import COST_OF_1, NO_SCALE, Attacker
from treeproof.threat.relations import Relation
from treeproof.visible import visible

if TYPE_CHECKING:
    from treeproof.results.counterfactuals import Counterfactual, Counterfactuals
    from treeproof.results.explanations import Explanation

MOST_DIGITS = 6
"""Ends of ranges that need more digits are moved inwards to so many."""

MOST_LISTED = 8
"""The most values of a category that a sentence lists."""


def exactly(value: float) -> str:
    """A number with all of its digits, and commas between thousands.

    >>> exactly(4200.0), exactly(12345.678), exactly(0.1 + 0.2), exactly(1e300)
    ('4,200', '12,345.678', '0.30000000000000004', '1e+300')
    """
    if math.isnan(value):
        return "missing"
    if math.isinf(value) or not 1e-4 <= abs(value) < MOST_WHOLE:
        return "0" if value == 0 else repr(value)
    return f"{value:,.0f}" if value == int(value) else f"{Decimal(repr(value)):,f}"


def value_in_words(value: Any) -> str:
    """A value of a column: a number, a category, a missing one or one that nobody knows the name of."""
    if is_missing(value):
        return "missing"
    if value is UNSEEN:
        return "a value that the model never saw"
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return exactly(float(value)) if is_number else visible(value)


def values_in_words(values: Sequence[Any]) -> list[str]:
    """Values in a sentence: all texts in quotes if one of them could be taken for words of ours.

    >>> values_in_words(["car", "radio"]), values_in_words(["overdrawn", "below 200"]), values_in_words(["missing"])
    (['car', 'radio'], ['"overdrawn"', '"below 200"'], ['"missing"'])
    """
    said = list(map(value_in_words, values))
    are_texts = [isinstance(value, str) and value is not UNSEEN for value in values]
    if not any(map(_could_be_ours, compress(said, are_texts))):
        return said
    return [f'"{text}"' if is_text else text for text, is_text in zip(said, are_texts, strict=True)]


def _could_be_ours(text: str) -> bool:
    """Whether a value's own words could be taken for some of a sentence's, or for its punctuation."""
    return text == "missing" or bool(set(text) & set(" ,;")) or not any(map(str.isalnum, text))


def change_in_words(before: Any, after: Any) -> tuple[str, str]:
    """What a value was, and what it becomes: exactly, or about so if it has many digits, rounded away from `before`.

    >>> change_in_words(36.0, 24.0), change_in_words(24.0, 8.500000000000002), change_in_words("car", "used car")
    (('36', '24'), ('24', 'about 8.5'), ('"car"', '"used car"'))
    """
    was, said = values_in_words((before, after))
    are_numbers = isinstance(after, float) and isinstance(before, (int, float)) and math.isfinite(after)
    if not are_numbers or after == int(after) or _digits(said) <= MOST_DIGITS:
        return was, said
    away = Context(prec=MOST_DIGITS, rounding=ROUND_CEILING if after > before else ROUND_FLOOR)
    return was, f"about {exactly(float(away.create_decimal(repr(after))))}"


def column_in_words(name: ColumnName) -> str:
    """What a column is called."""
    return f"feature {name}" if isinstance(name, int) else visible(name)


def _before_a_value(name: ColumnName) -> str:
    """The same, and a colon where its last digit could be taken for a part of the value: `feature 3: 2`."""
    called = column_in_words(name)
    return f"{called}:" if called[-1:].isdigit() else called


def columns_in_words(names: Sequence[ColumnName]) -> str:
    """The names of columns in a table."""
    return ", ".join(map(column_in_words, names))


def condition(one: Explanation, name: ColumnName) -> str:
    """What a reason says about one of its columns: `duration is at least 33`, `purpose is car or radio`."""
    asked, allowed = one.about, one.ranges[name]
    called, unit = column_in_words(name), asked.unit[name]
    if isinstance(allowed, OneOf):
        return f"{called} is {_values(allowed, unit)}"
    if math.isnan(allowed.low) or allowed.low == allowed.high:
        return f"{called} is {exactly(allowed.low)}"
    own = float(asked.X[one.row, unit.features[0]])
    return range_in_words(called, allowed, own, asked.domain[unit.features[0]], whole=name in asked.whole)


def range_in_words(
    called: str, allowed: Range, own: float, domain: tuple[float, float] = (-math.inf, math.inf), *, whole: bool = False
) -> str:
    """A range around a row's `own` value; an end that is that of the domain is left out.

    An end is said exactly where few digits do, if need be as the double beside it, which is not in the range. Other
    ends move inwards, but never past `own`: what is said is at most what is proved. So do those of `whole` numbers.

    >>> range_in_words("age", Range(math.nextafter(33.5, 99), 75.0), 40.0, (18.0, 75.0))
    'age is above 33.5'
    >>> range_in_words("age", Range(math.nextafter(33.5, 99), 60.5), 40.0, whole=True)
    'age is 34 to 60'
    >>> range_in_words("late", Range(0.0, 0.5), 0.0, (0.0, 20.0), whole=True)
    'late is 0'
    >>> range_in_words("rate", Range(0.3499999940395355, math.inf), 0.4)
    'rate is at least 0.35'
    """
    low, high = max(allowed.low, domain[0]), min(allowed.high, domain[1])
    if whole and abs(low) < MOST_WHOLE and abs(high) < MOST_WHOLE and math.ceil(low) == math.floor(high):
        return f"{called} is {exactly(float(math.ceil(low)))}"
    least, most = max(domain[0], -_LARGEST), min(domain[1], _LARGEST)
    from_below = "" if allowed.low <= least else _end(allowed.low, own, whole, rising=True)
    from_above = "" if allowed.high >= most else _end(allowed.high, own, whole, rising=False)
    if from_below.startswith(AT_LEAST) and from_above.startswith(AT_MOST):
        return f"{called} is {from_below.removeprefix(AT_LEAST)} to {from_above.removeprefix(AT_MOST)}"
    ends = " and ".join(end for end in (from_below, from_above) if end)
    return f"{called} is {ends or 'not missing'}"


_LARGEST = float(np.finfo(np.float64).max)

AT_LEAST, AT_MOST = "at least ", "at most "


def _end(end: float, own: float, whole: bool, *, rising: bool) -> str:
    """One end of a range, `at most 5` or `below 5`; `rising` tells that it is the lower one."""
    closed, opened = (AT_LEAST, "above ") if rising else (AT_MOST, "below ")
    if whole and abs(end) < MOST_WHOLE:
        return f"{closed}{exactly(float(math.ceil(end) if rising else math.floor(end)))}"
    number, beyond = exactly(end), exactly(math.nextafter(end, -math.inf if rising else math.inf))
    said = f"{opened}{beyond}" if len(beyond) < len(number) else f"{closed}{number}"
    if _digits(said) <= MOST_DIGITS:
        return said
    inwards = Context(prec=MOST_DIGITS, rounding=ROUND_CEILING if rising else ROUND_FLOOR)
    short = float(inwards.create_decimal(repr(end)))
    is_inside = end <= short <= own if rising else own <= short <= end
    return f"{closed}{exactly(short)}" if is_inside else said


def _digits(text: str) -> int:
    """The digits of a number but for zeros in front."""
    return len("".join(filter(str.isdigit, text)).lstrip("0"))


def _values(allowed: OneOf, unit: Unit) -> str:
    """The values that a category may have; those that it may not have, where they are fewer."""
    known = () if unit.category is None else unit.category.values
    without = [value for value in known if value not in allowed]
    if len(allowed) > 1 and not without:
        return "any known value"
    if len(allowed) > 2 and len(without) < len(allowed) and len(without) <= MOST_LISTED:
        return f"any known value except {joined(values_in_words(without), 'or')}"
    said = values_in_words(allowed)
    if len(said) > MOST_LISTED:
        return f"one of {len(said)} values ({', '.join(said[:MOST_LISTED])}, …)"
    return joined(said, "or")


def explanation_in_words(one: Explanation) -> str:
    """One row's explanation in a sentence."""
    label = visible(one.label)
    if one.outcome != Outcome.PROVED:
        return f"{label}; not explained in time"
    if one.about.attacker.goal and one.label in one.about.attacker.goal:
        return f"{label}, which the attacker wants: there is nothing to defend"
    return f"{label}{_contrast(one)}" if one.about.kind == "contrastive" else _reason(one, label)


def _reason(one: Explanation, label: str) -> str:
    asked = one.about
    if not one.columns:
        return f"{label}{_defended(one)}" if asked.against else f"always {label}{_within(asked)}"
    said = joined(conditions_in_words(one))
    if asked.against:
        return f"{label}, and {_stays(one)} while {said}, whatever else the attacker does; {how_few(one)}"
    return f"{label} because {said}; {how_few(one)}"


def _stays(one: Explanation) -> str:
    """What no attack does."""
    wanted = one.about.attacker.goal
    return f"cannot be made {joined(list(map(visible, wanted)), 'or')}" if wanted else f"stays {visible(one.label)}"


def _defended(one: Explanation) -> str:
    """That nothing needs to be held."""
    return f", and {_stays(one)} whatever the attacker does"


def conditions_in_words(one: Explanation) -> list[str]:
    """What a reason says about each of its columns."""
    return [condition(one, name) for name in one.columns]


def how_few(one: Explanation) -> str:
    """What is known of whether a part of a reason would do."""
    against = one.about.against
    wider = ", or ranges could be wider" * one.about.inflate
    fewest = one.about.kind == "smallest"
    if not one.minimal:
        return f"{sentences.MAYBE_FEWER if fewest else sentences.MAYBE_PART}{wider}"
    said = (sentences.NO_PART, sentences.NO_FEWER) if against else (sentences.ENOUGH, sentences.ENOUGH_FEWEST)
    return said[fewest]


def _contrast(one: Explanation) -> str:
    asked = one.about
    if not one.columns:
        return _defended(one) if asked.against else f" in any case: nothing can flip it{_within(asked)}"
    moves = [" → ".join(change_in_words(*values)) for values in one.changes.values()]
    label, names = visible(one.changed_label), [column_in_words(name) for name in one.columns]
    if len(names) == 1:
        return f" as it is; a change of {names[0]} alone can flip it: {moves[0]} gives {label}"
    fewer = "no fewer columns can" if one.minimal else "maybe fewer columns can"
    changes = joined([f"{_before_a_value(name)} {move}" for name, move in zip(one.columns, moves, strict=True)])
    return f" as it is; changes of {joined(names)} together can flip it, {fewer}: {changes} give {label}"


def _within(asked: Asked) -> str:
    """Where something always holds."""
    limits = [*["the domain"] * (asked.attacker.domain is not None), *["the relations"] * bool(asked.relations)]
    return f" within {joined(limits)}" if limits else ""


def changes_in_words(changes: Mapping[ColumnName, tuple[Any, Any]], most: int = MOST_NAMES) -> str:
    """Other values than a row has: `duration 24 instead of 36 and purpose radio instead of car`."""
    said = each_change(changes)
    more = [f"{len(said) - most} more"] if len(said) > most else []
    return joined([*said[:most], *more])


def each_change(changes: Mapping[ColumnName, tuple[Any, Any]]) -> list[str]:
    """Each of them by itself."""
    said = [(_before_a_value(name), *change_in_words(*values)) for name, values in changes.items()]
    return [f"{name} {after} instead of {before}" for name, before, after in said]


def counterfactual_in_words(one: Counterfactual) -> str:
    """The cheapest change of a row in a sentence."""
    label, is_proved = visible(one.label), one.outcome == Outcome.PROVED
    holds = " that holds within epsilon" if one.holds else ""
    if not one.found:
        proved = f"{label}: {sentences.NO_CHANGE}{holds}"
        return proved if is_proved else f"{label}; no change{holds} was found in time"
    if not one.changes:
        return f"is {label} already{', and that holds within epsilon' if one.holds else ''}"
    first = f"would be {label} with {changes_in_words(one.changes)} ({price_in_words(one)})"
    return "; ".join([first, *others_in_words(one)])


def others_in_words(one: Counterfactual) -> list[str]:
    """The next changes, and whether there are no more."""
    said = []
    for other in one.others:
        if other.found:
            gives = "" if other.label == one.label else f" for {visible(other.label)}"
            said.append(f"or with {changes_in_words(other.changes)}{gives} (price {quantity(other.price)})")
        elif other.outcome == Outcome.PROVED:
            said.append(sentences.NO_OTHERS)
    return said


def price_in_words(one: Counterfactual) -> str:
    """What a change costs, and whether nothing is cheaper."""
    said = f"at least {quantity(one.least)} is needed" if one.least > 0 else "something cheaper may exist"
    if one.outcome == Outcome.PROVED:
        said = "nothing that holds within epsilon is cheaper" if one.holds else "nothing is cheaper"
    return f"price {quantity(one.price)}, {said}"


def wanted_in_words(result: Counterfactuals) -> list[str]:
    """What a reader must know to judge counterfactuals, in sentences."""
    about = result.about
    who = about.attacker_words.replace("The attacker", "Whoever asks", 1).replace(" It may ", " They may ")
    said = [who] if who else []
    said.append(_what_is_paid(about.attacker, about.feature_names))
    if about.epsilon is not None:
        (near,) = names_of((about.epsilon,), None, about.feature_names)
        said.append(f"Every possible row within {near} of the changed one has a wanted label, too.")
    said += _kept(about.relations)
    n = int((result.missing > 0).sum())
    if n:
        said.append(f"{missing_in_short(n)[:1].upper()}{missing_in_short(n)[1:]}: nobody fills them in.")
    if about.feature_names is None:
        said.append(BY_POSITION)
    return said


def _what_is_paid(attacker: Attacker, names: Sequence[str] | None) -> str:
    """What prices are."""
    if attacker.power is not None:
        units = "" if attacker.scale == NO_SCALE else ", in the units of its columns"
        return f"The price is the {NORMS.get(attacker.power, f'L{attacker.power}')} distance{units}."
    one_each = attacker.costs == COST_OF_1 and not (attacker.rewrites or attacker.blank or attacker.fill)
    if one_each:
        return "Each changed column costs 1."
    keys, costs = attacker.costs.keys or (), attacker.costs.values
    each = ""
    if 0 < len(keys) <= MOST_NAMES and all(isinstance(cost, int) for cost in costs):
        called = [column_in_words(names[key] if isinstance(key, int) and names else key) for key in keys]
        listed = [f"{cost} for {name}" for name, cost in zip(called, costs, strict=True)]
        each = f": {joined([*listed, '1 for any other'])}"
    return f"The price is the sum of what changed columns cost{each}."


BY_POSITION = "Columns have no names: they are called by position, from 0 on."


def assumptions_in_words(asked: Asked) -> list[str]:
    """What a reader must know to judge explanations, in sentences."""
    said = [_others(asked)]
    said += _missing_values(asked)
    said += _kept(asked.relations)
    if asked.inflate and (whole := _named([unit for unit in asked.units if unit.name in asked.whole])):
        said.append(f"Ranges of {whole} are said in whole numbers, as all rows have there.")
    if asked.decision:
        said.append(f"Labels are cut elsewhere than the library does: {visible(asked.decision)}.")
    if asked.feature_names is None:
        said.append(BY_POSITION)
    return said


def _kept(relations: Sequence[Relation]) -> list[str]:
    """Which rows count at all."""
    return [f"Only rows that keep {count_in_words(relations)} count: {listed_in_short(relations)}."] * bool(relations)


def _others(asked: Asked) -> str:
    """What rows may differ in."""
    if asked.against:
        return asked.attacker_words
    numbers = [unit for unit in asked.units if unit.category is None]
    said = []
    if len(numbers) < len(asked.units):
        said.append("any category that the model knows")
    if numbers:
        limited = {unit: asked.domain[unit.features[0]] for unit in numbers}
        limited = {unit: ends for unit, ends in limited.items() if not all(map(math.isinf, ends))}
        if not limited:
            said.append("any number, even one that never occurs, since no domain was given")
        else:
            rest = "" if len(limited) == len(numbers) else ", and any number elsewhere, since no domain was given there"
            said.append(f"any number in the domain of {_domains(limited)}{rest}")
    which = "Columns of a set may become" if asked.kind == "contrastive" else "All other columns may be"
    return f"{which} {joined(said)}."


def _domains(limited: Mapping[Unit, tuple[float, float]]) -> str:
    if len(limited) > MOST_NAMES:
        return f"{len(limited)} columns"
    said = []
    for unit, (low, high) in limited.items():
        ends = f"{exactly(low)} to {exactly(high)}"
        if math.isinf(low) or math.isinf(high):
            ends = f"at most {exactly(high)}" if math.isinf(low) else f"at least {exactly(low)}"
        said.append(f"{column_in_words(unit.name)} ({ends})")
    return joined(said)


def _missing_values(asked: Asked) -> list[str]:
    """Which values may become missing, and what missing ones may become."""
    if asked.against:
        return []
    said = []
    if asked.missing:
        names = asked.feature_names or range(len(asked.domain))
        which = [column_in_words(names[one] if isinstance(one, int) else one) for one in asked.missing]
        said.append(f"Values may become missing in {joined(which)}.")
    else:
        said.append("Values that are there do not become missing.")
    n = int(np.isnan(asked.X).any(axis=1).sum())
    if n:
        have = "row has missing values, which" if n == 1 else "rows have missing values, which"
        said.append(f"{n:,} {have} may stay missing or become anything.")
    return said


def _named(units: Sequence[Unit]) -> str:
    """The names of columns or, if they are too many, how many they are."""
    if len(units) > MOST_NAMES:
        return f"{len(units)} columns"
    return joined([column_in_words(unit.name) for unit in units]) if units else ""
