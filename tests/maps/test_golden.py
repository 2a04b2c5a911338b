"""Maps of the paper's standard models: robustness and resilience are verify's, row by row."""

from __future__ import annotations

import pytest

import treeproof as tp
from tests.support.golden import needs_golden, standard_row
from treeproof.maps.stability_map import StabilityMap

pytestmark = needs_golden


@pytest.mark.slow
@pytest.mark.parametrize("row", range(18))
def test_maps_of_the_standard_models_agree_with_verify(row: int) -> None:
    line, data, forest, attacker = standard_row(row)
    model = tp.from_model(forest, voting="hard")
    smap = StabilityMap.build(model, attacker)
    assert smap.complete
    result = tp.verify(model, data.X_test, data.y_test, attacker, epsilon=line["epsilon"])
    status = smap.status(data.X_test)
    outcomes = smap.resilience_outcomes(data.X_test, data.y_test, line["epsilon"])
    assert status.tolist() == result.stability.tolist()
    assert outcomes.tolist() == result.resilience_by_epsilon[0].tolist()
    assert smap.resilience(data.X_test, data.y_test, line["epsilon"]) == result.resilience
    assert smap.robustness(data.X_test, data.y_test) == result.robustness
