"""Attackers and relations that a table suggests, for a person to look at."""

from treeproof.threat.suggest.attackers import AttackerSuggestion, suggest_attacker
from treeproof.threat.suggest.relations import suggest_relations
from treeproof.threat.suggest.suggestions import Suggestion, Suggestions

__all__ = ["AttackerSuggestion", "Suggestion", "Suggestions", "suggest_attacker", "suggest_relations"]
