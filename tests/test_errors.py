"""A SoundnessError says the same wherever it comes from: which rows, what is not believed, and what to send."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.commands import run
from tests.support.liars import Liar
from treeproof.errors import SoundnessError, counted, disbelieved
from treeproof.importers import registry
from treeproof.model.agreement import SAMPLE, probe_rows
from treeproof.run.limits import Limits
from treeproof.run.workers import run_tasks

TREE = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])
N, ODD = 300, 200
X = np.column_stack((np.linspace(0.0, 0.1, N), np.arange(N) / N))
X[ODD, 0] = 0.45
y = np.zeros(N, dtype=int)
ATTACKER = tp.Attacker.linf({0: 0.2})
COSTLY = tp.Attacker({0: (-0.2, 0.2)}, costs=2, budget=2)


def liar(rows: Any = X, own_probes: bool = False) -> tp.Ensemble:
    """Its library's own model calls all rows 0 that it was not asked about, so that no attack changes its label.

    Those that treeproof itself asks about first are known to it, unless it lies about its `own_probes`, too.
    """
    model = tp.from_model(TREE)
    known = np.concatenate((np.asarray(rows), probe_rows(model, 0 if own_probes else SAMPLE)))
    return dataclasses.replace(model, source=Liar(TREE, known, 0))


ASKED: dict[str, Callable[[Any], Any]] = {
    "verify": lambda rows: tp.verify(liar(rows), rows, y, ATTACKER),
    "verify, on two threads": lambda rows: tp.verify(liar(rows), rows, y, ATTACKER, n_jobs=2),
    "verify, resilience": lambda rows: tp.verify(liar(rows), rows, y, tp.Attacker.linf({0: 0.04}), epsilon={0: 0.02}),
    "cheapest_attack": lambda rows: tp.cheapest_attack(liar(rows), rows, COSTLY),
    "robustness_radius": lambda rows: tp.robustness_radius(
        liar(rows), rows, y, tp.Attacker({0: (0, 1)}, domain=(0, 1))
    ),
    "protect": lambda rows: tp.protect(liar(rows), rows, y, ATTACKER, to=1.0),
    "Verifier": lambda rows: tp.Verifier(liar(rows), ATTACKER).verdicts(rows),
}
ALL = {"robustness_radius"}
"""Of these questions, every row has an attack, and the first is named."""


@pytest.mark.parametrize("ask", ASKED)
def test_the_row_is_the_users_own_and_what_to_send_is_said(ask: str) -> None:
    with pytest.raises(tp.SoundnessError) as caught:
        ASKED[ask](X)
    error, said = caught.value, str(caught.value)
    if ask not in ALL:
        assert error.rows == (ODD,) and said.startswith(f"row {ODD}: ")
    assert "label" in said
    assert "please report this, with the model file, these rows and the attacker (treeproof " in said
    assert "numpy" in said and "Python" in said


@pytest.mark.parametrize("ask", sorted(ASKED.keys() - ALL - {"Verifier"}))
def test_a_frame_calls_its_rows_by_its_index(ask: str) -> None:
    frame = pd.DataFrame(X, index=[f"applicant {row}" for row in range(N)])
    frame.columns = [0, 1]
    with pytest.raises(tp.SoundnessError) as caught:
        ASKED[ask](frame)
    assert caught.value.rows == (ODD,) and str(caught.value).startswith(f"row {ODD} (index 'applicant {ODD}'): ")


def test_changes_that_do_not_give_what_is_wanted_name_the_row() -> None:
    rows = X[:, :1] * 0 + X[:, :1]
    tree = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    model = dataclasses.replace(tp.from_model(tree), source=Liar(tree, rows, 0))
    for ask in (
        lambda: tp.counterfactual(model, rows, to=1, attacker=COSTLY),
        lambda: tp.explain(model, rows, kind="contrastive"),
    ):
        with pytest.raises(tp.SoundnessError, match=r"^row \d+: the change that was found gives it 0"):
            ask()


def test_rows_of_files_are_counted_as_the_file_counts_them(tmp_path: Path) -> None:
    file, out = tmp_path / "rows.csv", tmp_path / "verdicts"
    pd.DataFrame(X, columns=["a", "b"]).assign(label=y).to_csv(file, index=False)
    with pytest.raises(tp.SoundnessError) as caught:
        tp.verify_table(liar(), file, ATTACKER, out=out, chunk_rows=64, n_jobs=1)
    assert caught.value.rows == (ODD,) and str(caught.value).startswith(f"{file}, row {ODD}: ")
    parts = sorted(out.glob("part-*"))
    assert len(parts) == 3, "those before it are whole, and the one with the row is not there"
    for number, part in enumerate(parts):
        assert pd.read_csv(part)["row"].tolist() == list(range(64 * number, 64 * number + 64))


@dataclasses.dataclass
class SomeRows:
    """A task about some rows."""

    numbers: list[int]


def fail_at_second(content: list[int], task: SomeRows) -> None:
    raise disbelieved("no such attack", content)


@pytest.mark.parametrize(
    ("rows", "said"), [([1], "row 8: no such"), ([], r"row 7: no such attack \(or one of rows 8\)")]
)
def test_what_fails_in_another_process_names_the_callers_row(rows: list[int], said: str) -> None:
    with pytest.raises(tp.SoundnessError, match=f"^{said}") as caught:
        run_tasks(fail_at_second, rows, [SomeRows([7, 8])] * 2, Limits(), 2, lambda *_: None, prefer="processes")
    assert "please report this" in str(caught.value)


def test_many_rows_are_named_in_short() -> None:
    error = disbelieved("no", range(9))
    assert str(error).startswith("row 0: no (also rows 1, 2, 3, 4 and 4 more); nothing is said")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with (
        pytest.raises(SoundnessError, match=r"^rows.csv, row 12: no \(also rows 13\)$"),
        counted(range(9, 20), where="rows.csv"),
    ):
        raise SoundnessError("no", rows=[3, 4])


# --- on the command line ---------------------------------------------------------------------------------------------

OUTPUTS = ("result.json", "rows.csv", "report.html", "guarded.csv", "proofs.tpp", "map.tpm", "explained.json")
COMMANDS = {
    "verify": "verify {model} {rows} --label label --delta 0=0.2 --json result.json --csv rows.csv --report report.html"
    " --proofs proofs.tpp",
    "verify, parts": "verify {model} {rows} --label label --delta 0=0.2 --out parts",
    "guard": "guard {model} {rows} --label label --delta 0=0.2 --out guarded.csv",
    "map": "map {model} --delta 0.2 --out map.tpm",
    "explain": "explain {model} {rows} --label label --kind contrastive --json explained.json",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("there", [True, False], ids=["files were there", "no files"])
def test_the_command_line_says_it_in_one_line_and_writes_nothing(
    command: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tp.save_model(TREE, "model.json")
    monkeypatch.setattr(
        registry, "load_and_confirm", lambda *_, **__: (liar(own_probes=command in ("guard", "map")), None)
    )
    pd.DataFrame(X, columns=["a", "b"]).assign(label=y).to_csv("rows-in.csv", index=False)
    for name in OUTPUTS if there else ():
        Path(name).write_text("old")
    before = sorted(path.name for path in tmp_path.iterdir())
    words = COMMANDS[command].format(model="model.json", rows="rows-in.csv").split()
    code, out, err = run(capsys, *words)
    assert code == 3, err
    last = err.strip().splitlines()[-1]
    assert last.startswith("treeproof: ") and "please report this, with the model file" in last
    assert "Traceback" not in out + err
    after = sorted(path.name for path in tmp_path.iterdir())
    assert [name for name in after if name not in ("parts", "proofs.tpp.part")] == before
    assert all(Path(name).read_text() == "old" for name in OUTPUTS if there)
    assert not list(tmp_path.glob("parts/part-*"))
