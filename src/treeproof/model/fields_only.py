"""Objects that travel to other processes as what they were made of, whatever they have computed since."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class FieldsOnly:
    """A dataclass that is pickled and copied without what it keeps for later calls; that is computed again there."""

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
