"""Tables in chunks: the verdicts of `verify`, whatever the files, chunks and workers, and whatever ended the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import treeproof as tp
from tests.support.clock import press_ctrl_c, until
from treeproof import files
from treeproof.run.limits import Limits
from treeproof.run.parts import Parts
from treeproof.tables import parquet_files
from treeproof.verification import table

pytest.importorskip("pyarrow")

NAMES = [f"c{i}" for i in range(6)]
ATTACKER = tp.Attacker.linf(0.2)
EPSILONS = [0.1, 0.3]
PARQUET, CSV = "*.parquet", "*.csv"


def made(n: int = 230) -> pd.DataFrame:
    X, y = make_classification(n, 6, n_informative=5, n_redundant=0, random_state=0)
    return pd.DataFrame(X, columns=NAMES).assign(y=np.where(y == 1, "good", "bad"))


FRAME = made()
FOREST = RandomForestClassifier(8, max_depth=4, random_state=0).fit(FRAME[NAMES], FRAME.y)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of each kind, with the columns in another order, an index, and row groups of odd sizes."""
    monkeypatch.chdir(tmp_path)
    shuffled = FRAME[["c3", "y", "c0", "c1", "c5", "c2", "c4"]]
    for number, part in enumerate((shuffled[:97], shuffled[97:])):
        indexed = part.set_index(pd.Index(np.arange(len(part)) * 7 + 1000))
        indexed.to_parquet(f"{number}.parquet", row_group_size=40)
        part.to_csv(f"{number}.csv", index=False)
    return tmp_path


def whole(**more: Any) -> tp.Verification:
    return tp.verify(FOREST, FRAME[NAMES], FRAME.y, ATTACKER, epsilons=EPSILONS, **more)


def ask(rows: Any = PARQUET, **more: Any) -> tp.TableSummary:
    more = {"out": "out", "label": "y", "epsilons": EPSILONS, "chunk_rows": 25, **more}
    return tp.verify_table(more.pop("model", FOREST), rows, more.pop("attacker", ATTACKER), **more)


def read(out: str | Path = "out") -> pd.DataFrame:
    """The parts in the order of their names."""
    parts = sorted(Path(out).glob("part-*"))
    frames = [pd.read_parquet(part) if part.suffix == ".parquet" else pd.read_csv(part) for part in parts]
    return pd.concat(frames, ignore_index=True)


def assert_same(found: pd.DataFrame, result: tp.Verification) -> None:
    expected = result.to_frame()
    for name in expected.columns.drop("moved"):
        assert found[name].tolist() == expected[name].tolist(), name


def assert_same_measures(summary: tp.TableSummary, result: tp.Verification) -> None:
    assert summary.complete and not summary.interrupted and len(summary) == len(result)
    assert (summary.accuracy, summary.robustness) == (result.accuracy, result.robustness)
    assert list(summary.resilience_by_epsilon) == list(result.resilience_at.values())
    assert summary.resilience == result.resilience
    assert {label: dict(one.counts) for label, one in summary.by_class.items()} == {
        label: dict(one.counts) for label, one in result.by_class.items()
    }
    assert len(summary.by_class) == 2 and repr(summary).endswith(repr(result).partition("; ")[2])


def test_semicolons_and_decimal_commas(folder: Path) -> None:
    FRAME.to_csv("german.csv", index=False, sep=";", decimal=",")
    summary = ask("german.csv", separator=";", decimal=",")
    assert_same_measures(summary, whole())
    with pytest.raises(tp.InvalidInput, match="holds results for a different separator or decimal"):
        ask("german.csv", decimal=",", resume=True)
    with pytest.raises(tp.InvalidInput, match="seems to have semicolons; say so with separator=';'"):
        ask("german.csv", out="other")


def test_rows_with_missing_cells_are_counted(folder: Path) -> None:
    holed = FRAME.assign(c2=FRAME.c2.mask(FRAME.index % 10 == 0))
    holed.to_parquet("holed.parquet", row_group_size=40)
    model = HistGradientBoostingClassifier(max_iter=3).fit(holed[NAMES], holed.y)
    for features, rows in ((["c2"], 23), (["c1"], 0)):
        attacker = tp.Attacker.linf(0.2, features=features)
        summary = ask("holed.parquet", model=model, attacker=attacker, out=features[0])
        assert summary.rows_with_missing == rows == sum(one.rows_with_missing for one in summary.by_class.values())
        assert ("missing cells in 23 rows stay missing" in repr(summary)) == (rows > 0)


# --- the same verdicts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [PARQUET, CSV])
@pytest.mark.parametrize("chunk_rows", [3, 33, 40, 1000])
def test_every_row_gets_the_verdict_of_verify(rows: str, chunk_rows: int, folder: Path) -> None:
    summary = ask(rows, chunk_rows=chunk_rows, witnesses=True)
    found = read()
    assert_same(found, whole())
    assert_same_measures(summary, whole())
    assert found.file.tolist() == [rows.replace("*", "0")] * 97 + [rows.replace("*", "1")] * 133
    assert found.row.tolist() == [*range(97), *range(133)]
    moved = found.moved.fillna("").to_numpy()
    assert ((moved != "") == whole().has_witness).all()


@pytest.mark.parametrize(("rows", "chosen"), [(PARQUET, "csv"), (CSV, "parquet"), (["1.csv", "0.parquet"], None)])
def test_formats_in_and_out_are_free_to_differ(rows: Any, chosen: str | None, folder: Path) -> None:
    ask(rows, format=chosen)
    endings = {part.suffix for part in Path("out").glob("part-*")}
    assert endings == {f".{chosen or 'csv'}"}
    assert "moved" not in read().columns
    order = np.arange(230) if chosen else np.r_[97:230, 0:97]
    assert read()["resilience at 0.3"].tolist() == whole().to_frame()["resilience at 0.3"].to_numpy()[order].tolist()


def test_missing_values_and_columns_without_names_in_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X = FRAME[NAMES].to_numpy().copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    y = (FRAME.y == "good").astype(int).to_numpy()
    model = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(X, y)
    frame = pd.DataFrame(X, columns=NAMES).assign(id=[f"row {i}" for i in range(len(X))], y=y)
    frame.to_csv("d.csv", index=False)
    frame.to_parquet("d.parquet", row_group_size=100)
    attacker = tp.Attacker({"c1": (-0.5, 0.5), "c2": (0.0, 1.0)}, budget=1)
    expected = tp.verify(model, frame[NAMES], y, attacker, epsilon=0.1)
    for rows in ("d.csv", "d.parquet"):
        summary = ask(rows, model=model, attacker=attacker, drop="id", epsilons=None, epsilon=0.1, out=rows[2:])
        assert_same(read(rows[2:]), expected)
        assert summary.resilience == expected.resilience


@pytest.mark.long
@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_workers_give_what_one_thread_gives(backend: str, folder: Path) -> None:
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert_same_measures(ask(), whole())
    assert_same(read(), whole())


@pytest.mark.long
@pytest.mark.slow
def test_a_dask_cluster_reads_the_row_groups_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    (folder / "elsewhere").mkdir()
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        # Paths lead to the same files wherever a worker is.
        client.run(os.chdir, folder / "elsewhere")
        # Whoever reads a row group here fails.
        monkeypatch.setattr(parquet_files.ParquetFile, "group", None)
        assert_same_measures(ask(chunk_rows=40), whole())
    assert_same(read(), whole())


@pytest.mark.parametrize("model", [FOREST, tp.from_model(FOREST).without_source()])
def test_each_part_has_proofs_that_check(model: Any, folder: Path) -> None:
    actors = ["good"]
    summary = ask(CSV, model=model, chunk_rows=60, epsilons=None, epsilon=0.05, actors=actors, proofs=True)
    assert_same(read(), tp.verify(FOREST, FRAME[NAMES], FRAME.y, ATTACKER, epsilon=0.05, actors=actors))
    names = [part.stem for part in sorted(Path("out").glob("part-*"))]
    assert sorted(os.listdir("out/proofs")) == [f"{name}{own}" for name in names for own in (".json", ".tpp")]
    checked = 0
    for name in names:
        found = tp.check_proofs(FOREST, f"out/proofs/{name}.json", f"out/proofs/{name}.tpp", n_jobs=1, progress=False)
        assert not found.rejected and not found.unchecked
        checked += len(found.checked)
    assert 20 < checked < summary.rows
    with pytest.raises(tp.InvalidInput, match="another question: not the same rows"):
        tp.check_proofs(FOREST, f"out/proofs/{names[0]}.json", f"out/proofs/{names[1]}.tpp")


def test_proofs_of_parts_are_part_of_the_question(folder: Path) -> None:
    ask(CSV, max_seconds=0, proofs=True)
    for change in ({}, {"proofs": True, "proof_limit": 100}):
        with pytest.raises(tp.InvalidInput, match="for a different choice of proofs or proof_limit"):
            ask(CSV, resume=True, **change)
    ask(CSV, resume=True, proofs=True)
    assert len(list(Path("out/proofs").glob("*.tpp"))) == len(list(Path("out").glob("part-*")))


# --- what ends the work ----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Ends everything, as SIGKILL does."""


class Death:
    """Comes when a file is about to take its place, for the n-th time."""

    def __init__(self, moment: int) -> None:
        self.left, self.replace = moment, os.replace

    def __call__(self, *names: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed
        self.replace(*names)


@pytest.mark.parametrize("rows", [PARQUET, CSV])
def test_work_that_ends_at_any_write_goes_on_to_the_same_result(
    rows: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "run_tasks", in_this_thread)
    asked: dict[str, Any] = {"chunk_rows": 60, "epsilons": None, "epsilon": 0.1, "proofs": rows == CSV}
    expected, counts = (ask(rows, out="whole", **asked), read("whole"))[::-1]
    # The manifest, and then parts with a manifest each; before parts, perhaps their results and proofs.
    for moment in range(1, 13):
        with monkeypatch.context() as patched:
            patched.setattr(files.os, "replace", Death(moment))
            with pytest.raises(Killed):
                ask(rows, out=f"out {moment}", **asked)
        done = sorted(Path(f"out {moment}").glob("part-*"))
        times = [part.stat().st_mtime_ns for part in done]
        summary = ask(rows, out=f"out {moment}", resume=True, **asked)
        assert summary.counts == counts.counts and summary.complete
        pd.testing.assert_frame_equal(read(f"out {moment}"), expected)
        assert len(list(Path(f"out {moment}").glob("proofs/*.tpp"))) == (rows == CSV) * len(
            list(Path("whole").glob("p*-*"))
        )
        kept = [part.stat().st_mtime_ns == time for part, time in zip(done, times, strict=True)]
        assert all(kept[:-1]), "at most the part that the manifest did not count is made again"


def in_this_thread(work: Any, content: Any, tasks: Any, limits: Any, n_jobs: Any, take: Any) -> bool:
    for number, task in enumerate(tasks):
        take(number, work(content, task))
    return False


def test_ctrl_c_keeps_whole_chunks_and_resuming_finishes(
    folder: Path, ctrl_c: None, interrupts: list[Limits], monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Parts.add

    def add_and_stop(self: Parts, *part: Any) -> None:
        add(self, *part)
        if self.counts["rows"] >= 75:
            press_ctrl_c()
            until(lambda: interrupts)

    with monkeypatch.context() as patched:
        patched.setattr(Parts, "add", add_and_stop)
        summary = ask(CSV)
    assert summary.interrupted and not summary.complete and 75 <= summary.rows < 230
    assert "interrupted, not complete" in repr(summary)
    assert len(read()) == summary.rows
    assert_same_measures(ask(CSV, resume=True), whole())
    assert_same(read(), whole())


def test_no_time_leaves_nothing_half_done(folder: Path) -> None:
    summary = ask(max_seconds=0)
    assert (summary.rows, summary.complete, summary.interrupted) == (0, False, False)
    assert np.isnan(summary.accuracy) and os.listdir("out") == ["manifest.json"]
    assert_same_measures(ask(resume=True), whole())
    # All is done: nothing is read again.
    for name in ("0.parquet", "1.parquet"):
        assert Path(name).exists()
    before = {part: part.stat().st_mtime_ns for part in Path("out").glob("part-*")}
    assert_same_measures(ask(resume=True), whole())
    assert before == {part: part.stat().st_mtime_ns for part in Path("out").glob("part-*")}


def test_rows_that_time_out_are_unknown(folder: Path) -> None:
    summary = ask(timeout=0)
    assert summary.complete and summary.robustness.lower == 0 and not summary.robustness.exact
    assert_same(read(), whole(timeout=0))


def test_the_library_is_asked_about_every_row(folder: Path) -> None:
    other = RandomForestClassifier(3, max_depth=1, random_state=1).fit(FRAME[NAMES], FRAME.y)
    ensemble = tp.from_model(FOREST)
    object.__setattr__(ensemble, "source", other)
    with pytest.raises(tp.SoundnessError, match="the library's own model predicts"):
        ask(model=ensemble)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"model": RandomForestClassifier(3, random_state=1).fit(FRAME[NAMES], FRAME.y)}, "model"),
        ({"attacker": tp.Attacker.linf(0.21)}, "attacker"),
        ({"epsilons": [0.1]}, "epsilon"),
        ({"rows": "0.parquet"}, "set of files"),
        ({"rows": CSV, "format": "parquet"}, "set of files"),
        ({"chunk_rows": 24}, "chunk_rows"),
        ({"format": "csv"}, "format"),
        ({"witnesses": True}, "choice of witnesses"),
    ],
)
def test_results_of_another_question_are_not_continued(change: dict[str, Any], what: str, folder: Path) -> None:
    ask(max_seconds=0)
    with pytest.raises(tp.InvalidInput, match=f"out holds results for a different {what}; choose another folder"):
        ask(**{"rows": PARQUET, "resume": True, **change})


def test_a_file_that_has_changed_is_another_file(folder: Path) -> None:
    ask(max_seconds=0)
    FRAME.to_parquet("1.parquet")
    with pytest.raises(tp.InvalidInput, match="a different set of files"):
        ask(resume=True)


def test_files_that_change_meanwhile_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = Parts.add

    def add_and_change(self: Parts, *part: Any) -> None:
        add(self, *part)
        os.utime("1.csv", (0, 0))

    monkeypatch.setattr(Parts, "add", add_and_change)
    with pytest.raises(tp.InvalidInput, match="1.csv has changed while it was read"):
        ask(CSV)
    assert not json.loads(Path("out/manifest.json").read_text())["complete"]


def test_results_are_not_written_over(folder: Path) -> None:
    ask()
    with pytest.raises(tp.InvalidInput, match="out already holds results; resume=True goes on from them"):
        ask()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": "none/*.csv"}, r"no file matches none/\*.csv"),
        ({"rows": "none.csv"}, "cannot read .*none.csv: No such file"),
        ({"rows": []}, "the list of files is empty"),
        ({"rows": ["0.csv", "0.csv"]}, "0.csv is given twice"),
        ({"rows": "rows.npz"}, "rows.npz cannot be read in chunks; give a file that ends in .csv, .tsv, .parquet"),
        ({"rows": 5}, "expected a path, got 5"),
        ({"label": "z"}, "0.parquet has no column 'z'; it has 'c3', 'y'"),
        ({"drop": ["z"]}, "0.parquet has no column 'z'"),
        ({"drop": ["c1"]}, "0.parquet: the model was trained with 'c1', which can be neither the label nor dropped"),
        ({"chunk_rows": 0}, "chunk_rows must be a whole number of at least 1, got 0"),
        ({"chunk_rows": None}, "chunk_rows must be a whole number of at least 1, got None"),
        ({"proofs": "proofs.tpp"}, "proofs must be True or False, got 'proofs.tpp': each part has a file of its own"),
        ({"proof_limit": 5}, "proof_limit is 5, but no proofs are written"),
        ({"format": "xls"}, "format must be one of 'parquet', 'csv', got 'xls'"),
        ({"attacker": tp.Attacker({"z": (0, 1)})}, "the model has no feature 'z'"),
        ({"epsilons": [{"z": 1}]}, "the model has no feature 'z'"),
        ({"attacker": 5}, "attacker must be a treeproof.Attacker"),
        ({"out": "0.csv"}, "0.csv is not an empty folder"),
        ({"out": "."}, "is not an empty folder, and has no manifest.json"),
        ({"max_bytes": 3000}, "max_bytes is 3,000, but .*0.parquet"),
    ],
)
def test_what_cannot_work_is_refused_before_there_is_a_folder(
    change: dict[str, Any], message: str, folder: Path
) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        ask(**{"rows": PARQUET, **change})
    assert not Path("out").exists()


def test_files_without_rows(folder: Path) -> None:
    FRAME[:0].to_csv("2.csv", index=False)
    FRAME[:0].to_parquet("2.parquet")
    for rows in (CSV, PARQUET):
        assert_same_measures(ask(rows, out=rows[2:]), whole())
    for rows in ("2.csv", "2.parquet", ["2.csv", "2.parquet"]):
        with pytest.raises(tp.InvalidInput, match="2.(csv|parquet) has no rows"):
            ask(rows)


def test_files_must_have_the_same_columns(folder: Path) -> None:
    FRAME.drop(columns="c2").to_csv("2.csv", index=False)
    with pytest.raises(tp.InvalidInput, match="2.csv has no column 'c2', which the model was trained with"):
        ask(CSV)
    nameless = RandomForestClassifier(3, random_state=0).fit(FRAME[NAMES].to_numpy(), FRAME.y)
    FRAME.rename(columns={"c2": "c9"}).to_csv("2.csv", index=False)
    with pytest.raises(tp.InvalidInput, match="2.csv has no column 'c2'"):
        ask(CSV, model=nameless)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "c2",
            "x",
            "bad.csv, row 150, column 'c2': 'x' is not a number; give the numbers that the model was trained on",
        ),
        ("y", "ugly", "bad.csv, row 150, column 'y': the model does not know the label 'ugly'"),
        ("y", "", "bad.csv, row 150, column 'y': the label is missing"),
        ("c2", "1e300", "bad.csv, counted from row 150: row 0, column 'c2': .* outside the range"),
    ],
)
def test_a_bad_row_is_named_and_what_came_before_is_kept(column: str, value: str, message: str, folder: Path) -> None:
    bad = FRAME.astype({column: object})
    bad.loc[150, column] = value
    bad.to_csv("bad.csv", index=False)
    with pytest.raises(tp.InvalidInput, match=message):
        ask("bad.csv")
    assert_same(read(), tp.verify(FOREST, FRAME[NAMES][:150], FRAME.y[:150], ATTACKER, epsilons=EPSILONS))


def test_a_chunk_that_is_too_large_is_refused(folder: Path) -> None:
    with pytest.raises(
        tp.InvalidInput, match="max_bytes is 8,000, but .*0.csv, with 25 rows and 7 columns, takes 8,568"
    ):
        ask(CSV, max_bytes=8000)
    assert ask(CSV, max_bytes=8000, chunk_rows=5, out="small").complete


def test_a_damaged_line_far_down_is_refused_in_one_line(folder: Path) -> None:
    with open("0.csv", "a") as file:
        file.write("1,2\n")
    with pytest.raises(tp.InvalidInput, match=r"0.csv, line 99: 2 values in a table of 7 columns"):
        ask("0.csv")


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "treeproof-parts", "version": 2}'])
def test_a_manifest_that_is_none_is_refused(content: str, folder: Path) -> None:
    ask(max_seconds=0)
    Path("out/manifest.json").write_text(content)
    with pytest.raises(tp.InvalidInput, match=r"out/manifest.json is not a manifest: .*; choose another folder"):
        ask(resume=True)


def test_without_pyarrow_the_way_out_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "find_spec", lambda _: None)
    with pytest.raises(tp.InvalidInput, match=r"format='parquet': .*pip install 'treeproof\[parquet\]'"):
        ask(CSV, format="parquet")
    assert ask(CSV).complete


# --- memory ----------------------------------------------------------------------------------------------------------


def test_no_more_than_a_few_chunks_are_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[int] = []
    load, add, here = table.Chunk.load, Parts.add, 0

    def loaded(chunk: Any) -> Any:
        nonlocal here
        here += 1
        alive.append(here)
        return load(chunk)

    def added(self: Parts, *part: Any) -> None:
        nonlocal here
        here -= 1
        add(self, *part)

    monkeypatch.setattr(table.Chunk, "load", loaded)
    monkeypatch.setattr(Parts, "add", added)
    ask(CSV, chunk_rows=2, n_jobs=2)
    assert len(alive) == 116 and max(alive) < 20
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["done"] == [[0, [[0, 49]]], [1, [[0, 67]]]]


PEAK = """
import re, sys
from pathlib import Path
import treeproof as tp
model = tp.load_model("model.json")
attacker = tp.Attacker.linf(0.1)
done = tp.verify_table(model, sys.argv[1], attacker, out=sys.argv[2], n_jobs=2, timeout=0, chunk_rows=1000)
print(done.rows, re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_memory_does_not_grow_with_the_table(ending: str, tmp_path: Path) -> None:
    X, y = make_classification(200_000, 20, random_state=0)
    names = [f"c{i}" for i in range(20)]
    tp.save_model(RandomForestClassifier(3, max_depth=3, random_state=0).fit(X[:500], y[:500]), tmp_path / "model.json")
    frame = pd.DataFrame(X.round(6), columns=names).assign(label=y)
    peaks = []
    for n in (20_000, len(frame)):
        name = f"{n}.{ending}"
        if ending == "csv":
            frame[:n].to_csv(tmp_path / name, index=False)
        else:
            frame[:n].to_parquet(tmp_path / name, row_group_size=10_000)
        command = [sys.executable, "-c", PEAK, name, f"out {n}"]
        rows, peak = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
        assert int(rows) == n
        peaks.append(int(peak) / 1024)
    # The larger table takes 32 MB in memory, and three times that with neighbours and attacked rows; peaks of the same
    # work differ by up to 30 MB, as chunks are read ahead while others are written.
    assert peaks[1] < peaks[0] + 60
