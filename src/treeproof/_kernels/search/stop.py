"""The look at the stop token, which every loop takes that can last longer than a few hundredths of a second."""

from __future__ import annotations

from treeproof._kernels.jit import borrowing


@borrowing
def is_over(watch):
    """Whether the search was told to stop, or has looked often enough; that stays so until the row is done."""
    stop = watch.stop
    stop[1] += 1
    return stop[0] == watch.progress[0] or stop[0] < 0 or stop[1] > stop[2]
