"""Who hears of it that kernels are being compiled; needs no numba."""

from __future__ import annotations

from collections.abc import Callable

watchers: list[Callable[[int], None]] = []
"""Called with 1 when a kernel is about to be compiled or loaded, and with -1 when that has ended."""
