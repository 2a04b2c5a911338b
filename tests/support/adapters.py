"""The oracle's plain attacker as the one users write."""

from __future__ import annotations

import treeproof as tp
from tests.support.oracles import OracleAttacker


def as_attacker(plain: OracleAttacker) -> tp.Attacker:
    """The same attacker through the public constructors."""
    domain = None if plain.domain is None else list(plain.domain)
    if plain.p is None:
        return tp.Attacker(list(plain.intervals), costs=list(plain.costs), budget=plain.budget, domain=domain)
    touched = [f for f, interval in enumerate(plain.intervals) if interval != (0.0, 0.0)]
    if not touched:
        return tp.Attacker((0.0, 0.0), domain=domain)
    return tp.Attacker.lp(plain.p, plain.radius, features=touched, domain=domain)
