"""Relations between columns: their language, their files, and the clauses they become on a model."""

from __future__ import annotations

from treeproof.threat.relations.binding import bind_relations
from treeproof.threat.relations.bound import Clause, ColumnLiteral, Linear, Literal, Relations
from treeproof.threat.relations.constructors import (
    all_of,
    any_of,
    as_relations,
    at_most_one,
    implies,
    not_,
    one_of,
)
from treeproof.threat.relations.expressions import Relation
from treeproof.threat.relations.grammar import parse_relation
from treeproof.threat.relations.relation_files import read_relations

__all__ = [
    "Clause",
    "ColumnLiteral",
    "Linear",
    "Literal",
    "Relation",
    "Relations",
    "all_of",
    "any_of",
    "as_relations",
    "at_most_one",
    "bind_relations",
    "implies",
    "not_",
    "one_of",
    "parse_relation",
    "read_relations",
]
