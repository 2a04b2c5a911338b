"""What was proved, in plain language."""

from __future__ import annotations

from treeproof.results import sentences
from treeproof.results.markup import percent
from treeproof.results.verdicts import Bounds, Outcome
from treeproof.results.verification import Verification


def summary(result: Verification, shown: int) -> str:
    """The first sentences of the report, whose table shows so many of the broken rows."""
    right, robust = int(result.correct.sum()), result.robustness_outcomes
    broken = int(result.is_broken.sum())
    n_open = int((robust == Outcome.UNKNOWN).sum())
    parts = [sentences.N_RIGHT.format(right=right, rows=len(result))]
    if broken:
        how = sentences.ALL_SHOWN if shown >= broken else sentences.SOME_SHOWN.format(shown=shown)
        parts.append(sentences.N_BROKEN.format(least="at least " * bool(n_open), broken=broken, shown=how))
    elif right and not n_open:
        parts.append(sentences.NONE_BROKEN)
    if result.epsilons:
        fragile = int(((robust == Outcome.PROVED) & (result.resilience_by_epsilon[0] == Outcome.REFUTED)).sum())
        parts += [sentences.N_FRAGILE.format(fragile=fragile, near=result.names_of_epsilons[0])] * bool(fragile)
    parts += [sentences.N_OPEN.format(open=n_open)] * bool(n_open)
    return " ".join(parts)


def decided(bounds: Bounds) -> str:
    """Whether a measure is exact and, if not, how much is open."""
    if bounds.exact:
        return sentences.ALL_DECIDED
    return sentences.SOME_OPEN.format(share=percent(bounds.upper - bounds.lower))
