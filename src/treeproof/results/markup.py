"""Small pieces of HTML for notebooks and reports; everything that comes from users is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

from treeproof.visible import visible


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


def number(value: float) -> str:
    """A double for display, in at most six digits, which may be fewer than it has.

    >>> number(0.1 + 0.2), number(1234567.0), number(2.0)
    ('0.3', '1.23457e+06', '2')
    """
    return "missing" if math.isnan(value) else f"{value:.6g}"


def change(before: Any, after: Any) -> str:
    """A move in at most six digits, both ends rounded away from each other.

    Moves often end just beyond a threshold, and an end rounded to nearest could fall short of it.

    >>> change(1.0, 2.5), change(1.6, 1.6500000000000001), change(770.0, 734.9999694824219), change(0.3, 0.1 + 0.2)
    ('1 → 2.5', '1.6 → 1.65001', '770 → 734.999', '0.3 → 0.300001')
    >>> change("car", "radio")
    'car → radio'
    """
    if not (isinstance(before, float) and isinstance(after, float)):
        return f"{visible(before)} → {visible(after)}"
    rising = after > before
    return f"{_rounded(before, up=not rising)} → {_rounded(after, up=rising)}"


def _rounded(value: float, up: bool) -> str:
    if not math.isfinite(value):
        return number(value)
    digits = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return number(float(digits.create_decimal(repr(float(value)))))
