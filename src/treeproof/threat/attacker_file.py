"""Attackers as JSON files hold them: treeproof's own, the paper authors' and TREANT's."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from treeproof.errors import InvalidInput
from treeproof.files import as_path, check_fields, parse_json, read_text
from treeproof.model.per_feature import PerFeature, as_number
from treeproof.numbers.decimals import parse_decimal, plain_decimal
from treeproof.threat.moves import (
    CostMatrix,
    Move,
    Rule,
    Steps,
    Values,
    as_column_cost,
    as_cost,
    as_interval,
    as_step,
    as_values,
    steps,
)
from treeproof.threat.settings import as_groups, as_rules, as_unit

if TYPE_CHECKING:
    from treeproof.threat.attacker import Attacker

FORMAT = "treeproof-attacker"
VERSION = 2
REQUIRED = {"format", "version", "intervals", "costs", "budget", "domain", "power", "radius"}
OPTIONAL = {"scale", "up", "down", "step", "blank", "fill", "unseen", "groups", "rules", "goal"}
"""Fields that are left out where they say nothing."""


def read(source: str | os.PathLike[str]) -> tuple[Any, str]:
    """(What a JSON file or text holds, what messages call it)."""
    text, where = str(source), "the attacker"
    if not isinstance(source, str) or source.lstrip()[:1] not in ("{", "["):
        text, where = read_text(as_path(source)), str(source)
    try:
        # The paper's authors write open ends as Infinity.
        return parse_json(text, constants=text.lstrip()[:1] == "["), where
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is not JSON: {error}") from None


def plain_value(value: Any) -> Any:
    """The value, or InvalidInput if JSON lacks its type."""
    if not isinstance(value, (str, bool, int, float)):
        raise InvalidInput(f"{value!r} is a {type(value).__name__}, which JSON lacks")
    return value


def content_of(attacker: Attacker, plain: Callable[[Any], Any] = plain_value) -> dict[str, Any]:
    """The attacker as JSON holds it; `plain` is what JSON has for values of columns."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "intervals": attacker.intervals.to_json(partial(_move_to_json, plain=plain)),
        "costs": attacker.costs.to_json(partial(_cost_to_json, plain=plain)),
        "budget": attacker.budget,
        "domain": None if attacker.domain is None else attacker.domain.to_json(_pair_to_json),
        "power": attacker.power,
        "radius": attacker.radius,
    }
    is_scaled = any(unit != 1 for unit in attacker.scale.values) or not attacker.scale.shared
    more = {
        "scale": attacker.scale.to_json() if is_scaled else None,
        "up": list(attacker.up),
        "down": list(attacker.down),
        "step": None if attacker.step is None else attacker.step.to_json(plain_decimal),
        "blank": None if attacker.blank is None else attacker.blank.to_json(),
        "fill": None if attacker.fill is None else attacker.fill.to_json(),
        "unseen": attacker.unseen,
        "groups": [{"name": one.name, "columns": list(one.columns), "budget": one.budget} for one in attacker.groups],
        "rules": [_rule_to_json(rule, plain) for rule in attacker.rewrites],
        "goal": [plain(label) for label in attacker.goal],
    }
    return content | {name: value for name, value in more.items() if value not in (None, False, [])}


def fields_of(content: Any, where: str) -> dict[str, Any]:
    """The fields of an attacker, as treeproof's own files have them."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput(f'{where} is not an attacker: it lacks "format": "{FORMAT}"')
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise InvalidInput(f"{where} has version {version!r}; this treeproof reads version {VERSION}: write it again")
    check_fields(content, REQUIRED, OPTIONAL, where)
    if content["intervals"] in ({"by_feature": []}, {"each": []}):
        raise InvalidInput(
            f'{where}: intervals names no columns; where nothing moves by a distance, write {{"all": [0, 0]}}'
        )
    parsers: dict[str, Callable[[Any], Any]] = {
        "intervals": lambda given: PerFeature.from_json(given, "interval", _move_from_json),
        "costs": lambda given: PerFeature.from_json(given, "cost", _cost_from_json),
        "budget": lambda given: given,
        "domain": lambda given: PerFeature.from_json(given, "domain", _interval_from_json),
        "power": lambda given: given,
        "radius": lambda given: as_number(given, "radius"),
        "scale": lambda given: PerFeature.from_json(given, "scale", as_unit),
        "up": lambda given: _listed(given, "up", where),
        "down": lambda given: _listed(given, "down", where),
        "step": lambda given: PerFeature.from_json(given, "step", as_step),
        "blank": lambda given: PerFeature.from_json(given, "blank", as_cost),
        "fill": lambda given: PerFeature.from_json(given, "fill", as_cost),
        "unseen": lambda given: given,
        "groups": lambda given: _groups_from_json(given, where),
        "rules": lambda given: as_rules([_rule_from_json(rule, where) for rule in _listed(given, "rules", where)]),
        "goal": lambda given: _listed(given, "goal", where),
    }
    said = {name for name, value in content.items() if value is not None} | {"intervals", "costs", "radius"}
    given = ((name, parse(content[name])) for name, parse in parsers.items() if name in said)
    return {"rewrites" if name == "rules" else name: value for name, value in given}


def intervals_of_authors(rows: list[Any], where: str) -> dict[str, Any]:
    """The intervals and costs of the paper authors' file."""
    intervals, costs = [], []
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 5:
            raise InvalidInput(
                f"{where}, entry {number}: expected [left, right, left_open, right_open, cost], got {row!r}"
            )
        low, high, low_open, high_open, cost = row
        for end, is_open in ((low, low_open), (high, high_open)):
            if is_open not in (False, True):
                raise InvalidInput(f"{where}, entry {number}: left_open and right_open are true or false")
            if is_open and not (isinstance(end, float) and math.isinf(end)):
                raise InvalidInput(
                    f"{where}, entry {number}: the end {end!r} is open; treeproof's intervals are closed"
                )
        intervals.append((low, high))
        costs.append(cost)
    if not rows:
        raise InvalidInput(f"{where} lists no features")
    return {"intervals": intervals, "costs": costs}


def rules_of_treant(attacks: Any, where: str) -> list[Rule]:
    """The rules of TREANT's file. Numbers get anything between 0 and `post` added, as its authors enumerate it."""
    rules = []
    for attack in _listed(attacks, "attacks", where):
        if not isinstance(attack, dict):
            raise InvalidInput(f"{where}: an attack is an object {{column: rules}}, got {attack!r}")
        for column, listed in attack.items():
            for rule in _listed(listed, f"the rules of column {column!r}", where):
                fields = {"pre", "post", "cost", "is_numerical"}
                place = f"{where}, column {column!r}"
                if not isinstance(rule, dict) or rule.keys() != fields:
                    raise InvalidInput(f"{place}: a rule is an object with {', '.join(sorted(fields))}, got {rule!r}")
                when, post = _parse_pre(rule["pre"], place), rule["post"]
                if rule["is_numerical"] is True:
                    ends = sorted((Fraction(0), parse_decimal(post, f"{place}: post")))
                    rules.append(
                        Rule(column, when=tuple(when), change=tuple(map(plain_decimal, ends)), cost=rule["cost"])
                    )
                else:
                    rules.append(Rule(column, when=set(when), to=post, cost=rule["cost"]))
    return rules


_PART = re.compile(
    r"""\s*(?:'(?P<one>[^'\\]*)'|"(?P<two>[^"\\]*)"|(?P<sign>[-+]?)(?:(?P<inf>(?:np\.)?inf)|(?P<number>[\d.][\d.eE+-]*)))\s*"""
)


def _parse_pre(text: Any, where: str) -> list[Any]:
    """The numbers or words of a text such as "(0, np.inf)" or "('car', 'radio')"; nothing is ever evaluated."""
    refused = InvalidInput(f"{where}: pre must be a pair of numbers or a tuple of words, got {text!r}")
    if not isinstance(text, str) or not (text := text.strip()).startswith("(") or not text.endswith(")"):
        raise refused
    found: list[Any] = []
    at, end = 1, len(text) - 1
    while at < end:
        part = _PART.match(text, at, end)
        if part is None or (part.end() < end and text[part.end()] != ","):
            raise refused
        word = part["one"] if part["one"] is not None else part["two"]
        try:
            found.append(
                word if word is not None else float(f"{part['sign']}{'inf' if part['inf'] else part['number']}")
            )
        except ValueError:
            raise refused from None
        at = part.end() + 1
    if not found:
        raise refused
    return found


def _listed(given: Any, what: str, where: str) -> list[Any]:
    if not isinstance(given, list):
        raise InvalidInput(f"{where}: {what} must be a list, got {given!r}")
    return given


def _pair_to_json(pair: tuple[float, float]) -> list[float | None]:
    return [None if math.isinf(end) else end for end in pair]


def _interval_from_json(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInput(f"{where} must be [low, high], got {value!r}")
    low, high = value
    return as_interval((-math.inf if low is None else low, math.inf if high is None else high), where)


def _move_to_json(move: Move, plain: Callable[[Any], Any]) -> Any:
    if isinstance(move, Values):
        return {"values": [plain(value) for value in move.values]}
    if isinstance(move, Steps):
        return {"steps": _pair_to_json((move.low, move.high)), "step": plain_decimal(move.step)}
    return _pair_to_json(move)


def _move_from_json(value: Any, where: str) -> Move:
    match value:
        case {"values": list(listed)} if len(value) == 1:
            return as_values(listed, where)
        case {"steps": list(ends), "step": step} if len(value) == 2:
            return steps(*_interval_from_json(ends, where), step)
    return _interval_from_json(value, where)


def _cost_to_json(cost: int | CostMatrix, plain: Callable[[Any], Any]) -> Any:
    if isinstance(cost, int):
        return cost
    return {"matrix": [[plain(start), plain(end), price] for start, end, price in cost.entries]}


def _cost_from_json(value: Any, where: str) -> int | CostMatrix:
    match value:
        case {"matrix": list(entries)} if len(value) == 1 and all(
            isinstance(each, list) and len(each) == 3 and not any(isinstance(one, (list, dict)) for one in each)
            for each in entries
        ):
            pairs = {(start, end): cost for start, end, cost in entries}
            if len(pairs) < len(entries):
                raise InvalidInput(f"{where}: the matrix names a change twice")
            return as_column_cost(pairs, where)
    return as_cost(value, where)


def _rule_to_json(rule: Rule, plain: Callable[[Any], Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"column": rule.column}
    if rule.when is not None:
        content["when"] = _move_to_json(rule.when, plain)
    if rule.change is not None:
        content["change"] = [plain_decimal(end) for end in rule.change]
    else:
        content["to"] = plain(rule.to)
    return content | {"cost": rule.cost}


def _rule_from_json(content: Any, where: str) -> Rule:
    fields = {"column", "when", "change", "to", "cost"}
    if not isinstance(content, dict) or content.keys() - fields or not {"column", "cost"} <= content.keys():
        raise InvalidInput(f"{where}: a rule is an object with {', '.join(sorted(fields))}, got {content!r}")
    when, change = content.get("when"), content.get("change")
    if when is not None:
        parsed = _move_from_json(when, f"{where}: when")
        if isinstance(parsed, Steps):
            raise InvalidInput(f"{where}: when must be [low, high] or values, got {when!r}")
        when = parsed
    if isinstance(change, list):
        change = tuple(change)
    return Rule(content["column"], when=when, change=change, to=content.get("to"), cost=content["cost"])


def _groups_from_json(content: Any, where: str) -> Any:
    groups, budgets = {}, {}
    for each in _listed(content, "groups", where):
        if not isinstance(each, dict) or each.keys() != {"name", "columns", "budget"}:
            raise InvalidInput(f"{where}: a group is an object with name, columns and budget, got {each!r}")
        name = each["name"]
        if not isinstance(name, str) or name in groups:
            raise InvalidInput(f"{where}: each group has a name of its own, got {name!r}")
        groups[name], budgets[name] = _listed(each["columns"], f"columns of {name!r}", where), each["budget"]
    return as_groups(groups, budgets)
