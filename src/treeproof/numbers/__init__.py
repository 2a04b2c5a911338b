"""Exact doubles: steps, sums, intervals, and moves between ranges."""
