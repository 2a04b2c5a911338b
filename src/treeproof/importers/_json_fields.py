"""Fields of JSON model files, each of which is known or refused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.model.builder import check_text


def fields_of(value: Any, where: str, needed: Collection[str], optional: Collection[str] = ()) -> dict[str, Any]:
    """The object, if it has all the fields that are needed and none that treeproof does not know.

    >>> fields_of({"cut": 0.5, "base": 1}, "the rule", ["cut"])
    Traceback (most recent call last):
    treeproof.errors.UnsupportedModel: the rule has a field 'base', which treeproof does not know
    """
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be an object, got {type(value).__name__}")
    for name in needed:
        if name not in value:
            raise InvalidInput(f"{where} has no {name!r}")
    for name in value:
        if name not in needed and name not in optional:
            raise UnsupportedModel(f"{where} has a field {name[:40]!r}, which treeproof does not know")
    return value


def number_of(value: Any, where: str) -> float:
    """A number; true, false and digits in quotes are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{where} must be a number, got {value!r}")
    return float(value)


def whole_of(value: Any, where: str, least: int = 0, most: int = 2**31 - 1) -> int:
    """A whole number within bounds; true and 1.0 are none."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidInput(f"{where} must be a whole number from {least} to {most}, got {value!r}")
    return value


def flag_of(value: Any, where: str) -> bool:
    """True or false; 1 is neither."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{where} must be true or false, got {value!r}")
    return value


def text_of(value: Any, where: str) -> str:
    """Text that can be kept as it is."""
    if not isinstance(value, str):
        raise InvalidInput(f"{where} must be a string, got {value!r}")
    check_text(value, where)
    return value


def numbers_of(values: Any, where: str, check: Callable[[Any, str], Any] = number_of) -> list[Any]:
    """The list as it is, if it holds nothing but numbers; NumPy would take "1" and true for some."""
    if not isinstance(values, list):
        raise InvalidInput(f"{where} must be a list{' of numbers' * (check is not text_of)}, got {values!r}")
    for value in values:
        check(value, where)
    return values
