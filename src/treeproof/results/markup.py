"""Small pieces of HTML for notebooks and reports; everything that comes from users is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from treeproof.visible import visible

THOUSANDTH = Decimal("0.001")


def escape(value: object) -> str:
    r"""The value as text that is harmless anywhere in HTML, attributes included.

    >>> escape("<script>"), escape("a\u202eb")
    ('&lt;script&gt;', 'a\\u202eb')
    """
    return html.escape(visible(value), quote=True)


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table of escaped cells; the first column names its row.

    >>> table(["who"], [["A & B"]]).split("<tbody>")[1]
    '<tr><th scope="row">A &amp; B</th></tr></tbody></table>'
    """
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def long_table(kind: str, head: str, lines: Sequence[str], shown: int, what: str) -> str:
    """A table of lines in HTML; those beyond the first `shown` can be opened, under their number and `what`."""

    def whole(some: Sequence[str]) -> str:
        return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{"".join(some)}</tbody></table>'

    rest = lines[shown:]
    more = f"<details><summary>{len(rest):,} {what}</summary>{whole(rest)}</details>" if rest else ""
    return whole(lines[:shown]) + more


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of names, each with what it stands for."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f"<dl>{rows}</dl>"


def first_few(parts: Sequence[str], most: int, separator: str = ", ", last: str = " and ", what: str = "more") -> str:
    """The first of some parts, and how many there are besides.

    >>> first_few(["a", "b", "c"], 3), first_few(["a", "b", "c"], 1)
    ('a, b, c', 'a and 2 more')
    """
    rest = len(parts) - most
    return separator.join(parts[:most]) + (f"{last}{rest:,} {what}" if rest > 0 else "")


def percent(share: float) -> str:
    """A share in percent with one decimal, and never 0 or 100 unless it is exactly that.

    >>> percent(0.25), percent(1.0), percent(0.99999), percent(1e-9)
    ('25.0 %', '100 %', '> 99.9 %', '< 0.1 %')
    """
    if math.isnan(share):
        return "–"
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    if share > 0.9995:
        return "> 99.9 %"
    return "< 0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"


def at_most(share: float) -> str:
    """A share with three decimals that is certainly not smaller than it is.

    >>> at_most(0.98741), at_most(0.5), at_most(1 - 1e-9)
    ('0.988', '0.500', '1.000')
    """
    return str(Decimal(repr(share)).quantize(THOUSANDTH, ROUND_CEILING))


def at_least(share: float) -> str:
    """A share with three decimals that is certainly not larger than it is.

    >>> at_least(0.9556), at_least(0.29)
    ('0.955', '0.290')
    """
    return str(Decimal(repr(share)).quantize(THOUSANDTH, ROUND_FLOOR))


def number(value: float) -> str:
    """A double for display, in at most six digits, which may be fewer than it has.

    >>> number(0.1 + 0.2), number(1234567.0), number(2.0)
    ('0.3', '1.23457e+06', '2')
    """
    return "missing" if math.isnan(value) else f"{value:.6g}"


def change(before: Any, after: Any) -> str:
    """A move, with the digits that the doubles at both ends are read back from.

    Moves often end just beyond a threshold: a rounded one may fall short of it, or go beyond the next one.

    >>> change(1.0, 2.5), change(770.0, 734.9999694824219), change(0.3, 0.1 + 0.2), change(math.nan, "radio")
    ('1 → 2.5', '770 → 734.9999694824219', '0.3 → 0.30000000000000004', 'missing → radio')
    """
    return f"{plain(before)} → {plain(after)}"


def plain(value: Any) -> str:
    """A value with all the digits that it needs to be read back, or its name."""
    if not isinstance(value, float):
        return visible(value)
    return "missing" if math.isnan(value) else repr(float(value)).removesuffix(".0")
