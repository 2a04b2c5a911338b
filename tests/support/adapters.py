"""Questions in the oracle's plain words, put to treeproof."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import treeproof as tp
from tests.support.oracles import OracleAttacker
from treeproof.model.ensemble import Ensemble
from treeproof.verification.radii.radii import exact_radii
from treeproof.verification.request import Request


def as_attacker(plain: OracleAttacker) -> tp.Attacker:
    """The same attacker through the public constructors."""
    domain = None if plain.domain is None else list(plain.domain)
    if plain.p is None:
        return tp.Attacker(list(plain.intervals), costs=list(plain.costs), budget=plain.budget, domain=domain)
    touched = [f for f, interval in enumerate(plain.intervals) if interval != (0.0, 0.0)]
    if not touched:
        return tp.Attacker((0.0, 0.0), domain=domain)
    return tp.Attacker.lp(plain.p, plain.radius, features=touched, domain=domain, scale=plain.scale)


def exact_radius(
    ensemble: Ensemble, attacker: OracleAttacker, x: tuple[float, ...], y: Any, work: Any
) -> Fraction | float:
    """The radius of one row before it is rounded to a double; `work` says which radius."""
    return exact_radii(Request.of(ensemble, [x], [y], as_attacker(attacker)), work)[0]
