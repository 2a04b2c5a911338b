"""Text of cells, and what the owner of a model may mean by it: nothing here knows how treeproof reads."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from random import Random
from typing import Any

PLAIN = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
"""Numbers as Python, pandas and spreadsheets write them: these must be taken."""

LOOSE = re.compile(r"[ \t]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)
"""What pandas reads as a number besides: it may be taken, for that number, or refused."""

MISSING = frozenset(
    [
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)
"""What pandas reads as missing besides nothing at all."""

INFINITE = re.compile(r"[ ]*[+-]?inf(inity)?[ ]*", re.IGNORECASE)

HOSTILE = (
    "01234", " 1234", "1234 ", "1234.0", "1234.", "12_34", "1_234", "1.234e3", "+1234", "1234e0", "１２３４", "1,234",
    "1 234",
    "12345678901234568", "12345678901234567", "12345678901234567.0", "9007199254740993", "9007199254740992", "1e2",
    "100",
    "100.0", "1e+2", "1.1", "1.10", "01.1", "1.1 ", "+1", "1", "1.0", "01", "1e0", "-0", "0", "-0.0", "0.0", "00",
    "1e400",
    "-1e400", "1e-400", "5e-324", "inf", "-inf", "Infinity", "nan", "NaN", "NA", "None", "none", "null", "NULL", "?",
    "-",
    "<NA>", "n/a", "N/A", "#N/A", "", " ", "  ", "\t", "True", "False", "true", "TRUE", "yes", "no", "a", "a ", " a",
    "A",
    "ａ", "á", "a\u0301", "a\u00a0", "\u00a0a", "a\u200b", "\ufeffa", "b", "x,y", "x;y", 'q"q', '"q"', "'a'",
    "two\nlines",
    "two\r\nlines",
    "tab\there", "bar|bar", "2024-01-31", "2024-01-31 00:00:00", "31.01.2024", "1,5", "1.5", "0x10", "1e", "e1", "--1",
    "b'a'", "0b1", "1j", "(1)", "=1+1", "@a", "'1", "1%", "$1", "१२३४", "½", "²", "1\u00a0", "_1", "1_", "#1", "\\",
    "\\N", "e", ".", "+",
    "1.2345678901234567890123", "0.1", "0.10", ".1", "179769313486231580793e289", "2e308", "1d5", "1E5", "1e5",
    "100000",
)  # fmt: skip
"""Spellings that a reader may take for others."""

FAMILIES = (
    ("1234", "a"), ("12345678901234567", "a"), ("1.1", "1.10", "b"), ("1", "1.0", "01"), ("1e2", "100", "a"), ("a",
    "b", "none"),
    ("1234", "01234"), ("True", "False"), ("yes", "no", "none"), ("1", "2", "3"), ("0", "-0", "a"),
    ("x,y", 'q"q', "two\nlines"),
    ("2024-01-31", "2024-02-29"), ("a", "A", "á"), ("none", "NA"), ("1.5", "1,5", "a"), ("1e400", "inf"), ("+1",
    "1"), ("1_0", "10"),
    ("0.1", "0.10", "a"), ("100000", "1e5"), ("a", "a "), (" 1234", "1234"), ("a\u00a0", "a"), ("0x10", "16"), ("b",
    "e", "?"),
    ("two\r\nlines", "two\nlines"), ("a\rb", "a\nb", "ab"),
)  # fmt: skip
"""Known values of a column of text that look like one another, or like something that they are not."""

WHOLE = (
    (1, 2, 3),
    (0, 1),
    (1234, 1235, 7),
    (-1, 0, 100),
    (10, 20, 30),
    (2**53 - 1, 5),
    (2**53 + 1, 2**53, 3),
    (2**62 + 1, 4),
)


@dataclass(frozen=True)
class Meant:
    """What a cell may stand for in the owner's frame."""

    values: tuple[Any, ...]
    """Nothing: it must be refused."""
    sure: bool
    """Whether it must be taken."""


def number(text: str, decimal: str = ".") -> Meant:
    """In a column of numbers."""
    if decimal != ".":
        text = "?" if "." in text else text.replace(decimal, ".")
    if PLAIN.fullmatch(text) and math.isfinite(float(text)):
        return Meant((float(text),), abs(float(text)) < 1e38)  # some libraries make float32 of it
    if text == "":
        return Meant((math.nan,), True)
    if text.strip() in MISSING or text.strip().lower() in ("", "?", "none", "na", "nan", "null", "n/a", "<na>"):
        return Meant((math.nan,), False)
    if LOOSE.fullmatch(text) or INFINITE.fullmatch(text):
        return Meant((float(text),), False)
    return (
        Meant((float(text.strip().lower() == "true"),), False)
        if text.strip().lower() in ("true", "false")
        else Meant((), False)
    )


def word(text: str, known: tuple[Any, ...]) -> Meant:
    """In a column of text: the text itself, and nothing that looks like it."""
    if text in known:
        return Meant((text,), True)
    if text == "":
        return Meant((math.nan, None), False)
    if text.strip() in MISSING or text.strip().lower() in ("", "?", "none", "na", "nan", "null", "n/a", "<na>"):
        return Meant((math.nan, None, text), False)
    return Meant(
        (text,), text.isascii() and text.isalpha() and text.lower() not in ("true", "false", "inf", "infinity")
    )


def whole(text: str, known: tuple[Any, ...], decimal: str = ".") -> Meant:
    """In a column of whole numbers that are categories."""
    if re.fullmatch(r"-?(0|[1-9]\d*)", text, re.ASCII):
        return Meant((int(text),), int(text) in known and abs(int(text)) < 2**53)
    meant = number(text, decimal)
    exact = tuple(
        int(value) if value == value and abs(value) < 2**53 and value.is_integer() else value for value in meant.values
    )
    return Meant(exact, False)


def truth(text: str) -> Meant:
    """In a column of truth values."""
    if text in ("True", "False"):
        return Meant((text == "True",), True)
    meant = number(text)
    if text.strip().lower() in ("true", "false"):
        return Meant((text.strip().lower() == "true",), False)
    return Meant(tuple(bool(v) if v in (0.0, 1.0) else v for v in meant.values), False)


def spelled(value: float, random: Random, decimal: str = ".") -> str:
    """A number in one of its plain spellings, which all are this very double."""
    forms = [repr(value), f"{value:.17g}", f"{value:.17e}", f"{value:.20f}" if abs(value) > 1e-3 else repr(value)]
    if value.is_integer() and abs(value) < 1e15:
        forms += [str(int(value)), f"{value:.1f}", f"{value:.3f}"]
    fit = [form for form in forms if PLAIN.fullmatch(form) and float(form) == value]
    return (random.choice(fit) if fit else repr(value)).replace(".", decimal)
