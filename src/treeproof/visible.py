"""Text that came from somebody else, made harmless to show: names, labels, origins, paths."""

from __future__ import annotations


def visible(text: object) -> str:
    r"""The text with everything that prints no character of its own escaped as in Python.

    Line breaks, terminal sequences and marks that turn the direction of writing could otherwise make one name look
    like several lines of our own.

    >>> visible("good\nrobust 1.000")
    'good\\nrobust 1.000'
    >>> visible("größer als 3 μm"), visible("\x1b[2J"), visible("a\u202eb")
    ('größer als 3 μm', '\\x1b[2J', 'a\\u202eb')
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in plain)


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and end if it is longer than `most` characters.

    >>> shortened("a" * 10 + "b" * 10, 7)
    'aaa … bbb'
    """
    return text if len(text) <= most else f"{text[: most // 2]} … {text[len(text) - most // 2 :]}"
