"""Losses of margins, beside their definitions in a hundred digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from random import Random

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from treeproof.training._losses import LOSSES

ONE = Decimal(1)
DEFINITIONS: dict[str, Callable[[Decimal], Decimal]] = {
    "bounded": lambda m: 2 * (ONE - (ONE / (ONE + (-m).exp())).sqrt()),
    "logistic": lambda m: (ONE + (-m).exp()).ln(),
    "exponential": lambda m: (-m).exp(),
}
"""What a row with a margin loses."""
STEP = Decimal("1e-25")


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 100
        yield


def slope(name: str, margin: Decimal) -> Decimal:
    """Downward, between two margins that are close."""
    lost = DEFINITIONS[name]
    return (lost(margin - STEP) - lost(margin + STEP)) / (2 * STEP)


def test_every_loss_has_a_definition() -> None:
    assert DEFINITIONS.keys() == LOSSES.keys()


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_pulls_are_what_they_are_defined_to_be(name: str) -> None:
    margins = np.concatenate((np.linspace(-80, 80, 41), [0.0, 1e-9, -3.3, 0.7]))
    exact = [Decimal(m) for m in margins.tolist()]
    np.testing.assert_allclose(LOSSES[name].of(margins), [float(DEFINITIONS[name](m)) for m in exact], rtol=1e-14)
    np.testing.assert_allclose(LOSSES[name].pull(margins), [float(slope(name, m)) for m in exact], rtol=1e-11)


@pytest.mark.parametrize("name", LOSSES)
def test_no_tree_costs_more_than_pulls_say(name: str) -> None:
    """What makes the sum that a tree minimises a bound on what it changes."""
    random, lost = Random(name), DEFINITIONS[name]
    for _ in range(300):
        margin, more = (Decimal(random.uniform(-size, size)) for size in (12, 5))
        changed, bound = lost(margin + more) - lost(margin), slope(name, margin) * ((-more).exp() - ONE)
        assert changed <= bound + Decimal("1e-20")


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("share", [0.5, 0.2, 0.03, 0.999])
def test_the_best_score_of_like_rows_says_how_many_are_of_a_class(name: str, share: float) -> None:
    def lost(score: float) -> float:
        own, other = LOSSES[name].of(np.array([score, -score])).tolist()
        return share * own + (1 - share) * other

    best = minimize_scalar(lost, bounds=(-20, 20), method="bounded", options={"xatol": 1e-10}).x
    assert 1 / (1 + np.exp(-LOSSES[name].steepness * best)) == pytest.approx(share, abs=1e-5)


def test_margins_of_any_size_have_finite_pulls() -> None:
    margins = np.array([-1e308, -800.0, 800.0, 1e308])
    for loss in LOSSES.values():
        assert np.isfinite(loss.pull(margins)).all()
    assert LOSSES["bounded"].of(margins)[:2].tolist() == [2.0, 2.0]
