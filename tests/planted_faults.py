"""Plants one fault after the other in a copy of this tree and looks whether the fuzzer or the tests find it.

`python -m tests.planted_faults` takes hours; `--only NAME…` takes some, `--list` says which there are and whether each
can still be planted: its old text must stand exactly once in its file. The faults are small ones such as somebody makes
by mistake, in what reads models, tables, steps and decisions, and each makes some answer wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.support.clock import now

ROOT = Path(__file__).parents[1]
COMMANDS: dict[str, tuple[str, ...]] = {
    "fuzz": ("-m", "tests.fuzz_doors", "--cases", "2000"),
    "pytest": ("-m", "pytest", "-x", "-q", "-m", "not slow and not long"),
}
"""What looks for faults, the fastest first: `make fuzz` without the engine's own fuzzer, and `make quick`."""
NEAR = {
    "importers": ("tests/importers",),
    "decisions": ("tests/importers/test_decisions.py", "tests/importers/test_cuts.py", "tests/importers"),
    "pipelines": ("tests/importers/test_pipelines.py", "tests/importers/test_chains.py", "tests/importers"),
    "tables": ("tests/tables", "tests/model", "tests/test_data_frames.py", "tests/test_guard.py", "tests/cli"),
}
"""By area the tests that come first; all others follow."""
PARTS = {
    "importers": ("frames", "saved"),
    "decisions": ("decisions",),
    "pipelines": ("steps",),
    "tables": ("tables", "training"),
}
"""By area the parts of the fuzzer that come first; all others follow."""
NOT_COPIED = (".git", ".venv*", "*.pyc", ".*_cache", "catboost_info", "dist", "site", "htmlcov")
HANGS = 7200.0
"""Seconds after which a command hangs, which is a way to find a fault: far more than any takes on a busy machine."""
SHARE = 0.95
"""How many of the faults must be found."""
NOTHING_RAN, MISUSED = 5, 4  # pytest's own exit codes: every test was left out, and a wrong command line


class Fault(NamedTuple):
    """A mistake: `new` in place of `old`, which stands once in the file."""

    area: str
    name: str
    file: str
    old: str
    new: str
    why: str
    """An input whose answer changes."""


NOTHING = Fault("control", "nothing", "", "", "", "no fault: neither the fuzzer nor a test may fail")

IMPORTERS = [
    Fault(
        "importers",
        "xgboost-threshold-goes-left",
        "importers/_exact_thresholds.py",
        "last_double_rounding_to(np.nextafter(np.asarray(threshold, dtype=np.float32), np.float32(-np.inf)))",
        "last_double_rounding_to(np.asarray(threshold, dtype=np.float32))",
        "a value that is a threshold of XGBoost, which compares x < threshold",
    ),
    Fault(
        "importers",
        "float32-forgotten",
        "importers/_exact_thresholds.py",
        "return last_double_rounding_to(float32_at_most(threshold))",
        "return np.asarray(threshold, dtype=np.float64)",
        "the double after a float32 threshold, which scikit-learn and CatBoost round down to it",
    ),
    Fault(
        "importers",
        "xgboost-best-iteration-is-a-count",
        "importers/xgboost.py",
        'whole(best, "best_iteration", 0, 2**31 - 2) + 1',
        'whole(best, "best_iteration", 0, 2**31 - 2)',
        "a classifier that stopped early loses its best round",
    ),
    Fault(
        "importers",
        "xgboost-base-sign",
        "importers/xgboost.py",
        'return np.array([-_float32_function("logf", np.log)(',
        'return np.array([_float32_function("logf", np.log)(',
        "two classes of different size: base_score is then not 0.5",
    ),
    Fault(
        "importers",
        "xgboost-gap-between-codes",
        "importers/_xgboost_categories.py",
        "np.concatenate(([True], codes[1:] > codes[:-1] + 1))",
        "np.concatenate(([True], codes[1:] > codes[:-1] + 2))",
        "code 1 at a node that sends codes 0 and 2 right, in a column that the user coded",
    ),
    Fault(
        "importers",
        "lightgbm-nan-without-missing",
        "importers/lightgbm.py",
        "nan_left = ~by_set & np.where(missing == _MISSING_NONE, threshold >= 0, default_left)",
        "nan_left = ~by_set & default_left",
        "NaN in a column without missing values in training, at a threshold below 0: LightGBM reads it as 0",
    ),
    Fault(
        "importers",
        "lightgbm-class-blocks",
        "importers/lightgbm.py",
        "_add_tree(builder, tree, n_values, number % n_scores)",
        "_add_tree(builder, tree, n_values, number // n_rounds)",
        "three classes, two rounds: the second tree is of the second class",
    ),
    Fault(
        "importers",
        "lightgbm-fraction-below-zero",
        "importers/lightgbm.py",
        "Pieces.between(np.concatenate(([-1.0], ends)), np.concatenate(([False], lefts, [False])))",
        "Pieces.between(np.concatenate(([-5e-324], ends)), np.concatenate(([False], lefts, [False])))",
        "-0.5 in a column of codes is category 0, since the fraction is cut off towards 0",
    ),
    Fault(
        "importers",
        "catboost-nan-of-deep-trees",
        "importers/catboost.py",
        '"nan_left": inner & ~features.nan_right[np.where(inner, feature, 0)]',
        '"nan_left": inner & features.nan_right[np.where(inner, feature, 0)]',
        "NaN in a model of grow_policy='Lossguide'",
    ),
    Fault(
        "importers",
        "catboost-border-between-classes",
        "importers/_catboost_categories.py",
        'wanted = entry[self.target + 1 :] if self.kind == "Borders"',
        'wanted = entry[self.target :] if self.kind == "Borders"',
        "a value whose rows were of both classes, in a model with CTRs",
    ),
    Fault(
        "importers",
        "bagging-columns-in-order",
        "importers/sklearn.py",
        "        feature = features[feature]\n",
        "        feature = np.sort(features)[feature]\n",
        "BaggingClassifier(max_features=0.5): the columns of its members come as they were drawn",
    ),
    Fault(
        "importers",
        "histogram-unseen-goes-right",
        "importers/_histogram_trees.py",
        "return Pieces.of_codes(np.append(sides, nan_left))",
        "return Pieces.of_codes(np.append(sides, False))",
        "text never seen in training at a node that sends missing values left, and this with them",
    ),
    Fault(
        "importers",
        "onnx-nan-of-greater",
        "importers/onnx.py",
        '"nan_left": inner & (nodes.missing_true[run] == below_is_true)',
        '"nan_left": inner & nodes.missing_true[run]',
        "NaN at a node of BRANCH_GT, whose true child is the right one",
    ),
    Fault(
        "importers",
        "saved-scores-are-float32",
        "importers/native.py",
        "ensemble.leaf_scores[ensemble.leaf[start:stop][~inner]].astype(np.float64).tolist()",
        "ensemble.leaf_scores[ensemble.leaf[start:stop][~inner]].astype(np.float32).tolist()",
        "a forest with shares 1/3: rounded, ties become decisions once it is saved and read",
    ),
]

DECISIONS = [
    Fault(
        "decisions",
        "threshold-itself-is-below",
        "importers/decisions.py",
        "return np.asarray((respond(scores) >= threshold) == bool(column))",
        "return np.asarray((respond(scores) > threshold) == bool(column))",
        "threshold=0.5 and a tree with a leaf of one row of each class",
    ),
    Fault(
        "decisions",
        "positive-class-is-the-second",
        "importers/decisions.py",
        "column = int(places[0])",
        "column = len(places)",
        "FixedThresholdClassifier(pos_label=the first class)",
    ),
    Fault(
        "decisions",
        "default-threshold-of-margins",
        "importers/decisions.py",
        'threshold = 0.5 if method == "predict_proba" else 0.0',
        "threshold = 0.5",
        "FixedThresholdClassifier(response_method='decision_function') and a margin of 0.3",
    ),
    Fault(
        "decisions",
        "calibrated-half-is-yes",
        "importers/decisions.py",
        "return np.asarray(np.argmax(probabilities(scores), axis=1) == 1)",
        "return np.asarray(probabilities(scores)[:, 1] >= 0.5)",
        "an isotonic calibrator with a level of exactly 0.5",
    ),
    Fault(
        "decisions",
        "auto-asks-for-margins",
        "importers/decisions.py",
        'return "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"',
        'return "decision_function" if hasattr(estimator, "decision_function") else "predict_proba"',
        "FixedThresholdClassifier(GradientBoostingClassifier(), threshold=0.3): a probability, not a margin",
    ),
    Fault(
        "decisions",
        "margin-of-the-first-class",
        "importers/_responses.py",
        "    return -function(scores)",
        "    return function(scores)",
        "pos_label=the first class with response_method='decision_function'",
    ),
    Fault(
        "decisions",
        "falling-cut-one-double-off",
        "importers/_cuts.py",
        "score = line.scores([high if falling else low])[0]",
        "score = line.scores([low])[0]",
        "a calibrator that falls: the last score before its cut",
    ),
    Fault(
        "decisions",
        "reach-without-base",
        "importers/_cuts.py",
        "return 1.5 * (sums / ensemble.rule.divisor + base + base / ensemble.rule.divisor) + 1.0",
        "return 1.5 * (sums / ensemble.rule.divisor) + 1.0",
        "learning_rate=0.001, 1 row in 200 of the second class, threshold=0.005: leaves do not reach the cut",
    ),
    Fault(
        "decisions",
        "adaboost-margin-once",
        "importers/sklearn.py",
        "return scores + scores",
        "return scores",
        "threshold=0.6 for an AdaBoostClassifier, whose margin is the difference of both classes",
    ),
    Fault(
        "decisions",
        "hard-votes-without-weights",
        "importers/votes.py",
        "votes[np.arange(len(votes)), np.argmax(member.leaf_scores, axis=1)] = weight",
        "votes[np.arange(len(votes)), np.argmax(member.leaf_scores, axis=1)] = 1.0",
        "VotingClassifier(voting='hard', weights=[3, 1, 1]) where the first tree is outvoted",
    ),
    Fault(
        "decisions",
        "member-adds-up-instead-of-averaging",
        "importers/votes.py",
        "Member(member.n_trees, member.rule.divisor, share)",
        "Member(member.n_trees, 1.0, share)",
        "soft votes of a tree and a forest of ten trees, which then has ten times its weight",
    ),
    Fault(
        "decisions",
        "last-class-wins-ties",
        "importers/votes.py",
        "order = slice(None, None, -1) if _last_wins() else slice(None)",
        "order = slice(None, None, -1)",
        "OneVsRestClassifier of trees and a row that two of three members claim: the first of them wins",
    ),
    Fault(
        "decisions",
        "isolation-at-the-offset",
        "importers/isolation.py",
        "return np.asarray(~(-(2**-shares) - model.offset_ < 0))",
        "return np.asarray(-(2**-shares) - model.offset_ > 0)",
        "contamination=0.1 with 11 rows: the offset is the score of one of them, which is an inlier",
    ),
    Fault(
        "decisions",
        "gradient-boosting-tie",
        "importers/sklearn.py",
        "rule = ScoreRule(decision=Decision.CUT, cut=float(np.nextafter(0.0, -1.0)))",
        "rule = ScoreRule(decision=Decision.CUT, cut=0.0)",
        "as many rows of each class and a leaf with as many of both: a score of 0 is the second class",
    ),
    Fault(
        "decisions",
        "catboost-logit-sign",
        "importers/catboost.py",
        "return -math.log(1 / threshold - 1)",
        "return math.log(1 / threshold - 1)",
        "set_probability_threshold(0.3)",
    ),
]

PIPELINES = [
    Fault(
        "pipelines",
        "first-category-has-no-cut",
        "importers/pipelines/steps.py",
        "return [cut for value in categories.tolist() if math.isfinite(value) for cut in around(value)]",
        "return [cut for value in categories.tolist()[1:] if math.isfinite(value) for cut in around(value)]",
        "OneHotEncoder(handle_unknown='ignore') on numbers, and a row with the lowest of 3, 5 and 7",
    ),
    Fault(
        "pipelines",
        "bins-of-sparse-matrices",
        "importers/pipelines/steps.py",
        '    if step.encode == "ordinal":\n        return []\n',
        '    if step.encode != "onehot-dense":\n        return []\n',
        "KBinsDiscretizer(encode='onehot') on numbers from 10 to 20: the bins in the middle",
    ),
    Fault(
        "pipelines",
        "indicator-by-position",
        "importers/pipelines/steps.py",
        "np.concatenate((kept, step.indicator_.features_)).astype(np.intp)",
        "np.concatenate((kept, np.arange(len(step.indicator_.features_)))).astype(np.intp)",
        "SimpleImputer(add_indicator=True) where only the second column has missing values",
    ),
    Fault(
        "pipelines",
        "transformer-columns-sorted",
        "importers/pipelines/plan.py",
        "self._through(part, given.take(columns))",
        "self._through(part, given.take(sorted(columns)))",
        "ColumnTransformer([('a', MinMaxScaler(), [2, 0])])",
    ),
    Fault(
        "pipelines",
        "sparse-missing-is-taken",
        "importers/pipelines/intake.py",
        "if self.takes_missing and model.may_be_missing[column]:",
        "if model.may_be_missing[column]:",
        "NaN behind MaxAbsScaler and a OneHotEncoder: scikit-learn's trees refuse it in a sparse matrix",
    ),
    Fault(
        "pipelines",
        "missing-goes-as-the-first",
        "importers/pipelines/__init__.py",
        "double = self.listed[f].made[column][-1] if f in self.listed",
        "double = self.listed[f].made[column][0] if f in self.listed",
        "None in a column of text that was there in training",
    ),
    Fault(
        "pipelines",
        "unseen-goes-as-missing",
        "importers/pipelines/categories.py",
        "last = [n, blank] if unseen else [blank]",
        "last = [n + 1, blank] if unseen else [blank]",
        "OrdinalEncoder(unknown_value=-1, encoded_missing_value=9) and a value never seen",
    ),
    Fault(
        "pipelines",
        "lightgbm-rows-are-dense",
        "importers/pipelines/__init__.py",
        'if not (plan.made.sparse == "csr" and zone',
        'if not (plan.made.sparse == "csc" and zone',
        "-float32(1e-35) for a LightGBM that has it for a threshold, behind steps that make a CSR matrix",
    ),
    Fault(
        "pipelines",
        "stored-zero-is-no-entry",
        "importers/pipelines/plan.py",
        "dense[entries.row, entries.col] = np.where(entries.data == 0, -0.0, entries.data)",
        "dense[entries.row, entries.col] = entries.data",
        "0 behind steps that store zeros in a sparse matrix: XGBoost takes them for 0 and the others for missing",
    ),
    Fault(
        "pipelines",
        "target-classes-first",
        "importers/pipelines/steps.py",
        "return np.repeat(np.arange(step.n_features_in_), len(step.classes_)",
        "return np.tile(np.arange(step.n_features_in_), len(step.classes_)",
        "TargetEncoder of two columns for three classes",
    ),
    Fault(
        "pipelines",
        "jump-one-double-late",
        "importers/pipelines/lines.py",
        "cuts = line.ends[np.minimum(place // 2, len(line.ends) - 1)].copy()",
        "cuts = line.starts[np.minimum(place // 2 + 1, len(line.starts) - 1)].copy()",
        "the double after a category of a OneHotEncoder on numbers, which is none",
    ),
    Fault(
        "pipelines",
        "narrow-frame-is-taken",
        "importers/pipelines/steps.py",
        '_NARROW = ("float16", "float32", "halffloat[pyarrow]", "float[pyarrow]")',
        '_NARROW = ("float16", "halffloat[pyarrow]", "float[pyarrow]")',
        "a frame of float32 columns before a StandardScaler, which then computes in float32",
    ),
    Fault(
        "pipelines",
        "every-column-may-be-missing",
        "importers/pipelines/__init__.py",
        "return Column(None, line.low, line.high, self.missing[f][0], category, refused)",
        "return Column(None, line.low, line.high, any(one[0] for one in self.missing.values()), category, refused)",
        "an imputer for one of two columns: NaN in the other one, which gradient boosting refuses",
    ),
    Fault(
        "pipelines",
        "filled-in-fraction-of-whole-numbers",
        "importers/pipelines/steps.py",
        "*(_FEW_BITS if whole else _FEW_BITS + _WHOLE)",
        "*_FEW_BITS",
        "SimpleImputer(missing_values=-1, strategy='constant', fill_value=0.5) cannot fill in a frame of int64 columns",
    ),
]

TABLES = [
    Fault(
        "tables",
        "blanks-around-known-text",
        "model/written.py",
        "found = {self._texts.get(text), *self._as_number(text)} - {None}",
        "found = {self._texts.get(text.strip()), *self._as_number(text)} - {None}",
        "' red' in a file for a model that knows 'red' and takes others as never seen",
    ),
    Fault(
        "tables",
        "underscores-are-digits",
        "model/written.py",
        'if "_" in together or not together.isascii() or not together.isprintable():',
        "if not together.isascii() or not together.isprintable():",
        "1_0 in a column of numbers is no number, and not 10",
    ),
    Fault(
        "tables",
        "points-beside-decimal-commas",
        "model/written.py",
        '    if "." in text:\n        raise',
        '    if text.count(".") > 1:\n        raise',
        "1.5 in a file with decimal commas is no number",
    ),
    Fault(
        "tables",
        "empty-line-of-one-column",
        "tables/csv_files.py",
        "if not line and width > 1:",
        "if not line:",
        "a file of one column, in which an empty line is a missing value",
    ),
    Fault(
        "tables",
        "quote-never-closed",
        "tables/csv_files.py",
        "csv.reader(self._source, delimiter=delimiter, strict=True)",
        "csv.reader(self._source, delimiter=delimiter)",
        'a last column with "red and no second quote: the rows behind it become part of the value',
    ),
    Fault(
        "tables",
        "line-ends-in-quotes",
        "tables/csv_files.py",
        '(file, "rt", newline="", encoding="utf-8-sig")',
        '(file, "rt", encoding="utf-8-sig")',
        "a category with a carriage return in it, and the lines of a Windows file that guard passes on",
    ),
    Fault(
        "tables",
        "small-row-group-dropped",
        "tables/chunks.py",
        "range(math.ceil(n_rows / self.chunk_rows))",
        "range(round(n_rows / self.chunk_rows))",
        "a row group with less than half of the rows of a chunk has no chunk",
    ),
    Fault(
        "tables",
        "missing-is-the-last-category",
        "tables/parquet_files.py",
        "plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column",
        "plain = column",
        "a Parquet column of categories with a missing one",
    ),
    Fault(
        "tables",
        "columns-by-position",
        "tables/table.py",
        "return [spelled[name] for name in ensemble.feature_names or ()]",
        "return free",
        "a file with the model's columns in another order",
    ),
    Fault(
        "tables",
        "numbered-columns-by-text",
        "tables/table.py",
        "return [numbers[k] for k in sorted(numbers)]",
        "return sorted(numbers.values())",
        "a file of the columns f0 to f10 for a model without names: f10 is the last one",
    ),
    Fault(
        "tables",
        "known-value-is-missing",
        "tables/cells.py",
        "return float(place)",
        "return math.nan if known.is_missing(value) else float(place)",
        "a model that knows the text 'NA', such as one trained on countries",
    ),
    Fault(
        "tables",
        "unseen-is-the-last-value",
        "model/columns.py",
        "return float(len(self.values)) if self.unseen else -1.0",
        "return float(len(self.values) - 1) if self.unseen else -1.0",
        "a value never seen in training",
    ),
    Fault(
        "tables",
        "none-is-nan",
        "model/columns.py",
        '    if value is None:\n        return "none"',
        '    if value is None:\n        return "nan"',
        "None in a column of objects for an OrdinalEncoder that was fitted on NaN and takes None as never seen",
    ),
    Fault(
        "tables",
        "pandas-missing-is-zero",
        "model/columns.py",
        "values.to_numpy(dtype=np.float64, na_value=math.nan)",
        "values.to_numpy(dtype=np.float64, na_value=0.0)",
        "NA in a column of the type Int64",
    ),
    Fault(
        "tables",
        "text-forgotten-in-files",
        "model/columns.py",
        'return Category(**content | {"missing": tuple(missing)})',
        'return Category(**content | {"missing": tuple(missing), "by_text": False})',
        "a CatBoost model that was saved and read: 5 is no more '5'",
    ),
    Fault(
        "tables",
        "whole-number-beyond-doubles",
        "model/columns.py",
        "for row in np.flatnonzero(np.abs(numbers) >= 2**53).tolist():",
        "for row in np.flatnonzero(np.abs(numbers) > 2**53).tolist():",
        "9007199254740993 is not the category 9007199254740992, to which it is rounded",
    ),
]

FAULTS = [*IMPORTERS, *DECISIONS, *PIPELINES, *TABLES]


class Outcome(NamedTuple):
    """Whether and how a fault was found."""

    fault: Fault
    by: str | None
    seconds: float
    shown: str
    """The line that says what failed."""

    def __str__(self) -> str:
        if self.by is None:
            return f"MISSED  {self.fault.name}, after {self.seconds:.0f} s: {self.fault.why}"
        return f"found   {self.fault.name} by {self.by} after {self.seconds:.0f} s: {self.shown}"


# --- planting --------------------------------------------------------------------------------------------------------


def occurrences(fault: Fault) -> int:
    """How often the old text stands in its file; once, if the fault can be planted."""
    file = ROOT / "src/treeproof" / fault.file
    return file.read_text(encoding="utf-8").count(fault.old) if file.exists() else 0


def plant(fault: Fault, tree: Path) -> None:
    """A copy of this tree with the fault in it, and with all compiled code: none of it is about these files."""
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
    if fault.file:
        file = tree / "src/treeproof" / fault.file
        file.write_text(file.read_text(encoding="utf-8").replace(fault.old, fault.new), encoding="utf-8")


# --- looking ---------------------------------------------------------------------------------------------------------


def files_near(fault: Fault) -> list[str]:
    """The test files that come first: those named like the file, then those of its area."""
    words = [word for word in Path(fault.file).stem.split("_") if len(word) > 3]
    room = [f"tests/{fault.file.partition('/')[0]}"] if fault.file else []
    found = [path for word in words for folder in room for path in sorted(ROOT.glob(f"{folder}/test_*{word}*.py"))]
    for place in NEAR.get(fault.area, ()):
        path = ROOT / place
        found += sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.exists() else []
    return list(dict.fromkeys(str(path.relative_to(ROOT)) for path in found))


def runs(fault: Fault, commands: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is run, in order: what is near the fault, then what is not; together the whole of each command."""
    files, first = files_near(fault), PARTS.get(fault.area, ())
    others = [part for parts in PARTS.values() for part in parts if part not in first]
    near = {"fuzz": ("--parts", ",".join(first)), "pytest": tuple(files)}
    rest = {"fuzz": ("--parts", ",".join(others)), "pytest": tuple(f"--ignore={file}" for file in files)}
    yield from ((name, (*COMMANDS[name], *near[name])) for name in commands if {"fuzz": first, "pytest": files}[name])
    yield from ((name, (*COMMANDS[name], *rest[name])) for name in commands)


class Campaign:
    """Looks for faults, some at a time; what it started ends with it."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def look_for(self, fault: Fault) -> Outcome:
        """Plants a fault and runs everything until something fails."""
        start = now()
        with tempfile.TemporaryDirectory(prefix="treeproof-fault-") as folder:
            tree = Path(folder, "tree")
            plant(fault, tree)
            self._check_own(tree)
            for name, arguments in runs(fault, self._commands):
                code, said = self._run(tree, arguments)
                if self._ended or (name == "pytest" and code == MISUSED):
                    raise RuntimeError(f"{fault.name}: {' '.join(arguments)} did not run: {said[-400:]}")
                if code is None:
                    return Outcome(fault, f"{name}, which hangs", now() - start, _last(said))
                if code and not (name == "pytest" and code == NOTHING_RAN):
                    return Outcome(fault, name, now() - start, _last(said))
        return Outcome(fault, None, now() - start, "")

    def end(self) -> None:
        """Kills what still runs."""
        self._ended = True
        for process in list(self._running):
            _kill(process)

    def _check_own(self, tree: Path) -> None:
        """Makes sure that the copy is what is run, and not what is installed."""
        code, said = self._run(tree, ("-c", "import treeproof; print(treeproof.__file__)"))
        if code or not Path(said.strip()).resolve().is_relative_to(tree.resolve()):
            raise RuntimeError(f"not the copy in {tree} is run, but {said.strip()}")

    def _run(self, tree: Path, arguments: Sequence[str]) -> tuple[int | None, str]:
        """The exit code (None: it hangs) and all that was said."""
        env = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(tree / "src")}
        said = tree.parent / "said.txt"
        with said.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=tree,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
            try:
                code: int | None = process.wait(HANGS)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _kill(process)
                self._running.discard(process)
        return code, said.read_text(encoding="utf-8", errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that still runs, and all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last(said: str) -> str:
    """The line that says what failed, or else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR", "again: "))]
    return (failed or lines or [""])[-1][:200]


# --- the program -----------------------------------------------------------------------------------------------------


def _chosen(names: Sequence[str]) -> list[Fault]:
    known = {fault.name: fault for fault in (NOTHING, *FAULTS)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such fault: {', '.join(unknown)}; --list shows all")
    return [known[name] for name in names] if names else [NOTHING, *FAULTS]


def _listed(faults: Sequence[Fault]) -> Iterator[str]:
    for fault in faults:
        times = occurrences(fault)
        where = "" if times == 1 else f"  CANNOT BE PLANTED: its old text is there {times} times"
        yield f"{fault.area:10} {fault.name:38} {fault.file}{where}"


def main() -> None:
    """Prints how each fault was found; exits with 1 if too few were, or some cannot be planted any more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="say which faults there are, and run nothing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--commands", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    given = parser.parse_args()
    faults = _chosen(given.only)
    lost = [fault for fault in faults if fault.file and occurrences(fault) != 1]
    for line in _listed([fault for fault in faults if fault.file] if given.list else lost):
        print(line, flush=True)  # noqa: T201
    if given.list:
        sys.exit(bool(lost))
    campaign = Campaign(given.commands)
    outcomes = []
    with ThreadPoolExecutor(given.jobs) as pool:
        try:
            for outcome in pool.map(campaign.look_for, [fault for fault in faults if fault not in lost]):
                print(outcome, flush=True)  # noqa: T201
                if outcome.fault is NOTHING and outcome.by is not None:
                    raise SystemExit("that fails without a fault: nothing can be said about faults")
                outcomes.append(outcome)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            campaign.end()
    planted = [outcome for outcome in outcomes if outcome.fault is not NOTHING]
    found = sum(outcome.by is not None for outcome in planted)
    print(f"found {found} of {len(planted)}")  # noqa: T201
    sys.exit(bool(lost) or found < SHARE * len(planted))


if __name__ == "__main__":
    main()
