"""Which version of a library is installed: some tests need what older ones do not have."""

from __future__ import annotations

from types import ModuleType


def version_of(library: ModuleType) -> tuple[int, int]:
    """The first two numbers of its version: (1, 6) for 1.6.0."""
    major, minor = library.__version__.split(".")[:2]
    return int(major), int(minor)
