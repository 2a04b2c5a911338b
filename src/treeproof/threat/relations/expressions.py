"""Relations between columns as people state them: immutable, comparable, and text that parses back."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeAlias

from treeproof.errors import InvalidInput

Key: TypeAlias = str | int
"""A column: its name, or its position."""
Value: TypeAlias = Fraction | str | bool
"""What a column is compared with: an exact number, or a value of a category."""

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "True", "False"})
PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
MAX_BITS = 4096
"""Of the numerator and denominator of a number; far beyond those of all doubles."""
MAX_DEPTH = 40
"""Of relations within relations, and of parentheses in their text."""


class Relation:
    """Something that holds for a row, does not, or is unknown because a value is missing. Prints as its text.

    A row is valid unless one of the relations is false for it.
    """

    origin: ClassVar[str] = ""
    """Where it stands, for messages: a file and its line. Relations with the same text are equal all the same."""

    def with_origin(self, origin: str) -> Relation:
        """The same relation, which knows where it stands."""
        found = copy(self)
        vars(found)["origin"] = origin
        return found

    def __repr__(self) -> str:
        return str(self)

    @property
    def parts(self) -> tuple[Relation, ...]:
        """The relations that this one is made of."""
        fields = (value if isinstance(value, tuple) else (value,) for value in vars(self).values())
        return tuple(one for some in fields for one in some if isinstance(one, Relation))

    @property
    def depth(self) -> int:
        """How deep relations are nested in this one."""
        return 1 + max((part.depth for part in self.parts), default=0)

    def __post_init__(self) -> None:
        if self.depth > MAX_DEPTH:
            raise InvalidInput(f"relations are nested more than {MAX_DEPTH} deep; state them as several relations")


@dataclass(frozen=True)
class Sum:
    """Columns times exact numbers, each column once, plus a number."""

    terms: tuple[tuple[Key, Fraction], ...]
    constant: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for number in (self.constant, *(factor for _, factor in self.terms)):
            if max(abs(number.numerator), number.denominator).bit_length() > MAX_BITS:
                raise InvalidInput("a number in it has too many digits")

    @property
    def column(self) -> Key | None:
        """The column, if this is just one."""
        alone = len(self.terms) == 1 and self.terms[0][1] == 1 and self.constant == 0
        return self.terms[0][0] if alone else None

    def __add__(self, other: Sum) -> Sum:
        factors = dict(self.terms)
        for key, factor in other.terms:
            factors[key] = factors.get(key, Fraction(0)) + factor
        return Sum(tuple(factors.items()), self.constant + other.constant)

    def __mul__(self, number: Fraction) -> Sum:
        return Sum(tuple((key, factor * number) for key, factor in self.terms), self.constant * number)

    def __sub__(self, other: Sum) -> Sum:
        return self + other * Fraction(-1)

    def __str__(self) -> str:
        shown = [_term_text(key, factor) for key, factor in self.terms]
        if self.constant or not shown:
            shown.append(number_text(self.constant))
        text = shown[0]
        for term in shown[1:]:
            text += f" - {term[1:]}" if term[0] == "-" else f" + {term}"
        return text


OPPOSITES = {"<=": ">", "<": ">=", ">=": "<", ">": "<=", "==": "!=", "!=": "=="}
"""What holds where a comparison does not."""


@dataclass(frozen=True, repr=False)
class Comparison(Relation):
    """A sum of columns compared with another, exactly."""

    left: Sum
    operator: str
    right: Sum

    def __post_init__(self) -> None:
        if not self.left.terms and not self.right.terms:
            raise InvalidInput("it names no column")
        cancelled = [key for key, factor in self.difference.terms if factor == 0]
        if cancelled:
            raise InvalidInput(f"column {key_text(cancelled[0])} cancels out; leave it out")

    @property
    def difference(self) -> Sum:
        """Left minus right, to be compared with 0."""
        return self.left - self.right

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, repr=False)
class Member(Relation):
    """A column has one of these values."""

    column: Key
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return self.text("==", "in")

    def text(self, one: str, several: str) -> str:
        """The text with these words for "equals" and "is one of"."""
        shown = [value_text(value) for value in self.values]
        name = key_text(self.column)
        return f"{name} {one} {shown[0]}" if len(shown) == 1 else f"{name} {several} ({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Missing(Relation):
    """A column has no value."""

    column: Key

    def __str__(self) -> str:
        return f"{key_text(self.column)} is missing"


@dataclass(frozen=True, repr=False)
class Not(Relation):
    """The opposite of a relation; of an unknown one, unknown."""

    relation: Relation

    def __str__(self) -> str:
        if isinstance(self.relation, Member):
            return self.relation.text("!=", "not in")
        if isinstance(self.relation, Missing):
            return f"{key_text(self.relation.column)} is present"
        return f"not {_in_parentheses(self.relation)}"


@dataclass(frozen=True, repr=False)
class _Joined(Relation):
    """Relations with a word between them."""

    word: ClassVar[str]
    relations: tuple[Relation, ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(map(_in_parentheses, self.parts))


@dataclass(frozen=True, repr=False)
class AllOf(_Joined):
    """Every one of these relations."""

    word = "and"


@dataclass(frozen=True, repr=False)
class AnyOf(_Joined):
    """At least one of these relations."""

    word = "or"


@dataclass(frozen=True, repr=False)
class Implies(Relation):
    """If the one, then the other."""

    condition: Relation
    conclusion: Relation

    def __str__(self) -> str:
        return f"implies({self.condition}, {self.conclusion})"


@dataclass(frozen=True, repr=False)
class Group(Relation):
    """Columns of 0 and 1 of which exactly one, or at most one, is 1; a missing one breaks it."""

    columns: tuple[Key, ...]
    exactly: bool
    name: str | None = None

    def __post_init__(self) -> None:
        if len(self.columns) < 2:
            raise InvalidInput(f"{self.kind} takes two columns or more, got {len(self.columns)}")
        for at, key in enumerate(self.columns):
            if key in self.columns[:at]:
                raise InvalidInput(f"{self.kind} names column {key_text(key)} twice")

    @property
    def kind(self) -> str:
        """The function that makes it."""
        return "one_of" if self.exactly else "at_most_one"

    @property
    def spelled_out(self) -> Relation:
        """The same in comparisons: every column is there, and 0 or 1, one of them is 1, no two are."""
        zero, one = Fraction(0), Fraction(1)
        on = [Member(key, (one,)) for key in self.columns]
        rules: list[Relation] = [Not(Missing(key)) for key in self.columns]
        rules += [Member(key, (zero, one)) for key in self.columns]
        rules += [AnyOf(tuple(on))] * self.exactly
        rules += [Not(AllOf((a, b))) for i, a in enumerate(on) for b in on[:i]]
        return AllOf(tuple(rules))

    def __str__(self) -> str:
        named = [] if self.name is None else [f"name={value_text(self.name)}"]
        return f"{self.kind}({', '.join([*map(key_text, self.columns), *named])})"


def _in_parentheses(part: Relation) -> str:
    return f"({part})" if isinstance(part, (AllOf, AnyOf)) else str(part)


def key_text(key: Key) -> str:
    """A column as relations spell it: a name, in backquotes where it is no plain one, or `[position]`.

    >>> key_text("age"), key_text("capital-gain"), key_text(3)
    ('age', '`capital-gain`', '[3]')
    """
    if isinstance(key, int):
        return f"[{key}]"
    if PLAIN_NAME.fullmatch(key) and key not in KEYWORDS:
        return key
    return "`" + key.replace("`", "``") + "`"


def value_text(value: Value) -> str:
    """A number or a value of a category as relations spell it; a quote in a text is doubled."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return number_text(value)


def number_text(number: Fraction) -> str:
    """An exact number: a decimal where it is one that is shorter than a fraction.

    >>> [number_text(Fraction(text)) for text in ("1/4", "-30", "1/3", "1e30")]
    ['0.25', '-30', '1/3', '1e30']
    """
    fraction = str(number)
    places = _decimal_places(number.denominator)
    if places is None:
        return fraction
    digits = str(abs(number.numerator) * 10**places // number.denominator)
    short = digits.rstrip("0")
    if places == 0:
        decimal = f"{short}e{len(digits) - len(short)}" if len(digits) - len(short) > 15 else digits
    elif places <= 15:
        padded = digits.rjust(places + 1, "0")
        decimal = f"{padded[:-places]}.{padded[-places:]}"
    else:
        decimal = f"{digits}e-{places}"
    decimal = f"-{decimal}" if number < 0 else decimal
    return decimal if places <= 15 or len(decimal) < len(fraction) else fraction


def _decimal_places(denominator: int) -> int | None:
    """The decimal places of a fraction in lowest terms with this denominator; None if it is no decimal."""
    twos = (denominator & -denominator).bit_length() - 1
    fives, rest = 0, denominator >> twos
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


def _term_text(key: Key, factor: Fraction) -> str:
    name, sign = key_text(key), "-" if factor < 0 else ""
    size = number_text(abs(factor))
    if size == "1":
        return sign + name
    above, _, below = size.partition("/")
    if not below:
        return f"{sign}{size}*{name}"
    return f"{sign}{name}/{below}" if above == "1" else f"{sign}{above}*{name}/{below}"
