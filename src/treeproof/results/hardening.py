"""What hardening did to a model, and what that is worth on rows that it did not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from treeproof.results.ceilings import Ceiling
from treeproof.results.markup import at_most, escape, percent
from treeproof.results.sentences import NO_CLASSIFIER, NOT_HARDENED


class Held(NamedTuple):
    """How many of the held-out rows a model predicts right, and keeps right for sure."""

    right: int
    proved: int
    """Right and proved robust, or resilient with ε."""
    undecided: int
    """Rows predicted right that `timeout` left open; they count as not proved."""


class Stop(NamedTuple):
    """A model on the way from the trained to the hardened one."""

    passes: int
    """How often the scores of all trees had been moved."""
    right: int
    held: Held | None
    """None: too few rows were right, so nothing was proved."""


@dataclass(frozen=True, eq=False)
class Hardening:
    """What `harden` did: counts of held-out rows before and after, and what was changed."""

    before: Held
    after: Held
    n_rows: int
    """Held-out rows, by which the model was chosen."""
    n_fitted: int
    """Rows that scores were fitted to."""
    resilient: bool
    """Whether rows had to be resilient, with ε, or robust."""
    max_loss: float
    stops: tuple[Stop, ...]
    n_leaves: int
    rescored: int
    """Leaves that have other scores now."""
    kind: str
    """The type of what is returned."""
    ceiling: Ceiling | None
    """What no classifier can pass on the held-out rows; None where that is not known."""
    why: str = ""
    """Why that is an Ensemble, if the model was none."""

    @property
    def changed(self) -> bool:
        """Whether anything helped; if not, the model predicts what it did."""
        return self.rescored > 0

    @property
    def accuracy(self) -> tuple[float, float]:
        """The share of held-out rows that were predicted right before, and are now."""
        return self.before.right / self.n_rows, self.after.right / self.n_rows

    @property
    def proved(self) -> tuple[float, float]:
        """The share of held-out rows that were proved robust (resilient) before, and are now."""
        return self.before.proved / self.n_rows, self.after.proved / self.n_rows

    def in_words(self) -> str:
        """What happened, and what the numbers are worth, in a few sentences."""
        what = "resilience" if self.resilient else "robustness"
        held = f"{self.n_rows:,} held-out rows"
        if not self.changed:
            said = (
                f"{NOT_HARDENED.format(what=what, held=held)}, at a loss of "
                f"accuracy of at most {percent(self.max_loss)}. The model is as it was: {what} "
                f"{percent(self.proved[0])}, accuracy {percent(self.accuracy[0])}."
            )
        else:
            said = (
                f"{what.capitalize()} {percent(self.proved[0])} → {percent(self.proved[1])}, accuracy "
                f"{percent(self.accuracy[0])} → {percent(self.accuracy[1])}, on {held}; {self.rescored:,} of "
                f"{self.n_leaves:,} leaves have other scores, fitted to {self.n_fitted:,} other rows. These rows chose "
                f"among {len(self.stops)} models, so measure on rows that had no part in this."
            )
        if self.ceiling is not None:
            most = f"{percent(float(at_most(self.ceiling.accuracy)))} of the held-out rows"
            said += f" {NO_CLASSIFIER.format(holds=self.ceiling.holds, most=most)}."
        if self.before.undecided or self.after.undecided:
            said += (
                f" Undecided within the timeout, counted as not proved: {self.before.undecided:,} rows before, "
                f"{self.after.undecided:,} after."
            )
        if self.why:
            said += f" The result is an Ensemble: {self.why}."
        return said

    def __str__(self) -> str:
        return self.in_words()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<p>{escape(self.in_words())}</p>"

    def __repr__(self) -> str:
        name = "resilience" if self.resilient else "robustness"
        parts = [
            f"{name} {self.proved[0]:.4f} → {self.proved[1]:.4f}",
            f"accuracy {self.accuracy[0]:.4f} → {self.accuracy[1]:.4f}",
            f"{self.n_rows} held-out rows",
            f"{self.rescored} of {self.n_leaves} leaves rescored",
            self.kind,
        ]
        return f"Hardening({'; '.join(parts)})"
