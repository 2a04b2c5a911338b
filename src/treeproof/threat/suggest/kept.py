"""Whether rows keep what is proposed, as `verify` would read it: by text, and with the proposed attacker's steps."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from treeproof.model.builder import EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.threat.relations.binding import bind_relations
from treeproof.threat.relations.expressions import Key
from treeproof.threat.suggest.columns import SeenColumn, SeenTable


def steps_of(columns: Iterable[SeenColumn]) -> dict[Key, Fraction]:
    """The steps of the columns that a proposed attacker moves."""
    moved = (column for column in columns if not (column.is_category or column.is_constant or column.is_id))
    return {column.key: column.step for column in moved if column.step is not None}


class Keeping:
    """The rows of a table as those of a model, whose columns with these steps stand for the decimals they print as."""

    def __init__(self, table: SeenTable, steps: dict[Key, Fraction]) -> None:
        known = {column.key: column for column in table.columns}
        width = max([len(known), *(key + 1 for key in known if isinstance(key, int))])
        texts = [key for key in known if isinstance(key, str)]
        others, unnamed = iter(texts), "_" * max(map(len, texts), default=0)
        keys: list[Key] = [f if f in known else next(others, f) for f in range(width)]
        columns = [known.get(key, SeenColumn(key, np.full(table.n_rows, np.nan))) for key in keys]
        self._X = np.stack([one.numbers for one in columns], axis=1)
        self._steps = {f: steps[key] for f, key in enumerate(keys) if key in steps}
        builder = EnsembleBuilder(
            n_features=width,
            classes=[0, 1],
            feature_names=[key if isinstance(key, str) else f"{unnamed}_{key}" for key in keys] if texts else None,
            handles_missing=True,
            categories={f: Category(one.values) for f, one in enumerate(columns) if one.values is not None},
        )
        builder.add_tree(feature=[-1], threshold=[0.0], left=[-1], right=[-1], scores=[[1.0, 0.0]])
        self._model = builder.build()

    def keep(self, relations: tuple[str, ...]) -> bool:
        """Whether no row breaks one of them."""
        return not bind_relations(relations, self._model, self._steps).broken(self._X).any()
