"""All parts of the fuzzer of doors, by name."""

from __future__ import annotations

from tests.support.fuzz import door_decisions, door_frames, door_saved, door_steps, door_tables, door_training

PARTS = {
    part.name: part
    for part in (
        door_tables.PART,
        door_training.PART,
        door_frames.PART,
        door_decisions.PART,
        door_saved.PART,
        door_steps.PART,
    )
}
