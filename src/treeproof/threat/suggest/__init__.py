"""Attackers and relations that a table suggests, for a person to look at."""

from treeproof.threat.suggest.relations import suggest_relations

__all__ = ["suggest_relations"]
