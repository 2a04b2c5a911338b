"""32 bytes that tell models apart."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble


def fingerprint_of(ensemble: Ensemble) -> bytes:
    """32 bytes that differ between models that predict differently; names and origin do not count."""
    digest = hashlib.sha256()
    inner = ensemble.feature >= 0
    scores = np.zeros((ensemble.n_nodes, ensemble.n_scores))
    scores[~inner] = ensemble.leaf_scores[ensemble.leaf[~inner]]
    arrays: list[npt.NDArray[np.generic]] = [
        ensemble.feature.astype("<i4"),
        np.where(inner, ensemble.threshold, 0.0).astype("<f8"),
        np.where(inner, ensemble.left, -1).astype("<i4"),
        np.where(inner, ensemble.right, -1).astype("<i4"),
        np.where(inner, ensemble.nan_left, False),
        scores.astype("<f8"),
        ensemble.roots.astype("<i4"),
        ensemble.base.astype("<f8"),
        ensemble.value_low.astype("<f8"),
        ensemble.value_high.astype("<f8"),
        ensemble.may_be_missing,
    ]
    rule = ensemble.rule
    words = (
        int(rule.decision), rule.precision, float(rule.divisor), rule.base_last, float(rule.cut), float(rule.steepness),
        ensemble.classes.tolist(), ensemble.n_features,
        *((member.n_trees, float(member.divisor), float(member.weight)) for member in rule.members),
    )  # fmt: skip
    if ensemble.categories:
        digest.update(
            repr([(f, each.values, each.coded, each.unseen, each.by_text) for f, each in ensemble.categories]).encode()
        )
    if len(ensemble.more):
        arrays += [ensemble.more_start.astype("<i4"), ensemble.more.astype("<f8")]
    digest.update(repr(words).encode())
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
