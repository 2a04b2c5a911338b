"""What was made from a model last, kept as long as the model is: calls about a few rows each would make it again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from treeproof.model.ensemble import Ensemble

MOST = 4
"""Of each model, so many are kept."""

V = TypeVar("V")


class Kept(Generic[V]):
    """Things made from models and from what a key says in full. They must not hold on to the model themselves.

    >>> from treeproof.model.builder import blank_ensemble
    >>> kept: Kept[str] = Kept()
    >>> model = blank_ensemble(1, [0, 1], None)
    >>> kept.get(model, "key", lambda: "made"), kept.get(model, "key", lambda: "made again")
    ('made', 'made')
    """

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[Ensemble, dict[Hashable, V]] = WeakKeyDictionary()

    def get(self, ensemble: Ensemble, key: Hashable, make: Callable[[], V]) -> V:
        """What is kept for a model and a key, or else what is made now."""
        mine = self._of.setdefault(ensemble, {})
        if key in mine:
            return mine[key]
        made = make()
        # Others may look at the same time: what they have is never changed, only replaced.
        self._of[ensemble] = dict([*mine.items(), (key, made)][-MOST:])
        return made
