"""Random chains of steps before each library, at the points where steps surprise."""

from __future__ import annotations

import itertools
import warnings
from random import Random
from typing import Any

import numpy as np

import treeproof as tp
from tests.support import chains
from tests.support.fuzz.answers import REFUSED, each
from tests.support.fuzz.tally import Part, Tally, ensure
from tests.support.fuzz.tally import told as telling

STEPS = (
    "StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "Binarizer", "KBinsDiscretizer",
    "PowerTransformer",
    "QuantileTransformer", "SimpleImputer", "FunctionTransformer", "VarianceThreshold", "OneHotEncoder",
)  # fmt: skip
LIBRARIES = sorted(chains.LIBRARIES, key=lambda name: name != "histogram")
"""The first of them takes no sparse matrix."""
DENSE = ("OrdinalEncoder", "TargetEncoder")
"""Steps that are in no chain whose model is given a sparse matrix."""
CELLS = (
    *itertools.product(STEPS, chains.LIBRARIES),
    *(
        (step, "any")
        for step in ("OrdinalEncoder", "TargetEncoder", "MissingIndicator", "SelectKBest", "sparse", "float32")
    ),
    *((function.__name__, "any") for function in chains.FUNCTIONS),
)
MOST = 600
"""Rows that are asked about one chain."""

PER_CHAIN = 100
"""The most of them that count: a thousand rows of one chain say less than a few rows of ten."""


def check(random: Random, number: int, tally: Tally) -> None:
    """One chain: labels at special points, on the cuts that treeproof found, and where it was fitted."""
    rng = np.random.default_rng(random.randrange(2**32))
    wanted, library = CELLS[number % len(CELLS)]
    if library == "any":
        library = random.choice(LIBRARIES[wanted == "sparse" :])
    may_be_sparse = library != "histogram" and wanted not in DENSE
    sparse = wanted == "sparse" or (may_be_sparse and random.random() < 0.3)
    dtype = np.float32 if wanted == "float32" or random.random() < 0.2 else np.float64
    step = None if wanted in ("sparse", "float32") else wanted
    chain, X, special = chains.random_chain(rng, library, sparse, dtype, step)
    with telling(f"{library}, {'sparse' if sparse else 'dense'}, {np.dtype(dtype).name}: {chain!r}"):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                ensemble = tp.from_model(chain)
            except (tp.InvalidInput, tp.UnsupportedModel) as error:
                tally.refuse("chain", " ".join(str(error).split()[:7]))
                return
        kinds = {
            *chains.names_of(chain),
            *(["sparse"] if sparse else []),
            *(["float32"] if dtype == np.float32 else []),
        }
        harmless(ensemble, chain, X, dtype, tally)
        for rows in (special, chains.rows_beside(ensemble, X, rng)):
            n = compare(ensemble, chain, _some(rows, rng), tally)
            for kind in kinds:
                tally.count(kind, "any", min(n, PER_CHAIN))
                tally.count(kind, library, min(n, PER_CHAIN))


def _some(rows: Any, rng: np.random.Generator) -> Any:
    if len(rows) <= MOST:
        return rows
    kept = rng.choice(len(rows), MOST, replace=False)
    return rows.iloc[kept] if hasattr(rows, "iloc") else rows[kept]


def harmless(ensemble: tp.Ensemble, chain: Any, X: Any, dtype: Any, tally: Tally) -> None:
    """The rows that the chain was fitted on are not refused if they are doubles."""
    found = each(ensemble.predict, X, ours=True)
    if REFUSED in found:
        theirs = each(chain.predict, X, ours=False)
        refused = [k for k, (a, b) in enumerate(zip(found, theirs, strict=True)) if a == REFUSED and b != REFUSED]
        rows = np.asarray(X)[refused]
        ensure(
            dtype == np.float32 or not len(rows) or len(rows) < len(X),
            f"refuses all that it was fitted on, such as {rows[:1].tolist()}",
        )
        tally.refuse("row", "training rows", len(rows))


def compare(ensemble: tp.Ensemble, chain: Any, rows: Any, tally: Tally) -> int:
    """treeproof answers as the chain does, or refuses; it answers nothing that the chain refuses."""
    ours = each(ensemble.predict, rows, ours=True)
    taken = [k for k, label in enumerate(ours) if label != REFUSED]
    tally.refuse("row", "special points", len(ours) - len(taken))
    if not taken:
        return 0
    some = rows.iloc[taken] if hasattr(rows, "iloc") else rows[taken]
    theirs = each(chain.predict, some, ours=False)
    for place, own in zip(range(len(taken)), theirs, strict=True):
        row = np.asarray(some)[place].tolist()
        ensure(ours[taken[place]] == own, f"row {row!r}: {ours[taken[place]]!r} here, {own!r} there")
    return len(taken)


PART = Part("steps", CELLS, check)
