"""Values as text writes them: the grammar of numbers, what stands for a missing value, which known value is meant."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.numbers.doubles import FloatArray

NUMBER = re.compile(
    r"[ \t]*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)[ \t]*", re.ASCII | re.IGNORECASE
)
"""A number as pandas reads one: ASCII digits, a point, an exponent, blanks around it; no underscores, no hex."""

MISSING_TEXT = frozenset(
    ("", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None")
)
"""What is missing in a column of categories, written exactly so, unless the model knows a value of that text."""

NO_NUMBER = frozenset({"", "na", "n/a", "<na>", "#n/a", "#na", "nan", "-nan", "null", "none", "?"})
"""What is a missing number, in lower case and without blanks around it: no number is written so."""

TRUTH = {"true": True, "false": False}
"""What Python and others write for yes and no, in lower case; as numbers, they are 1 and 0."""


def with_point(text: str, decimal: str) -> str:
    """A number's text as Python reads it; with decimal commas, a point is no part of a number.

    >>> with_point("1,5", ","), with_point("1.5", ".")
    ('1.5', '1.5')
    """
    if decimal == ".":
        return text
    if "." in text:
        raise ValueError(f"{text!r} has a point where decimals have commas")
    return text.replace(",", ".")


def number_of_text(text: str, decimal: str = ".") -> float | None:
    """The nearest double of the number that a text writes, NaN for a missing one; None if it writes none.

    >>> number_of_text(" 1e2"), number_of_text("NA"), number_of_text("1_0"), number_of_text("True")
    (100.0, nan, None, 1.0)
    """
    plain = text.strip().lower()
    if plain in NO_NUMBER:
        return math.nan
    if plain in TRUTH:
        return float(TRUTH[plain])
    try:
        pointed = with_point(text, decimal)
    except ValueError:
        return None
    return float(pointed) if NUMBER.fullmatch(pointed) else None


def numbers_of_texts(values: Sequence[str], decimal: str = ".") -> FloatArray | None:
    """All of them at once, if there are nothing but plain numbers and NaN; None means to look at them one by one."""
    if decimal != ".":
        return None
    together = "".join(values)
    if "_" in together or not together.isascii() or not together.isprintable():
        return None
    try:
        return np.array(list(map(float, values)), dtype=np.float64)
    except ValueError:
        return None


class Known:
    """Some values, and which of them a text means: the one with exactly that text, or the one number that it writes.

    Text never stands for other text: "01", "1.0" and "1 " are not "1". For numbers all of them are 1, exactly at any
    size; `True` and `False` are truth values or, where there are none, 1 and 0.

    >>> Known(["1.1", "1.10"]).place("1.10"), Known([1, 2]).place("2.0"), Known(["1"]).place("01")
    (1, 1, None)
    """

    def __init__(self, values: Iterable[Any], decimal: str = ".") -> None:
        self.values, self._decimal = list(values), decimal
        self._texts: dict[str, int] = {}
        self._exact: dict[Any, int] = {}
        self._doubles: dict[Any, int] = {}
        self._truth: dict[Any, int] = {}
        for place, value in enumerate(self.values):
            plain = value.item() if isinstance(value, np.generic) else value
            if isinstance(plain, bool):
                self._truth[plain] = place
            elif isinstance(plain, str):
                self._texts[plain] = place
            elif isinstance(plain, int):
                self._exact[plain] = place
            elif isinstance(plain, float):
                self._doubles[plain] = place

    def may_be(self, text: str) -> bool:
        """Whether a text can be a value beside the known ones: where these are no text, it must write a number."""
        return bool(self._texts) or self.is_missing(text) or number_of_text(text, self._decimal) is not None

    def is_missing(self, text: str) -> bool:
        """Whether a text that means none of them stands for a missing value."""
        return text in MISSING_TEXT or (not self._texts and text.strip().lower() in NO_NUMBER)

    def place(self, text: str) -> int | None:
        """The position of the value that a text means, None if it means none; InvalidInput if it may mean two."""
        found = {self._texts.get(text), *self._as_number(text)} - {None}
        if len(found) > 1:
            one, other = (repr(self.values[place]) for place in sorted(p for p in found if p is not None)[:2])
            raise InvalidInput(f"{text!r} may mean {one} or {other}")
        return next(iter(found), None)

    def place_of(self, value: Any) -> int | None:
        """The same for a value of any type: what is no text means the value that is equal to it."""
        if isinstance(value, str) or not isinstance(value, Hashable):
            return self.place(str(value)) if isinstance(value, str) else None
        found = [kind.get(value) for kind in (self._truth, self._exact, self._doubles)]
        if isinstance(value, (int, np.integer, np.bool_)):  # there is one way to write it
            found.append(self._texts.get(str(value)))
        places = [place for place in found if place is not None]
        return places[0] if places else None

    def _as_number(self, text: str) -> set[int | None]:
        plain = text.strip(" \t")
        truth = TRUTH.get(plain.lower())
        if truth is not None:
            return {self._truth.get(truth) if self._truth else self._exact.get(truth, self._doubles.get(truth))}
        number = number_of_text(plain, self._decimal)
        if number is None or math.isnan(number):
            return set()
        pointed = with_point(plain, self._decimal)
        double, exact = self._doubles.get(number), _exactly(pointed)
        if double is not None and pointed.lstrip("+-").isdecimal() and exact != self.values[double]:
            double = None  # a whole number that is rounded to the one that is known
        return {self._truth.get(exact), self._exact.get(exact), double}


def _exactly(number: str) -> Any:
    """The number itself, which is equal to whole numbers of any size; None if its exponent is out of all bounds."""
    try:
        exact = Decimal(number)
    except InvalidOperation:
        return None
    # The hash of a decimal takes as long as its exponent is large.
    return exact if exact.is_finite() and abs(exact.adjusted()) < 400 else None
