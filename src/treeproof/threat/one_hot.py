"""Attackers and neighbourhoods on a model whose one-hot columns are groups.

An attacker who names a group sees one category column. One who does not changes its members as they are: from p_car to
p_radio means two columns, must be possible in both, and costs what both cost.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.columns import renamed
from treeproof.model.ensemble import Ensemble
from treeproof.model.groups import Group, Grouped, column_of, group_columns, names_of
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.attacker import Attacker
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.epsilon import Around, Classes, as_epsilon, bind_around
from treeproof.threat.larger_steps import below
from treeproof.threat.moves import ANY
from treeproof.threat.relations import Relations, bind_relations
from treeproof.threat.relations.grouping import groups_of
from treeproof.threat.threat import Threat


@dataclass(frozen=True)
class _Part:
    """What a threat has for one column."""

    low: float
    high: float
    cost: int
    unit: float
    domain: tuple[float, float]
    ends: FloatArray | None
    moves: ColumnMoves | None


def bind_valid(attacker: Attacker, ensemble: Ensemble, given: Any) -> Threat:
    """The attacker and relations on the columns of a model; the attacker may name one-hot groups, too."""
    relations = bind_relations(given, ensemble)
    if not relations.groups:
        threat = attacker.bind(ensemble)
    else:
        grouped = group_columns(ensemble, groups_of(relations, ensemble))
        threat, named = _bind(attacker, grouped)
        _budgeted(threat, grouped, {})  # refuses what groups cannot be
        threat = _own_columns(threat, grouped, named)
    steps = {f: moves.step for f, moves in threat.columns if moves.step is not None}
    if steps.keys() & set(relations.features):
        relations = bind_relations(given, ensemble, steps)
    elif relations:
        relations = dataclasses.replace(relations, steps=tuple(sorted(steps.items())))
    return dataclasses.replace(threat, relations=relations, attacker=attacker if relations else None)


def _bind(attacker: Attacker, grouped: Grouped) -> tuple[Threat, set[int]]:
    """The attacker on the user's own columns and the groups behind them, and the numbers of the groups that he names.

    Lists have an entry for each of the user's own columns.
    """
    seen = _with_columns_for(grouped.own, grouped.groups)
    named = _named(grouped.own, seen, grouped.groups, attacker.named)
    threat = attacker.bind(seen if attacker.n_features is None else grouped.own)
    _check_members(threat, grouped)
    return threat, named


def _own_columns(threat: Threat, grouped: Grouped, named: set[int]) -> Threat:
    """The attacker on the user's own columns: members of a group that he names may be moved as it may."""
    n = grouped.own.n_features
    low, high, cost = threat.low.copy(), threat.high.copy(), threat.cost.copy()
    for number in named:
        members = list(grouped.groups[number].features)
        moves = bool(low[n + number] != 0 or high[n + number] != 0)
        reach = ANY if moves else (0.0, 0.0)
        low[members], high[members], cost[members] = *reach, cost[n + number]
    return dataclasses.replace(
        threat,
        low=low[:n],
        high=high[:n],
        cost=cost[:n],
        unit=threat.unit[:n],
        domain_low=threat.domain_low[:n],
        domain_high=threat.domain_high[:n],
        ends=tuple((f, ends) for f, ends in threat.ends if f < n),
        columns=tuple((f, moves) for f, moves in threat.columns if f < n),
        still=tuple(f for f in threat.still if f < n),
        groups=tuple(
            tuple(sorted({own for f in features for own in ((f,) if f < n else grouped.groups[f - n].features)}))
            for features in threat.groups
        ),
    )


def seen_by(attacker: Attacker, ensemble: Ensemble, relations: Relations) -> Ensemble:
    """The model as the attacker speaks of it: with a further column of categories per group, if he names any."""
    if not relations.groups:
        return ensemble
    groups = groups_of(relations, ensemble)
    seen = _with_columns_for(ensemble, groups)
    return seen if _named(ensemble, seen, groups, attacker.named) else ensemble


def with_groups(ensemble: Ensemble, relations: Relations) -> Ensemble:
    """The model with a further column of categories for each group that the relations declare."""
    return _with_columns_for(ensemble, groups_of(relations, ensemble)) if relations.groups else ensemble


@dataclass(frozen=True, eq=False)
class ValidAround(Around):
    """ε bound to the user's columns and their one-hot groups; members of groups that it names have the size inf."""

    groups: tuple[tuple[Group, Classes], ...] = ()
    """The groups whose values may stand for each other, and sets of their codes."""


def bind_valid_epsilon(epsilon: Any, ensemble: Ensemble, relations: Relations) -> ValidAround:
    """ε for each of the user's columns: neighbours share the values of one-hot groups, unless it names these."""
    spec, groups, n = as_epsilon(epsilon), groups_of(relations, ensemble), ensemble.n_features
    if not groups or spec.keys is None:
        around = bind_around(spec, ensemble)
        named: dict[int, Classes] = {}
    else:
        seen = _with_columns_for(ensemble, groups)
        _named(ensemble, seen, groups, spec.keys)
        around = bind_around(spec, seen)
        named = {f - n: classes for f, classes in around.alike if f >= n}
    sizes = around.sizes[:n].copy()
    for number, group in enumerate(groups):
        for f in group.features:
            _refuse_neighbours(sizes, f, group, ensemble)
            sizes[f] = math.inf if number in named else 0.0
    alike = tuple((f, classes) for f, classes in around.alike if f < n)
    return ValidAround(spec, sizes, alike, tuple((groups[number], classes) for number, classes in named.items()))


def bind_neighbours(
    epsilons: Iterable[Any], ensemble: Ensemble, threat: Threat
) -> tuple[Threat, tuple[ValidAround, ...]]:
    """The attacker with the neighbours that are asked about: there must be some in every column that an ε names.

    It knows which values may stand for each other. Where the sizes of an ε are inf, they do.
    """
    bound = tuple(bind_valid_epsilon(epsilon, ensemble, threat.relations) for epsilon in epsilons)
    for around in bound:
        _refuse_below_steps(around, ensemble, threat)
    return with_neighbours(threat, bound, ensemble), bound


def with_neighbours(threat: Threat, bound: Iterable[ValidAround], ensemble: Ensemble) -> Threat:
    """The attacker where values may stand for each other as any of these neighbourhoods says."""
    alike: dict[int, Classes] = {}
    groups: dict[Group, Classes] = {}
    for around in bound:
        for f, classes in around.alike:
            _refuse_other(alike.setdefault(f, classes), classes, ensemble.feature_name(f))
        for group, classes in around.groups:
            _refuse_other(groups.setdefault(group, classes), classes, group.name)
    return dataclasses.replace(threat.with_alike(alike), alike_groups=tuple(groups.items()))


def _refuse_other(one: Classes, another: Classes, name: str) -> None:
    if set(one) != set(another):
        raise InvalidInput(
            f"epsilons name different values of column {name}; ask about one of them at a time", argument="epsilon"
        )


def _refuse_below_steps(around: Around, ensemble: Ensemble, threat: Threat) -> None:
    """Refuses an ε below the step of a column that it names, or of every column where neighbours may differ."""
    some = np.flatnonzero(around.sizes).tolist()
    shared = [f for f in some if below(float(around.sizes[f]), threat.moves_of(f).step)]
    if around.given.keys is not None:
        for f in shared:
            step = threat.moves_of(f).step
            assert step is not None
            raise InvalidInput(
                f"ε is {around.sizes[f]:g} in column {ensemble.feature_name(f)}, which moves in steps of "
                f"{float(step):g}: nothing is so near; give at least the step, or leave the column out",
                argument="epsilon",
            )
    if some and shared == some:
        raise InvalidInput(
            f"ε is at most {around.sizes.max():g}, and every column where neighbours may differ moves in larger steps: "
            "nothing is so near; give at least a step, or leave ε out",
            argument="epsilon",
        )


def _refuse_neighbours(bound: FloatArray, f: int, group: Group, ensemble: Ensemble) -> None:
    if bound[f] >= 1:
        raise InvalidInput(
            f"ε is {bound[f]:g} in column {ensemble.feature_name(f)}, but neighbours share the value of the "
            f"group {group.name!r}; give ε below 1 there, or by column, without those of the group"
        )


def bind_grouped(attacker: Attacker, grouped: Grouped) -> Threat:
    """The attacker on the columns of `grouped.ensemble`; described on the user's columns, or on groups by name."""
    threat, named = _bind(attacker, grouped)
    source = {place: columns[0] for place, columns in enumerate(grouped.columns)}
    source |= {grouped.places[number]: grouped.own.n_features + number for number in named}
    parts = [_part(threat, f) for f in source.values()]
    for number, place in enumerate(grouped.places):
        vectors = grouped.vectors[number]
        if number in named:
            parts[place] = _with_domain(parts[place], (0.0, len(vectors) - 1.0))
        else:
            parts[place] = _of_members(threat, grouped.groups[number], vectors)
    unnamed = {place for number, place in enumerate(grouped.places) if number not in named}
    place_of = {f: place for place, f in source.items() if place not in unnamed}
    return dataclasses.replace(
        threat,
        low=np.array([part.low for part in parts]),
        high=np.array([part.high for part in parts]),
        cost=np.array([part.cost for part in parts], dtype=np.int64),
        unit=np.array([part.unit for part in parts]),
        domain_low=np.array([part.domain[0] for part in parts]),
        domain_high=np.array([part.domain[1] for part in parts]),
        ends=tuple((place, part.ends) for place, part in enumerate(parts) if part.ends is not None),
        columns=tuple((place, part.moves) for place, part in enumerate(parts) if part.moves is not None),
        still=tuple(sorted(place_of[f] for f in threat.still if f in place_of)),
        groups=_budgeted(threat, grouped, place_of),
    )


def _named(own: Ensemble, seen: Ensemble, groups: Sequence[Group], given: Iterable[int | str]) -> set[int]:
    """The numbers of the groups that are named; refuses a group that is named together with its members.

    In the model that is `seen` they are further columns.
    """
    n = own.n_features
    keys = {(seen if isinstance(key, str) else own).feature_index(key) for key in given}
    named = {f - n for f in keys if f >= n}
    for number in named:
        group = groups[number]
        for f in keys.intersection(group.features):
            raise InvalidInput(
                f"column {seen.feature_name(f)} belongs to the group {group.name!r}, which is named too; name one"
            )
    return named


def _with_columns_for(own: Ensemble, groups: Sequence[Group]) -> Ensemble:
    """A model with further columns, one category for each group."""
    names = [*names_of(own), *(own.own_spelling(group.name) for group in groups)]
    return dataclasses.replace(
        own, columns=renamed([*own.columns, *(column_of(group, own) for group in groups)], names)
    )


def _check_members(threat: Threat, grouped: Grouped) -> None:
    """Refuses what no valid row allows: a domain without 0 or 1, and blanks."""
    columns = dict(threat.columns)
    for group in grouped.groups:
        for f in group.features:
            low, high = float(threat.domain_low[f]), float(threat.domain_high[f])
            if not low <= 0 < 1 <= high:
                raise InvalidInput(
                    f"column {grouped.own.feature_name(f)} of the group {group.name!r} is 0 or 1, and the domain "
                    f"({low:g}, {high:g}) leaves one of them out; leave the column out of the domain"
                )
            if f in columns and columns[f].blank is not None:
                raise InvalidInput(
                    f"column {grouped.own.feature_name(f)} of the group {group.name!r} is never missing in a valid "
                    "row; leave it out of the columns that may become missing"
                )


def _part(threat: Threat, f: int) -> _Part:
    return _Part(
        float(threat.low[f]),
        float(threat.high[f]),
        int(threat.cost[f]),
        float(threat.unit[f]),
        (float(threat.domain_low[f]), float(threat.domain_high[f])),
        dict(threat.ends).get(f),
        dict(threat.columns).get(f),
    )


def _with_domain(part: _Part, domain: tuple[float, float]) -> _Part:
    """The same with room for the codes of broken rows."""
    moves = None if part.moves is None else dataclasses.replace(part.moves, domain=domain)
    return dataclasses.replace(part, domain=domain, moves=moves)


def _of_members(threat: Threat, group: Group, vectors: FloatArray) -> _Part:
    """The moves of a group from those of its members."""
    domain = (0.0, len(vectors) - 1.0)
    prices = _prices(threat, group, vectors)
    if not prices:
        return _Part(0.0, 0.0, 0, 1.0, domain, None, None)
    distinct = {id(price): price for price in prices.values()}.values()
    least = min(distinct)
    part = _Part(*ANY, math.floor(least), 1.0, domain, None, None)
    n_values = len(group.vectors)
    any_to_any = len(prices) == (len(vectors) - 1) * n_values
    if threat.power is None and any_to_any and set(distinct) == {least}:
        return dataclasses.replace(part, ends=np.arange(n_values, dtype=np.float64))
    ends = tuple(sorted({end for _, end in prices}))
    return dataclasses.replace(part, moves=ColumnMoves(domain, ANY, ends=ends, costs=prices))


def _prices(threat: Threat, group: Group, vectors: FloatArray) -> dict[tuple[float, float], Any]:
    """The price of each change of the group's code that is possible: whole numbers, or powers of distances."""
    moves = [threat.moves_of(f) for f in group.features]
    # Most often, the same can be done to all of them.
    like = [moves.index(one) for one in moves]
    zero = Fraction(0) if threat.power is not None else 0

    @cache
    def price_of(member: int, start: float, end: float) -> Any:
        price = moves[member].price(start, start, end)
        return price if price is None or threat.power is not None else int(price)

    sums: dict[tuple[int, int], Any] = {}

    def total(one: Any, other: Any) -> Any:
        """The same object for the same two, which are kept: there are many sums and few different ones."""
        key = id(one), id(other)
        if key not in sums:
            sums[key] = one + other
        return sums[key]

    ups = [price_of(one, 0.0, 1.0) for one in like]
    prices: dict[tuple[float, float], Any] = {}
    for start, vector in enumerate(vectors.tolist()):
        away = [at for at, value in enumerate(vector) if value != 0]
        to_0 = {at: price_of(like[at], vector[at], 0.0) for at in away}
        found: list[Any] = []
        for end, one in enumerate(like):
            # All others become 0.
            rest = [to_0[at] for at in away if at != end]
            up = price_of(one, vector[end], 1.0) if end in to_0 else ups[end]
            found.append(None if up is None or any(one is None for one in rest) else functools.reduce(total, rest, up))
        if not group.exactly:
            rest = list(to_0.values())
            found.append(None if any(one is None for one in rest) else functools.reduce(total, rest, zero))
        for end, price in enumerate(found):
            if price is not None and end != start:
                prices[float(start), float(end)] = price
    return prices


def _budgeted(threat: Threat, grouped: Grouped, place_of: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
    """The columns that share budgets: a group of one-hot columns is in one of them, or in none."""
    found = []
    for features in threat.groups:
        places = {place_of[f] for f in features if f in place_of}
        for group, place in zip(grouped.groups, grouped.places, strict=True):
            inside = [f in features for f in group.features]
            if any(inside) and not all(inside):
                raise InvalidInput(
                    f"some columns of the group {group.name!r} share a budget that others do not; put all of them in"
                )
            places |= {place} if any(inside) else set()
        found.append(tuple(sorted(places)))
    return tuple(found)
