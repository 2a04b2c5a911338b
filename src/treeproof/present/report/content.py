"""What the report says: everything is computed here, before any HTML is written."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

import numpy as np

from treeproof import __version__
from treeproof.errors import InvalidInput
from treeproof.importers import as_ensemble
from treeproof.model.ensemble import Ensemble
from treeproof.present.report.curves import Curve, measured_resilience, measured_robustness
from treeproof.present.report.explained import Explained
from treeproof.present.report.instances import Instances, choose
from treeproof.present.report.planes import Planes, choose_features, cut_planes
from treeproof.results.attacker_words import actors_in_words, attacker_on_model
from treeproof.results.counterfactuals import Counterfactuals
from treeproof.results.explanations import Explanations
from treeproof.results.verification import Verification
from treeproof.run import clock
from treeproof.threat.attacker import Attacker
from treeproof.threat.threat import Threat
from treeproof.verification.request import Request

SHARE_OF_CURVE = 0.3
"""The share of the time for each of the two curves."""

LIBRARIES = ("scikit-learn", "XGBoost", "LightGBM", "CatBoost", "ONNX")
"""Libraries whose versions are recorded, if the model came from them."""


@dataclass(frozen=True, eq=False)
class Content:
    """Everything that the page shows."""

    title: str
    ensemble: Ensemble
    attacker: Attacker
    threat: Threat
    result: Verification
    names: tuple[str, ...]
    robustness: Curve | str
    resilience: Curve | str
    planes: Planes | None
    instances: Instances
    record: list[tuple[str, str]]
    explained: Explained | None


def gather(
    model: Any,
    result: Verification,
    *,
    title: str | None,
    features: Sequence[Any] | None,
    feature_names: Sequence[str] | None,
    max_seconds: float,
    n_jobs: int | None,
    voting: Any,
    explanations: Explanations | None,
    counterfactuals: Counterfactuals | None,
) -> Content:
    """Computes what is not yet in the result: curves and slices. One parameter per choice that users have."""
    began = clock.now()
    asked = _asked(model, result, voting)
    ensemble, attacker = asked.ensemble, asked.attacker
    explained = None if explanations is None else Explained.of(ensemble, explanations, counterfactuals)
    names = _names(ensemble, feature_names)
    # A plane leaves the rows that keep relations.
    wanted = [] if result.relations else choose_features(ensemble, attacker, result, features, names)

    def left(share: float) -> float:
        """Seconds for a part that may take this share; what earlier parts did not use goes to the slices."""
        return min(share * max_seconds, max(0.0, began + max_seconds - clock.now()))

    if len(result):
        robustness = measured_robustness(ensemble, attacker, result, left(SHARE_OF_CURVE), n_jobs)
        resilience = measured_resilience(ensemble, attacker, result, left(SHARE_OF_CURVE), n_jobs)
    else:
        robustness = resilience = "The test set has no rows."
    planes = None
    if len(wanted) > 1 and left(1) > 0:
        planes = cut_planes(ensemble, attacker, result, wanted, left(1), n_jobs)
    record = _record(asked, result, names, clock.now() - began)
    return Content(
        title or "How secure is this model?", ensemble, attacker, asked.threat, result, names, robustness, resilience,
        planes, choose(result), record, explained,
    )  # fmt: skip


def _not_a_result(given: object) -> str:
    """What to say where something else was given."""
    beside = "; give it as counterfactuals=, beside explanations" if isinstance(given, Counterfactuals) else ""
    return f"result must be what verify or explain returned, got {type(given).__name__}{beside}"


def _asked(model: Any, result: Verification, voting: Any) -> Request:
    """The question that the result answers; a report must not mix it with another model."""
    if not isinstance(result, Verification):
        raise InvalidInput(_not_a_result(result))
    if result.attacker is None:
        raise InvalidInput("the result does not name its attacker")
    ensemble = as_ensemble(model, voting=voting).named(result.feature_names)
    if ensemble.fingerprint.hex() != result.fingerprint:
        raise InvalidInput("the result is for another model; pass the one that was verified")
    return Request.of(ensemble, result.X, result.y, result.attacker, None, result.relations, result.actors)


def _names(ensemble: Ensemble, given: Sequence[str] | None) -> tuple[str, ...]:
    if given is not None:
        names = tuple(str(name) for name in given)
        if len(names) != ensemble.n_features:
            raise InvalidInput(f"{len(names)} feature names were given; the model has {ensemble.n_features} features")
        return names
    return ensemble.feature_names or tuple(f"feature {f}" for f in range(ensemble.n_features))


def _record(asked: Request, result: Verification, names: Sequence[str], seconds: float) -> list[tuple[str, str]]:
    """Model, attacker, data and versions, for the record."""
    ensemble, n = asked.ensemble, len(result)
    epsilons = "; ".join(result.names_of_epsilons) or "none"
    searched = f"{result.seconds:.2f} s (a first use compiles meanwhile), {result.boxes:,} boxes searched"
    return [
        *_about_model(ensemble, result.fingerprint),
        ("Attacker", attacker_on_model(asked.attacker, ensemble, asked.threat.relations, names)),
        *([] if result.actors is None else [("Attacked", actors_in_words(result.actors))]),
        ("Neighbourhood", epsilons),
        ("Test set", f"{n:,} rows, fingerprint {_hash(asked.X, asked.y)}"),
        ("Verification", f"{searched}{', interrupted' if result.interrupted else ''}"),
        *([] if result.proofs is None else [("Proofs", result.proofs.in_words)]),
        ("Curves and slices", f"{seconds:.1f} s"),
        *_when_and_with_what(ensemble),
    ]


def record_of_explanations(ensemble: Ensemble, found: Explanations) -> list[tuple[str, str]]:
    """Model, rows and versions, for the record of a page about explanations alone."""
    return [
        *_about_model(ensemble, found.about.fingerprint),
        ("Rows", f"{len(found):,}, fingerprint {_hash(found.about.X)}"),
        ("Explanations", f"{found.seconds:.2f} s{', interrupted' if found.interrupted else ''}"),
        *_when_and_with_what(ensemble),
    ]


def _about_model(ensemble: Ensemble, fingerprint: str) -> list[tuple[str, str]]:
    classes = ", ".join(str(label) for label in ensemble.classes.tolist()[:20])
    return [
        ("Model", ensemble.origin),
        ("Trees", f"{ensemble.n_trees:,}, up to {int(ensemble.depths.max())} deep, {ensemble.n_nodes:,} nodes"),
        ("Features", f"{ensemble.n_features:,}"),
        ("Classes", classes + (" …" if ensemble.n_classes > 20 else "")),
        *([("Decision", ensemble.decision_text)] if ensemble.decided else []),
        ("Model’s fingerprint", fingerprint[:16]),
    ]


def _when_and_with_what(ensemble: Ensemble) -> list[tuple[str, str]]:
    return [
        ("Made", datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
        ("Versions", _versions(ensemble)),
    ]


def _hash(*arrays: Any) -> str:
    """The first characters of a SHA-256 over the bytes of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _versions(ensemble: Ensemble) -> str:
    wanted = ["numpy", "numba", *(name for name in LIBRARIES if name in ensemble.origin)]
    found = [(name, _version(name)) for name in wanted]
    known = [("treeproof", __version__), ("Python", platform.python_version()), *found]
    return ", ".join(f"{name} {version}" for name, version in known if version)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # a library under another name, such as xgboost-cpu
        return ""
