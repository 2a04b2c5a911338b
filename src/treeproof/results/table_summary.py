"""What a table of any size adds up to: counts of rows, and the measures they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeproof.results.measures import Measures, classes_in_words, measures_in_short
from treeproof.results.relation_words import broken_in_words, relation_in_short
from treeproof.results.verification import Verification, assumed_in_short, names_of
from treeproof.threat.reached import InVain
from treeproof.threat.relations import Relation

FORMATS = ("parquet", "csv")
"""What the files of a table's verdicts can be."""


@dataclass(frozen=True, eq=False)
class TableSummary(Measures):
    """What `verify_table` returns: the measures over all rows whose verdicts are in `out`, not the rows themselves."""

    out: Path
    """The folder with the verdicts."""
    classes: tuple[Any, ...]
    """The labels that the model can predict."""
    seconds: float
    """How long it took, earlier runs included."""
    complete: bool = True
    """Whether every row has a verdict in `out`; if not, `resume=True` goes on."""
    interrupted: bool = False
    """Whether Ctrl-C ended the work."""
    epsilon_names: tuple[str, ...] | None = None
    """Names for the neighbourhoods, if their numbers alone say too little."""
    feature_names: tuple[str, ...] | None = None
    movable: tuple[int, ...] = ()
    """The columns that the attacker can move, by position."""
    actors: tuple[Any, ...] | None = None
    """The classes whose rows are attacked; the others count by accuracy alone. None stands for all classes."""
    relations: tuple[Relation, ...] = ()
    """What neighbours and attacked rows keep, as it was stated."""

    @property
    def in_vain(self) -> InVain:
        """The columns that no move brings to a threshold of the model, from any of the rows."""
        return InVain.of_counts(self.counts, self.rows, self.movable)

    @property
    def rows_that_break(self) -> int:
        """The number of rows that break the relations themselves; the files have them in the column `breaks`."""
        return self.counts.get("broken", 0)

    @property
    def broken_in_words(self) -> str | None:
        """How many rows break the relations, and how many of them the one that most break; None if all keep them."""
        if not self.rows_that_break:
            return None
        most, k = max((self.counts.get(f"breaks {k}", 0), -k) for k in range(len(self.relations)))
        example = f"{most:,} of them {relation_in_short(self.relations[-k])}"
        return broken_in_words(self.rows_that_break, self.rows, example)

    @property
    def by_class(self) -> dict[Any, Measures]:
        """The measures over the rows of each class, by their true label, for the classes that have rows."""
        found = {}
        for k, label in enumerate(self.classes):
            begins = _of_class(k, "")
            counts = {name.removeprefix(begins): n for name, n in self.counts.items() if name.startswith(begins)}
            if counts:
                found[label] = Measures(counts, self.epsilons)
        return found

    @property
    def names_of_epsilons(self) -> list[str]:
        """Short names of the neighbourhoods, as `Verification` has them."""
        return names_of(self.epsilons, self.epsilon_names, self.feature_names)

    def __repr__(self) -> str:
        parts = measures_in_short(self, self.names_of_epsilons) + assumed_in_short(self)
        parts += ["interrupted"] * self.interrupted + ["not complete"] * (not self.complete)
        return f"TableSummary({', '.join(parts)}{classes_in_words(self.by_class)})"


def counts_of(result: Verification, classes: list[Any]) -> dict[str, int]:
    """What is counted of some rows, in all and of each class; the counts of several results add up."""
    found = dict(result.measures.counts)
    for label, one in result.by_class.items():
        found |= {_of_class(classes.index(label), name): n for name, n in one.counts.items()}
    if result.in_vain is not None:
        found |= result.in_vain.counts(len(result))
    if result.relations:
        found["broken"] = result.rows_that_break
        found |= {f"breaks {k}": len(rows) for k, rows in enumerate(result.breakers)}
    return found


def _of_class(k: int, what: str) -> str:
    """What a count is called that is about the rows of one class."""
    return f"class {k} {what}"
