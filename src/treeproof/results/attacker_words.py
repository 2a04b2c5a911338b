"""The attacker and its neighbourhoods in plain language, column by column where there are not too many."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from fractions import Fraction

from treeproof.model.columns import Categories, Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.groups import category_of
from treeproof.numbers.decimals import plain_decimal
from treeproof.numbers.doubles import FloatArray
from treeproof.results.column_words import EITHER_WAY, how_far, how_it_moves, joined, quantity
from treeproof.results.markup import first_few
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import Classes
from treeproof.threat.one_hot import ValidAround, seen_by
from treeproof.threat.reached import InVain
from treeproof.threat.relations import Relations
from treeproof.threat.threat import Threat
from treeproof.visible import visible

NORMS = {1: "L1 (sum of moves)", 2: "Euclidean (L2)"}

MOST_NAMES = 8
"""The most columns that a sentence names."""


class NamesWithGroups(list[str]):
    """The names of a model's columns, and behind them those of one-hot groups."""

    def __init__(self, columns: Sequence[str], groups: Sequence[str]) -> None:
        super().__init__([*columns, *groups])
        self.n_columns = len(columns)


def attacker_in_words(attacker: Attacker, threat: Threat, names: Sequence[str], categories: Categories = ()) -> str:
    """A few sentences about what the attacker may do, to columns with these names, some of them categories."""
    movable = threat.movable.nonzero()[0].tolist()
    if not movable:
        return "The attacker cannot change anything."
    ways = _ways(threat, movable, dict(categories))
    moving = [f for f in movable if ways[f]]
    said = [_main_sentence(attacker, threat, names, ways)] if moving else []
    said += _missing_values(threat, names, "It" if moving else "The attacker")
    dear = ((threat.low != 0) | (threat.high != 0)) & ~threat.movable
    if dear.any():
        said.append(f"Moving {columns_in_words(dear.nonzero()[0].tolist(), names)} costs more than the budget.")
    if threat.still:
        still = columns_in_words(list(threat.still), names)
        said.append(f"Categories stay as they are, since no distance moves them: {still}.")
    for group, features in zip(attacker.groups, threat.groups, strict=True):
        who = columns_in_words(list(features), names)
        said.append(f"Changes of {who} ({visible(group.name)}) cost at most {group.budget} together.")
    said += _of_whole_attacker(attacker, threat, names)
    return " ".join(said)


def attacker_on_model(attacker: Attacker, ensemble: Ensemble, relations: Relations, names: Sequence[str]) -> str:
    """The same about a model whose columns have these names, and groups of them where the attacker names such."""
    seen = seen_by(attacker, ensemble, relations)
    groups = [] if seen is ensemble else list(seen.feature_names or ())[ensemble.n_features :]
    return attacker_in_words(attacker, attacker.bind(seen), NamesWithGroups(names, groups), seen.categories)


def _ways(threat: Threat, features: list[int], categories: dict[int, Category]) -> dict[int, str]:
    """How each of these features may be moved."""
    columns = dict(threat.columns)
    return {
        f: how_it_moves(columns[f], categories.get(f))
        if f in columns
        else how_far(float(threat.low[f]), float(threat.high[f]))
        for f in features
    }


def _main_sentence(attacker: Attacker, threat: Threat, names: Sequence[str], ways: dict[int, str]) -> str:
    moving = [f for f, way in ways.items() if way]
    if threat.power is None:
        return f"The attacker may move {_moves(moving, ways, names)}{_how_many(attacker, threat, moving, names)}."
    norm = NORMS.get(threat.power, f"L{threat.power}")
    far = "any" if threat.radius == sys.float_info.max else f"at most {quantity(threat.radius)} in"
    sentence = f"The attacker may move {_who(moving, names)}; all moves together cover {far} {norm} distance"
    if (threat.unit[moving] != 1).any():
        sentence += f", {_units(threat, moving, names)}"
    return f"{sentence}."


def _missing_values(threat: Threat, names: Sequence[str], subject: str) -> list[str]:
    """Where values may be made missing, and missing ones filled in."""
    said = []
    for verb, what in (("make values of", "blank"), ("fill in missing values of", "fill")):
        given = {f: getattr(moves, what) for f, moves in threat.columns}
        prices = {f: price for f, price in given.items() if price is not None and price <= threat.budget}
        if not prices:
            continue
        after = " missing" if what == "blank" else ""
        if len(prices) > MOST_NAMES:
            who = columns_in_words(list(prices), names)
            said.append(f"{subject} may {verb} {who}{after}, at a cost of {_each(prices.values())}.")
        else:
            listed = joined([f"{names[f]} (cost {price})" for f, price in prices.items()])
            said.append(f"{subject} may {verb} {listed}{after}.")
    return said


def _of_whole_attacker(attacker: Attacker, threat: Threat, names: Sequence[str]) -> list[str]:
    said = []
    grids: dict[Fraction, list[int]] = {}
    for f, moves in threat.columns:
        if moves.step is not None and (threat.power is not None or moves.interval is None):
            grids.setdefault(moves.step, []).append(f)
    for step, features in grids.items():
        said.append(f"Values of {columns_in_words(features, names)} go in steps of {plain_decimal(step)}.")
    for stays, verb in ((threat.low, "rise"), (threat.high, "fall")) if threat.power is not None else ():
        if some := (threat.movable & (stays == 0)).nonzero()[0].tolist():
            said.append(f"Values of {columns_in_words(some, names)} only {verb}.")
    if attacker.rewrites:
        said.append("A rule may be applied again and again, while it fits.")
    if not _has_simple_prices(threat) and _is_limited(attacker, threat):
        said.append(f"All changes together cost at most {threat.budget}.")
    if attacker.unseen:
        said.append("Categories may become values that the model never saw.")
    if attacker.domain is not None:
        said.append("Values stay inside their given domain.")
    if attacker.goal:
        said.append(f"Only a change to {joined([visible(label) for label in attacker.goal], 'or')} is an attack.")
    return said


def neighbours_in_words(around: ValidAround, ensemble: Ensemble, names: Sequence[str]) -> str:
    """What neighbours may be: `amount by up to 50; neighbours may have any purpose`."""
    sizes, categories = around.sizes.copy(), dict(ensemble.categories)
    sets = []
    for f, classes in around.alike:
        sizes[f] = 0.0
        sets.append(_stands_for(names[f], classes, categories[f]))
    for group, classes in around.groups:
        sizes[list(group.features)] = 0.0
        sets.append(_stands_for(visible(group.name), classes, category_of(group, ensemble)))
    said = [sizes_in_words(sizes, names)] if sizes.any() or not sets else []
    return "; ".join([*said, *([f"neighbours may have {joined(sets)}"] if sets else [])])


def _stands_for(name: str, classes: Classes, category: Category) -> str:
    if len(classes) == 1 and len(classes[0]) == len(category.values):
        return f"any {name}"
    sets = ["/".join(visible(category.value_of(value)) for value in each[:MOST_NAMES]) for each in classes]
    sets = [f"{words}/…" if len(each) > MOST_NAMES else words for words, each in zip(sets, classes, strict=True)]
    return f"the {name} {joined(sets, 'or')} for each other"


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
    return joined([f"{_who(features, names)} by up to {quantity(size)}" for size, features in alike.items()])


def larger_steps_in_words(features: list[int], names: Sequence[str] | None) -> str:
    """Where neighbours share values, since ε is less than a step.

    >>> larger_steps_in_words([0, 2], ["seats", "price", "rooms"])
    'less than the step of 2 columns, where neighbours share the value: seats, rooms'
    """
    count = f"{len(features):,} {'column' if len(features) == 1 else 'columns'}"
    return f"less than the step of {count}, where neighbours share the value: {_first_names(features, names)}"


def _who(features: list[int], names: Sequence[str]) -> str:
    """The names of these features, unless they are all or too many."""
    return "any feature" if len(features) == len(names) > 1 else columns_in_words(features, names)


def columns_in_words(features: list[int], names: Sequence[str]) -> str:
    """The names of these features or, if they are too many, how many they are."""
    if len(features) > MOST_NAMES:
        columns = names.n_columns if isinstance(names, NamesWithGroups) else len(names)
        groups = sum(f >= columns for f in features)
        more = f" and {groups:,} one-hot group{'s' * (groups > 1)}" if groups else ""
        return f"{len(features) - groups:,} of the {columns:,} features{more}"
    return joined([names[f] for f in features])


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
    return f"Only rows of class {joined(list(map(str, actors)))} are attacked; the others count by accuracy alone."


def _first_names(columns: Sequence[int], names: Sequence[str] | None) -> str:
    """The names of the first few columns, and how many more there are."""
    return first_few([f"feature {f}" if names is None else names[f] for f in columns], MOST_NAMES)


def _moves(features: list[int], ways: dict[int, str], names: Sequence[str]) -> str:
    """Which features may be moved how; those that move alike together."""
    alike: dict[str, list[int]] = {}
    for f in features:
        alike.setdefault(ways[f], []).append(f)
    if len(alike) == 1:
        return f"{_who(features, names)} {next(iter(alike))}"
    if len(features) > MOST_NAMES:
        return f"{_who(features, names)}, each in its own way"
    moves = [f"{columns_in_words(some, names)} {way}" for way, some in alike.items()]
    if all(move.endswith(EITHER_WAY) for move in moves):  # once is enough
        moves = [*(move.removesuffix(EITHER_WAY) for move in moves[:-1]), moves[-1]]
    return joined(moves)


def _how_many(attacker: Attacker, threat: Threat, features: list[int], names: Sequence[str]) -> str:
    """How many of these features may be moved at once, or what each costs, as far as prices are simple."""
    if not _is_limited(attacker, threat):
        return ", any number of them at once" if len(features) > 1 else ""
    columns = dict(threat.columns)
    # Columns with several prices say them along with their moves.
    flat = [f for f in features if f not in columns or not (columns[f].rules or columns[f].costs)]
    costs = {f: columns[f].cost if f in columns else int(threat.cost[f]) for f in flat}
    simple = _has_simple_prices(threat)
    if not costs or len(features) == 1:
        return ""
    if simple and set(costs.values()) == {1}:
        return f", at most {threat.budget} of them at once" if threat.budget > 1 else ", one of them at a time"
    if len(costs) > MOST_NAMES:
        each = _each(costs.values())
    else:
        each = joined([f"{cost} for {names[f]}" for f, cost in costs.items()])
    return f", at a cost of {each}" + (f", within a budget of {threat.budget}" if simple else "")


def _each(costs: Collection[int]) -> str:
    """What columns cost, of which there are too many to name."""
    return f"{min(costs)} each" if min(costs) == max(costs) else f"{min(costs)} to {max(costs)} each"


def _has_simple_prices(threat: Threat) -> bool:
    """Whether a column is paid for once, whatever happens to it."""
    return not any(
        moves.rules or moves.costs or moves.blank is not None or moves.fill is not None for _, moves in threat.columns
    )


def _is_limited(attacker: Attacker, threat: Threat) -> bool:
    """Whether the budget does not pay for everything at once."""
    columns = dict(threat.columns)
    most: int | Fraction = 0
    for f in threat.movable.nonzero()[0].tolist():
        moves = columns.get(f)
        if moves is not None and moves.rules:
            return attacker.budget is not None
        prices: list[int | Fraction] = [int(threat.cost[f])]
        if moves is not None:
            prices = [moves.cost * (moves.interval is not None)]
            prices += [price for price in (moves.blank, moves.fill, *(moves.costs or {}).values()) if price is not None]
        most += max(prices)
    return threat.budget < most


def _units(threat: Threat, features: list[int], names: Sequence[str]) -> str:
    if len(features) > MOST_NAMES:
        return "each feature in its own unit"
    return f"in units of {joined([f'{quantity(float(threat.unit[f]))} for {names[f]}' for f in features])}"
