"""Relations as their texts say them (docs/relations.md): parsed here on their own, and what they can be for rows.

A row, or many rows at once, is a `Where`. Comparisons with missing values are unknown (None), and the rest follows
Kleene's tables. For one row the answer is exact; for many it names every truth that one of them may have, or more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any, TypeAlias

from treeproof.check.attackers import Names
from treeproof.check.doubles import nearest, printed
from treeproof.check.rules import Rejected

Span: TypeAlias = "tuple[float, float] | None"
"""Doubles from one to another; None: the value is missing."""
Where: TypeAlias = "Mapping[int, tuple[int, Sequence[Span]]]"
"""Per column what it may be. Columns with the same number go together: their first spans, their second ones, …"""
Truths: TypeAlias = "frozenset[bool | None]"
Said: TypeAlias = "tuple[Any, ...]"
"""A relation: a word for what it is, and its parts."""

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[^\W\d]\w*(?:\.\w+)*)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<sign><=|>=|==|!=|[<>+\-*/(),\[\]=])""",
    re.VERBOSE,
)
_WORDS = ("and", "or", "not", "in", "is", "True", "False")
_ORDERS = ("<=", "<", ">=", ">", "==", "!=")
_TURNED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}


class _Parser:
    """Reads a text from left to right. A sum is ("sum", factors by column, number), a text or flag ("value", it)."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise Rejected(f"the relation {text!r} has something that is not part of the language")
            kind = found.lastgroup
            if kind is not None:
                self._tokens.append(("word" if kind == "name" and found[0] in _WORDS else kind, found[0]))
            at = found.end()
        self._tokens += [("end", "")] * 2
        self._at, self._text = 0, text

    def parse(self) -> Said:
        said = self._relation()
        if self._tokens[self._at][0] != "end":
            raise self._odd()
        return self._truth(said)

    def _odd(self) -> Rejected:
        return Rejected(f"the relation {self._text!r} cannot be read at {self._tokens[self._at][1]!r}")

    def _take(self, *texts: str) -> str | None:
        kind, text = self._tokens[self._at]
        if kind not in ("sign", "word", "name") or text not in texts:
            return None
        self._at += 1
        return text

    def _expect(self, *texts: str) -> str:
        found = self._take(*texts)
        if found is None:
            raise self._odd()
        return found

    def _truth(self, said: Said) -> Said:
        if said[0] in ("sum", "value"):
            raise self._odd()
        return said

    def _sum_of(self, said: Said) -> tuple[dict[Any, Fraction], Fraction]:
        if said[0] != "sum":
            raise self._odd()
        return said[1], said[2]

    def _column_of(self, said: Said) -> Any:
        factors, number = self._sum_of(said)
        if list(factors.values()) != [1] or number:
            raise self._odd()
        return next(iter(factors))

    def _relation(self) -> Said:
        return self._joined("or", lambda: self._joined("and", self._negation))

    def _joined(self, word: str, part: Callable[[], Said]) -> Said:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else (word, tuple(map(self._truth, parts)))

    def _negation(self) -> Said:
        return ("not", self._truth(self._negation())) if self._take("not") else self._comparison()

    def _comparison(self) -> Said:
        first = self._sum()
        if self._take("is"):
            denied = self._take("not") is not None
            missing = ("missing", self._column_of(first))
            return missing if (self._expect("missing", "present") == "missing") != denied else ("not", missing)
        if self._take("in"):
            return "in", self._column_of(first), self._values()
        if self._take("not"):
            self._expect("in")
            return "not", ("in", self._column_of(first), self._values())
        sums, orders = [first], []
        while order := self._take(*_ORDERS):
            orders.append(order)
            sums.append(self._sum())
        compared = tuple(self._compared(*pair, order) for pair, order in zip(pairwise(sums), orders, strict=True))
        return first if not compared else compared[0] if len(compared) == 1 else ("and", compared)

    def _compared(self, left: Said, right: Said, order: str) -> Said:
        if left[0] == "value":
            left, right = right, left
        if right[0] == "value":
            if order not in ("==", "!="):
                raise self._odd()
            equal = ("in", self._column_of(left), (right[1],))
            return equal if order == "==" else ("not", equal)
        factors, number = self._sum_of(_added(left, right, -1) if left[0] == right[0] == "sum" else ("", right))
        if not factors or 0 in factors.values():
            raise self._odd()
        return "compare", factors, number, order

    def _values(self) -> tuple[Any, ...]:
        return tuple(self._value(said) for said in self._listed(self._sum))

    def _value(self, said: Said) -> Any:
        if said[0] == "value":
            return said[1]
        factors, number = self._sum_of(said)
        if factors:
            raise self._odd()
        return number

    def _listed(self, part: Callable[[], Said]) -> list[Said]:
        self._expect("(")
        found = [part()]
        while self._expect(",", ")") == ",":
            found.append(part())
        return found

    def _sum(self) -> Said:
        said = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            self._sum_of(said), self._sum_of(other)
            said = _added(said, other, 1 if sign == "+" else -1)
        return said

    def _product(self) -> Said:
        said = self._factor()
        while sign := self._take("*", "/"):
            (factors, number), (others, other) = self._sum_of(said), self._sum_of(self._factor())
            if (others and (factors or sign == "/")) or (sign == "/" and not other):
                raise self._odd()
            if others:
                factors, number, other = others, other, number
            said = _times(factors, number, other if sign == "*" else 1 / other)
        return said

    def _factor(self) -> Said:
        negative = signed = False
        while sign := self._take("-", "+"):
            negative, signed = negative != (sign == "-"), True
        said = self._primary()
        return _times(*self._sum_of(said), Fraction(-1 if negative else 1)) if signed else said

    def _primary(self) -> Said:
        kind, text = self._tokens[self._at]
        if kind in ("number", "text"):
            self._at += 1
            return (
                ("sum", {}, Fraction(text)) if kind == "number" else ("value", text[1:-1].replace(text[0] * 2, text[0]))
            )
        if flag := self._take("True", "False"):
            return "value", flag == "True"
        if self._take("("):
            said = self._relation()
            self._expect(")")
            return said
        if kind == "name" and self._tokens[self._at + 1][1] == "(":
            self._at += 1
            return self._call(text)
        return "sum", {self._column(): Fraction(1)}, Fraction(0)

    def _column(self) -> Any:
        kind, text = self._tokens[self._at]
        self._at += kind in ("name", "quoted")
        if kind == "name":
            return text
        if kind == "quoted":
            return text[1:-1].replace("``", "`")
        self._expect("[")
        kind, text = self._tokens[self._at]
        if kind != "number" or not text.isdecimal():
            raise self._odd()
        self._at += 1
        self._expect("]")
        return int(text)

    def _call(self, name: str) -> Said:
        if name in ("one_of", "at_most_one"):
            return self._group(name == "one_of")
        parts = tuple(map(self._truth, self._listed(self._relation)))
        if name == "implies" and len(parts) == 2:
            return "or", (("not", parts[0]), parts[1])
        if name == "not_" and len(parts) == 1:
            return "not", parts[0]
        if name not in ("any_of", "all_of"):
            raise self._odd()
        return "or" if name == "any_of" else "and", parts

    def _group(self, exactly: bool) -> Said:
        self._expect("(")
        columns: list[Any] = []
        name = None
        while True:
            if self._tokens[self._at][1] == "name" and self._tokens[self._at + 1][1] == "=":
                self._at += 2
                name = self._value(self._primary())
                self._expect(")")
                return "group", tuple(columns), exactly, name
            columns.append(self._column())
            if self._expect(",", ")") == ")":
                return "group", tuple(columns), exactly, name


def _added(one: Said, other: Said, sign: int) -> Said:
    factors = dict(one[1])
    for column, factor in other[1].items():
        factors[column] = factors.get(column, Fraction(0)) + sign * factor
    return "sum", factors, one[2] + sign * other[2]


def _times(factors: Mapping[Any, Fraction], number: Fraction, by: Fraction) -> Said:
    return "sum", {column: factor * by for column, factor in factors.items()}, number * by


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
        self._names, self._steps = Names(model), steps
        try:
            self._said = [_Parser(text).parse() for text in texts]
            self.groups = [
                self._one_hot(*said[1:]) for one in self._said for said in _conjuncts(one) if said[0] == "group"
            ]
        except (ValueError, RecursionError) as error:
            raise Rejected(f"relations do not fit the model: {error}") from None

    def __bool__(self) -> bool:
        return bool(self._said)

    def may_hold(self, where: Where) -> bool:
        """Whether no relation is false for all rows; of a single one, whether it is valid."""
        return all(self._truths(said, where) != {False} for said in self._said)

    def is_valid(self, row: Sequence[float]) -> bool:
        """Whether no relation is false for a row."""
        return self.may_hold({f: (f, (None if math.isnan(x) else (x, x),)) for f, x in enumerate(row)})

    def _one_hot(self, columns: Sequence[Any], exactly: bool, name: str | None) -> OneHot:
        return OneHot(tuple(map(self._names.position, columns)), exactly, name)

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
                return self._is_in(self._names.position(column), values, where)
            case ("compare", factors, number, order):
                return self._compared(factors, number, order, where)
            case ("group", columns, exactly, _):
                return _of_group([self._spans(column, where) for column in columns], exactly)
        raise Rejected(f"there is no relation {said[0]!r}")

    def _spans(self, column: Any, where: Where) -> Sequence[Span]:
        return where[self._names.position(column)][1]

    def _is_in(self, f: int, values: Sequence[Any], where: Where) -> Truths:
        category = self._names.categories.get(f)
        if category is None or not category.coded:
            spans = [{f: (f, (span,))} for span in where[f][1]]
            found = [[self._ordered(f, "==", Fraction(value), own) for value in values] for own in spans]
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

    def _ordered(self, f: int, order: str, constant: Fraction, where: Where) -> Truths:
        """A comparison of one column with a constant: as decimals, or as doubles."""
        stepped = f in self._steps
        if stepped and order in ("==", "!=") and printed(nearest(constant)) != constant:
            return frozenset(None if span is None else order == "!=" for span in where[f][1])
        number = constant if stepped else nearest(constant)
        return frozenset(
            chain.from_iterable(
                [None] if span is None else _between(self._exact(f, span[0]), self._exact(f, span[1]), order, number)
                for span in where[f][1]
            )
        )

    def _exact(self, f: int, end: float) -> Any:
        return printed(end) if f in self._steps and not math.isinf(end) else end

    def _compared(self, factors: Mapping[Any, Fraction], number: Fraction, order: str, where: Where) -> Truths:
        terms = [(self._names.position(column), factor) for column, factor in factors.items()]
        if len(terms) > 1:
            return self._sums(terms, number, order, where)
        ((f, factor),) = terms
        constant = -number / factor
        if f in self._names.categories and self._names.categories[f].coded:
            equal = self._is_in(f, (constant,), where)
            return equal if order == "==" else frozenset(None if one is None else not one for one in equal)
        return self._ordered(f, _TURNED.get(order, order) if factor < 0 else order, constant, where)

    def _sums(self, terms: Sequence[tuple[int, Fraction]], number: Fraction, order: str, where: Where) -> Truths:
        """A sum of columns compared with 0, exactly."""
        together: dict[int, list[tuple[int, Fraction]]] = {}
        for f, factor in terms:
            together.setdefault(where[f][0], []).append((f, factor))
        truths: set[bool | None] = set()
        least, most = [number], [number]
        for own in together.values():
            ends = [self._ends(own, spans) for spans in zip(*(where[f][1] for f, _ in own), strict=True)]
            known = [end for end in ends if end is not None]
            truths |= {None} if len(known) < len(ends) else set()
            if not known:
                return frozenset({None})
            least.append(min(low for low, _ in known))
            most.append(max(high for _, high in known))
        return frozenset(truths | set(_between(_total(least), _total(most), order, 0)))

    def _ends(self, terms: Sequence[tuple[int, Fraction]], spans: Sequence[Span]) -> tuple[Any, Any] | None:
        """The least and the most that terms which go together add up to; None if one is missing."""
        lows, highs = [], []
        for (f, factor), span in zip(terms, spans, strict=True):
            if span is None:
                return None
            ends = sorted(self._term(f, factor, end) for end in span)
            lows.append(ends[0])
            highs.append(ends[1])
        return _total(lows), _total(highs)

    def _term(self, f: int, factor: Fraction, end: float) -> Any:
        if math.isinf(end):
            return end if factor > 0 else -end
        return factor * (printed(end) if f in self._steps else Fraction(end))


def _conjuncts(said: Said) -> Iterator[Said]:
    if said[0] == "and":
        for part in said[1]:
            yield from _conjuncts(part)
    else:
        yield said


def _plain(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _total(numbers: Sequence[Any]) -> Any:
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
