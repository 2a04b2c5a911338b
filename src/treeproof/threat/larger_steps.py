"""Where ε leads to no neighbour: in columns whose steps are larger."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import Any

from treeproof.model.per_feature import PerFeature, as_size
from treeproof.numbers.decimals import decimal_of
from treeproof.threat.attacker import Attacker
from treeproof.threat.moves import Steps


def in_larger_steps(
    attacker: Attacker, epsilon: Any, names: Sequence[str] | None, width: int, categories: Collection[int]
) -> list[int]:
    """The columns, out of `width`, whose steps are larger than an ε for all columns, or a list of them.

    An ε by name is refused there, and categories have no steps.
    """
    if isinstance(epsilon, dict):
        return []
    sizes = PerFeature.of_numbers(epsilon, "epsilon", as_size)
    each = sizes.values * width if sizes.shared else sizes.values
    steps = dict(_steps(attacker, list(names or ()), width))
    here = [f for f in sorted(steps.keys() - set(categories)) if 0 <= f < len(each)]
    return [f for f in here if 0 < each[f] and below(each[f], steps[f])]


def below(size: float, step: Fraction | None) -> bool:
    """Whether a step, if there is one, leads farther than ε."""
    return step is not None and math.isfinite(size) and decimal_of(size) < step


def _steps(attacker: Attacker, names: list[str], width: int) -> Iterator[tuple[int, Fraction]]:
    """The columns that have a step, and their steps; one-hot groups, which an attacker may name, have none."""
    own = attacker.intervals.map(lambda move: move.step if isinstance(move, Steps) else None)
    for given in (attacker.step, own):
        if given is None:
            continue
        keys = given.keys or range(width)
        values = given.values * width if given.shared else given.values
        for key, step in zip(keys, values, strict=False):  # files of others may say anything
            place = names.index(key) if key in names else key
            if step is not None and isinstance(place, int):
                yield place, step
