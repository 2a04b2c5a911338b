"""What the attacker may do to one column, where that is more than an interval and a cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from treeproof.numbers.doubles import FloatArray


@dataclass(frozen=True)
class ColumnMoves:
    """Stub."""

    cost: int = 1
    costs: dict[tuple[float, float], int] | None = None
    rules: tuple = ()
    blank: int | None = None
    fill: int | None = None

    @property
    def is_flat(self) -> bool:
        return self.costs is None and not self.rules and {self.blank, self.fill} <= {None, self.cost}
