"""The attacker and its neighbourhoods in plain language, column by column where there are not too many."""

from __future__ import annotations

import math
from collections.abc import Sequence

from treeproof.numbers.doubles import FloatArray
from treeproof.results.markup import number
from treeproof.threat.attacker import Attacker
from treeproof.threat.reached import InVain
from treeproof.threat.threat import Threat

NORMS = {1: "L1 (sum of moves)", 2: "Euclidean (L2)"}

EITHER_WAY = " either way"

MOST_NAMES = 8
"""The most columns that a sentence names."""

MOST_WHOLE = 1e15
"""Below this, every whole number is shown with all of its digits."""


def attacker_in_words(attacker: Attacker, threat: Threat, names: Sequence[str]) -> str:
    """A few sentences about what the attacker may do, to columns with these names."""
    movable = threat.movable.nonzero()[0].tolist()
    if not movable:
        return "The attacker cannot change anything."
    if threat.power is not None:
        norm = NORMS.get(threat.power, f"L{threat.power}")
        radius = quantity(threat.radius)
        sentence = f"may move {_who(movable, names)}; all moves together cover at most {radius} in {norm} distance"
        if (threat.unit[movable] != 1).any():
            sentence += f", {_units(threat, movable, names)}"
    else:
        sentence = f"may move {_moves(threat, movable, names)}{_how_many(threat, movable, names)}"
    dear = ((threat.low != 0) | (threat.high != 0)) & ~threat.movable
    said = f"The attacker {sentence}."
    if dear.any():
        said += f" Moving {columns_in_words(dear.nonzero()[0].tolist(), names)} costs more than the budget."
    if threat.still:
        still = columns_in_words(list(threat.still), names)
        said += f" Categories stay as they are, since no distance moves them: {still}."
    if attacker.domain is not None:
        said += " Values stay inside their given domain."
    return said


def sizes_in_words(sizes: FloatArray, names: Sequence[str]) -> str:
    """How far neighbours may be away: `amount by up to 50 and duration by up to 1`."""
    some = sizes.nonzero()[0].tolist()
    alike: dict[float, list[int]] = {}
    for f in some:
        alike.setdefault(float(sizes[f]), []).append(f)
    if not some:
        return "nothing moves"
    if len(alike) > 1 and len(some) > MOST_NAMES:
        return f"{_who(some, names)}, each by its own"
    return _joined([f"{_who(features, names)} by up to {quantity(size)}" for size, features in alike.items()])


def quantity(value: float) -> str:
    """A number in a sentence, with commas between thousands.

    >>> quantity(5000.0), quantity(0.1 + 0.2), quantity(1234567.0), quantity(12345.678)
    ('5,000', '0.3', '1,234,567', '12,345.7')
    """
    if not math.isfinite(value):
        return number(value)
    return f"{value:,.0f}" if value == int(value) and abs(value) < MOST_WHOLE else f"{value:,.6g}"


def _who(features: list[int], names: Sequence[str]) -> str:
    """The names of these features, unless they are all or too many."""
    return "any feature" if len(features) == len(names) > 1 else columns_in_words(features, names)


def columns_in_words(features: list[int], names: Sequence[str]) -> str:
    """The names of these features or, if they are too many, how many they are."""
    if len(features) > MOST_NAMES:
        return f"{len(features):,} of the {len(names):,} features"
    return _joined([names[f] for f in features])


def in_vain_in_words(vain: InVain, movable: int, names: Sequence[str] | None) -> list[str]:
    """Statements about the columns, out of so many `movable` ones, that the attacker moves in vain.

    >>> in_vain_in_words(InVain((1,), (0,)), 3, ["id", "car", "amount"])[0]
    '1 of the 3 columns that the attacker may move reaches no threshold of the model from any row: car'
    """
    said, of = [], f"of the {movable:,} columns that the attacker may move"
    for columns, one, many, what in (
        (vain.unreached, "reaches", "reach", "no threshold of the model from any row"),
        (vain.untested, "is", "are", "never tested by the model"),
    ):
        if columns:
            does, shown = one if len(columns) == 1 else many, _first_names(columns, names)
            said.append(f"{len(columns):,} {of} {does} {what}: {shown}")
    return said


def in_vain_in_short(vain: InVain, movable: int) -> str:
    """How many columns reach no threshold, in a few words; nothing if all do."""
    n = len(vain.unreached)
    return f"{n} of {movable} movable columns reach{'es' * (n == 1)} no threshold" if n else ""


def actors_in_words(actors: Sequence[object]) -> str:
    """Who is attacked at all."""
    return f"Only rows of class {_joined(list(map(str, actors)))} are attacked; the others count by accuracy alone."


def _first_names(columns: Sequence[int], names: Sequence[str] | None) -> str:
    """The names of the first few columns, and how many more there are."""
    shown = ", ".join(f"feature {f}" if names is None else names[f] for f in columns[:MOST_NAMES])
    return shown + (f" and {len(columns) - MOST_NAMES:,} more" if len(columns) > MOST_NAMES else "")


def _joined(parts: list[str]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _moves(threat: Threat, features: list[int], names: Sequence[str]) -> str:
    """Which features may be moved how far; those with the same reach together."""
    alike: dict[tuple[float, float], list[int]] = {}
    for f in features:
        alike.setdefault((float(threat.low[f]), float(threat.high[f])), []).append(f)
    if len(alike) == 1:
        return f"{_who(features, names)} {_how_far(*next(iter(alike)))}"
    if len(features) > MOST_NAMES:
        return f"{_who(features, names)}, each within its own interval"
    moves = [f"{columns_in_words(some, names)} {_how_far(*ends)}" for ends, some in alike.items()]
    if all(move.endswith(EITHER_WAY) for move in moves):  # once is enough
        moves = [*(move.removesuffix(EITHER_WAY) for move in moves[:-1]), moves[-1]]
    return _joined(moves)


def _how_far(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return "to any value"
    if low == -high:
        return f"by up to {quantity(high)}{EITHER_WAY}"
    if low == 0:
        return "up to any value above" if math.isinf(high) else f"up by at most {quantity(high)}"
    if high == 0:
        return "down to any value below" if math.isinf(low) else f"down by at most {quantity(-low)}"
    return f"by {quantity(low)} to {quantity(high)}"


def _how_many(threat: Threat, features: list[int], names: Sequence[str]) -> str:
    costs = [int(threat.cost[f]) for f in features]
    if len(features) == 1:
        return ""
    if threat.budget >= sum(costs):
        return ", any number of them at once"
    if set(costs) == {1}:
        return f", at most {threat.budget} of them at once" if threat.budget > 1 else ", one of them at a time"
    if len(features) > MOST_NAMES:
        return f", at a cost of {min(costs)} to {max(costs)} each, within a budget of {threat.budget}"
    each = _joined([f"{cost} for {names[f]}" for f, cost in zip(features, costs, strict=True)])
    return f", at a cost of {each}, within a budget of {threat.budget}"


def _units(threat: Threat, features: list[int], names: Sequence[str]) -> str:
    if len(features) > MOST_NAMES:
        return "each feature in its own unit"
    return f"in units of {_joined([f'{quantity(float(threat.unit[f]))} for {names[f]}' for f in features])}"
