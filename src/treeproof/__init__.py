"""treeproof: how secure a tree-based classifier really is, proved exactly."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeproof import check
    from treeproof.check.proofs import ProofCheck, check_proofs
    from treeproof.errors import InvalidInput, SoundnessError, UnsupportedModel
    from treeproof.explanations.counterfactual import counterfactual
    from treeproof.explanations.explain import explain
    from treeproof.explanations.protect import protect
    from treeproof.guard import GuardedClassifier
    from treeproof.importers import from_model, load_model, save_model
    from treeproof.maps.stability_map import StabilityMap
    from treeproof.model.columns import Column
    from treeproof.model.ensemble import Ensemble
    from treeproof.present import plots
    from treeproof.present.report import report_html, write_report
    from treeproof.results.ceilings import Ceiling
    from treeproof.results.counterfactuals import Counterfactual, Counterfactuals
    from treeproof.results.explanations import Explanation, Explanations
    from treeproof.results.hardening import Hardening
    from treeproof.results.measures import Measures
    from treeproof.results.protection import Protection
    from treeproof.results.table_summary import TableSummary
    from treeproof.results.verdicts import Bounds, Outcome, Status, Verdict, Witness
    from treeproof.results.verification import Verification
    from treeproof.symbolic import Analysis, SymbolicAttack, analyze
    from treeproof.threat.attacker import Attacker
    from treeproof.threat.moves import ANY, Rule, steps, values
    from treeproof.threat.relations import all_of, any_of, at_most_one, implies, not_, one_of, read_relations
    from treeproof.threat.suggest import (
        AttackerSuggestion,
        Suggestion,
        Suggestions,
        suggest_attacker,
        suggest_relations,
    )
    from treeproof.training import (
        RobustBoostingClassifier,
        RobustForestClassifier,
        RobustTreeClassifier,
        ceiling,
        harden,
        resilience_scorer,
        robust_accuracy_scorer,
    )
    from treeproof.verification.cheapest import CheapestAttacks, cheapest_attack
    from treeproof.verification.radii import ResilienceCurve, resilience_curve, resilience_radius, robustness_radius
    from treeproof.verification.table import verify_table
    from treeproof.verification.verifier import Verifier
    from treeproof.verification.verify import verify

__version__ = "0.1.0"

# Every public name and the module it lives in; imported on first use, so that `import treeproof` costs nothing.
_HOMES = {
    "Analysis": "symbolic",
    "ANY": "threat.moves",
    "Attacker": "threat.attacker",
    "AttackerSuggestion": "threat.suggest",
    "Bounds": "results.verdicts",
    "Ceiling": "results.ceilings",
    "CheapestAttacks": "verification.cheapest",
    "Column": "model.columns",
    "Counterfactual": "results.counterfactuals",
    "Counterfactuals": "results.counterfactuals",
    "Ensemble": "model.ensemble",
    "Explanation": "results.explanations",
    "Explanations": "results.explanations",
    "GuardedClassifier": "guard",
    "Hardening": "results.hardening",
    "InvalidInput": "errors",
    "Measures": "results.measures",
    "Outcome": "results.verdicts",
    "ProofCheck": "check.proofs",
    "Protection": "results.protection",
    "ResilienceCurve": "verification.radii",
    "RobustBoostingClassifier": "training",
    "RobustForestClassifier": "training",
    "RobustTreeClassifier": "training",
    "Rule": "threat.moves",
    "SoundnessError": "errors",
    "StabilityMap": "maps.stability_map",
    "Status": "results.verdicts",
    "Suggestion": "threat.suggest",
    "Suggestions": "threat.suggest",
    "SymbolicAttack": "symbolic",
    "TableSummary": "results.table_summary",
    "UnsupportedModel": "errors",
    "Verdict": "results.verdicts",
    "Verification": "results.verification",
    "Verifier": "verification.verifier",
    "Witness": "results.verdicts",
    "all_of": "threat.relations",
    "analyze": "symbolic",
    "any_of": "threat.relations",
    "at_most_one": "threat.relations",
    "ceiling": "training",
    "cheapest_attack": "verification.cheapest",
    "check_proofs": "check.proofs",
    "counterfactual": "explanations.counterfactual",
    "explain": "explanations.explain",
    "from_model": "importers",
    "harden": "training",
    "implies": "threat.relations",
    "load_model": "importers",
    "not_": "threat.relations",
    "one_of": "threat.relations",
    "protect": "explanations.protect",
    "read_relations": "threat.relations",
    "report_html": "present.report",
    "resilience_curve": "verification.radii",
    "resilience_radius": "verification.radii",
    "resilience_scorer": "training",
    "robust_accuracy_scorer": "training",
    "robustness_radius": "verification.radii",
    "save_model": "importers",
    "steps": "threat.moves",
    "suggest_attacker": "threat.suggest",
    "suggest_relations": "threat.suggest",
    "values": "threat.moves",
    "verify": "verification.verify",
    "verify_table": "verification.table",
    "write_report": "present.report",
}
_MODULES = {"check": "check", "plots": "present.plots"}

__all__ = [
    "Analysis",
    "ANY",
    "Attacker",
    "AttackerSuggestion",
    "Bounds",
    "Ceiling",
    "CheapestAttacks",
    "Column",
    "Counterfactual",
    "Counterfactuals",
    "Ensemble",
    "Explanation",
    "Explanations",
    "GuardedClassifier",
    "Hardening",
    "InvalidInput",
    "Measures",
    "Outcome",
    "ProofCheck",
    "Protection",
    "ResilienceCurve",
    "RobustBoostingClassifier",
    "RobustForestClassifier",
    "RobustTreeClassifier",
    "Rule",
    "SoundnessError",
    "StabilityMap",
    "Status",
    "Suggestion",
    "Suggestions",
    "SymbolicAttack",
    "TableSummary",
    "UnsupportedModel",
    "Verdict",
    "Verification",
    "Verifier",
    "Witness",
    "all_of",
    "analyze",
    "any_of",
    "at_most_one",
    "ceiling",
    "cheapest_attack",
    "check",
    "check_proofs",
    "counterfactual",
    "explain",
    "from_model",
    "harden",
    "implies",
    "load_model",
    "not_",
    "one_of",
    "plots",
    "protect",
    "read_relations",
    "report_html",
    "resilience_curve",
    "resilience_radius",
    "resilience_scorer",
    "robust_accuracy_scorer",
    "robustness_radius",
    "save_model",
    "steps",
    "suggest_attacker",
    "suggest_relations",
    "values",
    "verify",
    "verify_table",
    "write_report",
]


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
    return sorted({*globals(), *__all__})
