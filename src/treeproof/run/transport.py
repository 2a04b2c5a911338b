"""How a model travels to workers."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
import threading
from collections import OrderedDict
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble

MOST_ARRIVED = 4
"""How many models a worker process keeps for the tasks to come."""


class Carried:
    """A model on its way to workers. Threads share it; each process gets and unpacks it once, without its source.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from treeproof import from_model
    >>> here = Carried(from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])))
    >>> there, again = (pickle.loads(pickle.dumps(here)) for _ in range(2))
    >>> there is again, there.ensemble.source is None
    (True, True)
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble

    @cached_property
    def _packed(self) -> tuple[bytes, npt.NDArray[np.uint8]]:
        # One large array: joblib maps it into the memory of its processes instead of copying it.
        content = pickle.dumps(self.ensemble.without_source(), protocol=5)
        return hashlib.sha256(content).digest(), np.frombuffer(content, dtype=np.uint8)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, self._packed

    def __sizeof__(self) -> int:
        # Dask sends an argument to its workers once, instead of with every task, if it says that it is large.
        values = [getattr(self.ensemble, field.name) for field in dataclasses.fields(self.ensemble)]
        return object.__sizeof__(self) + sum(value.nbytes for value in values if isinstance(value, np.ndarray))


_arrived: OrderedDict[bytes, Carried] = OrderedDict()
_arriving = threading.Lock()


def _arrive(digest: bytes, content: npt.NDArray[np.uint8]) -> Carried:
    """The model in a worker process: the one that is here already, so that its search tables are made only once."""
    with _arriving:
        if digest not in _arrived:
            _arrived[digest] = Carried(pickle.loads(content.data))
        _arrived.move_to_end(digest)
        while len(_arrived) > MOST_ARRIVED:
            _arrived.popitem(last=False)
        return _arrived[digest]
