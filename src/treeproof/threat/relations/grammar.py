"""The text of relations, parsed by recursive descent; nothing is ever evaluated.

    relation   = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation   = "not" negation | comparison
    comparison = sum { ("<=" | "<" | ">=" | ">" | "==" | "!=") sum }
               | sum [ "not" ] "in" "(" value { "," value } ")"
               | sum "is" [ "not" ] ( "missing" | "present" )
    sum        = product { ("+" | "-") product }
    product    = factor { ("*" | "/") factor }
    factor     = [ "-" | "+" ] ( number | text | "True" | "False" | column | call | "(" relation ")" )
    column     = name | "`" any characters "`" | "[" position "]"
    call       = ( "implies" | "any_of" | "all_of" | "not_" ) "(" relation { "," relation } ")"
               | ( "one_of" | "at_most_one" ) "(" column { "," column } [ "," "name" "=" text ] ")"

What stands in the place of a number and what in the place of a relation is told apart by what it is, not by rules of
their own: parentheses hold either. A comment begins with # and ends with the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from treeproof.errors import InvalidInput
from treeproof.numbers.decimals import parse_decimal
from treeproof.threat.relations.expressions import (
    KEYWORDS,
    MAX_DEPTH,
    PLAIN_NAME,
    AllOf,
    AnyOf,
    Comparison,
    Group,
    Implies,
    Key,
    Member,
    Missing,
    Not,
    Relation,
    Sum,
    Value,
)

MAX_SHOWN = 200
"""Characters of a relation that a message repeats."""

_TOKEN = re.compile(
    rf"""(?P<blank>\s+|\#[^\n]*)
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<name>{PLAIN_NAME.pattern})
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<sign><=|>=|==|!=|=<|=>|<>|[<>+\-*/(),\[\]=])""",
    re.VERBOSE,
)
_HINTS = {
    "=": "write == for equality",
    "=<": "write <=",
    "=>": "write >=",
    "<>": "write !=",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    "if": "write implies(condition, conclusion)",
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "`": "a name in backquotes ends with a backquote",
    "'": "a text ends with the quote that it begins with",
    '"': "a text ends with the quote that it begins with",
}
_IS_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_ORDERS = ("<=", "<", ">=", ">", "==", "!=")


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@dataclass(frozen=True)
class _Literal:
    """A text, True or False: what only categories are compared with."""

    value: str | bool

    def __str__(self) -> str:
        return repr(self.value)


_Parsed: TypeAlias = Sum | _Literal | Relation


def parse_relation(text: str) -> Relation:
    """The relation that a text states, or InvalidInput.

    >>> parse_relation("0 <= max_30d <= max_12m")
    0 <= max_30d and max_30d <= max_12m
    """
    try:
        parser = _Parser(_tokens(text))
        parsed = parser.relation()
        if parser.now.kind != "end":
            raise parser.unexpected("and, or, or the end")
        return _as_relation(parsed)
    except InvalidInput as error:
        shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
        raise InvalidInput(f"relation {shown!r}: {error}") from None


def is_blank(text: str) -> bool:
    """Whether there is nothing in a line but blanks and a comment."""
    return not text.strip() or text.lstrip().startswith("#")


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            hint = f"; {_HINTS[text[at]]}" if text[at] in _HINTS else ""
            raise InvalidInput(f"{text[at]!r} at character {at + 1} is not part of the language{hint}")
        kind = str(found.lastgroup)
        if kind == "name" and found[0] in KEYWORDS:
            kind = "word"
        if kind != "blank":
            tokens.append(_Token(kind, found[0], at))
        at = found.end()
    return [*tokens, _Token("end", "", at)]


def _as_relation(parsed: _Parsed) -> Relation:
    if isinstance(parsed, Relation):
        return parsed
    raise InvalidInput(f"expected a relation, got {parsed}; compare it with something, as in {parsed} == 0")


def _as_sum(parsed: _Parsed) -> Sum:
    if isinstance(parsed, Sum):
        return parsed
    what = "a relation" if isinstance(parsed, Relation) else "a text" if isinstance(parsed.value, str) else "no number"
    raise InvalidInput(f"expected a number or columns, but {parsed} is {what}")


def _as_column(parsed: _Parsed) -> Key:
    column = parsed.column if isinstance(parsed, Sum) else None
    if column is None:
        raise InvalidInput(f"expected a column, got {parsed}")
    return column


def _as_value(parsed: _Parsed) -> Value:
    if isinstance(parsed, _Literal):
        return parsed.value
    if isinstance(parsed, Sum) and not parsed.terms:
        return parsed.constant
    raise InvalidInput(f"expected a number or a text in quotes, got {parsed}")


def _member(column: Key, values: tuple[Value, ...]) -> Relation:
    """The relation that a column has one of these values; a single number is compared."""
    values = tuple(dict.fromkeys(values))
    if len(values) == 1 and isinstance(values[0], Fraction):
        return Comparison(Sum(((column, Fraction(1)),)), "==", Sum((), values[0]))
    return Member(column, values)


def _compared(left: _Parsed, operator: str, right: _Parsed) -> Relation:
    if isinstance(left, _Literal):
        left, right = right, left
        operator = operator.translate(str.maketrans("<>", "><"))
    if not isinstance(right, _Literal):
        return Comparison(_as_sum(left), operator, _as_sum(right))
    if operator not in ("==", "!="):
        number = isinstance(right.value, str) and _IS_NUMBER.fullmatch(right.value.strip())
        way_out = f"for a number, write {right.value} without quotes" if number else "compare it with == or !="
        raise InvalidInput(f"{right} is a text, which has no order; {way_out}")
    equal = Member(_as_column(left), (right.value,))
    return equal if operator == "==" else Not(equal)


class _Parser:
    """Reads tokens from left to right; each method reads one rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def now(self) -> _Token:
        """The token that is read next."""
        return self._tokens[self._at]

    def unexpected(self, expected: str) -> InvalidInput:
        """The error that something else was expected here."""
        token = self.now
        found = "it ends" if token.kind == "end" else f"there is {token.text!r} at character {token.at + 1}"
        before = self._tokens[self._at - 1] if self._at else token
        hints = [f"; {_HINTS[text]}" for text in (token.text, before.text) if text in _HINTS]
        if before is not token and before.kind == token.kind == "name":
            hints.append(f"; a name with blanks stands in backquotes, as in `{before.text} {token.text}`")
        return InvalidInput(f"expected {expected}, but {found}{''.join(hints[:1])}")

    def _take(self, *texts: str) -> str | None:
        """Reads one of these signs and words, if it is next."""
        token = self.now
        if token.kind not in ("sign", "word", "name") or token.text not in texts:
            return None
        self._at += 1
        return token.text

    def _expect(self, *texts: str) -> str:
        found = self._take(*texts)
        if found is None:
            raise self.unexpected(" or ".join(map(repr, texts)))
        return found

    def _nested(self, rule: Callable[[], _Parsed]) -> _Parsed:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidInput(f"it is nested more than {MAX_DEPTH} deep; state it as several relations")
        parsed = rule()
        self._depth -= 1
        return parsed

    def relation(self) -> _Parsed:
        """Reads relations joined by "or", or what an inner rule reads."""
        return self._joined("or", lambda: self._joined("and", self._negation, AllOf), AnyOf)

    def _joined(self, word: str, rule: Callable[[], _Parsed], made: type[AllOf] | type[AnyOf]) -> _Parsed:
        parts = [rule()]
        while self._take(word):
            parts.append(rule())
        return parts[0] if len(parts) == 1 else made(tuple(map(_as_relation, parts)))

    def _negation(self) -> _Parsed:
        if self._take("not"):
            return Not(_as_relation(self._nested(self._negation)))
        return self._comparison()

    def _comparison(self) -> _Parsed:
        first = self._sum()
        if self._take("is"):
            denied = self._take("not") is not None
            missing = Missing(_as_column(first))
            return missing if (self._expect("missing", "present") == "missing") != denied else Not(missing)
        if self._take("in"):
            return _member(_as_column(first), self._values())
        if self._take("not"):
            self._expect("in")
            return Not(_member(_as_column(first), self._values()))
        compared: list[Relation] = []
        while operator := self._take(*_ORDERS):
            second = self._sum()
            compared.append(_compared(first, operator, second))
            first = second
        if not compared:
            return first
        return compared[0] if len(compared) == 1 else AllOf(tuple(compared))

    def _values(self) -> tuple[Value, ...]:
        if self.now.text == "(" and self._tokens[self._at + 1].text == ")":
            raise InvalidInput("there is nothing in the parentheses; list at least one value")
        return tuple(map(_as_value, self._listed(self._sum)))

    def _listed(self, rule: Callable[[], _Parsed]) -> list[_Parsed]:
        """Reads a list in parentheses."""
        self._expect("(")
        found = [self._nested(rule)]
        while self._expect(",", ")") == ",":
            found.append(self._nested(rule))
        return found

    def _sum(self) -> _Parsed:
        parsed = self._product()
        while sign := self._take("+", "-"):
            second = _as_sum(self._product())
            parsed = _as_sum(parsed) + second if sign == "+" else _as_sum(parsed) - second
        return parsed

    def _product(self) -> _Parsed:
        parsed = self._factor()
        while sign := self._take("*", "/"):
            left, right = _as_sum(parsed), _as_sum(self._factor())
            if right.terms and (left.terms or sign == "/"):
                raise InvalidInput(
                    f"({left}) {sign} ({right}) is not linear; only sums of columns, times numbers, are compared"
                )
            if sign == "/" and right.constant == 0:
                raise InvalidInput(f"{left} is divided by 0")
            by_left = sign == "*" and bool(right.terms)
            parsed = (
                right * left.constant if by_left else left * (right.constant if sign == "*" else 1 / right.constant)
            )
        return parsed

    def _factor(self) -> _Parsed:
        negative, signed = False, False
        while sign := self._take("-", "+"):
            negative, signed = negative != (sign == "-"), True
        parsed = self._primary()
        return _as_sum(parsed) * Fraction(-1 if negative else 1) if signed else parsed

    def _primary(self) -> _Parsed:
        token = self.now
        if token.kind == "number":
            self._at += 1
            return Sum((), parse_decimal(token.text, "the number"))
        if token.kind == "text":
            self._at += 1
            return _Literal(token.text[1:-1].replace(token.text[0] * 2, token.text[0]))
        if flag := self._take("True", "False"):
            return _Literal(flag == "True")
        if self._take("("):
            parsed = self._nested(self.relation)
            self._expect(")")
            return parsed
        if token.kind == "name" and self._tokens[self._at + 1].text == "(":
            self._at += 1
            return self._call(token.text)
        return Sum(((self._column(), Fraction(1)),))

    def _column(self) -> Key:
        token = self.now
        if token.kind == "name":
            self._at += 1
            return token.text
        if token.kind == "quoted":
            self._at += 1
            return token.text[1:-1].replace("``", "`")
        if not self._take("["):
            raise self.unexpected("a column, a number or a text")
        position = self.now
        if position.kind != "number" or not position.text.isdecimal() or len(position.text) > 9:
            raise self.unexpected("a position, as in [3]")
        self._at += 1
        self._expect("]")
        return int(position.text)

    def _call(self, name: str) -> Relation:
        if name in ("one_of", "at_most_one"):
            return self._group(name)
        if name not in ("implies", "any_of", "all_of", "not_"):
            raise InvalidInput(
                f"there is no function {name}; there are implies, any_of, all_of, not_, one_of and at_most_one"
            )
        parts = tuple(map(_as_relation, self._listed(self.relation)))
        wanted = {"implies": 2, "not_": 1}.get(name, len(parts))
        if len(parts) != wanted:
            raise InvalidInput(f"{name} takes {wanted} relation{'s' * (wanted > 1)}, got {len(parts)}")
        if name == "implies":
            return Implies(*parts)
        if name == "not_":
            return Not(parts[0])
        if len(parts) == 1:
            return parts[0]
        return AllOf(parts) if name == "all_of" else AnyOf(parts)

    def _group(self, kind: str) -> Relation:
        self._expect("(")
        columns: list[Key] = []
        name: str | None = None
        while True:
            if self.now.text == "name" and self._tokens[self._at + 1].text == "=":
                self._at += 2
                value = _as_value(self._primary())
                if not isinstance(value, str):
                    raise InvalidInput(f"the name of a group is a text in quotes, got {value}")
                name = value
                self._expect(")")
                break
            columns.append(self._column())
            if self._expect(",", ")") == ")":
                break
        return Group(tuple(columns), kind == "one_of", name)
