"""How models, and whatever else tasks share, reach workers: once per process."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

MAX_ARRIVED = 4
"""The number of pieces of content that a worker process keeps for later tasks."""

T = TypeVar("T")


class Carried(Generic[T]):
    """Content on its way to workers. Threads share it; each process receives and unpacks it once, without its source.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from treeproof import from_model
    >>> here = Carried(from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])))
    >>> there, again = (pickle.loads(pickle.dumps(here)) for _ in range(2))
    >>> there is again, there.content.source is None
    (True, True)
    """

    def __init__(self, content: T) -> None:
        self.content = content

    @cached_property
    def _packed(self) -> tuple[bytes, npt.NDArray[np.uint8]]:
        # The library's own model stays here: workers never need it.
        without_source = getattr(self.content, "without_source", lambda: self.content)
        # One large array: joblib maps it into the memory of its processes instead of copying it.
        content = pickle.dumps(without_source(), protocol=5)
        return hashlib.sha256(content).digest(), np.frombuffer(content, dtype=np.uint8)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, self._packed

    def __sizeof__(self) -> int:
        # Dask sends an argument to its workers once, instead of with every task, if the argument says that it is large.
        return object.__sizeof__(self) + self._packed[1].nbytes


_arrived: OrderedDict[bytes, Carried[Any]] = OrderedDict()
_arriving = threading.Lock()


def _arrive(digest: bytes, content: npt.NDArray[np.uint8]) -> Carried[Any]:
    """The content in a worker process: the copy already here, if any, so that its tables are made only once."""
    with _arriving:
        if digest not in _arrived:
            _arrived[digest] = Carried(pickle.loads(content.data))
        _arrived.move_to_end(digest)
        while len(_arrived) > MAX_ARRIVED:
            _arrived.popitem(last=False)
        return _arrived[digest]
