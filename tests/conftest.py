"""What tests of several rooms need."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.clock import clock, interrupts

__all__ = ["clock", "ctrl_c", "interrupts"]

if "PYTEST_XDIST_WORKER" in os.environ:
    # Every core has tests to run; threads of OpenMP that wait for one another would take them away, spinning.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT as in a terminal, also where the tests run in the background, with it switched off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
