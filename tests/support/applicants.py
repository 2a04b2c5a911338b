"""A model with every kind of column that attackers tell apart: numbers and categories, some of which may be missing."""

from __future__ import annotations

from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces

PURPOSE = Category(("car", "radio", "tv"), unseen=True)
RATING = Category((1, 2, 5), coded=False, unseen=True)
NAMES = ["income", "months", "purpose", "age", "rating"]


def applicants(names: list[str] | None = None) -> Ensemble:
    """Numbers income, months and age, the category purpose, and the category rating, whose numbers rows hold.

    Only age may not be missing. The label is "good" if income > 2.5 and the purpose is no car, "bad" elsewhere, but
    "unclear" if income is missing.
    """
    builder = EnsembleBuilder(
        n_features=5, classes=["bad", "good", "unclear"], feature_names=names or NAMES, handles_missing=True,
        no_missing=[3], categories={2: PURPOSE, 4: RATING},
    )  # fmt: skip
    builder.add_tree(
        feature=[0, LEAF, 0, LEAF, 2, LEAF, LEAF],
        threshold=[-1e300, 0.0, 2.5, 0.0, 0.0, 0.0, 0.0],
        left=[1, LEAF, 3, LEAF, 5, LEAF, LEAF],
        right=[2, LEAF, 4, LEAF, 6, LEAF, LEAF],
        nan_left=[True, False, False, False, False, False, False],
        scores=[[0, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]],
        pieces={4: Pieces.of_codes([True, False, False, False])},
    )
    return builder.build()
