"""What is proposed, as a person reads it and picks from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from treeproof.errors import InvalidInput
from treeproof.threat.relations.expressions import Relation
from treeproof.visible import visible

MOST_SHOWN = 120
"""Characters of a line that are shown of one proposal."""


@dataclass(frozen=True)
class Suggestion:
    """Something that holds in every row, and what speaks for it."""

    kind: str
    relations: tuple[str, ...]
    """The texts that say it, to be given to `relations=`."""
    rows: int
    """How many rows speak for it; none speaks against it."""
    expected: float
    """How many of them would be exceptions if the columns had nothing to do with each other."""
    summary: str = ""
    """What it says in a few words, if that takes several relations."""

    @classmethod
    def of(cls, kind: str, relations: Iterable[Relation], rows: int, likely: float, summary: str = "") -> Suggestion:
        """A suggestion that would hold with the chance `likely` in each of these rows."""
        return cls(kind, tuple(map(str, relations)), rows, rows * (1 - likely), summary)

    @property
    def support(self) -> str:
        """What speaks for it, in words."""
        return f"{self.rows:,} rows without exception; by chance there would be {self.expected:,.0f}"

    @property
    def text(self) -> str:
        """What it says, on one line."""
        return self.summary or "; ".join(self.relations)


class Suggestions(Sequence[Suggestion]):
    """Proposed relations, the best first: look at them, and accept those that you know to hold.

    Nothing is used unless it is given to `relations=`: `suggestions.accept(0, 2)` are the relations of the first and
    the third proposal, `suggestions[:5].relations` those of the first five.
    """

    HEAD = ("", "holds in every row", "rows", "exceptions by chance")

    def __init__(
        self, found: Sequence[Suggestion], n_rows: int, left_out: int = 0, notes: tuple[str, ...] = ()
    ) -> None:
        self._found, self.n_rows, self.left_out, self.notes = list(found), n_rows, left_out, notes

    @property
    def relations(self) -> list[str]:
        """All relations, for `relations=`."""
        return [relation for one in self._found for relation in one.relations]

    def accept(self, *numbers: int) -> list[str]:
        """The relations of the proposals with these numbers, for `relations=`."""
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(self):
                raise InvalidInput(f"there is no suggestion {number!r}; they have the numbers 0 to {len(self) - 1}")
        return [relation for number in numbers for relation in self._found[number].relations]

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Suggestion: ...
    @overload
    def __getitem__(self, index: slice) -> Suggestions: ...
    def __getitem__(self, index: int | slice) -> Suggestion | Suggestions:
        if isinstance(index, slice):
            return Suggestions(self._found[index], self.n_rows, self.left_out, self.notes)
        return self._found[index]

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self._found)

    @property
    def lines(self) -> list[tuple[str, str, str, str]]:
        """A table of number, proposal, rows that speak for it, and exceptions that chance would make."""
        return [(str(i), shown(one.text), f"{one.rows:,}", f"{one.expected:,.0f}") for i, one in enumerate(self._found)]

    @property
    def remark(self) -> str:
        """What somebody should know who reads the table."""
        more = f" {self.left_out} weaker ones are left out." if self.left_out else ""
        if not self._found:
            return f"Nothing holds in all of {self.n_rows:,} rows that could not be an accident."
        return (
            f"These hold in all of {self.n_rows:,} rows.{more} That no row breaks a relation does not mean that none "
            "can: accept those that you know to hold."
        )

    def __repr__(self) -> str:
        table = [in_columns(self.HEAD, self.lines)] if self._found else []
        return "\n".join([*table, self.remark, *self.notes])


def shown(text: str) -> str:
    """The text, harmless and not too long."""
    text = visible(text)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 2]} …"


def in_columns(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in plain text: numbers to the right, everything else to the left."""
    body = [tuple(head), *lines]
    width = [max(len(line[i]) for line in body) for i in range(len(head))]
    right = [i > 0 and all(line[i][:1].isdigit() for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(size) if flush else cell.ljust(size)
            for cell, size, flush in zip(line, width, right, strict=True)
        ).rstrip()
        for line in body
    )
