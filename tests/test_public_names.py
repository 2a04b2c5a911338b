"""The public names are a contract: adding one is a decision, losing one breaks users."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import treeproof as tp


def test_public_names_are_pinned() -> None:
    assert sorted(tp.__all__) == [
        "ANY",
        "Analysis",
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
    for name in tp.__all__:
        assert hasattr(tp, name)


def test_type_checkers_know_the_public_names_where_they_live() -> None:
    block = next(each for each in ast.parse(Path(tp.__file__).read_text("utf-8")).body if isinstance(each, ast.If))
    imports = [each for each in block.body if isinstance(each, ast.ImportFrom)]
    known = {}
    for each in imports:
        module = importlib.import_module(str(each.module))
        for alias in each.names:
            names = {name: name for name in module.__all__} if alias.name == "*" else {alias.asname: alias.name}
            known |= {public: getattr(module, name) for public, name in names.items()}
    assert known == {name: getattr(tp, name) for name in tp.__all__}


def test_importing_the_package_leaves_heavy_libraries_alone() -> None:
    code = "import sys, treeproof; print(*sorted(m for m in sys.modules if '.' not in m))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {
        "numba",
        "sklearn",
        "scipy",
        "pandas",
        "matplotlib",
        "xgboost",
        "lightgbm",
        "catboost",
        "onnx",
        "skops",
        "pyarrow",
    }
    assert not heavy & set(loaded)
