"""The cheapest columns that hit sets of columns, while more and more of these sets come to be known.

A set is hit if one of its columns is chosen. What must be hit is not known at first, and there may be very many sets;
so columns are proposed that hit all that is known, from the cheapest on, and whoever asked names a set that they miss,
until there is none. Nothing that costs less was left out then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

NODES = 2**12
"""Nodes between two looks at the clock."""

Columns: TypeAlias = npt.NDArray[np.bool_]
"""(n_columns,): which are in a set."""


class HittingSets:
    """Proposes columns; sets of one of `n_rows` rows are all to be hit, but for those of `may_miss` rows.

    `costs` (n_columns,) are whole numbers of at least 1.

    >>> hitting = HittingSets(np.ones(3, dtype=np.int64))
    >>> for some in ([True, True, False], [False, True, True]):
    ...     hitting.add(np.array(some))
    >>> hitting.propose(lambda: False).tolist(), hitting.least
    ([False, True, False], 1)
    """

    def __init__(self, costs: npt.NDArray[np.int64], n_rows: int = 1, may_miss: int = 0) -> None:
        from treeproof._kernels.explanations.hitting import ROW, STATE, Path, Scratch, Sets

        n = len(costs)
        self.n_words, self._n = (n + 63) // 64 or 1, n
        self._state = np.zeros(1, dtype=STATE)
        self._state["may_miss"] = may_miss
        self._sets = Sets(self._masks(16), np.zeros(16, dtype=np.int64), np.zeros(16, dtype=np.int64), costs)
        self._path = Path(
            self._masks(n + 2), self._masks(n + 2), np.zeros(n + 2, dtype=np.int64),
            np.zeros((n + 2, 16), dtype=np.int32), np.zeros(n + 2, dtype=np.int64),
        )  # fmt: skip
        rows = n_rows if may_miss else 1
        self._scratch = Scratch(
            np.zeros(rows, dtype=ROW),
            self._masks(rows),
            self._masks(rows),
            np.zeros(n, dtype=np.int64),
            np.zeros(n, bool),
        )
        self.sums = np.zeros(n, dtype=np.int64)
        """(n_columns,) how many of the sets each column is in."""
        self._begin(0)

    def _masks(self, n: int) -> npt.NDArray[np.uint64]:
        """No columns, n times."""
        return np.zeros((n, self.n_words), dtype=np.uint64)

    def _begin(self, limit: int) -> None:
        """Starts again at the root, with what columns may cost."""
        from treeproof._kernels.explanations.hitting import NEVER

        self._state["depth"], self._state["limit"], self._state["beyond"] = 0, limit, NEVER
        path = self._path
        path.chosen[0] = path.excluded[0] = path.spent[0] = 0
        path.missed[0, : len(self)], path.n_missed[0] = np.arange(len(self)), len(self)

    @property
    def least(self) -> int:
        """No columns that hit enough cost less."""
        return int(self._state["limit"][0])

    def __len__(self) -> int:
        return int(self._state["n_sets"][0])

    def add(self, columns: Columns, row: int = 0) -> None:
        """Names another set of a row."""
        from treeproof._kernels.explanations.hitting import take_in

        at = len(self)
        if at == len(self._sets.owner):
            words, owner = (np.concatenate((part, np.zeros_like(part))) for part in self._sets[:2])
            self._sets = self._sets._replace(words=words, owner=owner, size=np.zeros(2 * at, dtype=np.int64))
            missed = np.concatenate((self._path.missed, np.zeros_like(self._path.missed)), axis=1)
            self._path = self._path._replace(missed=missed)
        bits = np.zeros(64 * self.n_words, dtype=bool)
        bits[: self._n] = columns
        self._sets.words[at] = np.packbits(bits, bitorder="little").view("<u8")
        self._sets.owner[at] = row
        self.sums += columns
        self._state["n_sets"] += 1
        take_in(self._state, self._sets, self._path, at)

    def propose(self, is_over: Callable[[], bool], below: int | None = None) -> Columns | None:
        """Columns that cost `least` or less, and hit enough of what is known; None: time is up, or nothing is `below`.

        The same ones come again unless a set that they miss is added.
        """
        from treeproof._kernels.explanations.hitting import CANDIDATE, EXHAUSTED, go_on

        while below is None or self.least < below:
            if is_over():
                return None
            found = go_on(self._state, self._sets, self._path, self._scratch, NODES)
            if found == CANDIDATE:
                chosen = self._path.chosen[self._state["depth"][0]]
                return np.unpackbits(chosen.astype("<u8").view(np.uint8), bitorder="little")[: self._n].astype(bool)
            if found == EXHAUSTED:
                self._begin(int(self._state["beyond"][0]))
        return None
