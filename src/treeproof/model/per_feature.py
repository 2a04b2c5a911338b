"""Settings that users give once for all features, one per feature, or by feature name or index."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class PerFeature(Generic[T]):
    """One value for all features (`shared`), one per feature, or one per key of `keys`."""

    values: tuple[T, ...]
    keys: tuple[int | str, ...] | None = None
    shared: bool = False

    @classmethod
    def of_numbers(cls, given: Any, what: str, parse: Callable[[Any, str], T]) -> PerFeature[T]:
        """Reads one number, a list of numbers, or {feature: number}; `parse` checks each, named for messages."""
        return cls.of(given, what, parse, lambda value: not isinstance(value, (list, tuple)))

    @classmethod
    def of_pairs(cls, given: Any, what: str, parse: Callable[[Any, str], T]) -> PerFeature[T]:
        """Reads one pair, a list of pairs, or {feature: pair}."""
        return cls.of(given, what, parse, lambda value: not _is_list_of_lists(value))

    @classmethod
    def of(cls, given: Any, what: str, parse: Callable[[Any, str], T], is_one: Callable[[Any], bool]) -> PerFeature[T]:
        """Reads what `is_one` takes for one value, a list of such, or {feature: value}."""
        if isinstance(given, PerFeature):
            return given
        if hasattr(given, "to_dict") and hasattr(given, "index"):
            given = given.to_dict()  # a pandas Series, by its index
        if isinstance(given, Mapping):
            if not given:
                raise InvalidInput(f"{what}: the mapping names no features")
            keys = tuple(as_key(key, what) for key in given)
            return cls(tuple(parse(value, f"{what} of feature {key!r}") for key, value in given.items()), keys)
        if hasattr(given, "tolist"):
            given = given.tolist()
        if is_one(given):
            return cls((parse(given, what),), shared=True)
        if not given:
            raise InvalidInput(f"{what}: the list is empty")
        return cls(tuple(parse(value, f"{what} of feature {f}") for f, value in enumerate(given)))

    @property
    def n_features(self) -> int | None:
        """The number of features that a list was given for; None for one value or a mapping."""
        return None if self.shared or self.keys is not None else len(self.values)

    def map(self, change: Callable[[T], U]) -> PerFeature[U]:
        """The same shape with every value changed."""
        return PerFeature(tuple(change(value) for value in self.values), self.keys, self.shared)

    def bind(self, ensemble: Ensemble, default: T) -> list[T]:
        """One value per feature of the model; `default` where a mapping names none."""
        if self.shared:
            return [self.values[0]] * ensemble.n_features
        if self.keys is None:
            return list(self.values)
        bound = [default] * ensemble.n_features
        seen: dict[int, int | str] = {}
        for key, value in zip(self.keys, self.values, strict=True):
            index = ensemble.feature_index(key)
            if index in seen:
                raise InvalidInput(f"features {seen[index]!r} and {key!r} are the same; name it once")
            seen[index] = key
            bound[index] = value
        return bound

    def to_json(self, convert: Callable[[T], Any] = lambda value: value) -> Any:
        """One of {"all": …}, {"each": […]}, {"by_feature": [[key, …], …]}."""
        values = [convert(value) for value in self.values]
        if self.shared:
            return {"all": values[0]}
        if self.keys is None:
            return {"each": values}
        return {"by_feature": [list(pair) for pair in zip(self.keys, values, strict=True)]}

    @classmethod
    def from_json(cls, content: Any, what: str, parse: Callable[[Any, str], T]) -> PerFeature[T]:
        """The inverse of `to_json`."""
        match content:
            case {"all": value} if len(content) == 1:
                return cls((parse(value, what),), shared=True)
            case {"each": [_, *_] as values} if len(content) == 1:
                return cls(tuple(parse(value, f"{what} of feature {f}") for f, value in enumerate(values)))
            case {"by_feature": [_, *_] as pairs} if len(content) == 1 and all(
                isinstance(pair, list) and len(pair) == 2 for pair in pairs
            ):
                keys = tuple(as_key(key, what) for key, _ in pairs)
                return cls(tuple(parse(value, f"{what} of feature {key!r}") for key, value in pairs), keys)
        raise InvalidInput(
            f"{what} must be one of {{'all': …}}, {{'each': […]}}, {{'by_feature': […]}}, got {content!r}"
        )

    def __repr__(self) -> str:
        if self.shared:
            return repr(self.values[0])
        if self.keys is None:
            return repr(list(self.values))
        return repr(dict(zip(self.keys, self.values, strict=True)))


def as_number(value: Any, where: str) -> float:
    """The number as a double; InvalidInput for anything that is not a number, and for NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidInput(f"{where} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInput(f"{where} of about 2**{int(value).bit_length()} is too large for a double") from None
    if math.isnan(number):
        raise InvalidInput(f"{where} is NaN")
    return number


def as_size(value: Any, where: str) -> float:
    """A number of at least 0."""
    number = as_number(value, where)
    if number < 0:
        raise InvalidInput(f"{where} must be at least 0, got {value!r}")
    return number


def as_pair(value: Any, where: str) -> tuple[float, float]:
    """`(low, high)` with low <= high."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise InvalidInput(f"{where} must be a pair (low, high), got {value!r}")
    low, high = (as_number(end, where) for end in value)
    if low > high:
        raise InvalidInput(f"{where} ({low}, {high}) is empty: its low end is above its high end")
    return low, high


def _is_list_of_lists(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(
        hasattr(item, "__len__") and not isinstance(item, str) for item in value
    )


def as_key(key: Any, what: str) -> int | str:
    """How users call a feature: by its name or its position."""
    if isinstance(key, np.integer):
        return int(key)
    if isinstance(key, bool) or not isinstance(key, (int, str)):
        raise InvalidInput(f"{what}: features are given by name or index, got {key!r}")
    return key
