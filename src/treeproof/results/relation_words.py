"""Relations in plain language: what rows keep, and which rows of a test set break them."""

from __future__ import annotations

from collections.abc import Sequence

from treeproof.results.markup import first_few
from treeproof.threat.relations import Relation
from treeproof.visible import visible

MOST_RELATIONS, MOST_CHARACTERS = 4, 120
"""How many relations a sentence states, and how much of each."""

CHECK_RELATIONS = "proofs about so many such rows say little, so check the relations"


def kept_in_words(relations: Sequence[Relation]) -> str:
    """What neighbours and attacked rows keep.

    >>> from treeproof.threat.relations import as_relations
    >>> kept_in_words(as_relations("a <= b"))
    'Neighbours and attacked rows keep 1 relation: a <= b.'
    """
    return f"Neighbours and attacked rows keep {count_in_words(relations)}: {listed_in_short(relations)}."


def count_in_words(relations: Sequence[Relation]) -> str:
    """How many relations there are."""
    return f"{len(relations)} {'relation' if len(relations) == 1 else 'relations'}"


def listed_in_short(relations: Sequence[Relation]) -> str:
    """The first few relations, each cut if it is long."""
    return first_few(list(map(relation_in_short, relations)), MOST_RELATIONS, "; ", "; and ")


def open_in_words(rows: int, power: int | None) -> str:
    """Why rows may stay open under relations, other than for lack of time; `power` is that of an Lp attacker.

    >>> open_in_words(1, 2).partition(":")[0]
    '1 row is open. More time may not help'
    """
    why = "where sums of columns without a step only nearly fit doubles; give these columns a step"
    if power is not None and power > 1:
        why += f", and where an L{power} distance meets relations between columns; ask with costs or L1"
    return f"{rows:,} {'row is' if rows == 1 else 'rows are'} open. More time may not help: rows stay open {why}."


def relation_in_short(relation: Relation) -> str:
    """One relation, cut if it is long."""
    text = visible(str(relation))
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def broken_in_short(rows: int) -> str:
    """How many rows break the relations, in a few words."""
    return f"{rows:,} {'row breaks' if rows == 1 else 'rows break'} the relations"


def are_doubtful(rows: int, of: int) -> bool:
    """Whether relations that so many rows break are more likely wrong than the rows: more than half of them do."""
    return 2 * rows > of


def broken_in_words(rows: int, of: int, example: str) -> str:
    """How many rows break the relations themselves, with an example, and what is then said of them.

    >>> broken_in_words(2, 90, "row 7: a <= b").partition(":")[0]
    '2 of 90 rows break the relations themselves (row 7'
    """
    breaks = "rows breaks the relations itself" if rows == 1 else "rows break the relations themselves"
    said = f"{rows:,} of {of:,} {breaks} ({example}): each may stay as it is, or become a row that keeps them"
    return f"{said}; {CHECK_RELATIONS}" if are_doubtful(rows, of) else said
