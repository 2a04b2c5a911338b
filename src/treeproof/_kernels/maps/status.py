"""What is known of a part, as numbers: those of `results.verdicts.Status`, and what only the work in progress knows."""

from __future__ import annotations

STABLE, UNSTABLE, OPEN = 0, 1, 2

PENDING = 3
"""Every point of the box has the same reach, but bounds do not tell; the local search must."""
CUT_AGAIN = -1
"""Not a status: the box is to be cut."""
