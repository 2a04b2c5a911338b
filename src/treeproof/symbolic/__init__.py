"""The paper's analysis: symbolic attacks, Algorithms 1 to 4; see docs/symbolic.md."""

from treeproof.symbolic.analysis import Analysis, analyze, analyze_tree, annotate
from treeproof.symbolic.attacks import Range, SymbolicAttack
from treeproof.symbolic.history import History

__all__ = ["Analysis", "History", "Range", "SymbolicAttack", "analyze", "analyze_tree", "annotate"]
