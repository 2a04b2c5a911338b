"""Columns of text, as a file has them, until somebody knows what they are."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from treeproof.model.written import number_of_text, numbers_of_texts
from treeproof.numbers.doubles import FloatArray

BETWEEN = "\0"
"""What no value has in it: readers refuse it."""


def joined(values: Sequence[str]) -> str:
    """Some values as one string."""
    block = BETWEEN.join(values)
    if block.count(BETWEEN) != len(values) - 1:
        raise csv.Error("it has a NUL")
    return block


@dataclass(frozen=True, eq=False)
class Text:
    """The values of a column as they are written; some thousand are one string, as a string each takes ten times more.

    >>> column = Text.of([["1", " 2"], ["x"]])
    >>> len(column), list(column)
    (3, ['1', ' 2', 'x'])
    """

    blocks: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, blocks: Sequence[Sequence[str]]) -> Text:
        """The column of these values."""
        return cls(tuple(map(joined, blocks)), tuple(map(len, blocks)))

    def __len__(self) -> int:
        return sum(self.sizes)

    def split(self) -> Iterator[list[str]]:
        """The values of one block after the other."""
        return (block.split(BETWEEN) for block in self.blocks)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.split())

    def tolist(self) -> list[str]:
        """All values."""
        return list(self)

    def doubles(self, decimal: str) -> FloatArray | int:
        """The numbers that are written, NaN where one is missing; or the row of the first value that is none."""
        parts = [np.empty(0)]
        for values in self.split():
            numbers = numbers_of_texts(values, decimal)
            if numbers is None:
                known = {value: number_of_text(value, decimal) for value in set(values)}
                if None in known.values():
                    row = next(i for i, value in enumerate(values) if known[value] is None)
                    return sum(map(len, parts)) + row
                numbers = np.array([known[value] for value in values], dtype=np.float64)
            parts.append(numbers)
        return np.concatenate(parts)
