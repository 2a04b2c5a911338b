"""Relations as their texts say them (docs/relations.md): parsed here on their own, and what they can be for rows.

A row, or many rows at once, is a `Where`. Comparisons with missing values are unknown (None), and the rest follows
Kleene's tables. For one row the answer is exact; for many it names every truth that one of them may have, or more.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, TypeAlias

from treeproof.check.attackers import Names
from treeproof.check.doubles import nearest, printed
from treeproof.check.fields import is_decimal
from treeproof.check.rules import Rejected

Span: TypeAlias = "tuple[float, float] | None"
"""Doubles from one to another; None: the value is missing."""
Where: TypeAlias = "Mapping[int, tuple[int, Sequence[Span]]]"
"""Per column what it may be. Columns with the same number go together: their first spans, their second ones, …"""
Truths: TypeAlias = "frozenset[bool | None]"
Said: TypeAlias = "tuple[Any, ...]"
"""A relation: a word for what it is, and its parts."""

_TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[^\W\d]\w*(?:\.\w+)*)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<sign><=|>=|==|!=|[<>+\-*/(),\[\]=])""",
    re.VERBOSE,
)
_NEXT, MOST_LETTERS, MOST_MEMBERS = re.compile(r"\s*(.{0,2})", re.DOTALL), 2**20, 1024
_WORDS = ("and", "or", "not", "in", "is", "True", "False")
_CALLS = ("implies", "any_of", "all_of", "not_", "one_of", "at_most_one")
_ORDERS = {ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">", ast.Eq: "==", ast.NotEq: "!="}
_TURNED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
_DENIED = {"<=": ">", ">": "<=", "<": ">=", ">=": "<", "==": "!=", "!=": "=="}


class _Text:
    """A relation's text. Its grammar is part of Python's, once names, numbers and texts have plain names."""

    def __init__(self, text: str) -> None:
        self._text, at, written = text, 0, []
        if len(text) > MOST_LETTERS:
            raise Rejected("a relation has too many letters")
        self._meant: dict[str, Said] = {}
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._odd()
            at, kind, token = found.end(), found.lastgroup, found[0]
            after = _NEXT.match(text, at)[1]  # type: ignore[index]
            if kind == "sign" or token in _WORDS or (kind == "name" and token in _CALLS and after[:1] == "("):
                written.append(token)
            elif kind == "name" and (
                (written[-1:] == ["is"] or written[-2:] == ["is", "not"]) or (after[:1] == "=" != after[1:])
            ):
                if not token.isascii():
                    raise self._odd()  # Python takes letters that look alike for one
                written.append("_" + token)
            elif kind != "blank":
                name = f"x{len(self._meant)}"
                self._meant[name] = _meant(str(kind), token)
                written.append(name)
        self._written = " ".join(written)

    def parse(self) -> Said:
        """What it says."""
        try:
            return self._truth(ast.parse(self._written, mode="eval").body)
        except (SyntaxError, MemoryError):
            raise self._odd() from None

    def _odd(self) -> Rejected:
        return Rejected(f"the relation {self._text[:200]!r} cannot be read")

    def _truth(self, node: ast.expr) -> Said:
        match node:
            case ast.BoolOp(op, parts):
                return "and" if isinstance(op, ast.And) else "or", tuple(map(self._truth, parts))
            case ast.UnaryOp(ast.Not(), inner):
                return "not", self._truth(inner)
            case ast.Compare(first, orders, others):
                nodes = [first, *others]
                said = tuple(self._compared(*pair, order) for pair, order in zip(pairwise(nodes), orders, strict=True))
                if len(said) > 1 and any(type(order) not in _ORDERS for order in orders):
                    raise self._odd()
                return said[0] if len(said) == 1 else ("and", said)
            case ast.Call(ast.Name(name), arguments, keywords) if name in _CALLS:
                return self._call(name, arguments, keywords)
        raise self._odd()

    def _compared(self, left: ast.expr, right: ast.expr, order: ast.cmpop) -> Said:
        match order, right:
            case ((ast.Is() | ast.IsNot()), ast.Name("_missing" | "_present" as word)):
                missing = ("missing", self._column(left))
                return missing if (word == "_missing") == isinstance(order, ast.Is) else ("not", missing)
            case ((ast.In() | ast.NotIn()), _):
                values = right.elts if isinstance(right, ast.Tuple) else [right]
                inside = ("in", self._column(left), tuple(map(self._value, values)))
                return inside if isinstance(order, ast.In) else ("not", inside)
        if type(order) not in _ORDERS:
            raise self._odd()
        if self._is_value(left):
            left, right = right, left
        if self._is_value(right):
            equal = ("in", self._column(left), (self._value(right),))
            if not isinstance(order, (ast.Eq, ast.NotEq)):
                raise self._odd()
            return equal if isinstance(order, ast.Eq) else ("not", equal)
        factors, number = _added(self._sum(left), self._sum(right), -1)
        if not factors or 0 in factors.values():
            raise self._odd()
        return "compare", factors, number, _ORDERS[type(order)]

    def _call(self, name: str, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> Said:
        if name in ("one_of", "at_most_one"):
            if not arguments or any(word.arg != "_name" for word in keywords):
                raise self._odd()
            called = [self._value(word.value) for word in keywords]
            return "group", tuple(map(self._column, arguments)), name == "one_of", called[0] if called else None
        parts = tuple(map(self._truth, arguments))
        if keywords or not parts or len(parts) != {"implies": 2, "not_": 1}.get(name, len(parts)):
            raise self._odd()
        if name == "implies":
            return "or", (("not", parts[0]), parts[1])
        return ("not", parts[0]) if name == "not_" else ("or" if name == "any_of" else "and", parts)

    def _is_value(self, node: ast.expr) -> bool:
        """Whether it is a text, True or False, with which only categories are compared."""
        return isinstance(node, ast.Constant) or (
            isinstance(node, ast.Name) and self._meant.get(node.id, ("",))[0] == "value"
        )

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and self._is_value(node):
            return self._meant[node.id][1]
        factors, number = self._sum(node)
        if factors:
            raise self._odd()
        return number

    def _column(self, node: ast.expr) -> Any:
        factors, number = self._sum(node)
        if list(factors.values()) != [1] or number:
            raise self._odd()
        return next(iter(factors))

    def _sum(self, node: ast.expr) -> _Sum:
        match node:
            case ast.Name(name) if self._meant.get(name, ("",))[0] == "number":
                return {}, self._meant[name][1]
            case ast.Name(name) if self._meant.get(name, ("",))[0] == "column":
                return {self._meant[name][1]: Fraction(1)}, Fraction(0)
            case ast.List([ast.Name(name)]) if self._meant.get(name, ("",))[0] == "number":
                return {int(self._meant[name][1]): Fraction(1)}, Fraction(0)
            case ast.UnaryOp(ast.UAdd() | ast.USub() as sign, inner):
                return _times(self._sum(inner), Fraction(1 if isinstance(sign, ast.UAdd) else -1))
            case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
                return _added(self._sum(left), self._sum(right), 1 if isinstance(sign, ast.Add) else -1)
            case ast.BinOp(left, ast.Mult(), right):
                one, other = sorted((self._sum(left), self._sum(right)), key=lambda each: len(each[0]))
                if not one[0]:
                    return _times(other, one[1])
            case ast.BinOp(left, ast.Div(), right):
                divisor = self._sum(right)
                if not divisor[0] and divisor[1]:
                    return _times(self._sum(left), 1 / divisor[1])
        raise self._odd()


def _meant(kind: str, token: str) -> Said:
    """What a number, a text or a name stands for."""
    if kind == "number":
        if not is_decimal(token):
            raise Rejected(f"{token[:40]} in a relation has too many digits")
        return "number", Fraction(token)
    plain = token[1:-1].replace(token[0] * 2, token[0])
    return ("value", plain) if kind == "text" else ("column", plain if kind == "quoted" else token)


_Sum: TypeAlias = "tuple[dict[Any, Fraction], Fraction]"
"""Factors by column, and a number."""


def _added(one: _Sum, other: _Sum, sign: int) -> _Sum:
    factors = dict(one[0])
    for column, factor in other[0].items():
        factors[column] = factors.get(column, Fraction(0)) + sign * factor
    return factors, one[1] + sign * other[1]


def _times(one: _Sum, by: Fraction) -> _Sum:
    return {column: factor * by for column, factor in one[0].items()}, one[1] * by


# --- what relations are for rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneHot:
    """Columns of 0 and 1 of which one is 1, or at most one."""

    columns: tuple[int, ...]
    exactly: bool
    name: str | None


class Relations:
    """What rows of a model keep. Columns with a step stand for the decimals that they print as."""

    def __init__(self, model: Mapping[str, Any], texts: Iterable[str], steps: Collection[int] = ()) -> None:
        self.names, self.steps = Names(model), steps
        try:
            self._said = [_Text(text).parse() for text in texts]
            self.groups = [
                self._one_hot(*said[1:]) for one in self._said for said in facts_in(one) if said[0] == "group"
            ]
        except (ValueError, RecursionError) as error:
            raise Rejected(f"relations do not fit the model: {error}") from None

    def __bool__(self) -> bool:
        return bool(self._said)

    def may_hold(self, where: Where) -> bool:
        """Whether there are rows, and no relation is false for all of them; of a single one, whether it is valid."""
        return all(spans for _, spans in where.values()) and not any(self.is_false(said, where) for said in self._said)

    @cached_property
    def facts(self) -> list[Said]:
        """What is not false for any valid row: comparisons, conditions on a column, and choices ("or") of such."""
        return [fact for said in self._said for fact in facts_in(_not_false(said, True))]

    @cached_property
    def columns(self) -> list[int]:
        """The positions of all columns that relations name, rising."""
        return sorted({self.names.position(column) for said in self._said for column in _columns_in(said)})

    def is_false(self, said: Said, where: Where) -> bool:
        """Whether something is false for all rows."""
        return self._truths(said, where) == {False}

    def terms(self, compared: Said) -> list[tuple[int, Fraction]]:
        """The positions of the columns of a comparison, and their factors."""
        return [(self.names.position(column), factor) for column, factor in compared[1].items()]

    def broken(self, row: Sequence[float]) -> list[int]:
        """The numbers of the relations that are false for a row."""
        where = {f: (f, (None if math.isnan(x) else (x, x),)) for f, x in enumerate(row)}
        return [number for number, said in enumerate(self._said) if self.is_false(said, where)]

    def _one_hot(self, columns: Sequence[Any], exactly: bool, name: str | None) -> OneHot:
        if len(columns) > MOST_MEMBERS:
            raise Rejected(
                f"a one-hot group has more than {MOST_MEMBERS:,} columns; make one column of categories of them"
            )
        return OneHot(tuple(map(self.names.position, columns)), exactly, name)

    def _truths(self, said: Said, where: Where) -> Truths:
        """All that a relation may be."""
        match said:
            case ("not", inner):
                return frozenset(None if truth is None else not truth for truth in self._truths(inner, where))
            case ("and" | "or" as word, parts):
                return _combined([self._truths(part, where) for part in parts], word == "or")
            case ("missing", column):
                return frozenset(span is None for span in self._spans(column, where))
            case ("in", column, values):
                return self._is_in(self.names.position(column), values, where)
            case ("compare", _, number, order):
                return self._compared(self.terms(said), number, order, where)
            case ("group", columns, exactly, _):
                return _of_group([self._spans(column, where) for column in columns], exactly)
        raise Rejected(f"there is no relation {said[0]!r}")

    def _spans(self, column: Any, where: Where) -> Sequence[Span]:
        return where[self.names.position(column)][1]

    def _is_in(self, f: int, values: Sequence[Any], where: Where) -> Truths:
        category = self.names.categories.get(f)
        if category is None or not category.coded:
            found = [[self._ordered(f, "==", Fraction(value), [one]) for value in values] for one in where[f][1]]
            return frozenset(chain.from_iterable(_combined(own, True) for own in found))
        plain = [_plain(value) if isinstance(value, Fraction) else value for value in values]
        codes = {category.double(value) for value in plain}
        truths: set[bool | None] = set()
        for span in where[f][1]:
            if span is None:
                truths.add(None)
            else:
                first, last = max(math.ceil(span[0]) if span[0] > 0 else 0, 0), min(span[1], len(category.known))
                truths.update(float(code) in codes for code in range(first, math.floor(last) + 1))
        return frozenset(truths)

    def _ordered(self, f: int, order: str, constant: Fraction, spans: Sequence[Span]) -> Truths:
        """A comparison of one column with a constant: as decimals, or as doubles."""
        stepped = f in self.steps
        if stepped and order in ("==", "!=") and printed(nearest(constant)) != constant:
            return frozenset(None if span is None else order == "!=" for span in spans)
        number = constant if stepped else nearest(constant)
        return frozenset(
            chain.from_iterable(
                [None] if span is None else _between(self._exact(f, span[0]), self._exact(f, span[1]), order, number)
                for span in spans
            )
        )

    def _exact(self, f: int, end: float) -> Any:
        return printed(end) if f in self.steps and not math.isinf(end) else end

    def _compared(self, terms: Sequence[tuple[int, Fraction]], number: Fraction, order: str, where: Where) -> Truths:
        if len(terms) > 1:
            return self._sums(terms, number, order, where)
        ((f, factor),) = terms
        constant = -number / factor
        if f in self.names.categories and self.names.categories[f].coded:
            equal = self._is_in(f, (constant,), where)
            return equal if order == "==" else frozenset(None if one is None else not one for one in equal)
        return self._ordered(f, _TURNED.get(order, order) if factor < 0 else order, constant, where[f][1])

    def _sums(self, terms: Sequence[tuple[int, Fraction]], number: Fraction, order: str, where: Where) -> Truths:
        """A sum of columns compared with 0, exactly."""
        together: dict[int, list[tuple[int, Fraction]]] = {}
        for f, factor in terms:
            together.setdefault(where[f][0], []).append((f, factor))
        truths: set[bool | None] = set()
        least, most = [number], [number]
        for own in together.values():
            ends = [self.ends(own, spans) for spans in zip(*(where[f][1] for f, _ in own), strict=True)]
            known = [end for end in ends if end is not None]
            truths |= {None} if len(known) < len(ends) else set()
            if not known:
                return frozenset({None})
            least.append(min(low for low, _ in known))
            most.append(max(high for _, high in known))
        return frozenset(truths | set(_between(total(least), total(most), order, 0)))

    def ends(self, terms: Sequence[tuple[int, Fraction]], spans: Sequence[Span]) -> tuple[Any, Any] | None:
        """The least and the most that terms which go together add up to; None if one is missing."""
        known = zip(terms, spans, strict=True)
        ends = [sorted(self._term(f, factor, end) for end in span) for (f, factor), span in known if span is not None]
        return None if None in spans else (total([low for low, _ in ends]), total([high for _, high in ends]))

    def _term(self, f: int, factor: Fraction, end: float) -> Any:
        if math.isinf(end):
            return end if factor > 0 else -end
        return factor * (printed(end) if f in self.steps else Fraction(end))


def facts_in(said: Said) -> Iterator[Said]:
    """What something says, one thing after another."""
    if said[0] == "and":
        for part in said[1]:
            yield from facts_in(part)
    else:
        yield said


def _columns_in(said: Said) -> Iterator[Any]:
    match said:
        case ("not", inner):
            yield from _columns_in(inner)
        case ("and" | "or", parts):
            for part in parts:
                yield from _columns_in(part)
        case ("compare" | "group", columns, *_):
            yield from columns
        case (_, column, *_):
            yield column


def _not_false(said: Said, holds: bool) -> Said:
    """The same, or what denies it, where only conditions on a column are denied; sums that differ are a choice."""
    match said:
        case ("not", inner):
            return _not_false(inner, not holds)
        case ("and" | "or" as word, parts):
            return word if holds else {"and": "or", "or": "and"}[word], tuple(_not_false(one, holds) for one in parts)
        case ("compare", factors, number, order) if len(factors) > 1:
            orders = order if holds else _DENIED[order]
            found = tuple(("compare", factors, number, one) for one in (("<", ">") if orders == "!=" else (orders,)))
            return ("or", found) if len(found) > 1 else found[0]
    return said if holds else ("not", said)


def _plain(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def total(numbers: Sequence[Any]) -> Any:
    """A sum of fractions, of which some may be infinite on the same side."""
    return next((number for number in numbers if isinstance(number, float) and math.isinf(number)), None) or sum(
        numbers
    )


def _between(low: Any, high: Any, order: str, number: Any) -> list[bool]:
    """What the comparison of something from low to high with a number may be."""
    true, false = {
        "<=": (low <= number, high > number),
        "<": (low < number, high >= number),
        ">=": (high >= number, low < number),
        ">": (high > number, low <= number),
        "==": (low <= number <= high, not low == high == number),
        "!=": (not low == high == number, low <= number <= high),
    }[order]
    return [True] * true + [False] * false


def _combined(parts: Sequence[Truths], either: bool) -> Truths:
    """All that "or" (`either`) or "and" of relations may be: the greatest or the least truth, unknown in between."""
    rank: dict[bool | None, int] = {False: 0, None: 1, True: 2}
    found = {rank[truth] for truth in parts[0]}
    for part in parts[1:]:
        found = {(max if either else min)(one, rank[truth]) for one in found for truth in part}
    return frozenset((False, None, True)[number] for number in found)


def _of_group(columns: Sequence[Sequence[Span]], exactly: bool) -> Truths:
    """Whether columns are 0 and 1, with the right number of ones; a missing one is neither."""
    on = [any(span is not None and span[0] <= 1 <= span[1] for span in spans) for spans in columns]
    off = [any(span is not None and span[0] <= 0 <= span[1] for span in spans) for spans in columns]
    other = any(span not in ((0.0, 0.0), (1.0, 1.0)) for spans in columns for span in spans)
    most, least = sum(on), sum(one and not zero for one, zero in zip(on, off, strict=True))
    true = all(one or zero for one, zero in zip(on, off, strict=True)) and least <= 1 <= most + (not exactly)
    false = other or most > 1 or (exactly and least < 1)
    return frozenset([True] * true + [False] * false)
