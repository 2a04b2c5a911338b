"""All parts of the fuzzer of doors, by name."""

from __future__ import annotations

from tests.support.fuzz import door_frames, door_steps, door_tables

PARTS = {part.name: part for part in (door_tables.PART, door_frames.PART, door_steps.PART)}
