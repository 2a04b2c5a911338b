"""Gates for CI: shares that must be proved, of all rows or of the rows of one class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from treeproof.cli import screen
from treeproof.cli.options import listed
from treeproof.errors import InvalidInput
from treeproof.results.attacker_words import in_vain_in_words
from treeproof.results.measures import Measures
from treeproof.results.relation_words import are_doubtful
from treeproof.results.table_summary import TableSummary
from treeproof.results.verdicts import Bounds, short
from treeproof.threat.reached import InVain

if TYPE_CHECKING:
    from treeproof import Ensemble, Verification

ROBUSTNESS, RESILIENCE = "--fail-under-robustness", "--fail-under-resilience"


class Found(NamedTuple):
    """What was found: the measures of all rows and of each class, and the names of the neighbourhoods."""

    all_rows: Measures
    by_class: dict[Any, Measures]
    epsilons: list[str]
    complete: bool
    in_vain: list[str]
    """Statements about columns that the attacker moves in vain."""
    is_empty: bool
    """Whether one of them is about columns that reach no threshold: the attack is weaker than it looks."""
    broken: str | None = None
    """How many rows break the relations themselves, in words; None if none does."""
    is_doubtful: bool = False
    """Whether these are so many that the relations are more likely wrong than the rows."""
    is_resumed: bool = False
    """Whether rows were taken over from a file, as it says."""

    @classmethod
    def of(cls, result: Verification | TableSummary) -> Found:
        """What a result has found, or the summary of many."""
        vain, movable = result.in_vain or InVain(), result.movable or ()
        said = in_vain_in_words(vain, len(movable), result.feature_names) if len(result) else []
        all_rows, complete = (result, result.complete) if isinstance(result, TableSummary) else (result.measures, True)
        names, is_empty = result.names_of_epsilons, bool(said and vain.unreached)
        doubtful = are_doubtful(result.rows_that_break, all_rows.rows)
        return cls(all_rows, result.by_class, names, complete, said, is_empty, result.broken_in_words, doubtful)

    @property
    def weaknesses(self) -> list[str]:
        """Why what is proved may say less than it seems to: moves in vain, almost no valid row, rows of a file."""
        said = self.in_vain[:1] * self.is_empty + [self.broken or ""] * self.is_doubtful
        return (
            said + ["rows were taken over by --resume, unchecked: treeproof check --proofs does that"] * self.is_resumed
        )

    def rows_of(self, name: str) -> Measures:
        """The measures of the class with this name, or of all rows if there is no name."""
        by_name = {str(label): one for label, one in self.by_class.items()}
        return by_name.get(name, Measures({}, self.all_rows.epsilons)) if name else self.all_rows


@dataclass(frozen=True)
class Gates:
    """The least shares that must be proved, by the name of a class; no name stands for all rows."""

    robustness: dict[str, float]
    resilience: dict[str, float]
    strict: bool = False
    """Whether the gate is closed by columns that the attacker moves in vain, and by relations that most rows break."""

    @classmethod
    def of(cls, robustness: tuple[str, ...], resilience: tuple[str, ...], strict: bool) -> Gates:
        """The gates as users give them: `0.9`, `bad=0.7`, or several of these separated by commas."""
        return cls(_shares(robustness, ROBUSTNESS), _shares(resilience, RESILIENCE), strict)

    def check_classes(self, ensemble: Ensemble) -> None:
        """Refuses classes that the model does not have, before any work is done."""
        known = [str(label) for label in ensemble.classes.tolist()]
        for option, gates in ((ROBUSTNESS, self.robustness), (RESILIENCE, self.resilience)):
            for name in gates:
                if name and name not in known:
                    raise InvalidInput(f"{option}: the model has no class {name!r}; it has {', '.join(known)}")

    def apply(self, found: Found) -> None:
        """Ends with 1, and says why, unless everything asked for is proved."""
        missed = []
        for name, least in self.robustness.items():
            missed += _missed("robustness", name, least, found.rows_of(name).robustness, found.complete)
        for name, least in self.resilience.items():
            measured = zip(found.epsilons, found.rows_of(name).resilience_by_epsilon, strict=True)
            for epsilon, share in measured:
                missed += _missed(f"resilience at {epsilon}", name, least, share, found.complete)
        warns = (self.robustness or self.resilience) and not missed
        for weakness in found.weaknesses:
            if self.strict:
                missed.append(f"{weakness} (--strict)")
            elif warns:
                screen.say(f"WARNING    passed, but {weakness}; --strict fails then")
        for line in missed:
            screen.say(f"FAILED     {line}")
        if missed:
            raise SystemExit(1)


def _missed(measure: str, name: str, least: float, share: Bounds, complete: bool) -> list[str]:
    """Why a gate stays closed, if it does."""
    # Of the rows that are left, none is proved and none is refuted.
    known = share if complete else Bounds(0.0, 1.0)
    if known.lower >= least:
        return []
    what = f"{measure} of class {name}" if name else measure
    if math.isnan(known.lower):
        return [f"{what} is not proved to be at least {least}: no row has this label"]
    return [f"{what} {short(known)} is not proved to be at least {least}"]


def _shares(given: tuple[str, ...], option: str) -> dict[str, float]:
    """The least share for each class, and for all rows under no name."""
    shares: dict[str, float] = {}
    for part in listed(",".join(given)):
        name, _, text = part.rpartition("=")
        try:
            share = float(text)
        except ValueError:
            raise InvalidInput(f"{option} must be a share such as 0.9, or class=share,…; got {part!r}") from None
        if not 0 <= share <= 1:
            raise InvalidInput(f"{option} must be a share of the rows between 0 and 1, got {text}")
        if name.strip() in shares:
            raise InvalidInput(f"{option} has two shares for {name.strip() or 'all rows'}; give one")
        shares[name.strip()] = share
    return shares
