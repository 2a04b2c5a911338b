"""treeproof: how secure a tree-based classifier really is, proved exactly."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeproof import check as check
    from treeproof.check.proofs import ProofCheck as ProofCheck
    from treeproof.check.proofs import check_proofs as check_proofs
    from treeproof.errors import InvalidInput as InvalidInput
    from treeproof.errors import SoundnessError as SoundnessError
    from treeproof.errors import UnsupportedModel as UnsupportedModel
    from treeproof.explanations.counterfactual import counterfactual as counterfactual
    from treeproof.explanations.explain import explain as explain
    from treeproof.explanations.protect import protect as protect
    from treeproof.guard import GuardedClassifier as GuardedClassifier
    from treeproof.importers import from_model as from_model
    from treeproof.importers import load_model as load_model
    from treeproof.importers import save_model as save_model
    from treeproof.maps.stability_map import StabilityMap as StabilityMap
    from treeproof.model.columns import Column as Column
    from treeproof.model.ensemble import Ensemble as Ensemble
    from treeproof.present import plots as plots
    from treeproof.present.report import *  # noqa: F403
    from treeproof.results.ceilings import Ceiling as Ceiling
    from treeproof.results.counterfactuals import Counterfactual as Counterfactual
    from treeproof.results.counterfactuals import Counterfactuals as Counterfactuals
    from treeproof.results.explanations import Explanation as Explanation
    from treeproof.results.explanations import Explanations as Explanations
    from treeproof.results.hardening import Hardening as Hardening
    from treeproof.results.measures import Measures as Measures
    from treeproof.results.protection import Protection as Protection
    from treeproof.results.table_summary import TableSummary as TableSummary
    from treeproof.results.verdicts import Bounds as Bounds
    from treeproof.results.verdicts import Outcome as Outcome
    from treeproof.results.verdicts import Status as Status
    from treeproof.results.verdicts import Verdict as Verdict
    from treeproof.results.verdicts import Witness as Witness
    from treeproof.results.verification import Verification as Verification
    from treeproof.symbolic import Analysis as Analysis
    from treeproof.symbolic import SymbolicAttack as SymbolicAttack
    from treeproof.symbolic import analyze as analyze
    from treeproof.threat.attacker import Attacker as Attacker
    from treeproof.threat.moves import ANY as ANY
    from treeproof.threat.moves import Rule as Rule
    from treeproof.threat.moves import steps as steps
    from treeproof.threat.moves import values as values
    from treeproof.threat.relations import all_of as all_of
    from treeproof.threat.relations import any_of as any_of
    from treeproof.threat.relations import at_most_one as at_most_one
    from treeproof.threat.relations import implies as implies
    from treeproof.threat.relations import not_ as not_
    from treeproof.threat.relations import one_of as one_of
    from treeproof.threat.relations import read_relations as read_relations
    from treeproof.threat.suggest import *  # noqa: F403
    from treeproof.training import *  # noqa: F403
    from treeproof.verification.cheapest import CheapestAttacks as CheapestAttacks
    from treeproof.verification.cheapest import cheapest_attack as cheapest_attack
    from treeproof.verification.radii import *  # noqa: F403
    from treeproof.verification.table import verify_table as verify_table
    from treeproof.verification.verifier import Verifier as Verifier
    from treeproof.verification.verify import verify as verify

__version__ = "0.1.0"

# Where public names live; modules are imported on first use, so that `import treeproof` costs nothing.
_NAMES_OF = {
    "check.proofs": ("ProofCheck", "check_proofs"),
    "errors": ("InvalidInput", "SoundnessError", "UnsupportedModel"),
    "explanations.counterfactual": ("counterfactual",),
    "explanations.explain": ("explain",),
    "explanations.protect": ("protect",),
    "guard": ("GuardedClassifier",),
    "importers": ("from_model", "load_model", "save_model"),
    "maps.stability_map": ("StabilityMap",),
    "model.columns": ("Column",),
    "model.ensemble": ("Ensemble",),
    "present.report": ("report_html", "write_report"),
    "results.ceilings": ("Ceiling",),
    "results.counterfactuals": ("Counterfactual", "Counterfactuals"),
    "results.explanations": ("Explanation", "Explanations"),
    "results.hardening": ("Hardening",),
    "results.measures": ("Measures",),
    "results.protection": ("Protection",),
    "results.table_summary": ("TableSummary",),
    "results.verdicts": ("Bounds", "Outcome", "Status", "Verdict", "Witness"),
    "results.verification": ("Verification",),
    "symbolic": ("Analysis", "SymbolicAttack", "analyze"),
    "threat.attacker": ("Attacker",),
    "threat.moves": ("ANY", "Rule", "steps", "values"),
    "threat.relations": ("all_of", "any_of", "at_most_one", "implies", "not_", "one_of", "read_relations"),
    "threat.suggest": ("AttackerSuggestion", "Suggestion", "Suggestions", "suggest_attacker", "suggest_relations"),
    "training": (
        "RobustBoostingClassifier",
        "RobustForestClassifier",
        "RobustTreeClassifier",
        "ceiling",
        "harden",
        "resilience_scorer",
        "robust_accuracy_scorer",
    ),
    "verification.cheapest": ("CheapestAttacks", "cheapest_attack"),
    "verification.radii": ("ResilienceCurve", "resilience_curve", "resilience_radius", "robustness_radius"),
    "verification.table": ("verify_table",),
    "verification.verifier": ("Verifier",),
    "verification.verify": ("verify",),
}
_HOMES = {name: module for module, names in _NAMES_OF.items() for name in names}
_MODULES = {"check": "check", "plots": "present.plots"}
if not TYPE_CHECKING:  # type checkers know public names by `as`
    __all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"treeproof.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"treeproof.{_MODULES[name]}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
