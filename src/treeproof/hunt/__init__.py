"""The exact level at which each row breaks: what grows with the level, and the hunt for the lowest one."""

from treeproof.hunt.lowest import Found, lowest_levels
from treeproof.hunt.question import Level
from treeproof.hunt.resilience import Resilience
from treeproof.hunt.robustness import IntervalRobustness, LpRobustness

__all__ = ["Found", "IntervalRobustness", "Level", "LpRobustness", "Resilience", "lowest_levels"]
