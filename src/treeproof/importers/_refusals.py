"""Refusals that several importers share."""

from __future__ import annotations

from treeproof.errors import InvalidInput, UnsupportedModel

MAX_SCORES = 2**28
"""Nodes times scores: beyond real models, and what a short damaged file can claim to hold."""


class WrongVoting(InvalidInput):
    """The model is fine, but does not vote as it was asked to."""


def refuse_voting(voting: object, library: str) -> None:
    """`voting` chooses how a forest votes; where scores are added up there is nothing to choose."""
    if voting is not None:
        raise WrongVoting(f"voting={voting!r} is for forests that vote; {library} adds scores up, so leave voting out")


def check_size(n_nodes: int, n_scores: int) -> None:
    """Refuses models whose score table would not fit into memory, before any of it is made."""
    if n_nodes * n_scores > MAX_SCORES:
        raise UnsupportedModel(
            f"{n_nodes} nodes with {n_scores} scores each are more than the {MAX_SCORES} numbers that are supported"
        )
