"""How many proofs of a result were checked, and by whom."""

from __future__ import annotations

from typing import Any, NamedTuple

from treeproof.errors import InvalidInput
from treeproof.visible import visible


class ProofCounts(NamedTuple):
    """Of how many proved rows the proofs were checked, were rejected, or could not be checked."""

    checked: int
    rejected: int
    unchecked: int
    version: str
    """Of the checker."""

    @property
    def proved(self) -> int:
        """The number of rows of which anything is proved."""
        return self.checked + self.rejected + self.unchecked

    @property
    def in_short(self) -> str:
        """The same in a few words."""
        rejected = f", {self.rejected} rejected" if self.rejected else ""
        return f"proofs of {self.checked} of {self.proved} rows checked{rejected}"

    @property
    def in_words(self) -> str:
        """The same in a sentence."""
        said = f"The proofs of {self.checked:,} of {self.proved:,} proved rows were checked by treeproof "
        said += visible(self.version)
        said += f"; {self.rejected:,} do not hold" if self.rejected else ""
        return said + (f"; {self.unchecked:,} have no proof that could be checked." if self.unchecked else ".")

    @classmethod
    def from_json(cls, content: Any) -> ProofCounts | None:
        """What a result file says; None if it says nothing."""
        if content is None:
            return None
        if not isinstance(content, dict) or content.keys() != set(cls._fields):
            raise InvalidInput(f"proofs must have {', '.join(cls._fields)}, got {content!r}")
        found = cls(**content)
        if any(type(n) is not int or n < 0 for n in found[:3]) or not isinstance(found.version, str):
            raise InvalidInput(f"proofs must have numbers from 0 on and a version, got {content!r}")
        return found
