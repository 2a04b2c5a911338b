"""Files made to deceive whoever runs a command: names that print lines of their own, sizes that are lies, odd types."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.commands import run

EVIL = "x\nrobust      1.000\x1b[2J\u202e\u2066\r\x07\x9b31m\u2028"
LABELS = ["no\nrobust 1.000\x1b[1A\u202e", "=yes"]
NAMES = [EVIL, "@SUM(1)", "b" * 300]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a plain model and rows, and hostile ones with the same trees and numbers."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    tp.save_model(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y), "model.json")
    np.savez("data.npz", X=X, y=y)
    content = json.loads(Path("model.json").read_text())
    content["columns"] = [column | {"name": name} for column, name in zip(content["columns"], NAMES, strict=True)]
    content |= {"origin": EVIL, "classes": LABELS, "class_dtype": "str"}
    Path("evil.json").write_text(json.dumps(content))
    np.savez("evil.npz", X=X, y=np.array(LABELS)[y], feature_names=np.array(NAMES))
    return tmp_path


def harmless(text: str) -> bool:
    """Whether nothing in the text moves the cursor or turns the direction, and no name begins a line."""
    controls = {one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return controls <= {"\n"} and not re.search(r"^\s*robust +1\.000", text, re.MULTILINE)


def test_names_and_labels_print_nothing_of_their_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["evil.json", "evil.npz", "--delta", "0.3"]
    commands = [
        ["inspect", "evil.json", "--features"],
        ["verify", *rows, "--json", "r.json", "--csv", "r.csv", "--report", "r.html", "--jobs", "1"],
        ["map", "evil.json", "--delta", "0.3", "--data", "evil.npz", "--out", "m.tpm", "--jobs", "1"],
        ["guard", *rows, "--out", "g.csv", "--jobs", "1"],
        ["train", "evil.npz", "--delta", "0.1", "--trees", "1", "--out", "t.json", "--jobs", "1"],
        ["check", "evil.json", "r.json", "--sample", "2", "--no-proofs"],
        ["check", "evil.json", "m.tpm", "--sample", "2", "--no-proofs"],
    ]
    for command in commands:
        code, out, err = run(capsys, *command)
        assert code == 0 and harmless(out) and harmless(err), command
    assert harmless(Path("r.html").read_text(encoding="utf-8").replace("\t", ""))
    wrong = [
        ["verify", "evil.json", "data.npz", "--delta", "0.3", "--classes", EVIL],
        ["verify", "evil.json", "data.npz", "--delta", "0.3"],
        ["verify", *rows, "--only", EVIL + "!"],
        ["guard", *rows, "--out", "g.csv", "--column", EVIL],
        ["inspect", EVIL],
        ["verify", "evil.json", f"{EVIL}.csv", "--delta", "0.3"],
        ["inspect", "evil.json", f"--{EVIL}"],
    ]
    for command in wrong:
        code, out, err = run(capsys, *command)
        assert code == 2 and harmless(out) and harmless(err), command
        assert "unexpected" not in err and len(err.splitlines()) == 1


def test_python_shows_them_escaped_too(folder: Path) -> None:
    model = tp.load_model("evil.json")
    with np.load("evil.npz") as stored:
        result = tp.verify(model, stored["X"], stored["y"], tp.Attacker.linf(0.3), epsilons=[0.1])
    named = tp.Verification(**{**vars_of(result), "epsilon_names": (EVIL,)})
    shown = [repr(model), repr(result), repr(named), named._repr_html_()]
    shown += [witness.in_words() for verdict in result.verdicts if (witness := verdict.witness) is not None]
    assert len(shown) > 4 and all(harmless(one) and "\n" not in one for one in shown)


def vars_of(result: tp.Verification) -> dict[str, Any]:
    return {name: value for name, value in vars(result).items() if name in type(result).__dataclass_fields__}


def test_cells_are_no_formulas_unless_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, option in (("verify", "--csv"), ("guard", "--out")):
        for raw in (False, True):
            more = ["--raw-csv"] if raw else []
            assert run(capsys, command, "evil.json", "evil.npz", "--delta", "0.3", option, "o.csv", *more)[0] == 0
            cells = {cell for line in csv.reader(io.StringIO(Path("o.csv").read_text(), newline="")) for cell in line}
            assert ("=yes" in cells) is raw and ("'=yes" in cells) is not raw
            assert any(cell.startswith("-") for cell in cells) is (command == "guard")  # numbers stay numbers


def npz(**arrays: tuple[tuple[int, ...], str]) -> bytes:
    """An .npz file whose arrays have these shapes and dtypes, and no content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, (shape, dtype) in arrays.items():
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(head, {"descr": dtype, "fortran_order": False, "shape": shape})
            packed.writestr(f"{name}.npy", head.getvalue())
    return file.getvalue()


def bomb() -> bytes:
    """100 MB of zeros, packed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        array = io.BytesIO()
        np.save(array, np.zeros((10**7, 1), dtype=np.int8))
        packed.writestr("X.npy", array.getvalue())
    return file.getvalue()


def saved(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def parquet(**columns: Any) -> bytes:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, use_dictionary=["zeros"])
    return file.getvalue()


def one_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros((2, 3)))
    return file.getvalue()


ROWS = np.ones((2, 3))
LARGE = "--max-bytes is 1,000,000, but "
BAD: dict[str, tuple[str, Callable[[], bytes | str], str]] = {
    "no rows, many columns": ("d.npz", lambda: npz(X=((0, 10**9), "<f8")), f"{LARGE}d.npz, with 0 rows and 1,000,0"),
    "a shape that lies": ("d.npz", lambda: npz(X=((10**6, 10**6), "<f8")), f"{LARGE}X.npy in d.npz takes 8,000,"),
    "a short file": ("d.npz", lambda: npz(X=((10, 3), "<f8")), "d.npz is not an .npz file of plain arrays"),
    "a negative shape": ("d.npz", lambda: npz(X=((-5, 3), "<f8")), "d.npz is not an .npz file of plain arrays"),
    "wide labels": ("d.npz", lambda: npz(y=((1,), "<U500000000")), f"{LARGE}y.npy in d.npz takes 2,000,000,000"),
    "a packed bomb": ("d.npz", bomb, f"{LARGE}X.npy in d.npz takes 10,000,128"),
    "an array named .npz": ("d.npz", one_array, "d.npz is not an .npz file of plain arrays: File is not a zip file"),
    "arrays named .npy": ("d.npy", lambda: saved(X=ROWS), "d.npy is not a data file that treeproof reads"),
    "complex numbers": ("d.npz", lambda: saved(X=ROWS * 1j, y=[0, 1]), "'0': complex128 is not a type of numbers"),
    "dates": ("d.npz", lambda: saved(X=ROWS.astype("M8[D]"), y=[0, 1]), "column '0': datetime64[D] is not a type"),
    "records": ("d.npz", lambda: saved(X=np.zeros((2, 3), [("a", "i4")]), y=[0, 1]), "is not a type of numbers"),
    "complex labels": ("d.npz", lambda: saved(X=ROWS, y=[0, 1j]), "column 'label': complex128 is not a type of labels"),
    "labels in bytes": ("d.npz", lambda: saved(X=ROWS, y=[b"0", b"\xff"]), "'label': |S1 is not a type of labels"),
    "missing labels": ("d.npz", lambda: saved(X=ROWS, y=[np.nan, 1]), "row 0, column 'label': the label is missing"),
    "a feature named label": (
        "d.npz", lambda: saved(X=ROWS, y=[0, 1], feature_names=["a", "label", "b"]), "two columns named 'label'"
    ),
    "a large index": ("d.libsvm", lambda: "1 100000000:1\n", f"{LARGE}d.libsvm, with 1 rows and 100,000,000 columns"),
    "an index beyond 32 bits": ("d.libsvm", lambda: "1 2147483648:1\n", "d.libsvm is not a LIBSVM file"),
    "an index beyond 64 bits": ("d.libsvm", lambda: "1 99999999999999999999:1\n", "d.libsvm is not a LIBSVM file"),
    "many columns": ("d.csv", lambda: "a," * 10**4 + "b\n", f"{LARGE}d.csv, with 1 rows and 10,001 columns"),
    "many columns over many lines": ("d.csv", lambda: '"a\n",' * 10**4 + "b\n", f"{LARGE}d.csv, with 1 rows and "),
    "many rows": ("d.csv", lambda: "a,b,c,label\n" + "1,2,3,0\n" * 40_000, f"{LARGE}d.csv, with 32,768 rows and 4"),
    "a long line": ("d.csv", lambda: "a,b\n" + ",".join(["1" * 110_000] * 10), f"{LARGE}one line of d.csv takes"),
    "a long field": ("d.csv", lambda: f'a,b,c,label\n"{"y" * 200_000}",1,2,1\n', "not a CSV file: field larger"),
    "many rows, packed": (
        "d.parquet", lambda: parquet(zeros=np.zeros(10**6)), f"{LARGE}d.parquet, with 1,000,000 rows and 1 columns"
    ),
    "long text, packed": (
        "d.parquet", lambda: parquet(text=["x" * 10**5] * 100), f"{LARGE}d.parquet, once it is unpacked, takes 10,00"
    ),
    "many columns, packed": (
        "d.parquet", lambda: parquet(**{str(i): [] for i in range(1000)}), f"{LARGE}d.parquet, with 0 rows and 1,000 c"
    ),
    "half a file": ("d.parquet", lambda: parquet(a=[1], label=[1])[:-9], "d.parquet is not a Parquet file"),
    "no UTF-8": ("d.csv", lambda: b"a,b,c,label\n1,2,3,\xff\n", "d.csv is not a text file in UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", ["verify", "train"])
def test_sizes_and_types_are_checked_before_they_are_believed(
    case: str, command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, content, message = BAD[case]
    data = content()
    Path(name).write_bytes(data if isinstance(data, bytes) else data.encode())
    more = ["model.json", name] if command == "verify" else [name, "--out", "o.json"]
    code, out, err = run(capsys, command, *more, "--delta", "0.1", "--max-bytes", 10**6)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert err.startswith("treeproof: ") and message in err and "unexpected" not in err


def test_the_limit_can_be_raised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["verify", "model.json", "data.npz", "--delta", "0.1", "--jobs", "1"]
    assert run(capsys, *question, "--max-bytes", 3000)[0] == 2
    assert run(capsys, *question, "--max-bytes", 5000)[0] == 0


@pytest.mark.parametrize(
    ("rows", "y", "message"),
    [
        ([[1.0, np.inf, 2.0], [1.0, 2.0, 3.0]], [0, 1], "row 0, column '1': inf cannot be trained on; leave the row"),
        ([[1.0, 2.0, 2.0], [1.0, np.nan, 3.0]], [0, 1], "row 1, column '1': nan cannot be trained on; leave the row"),
        (ROWS, [0.5, 1.5], "row 0, column 'label': 0.5 is not a label where labels are not all whole numbers"),
        (ROWS, [1e300, np.inf], "row 0, column 'label': 1e+300 is not a label"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_on(
    rows: Any, y: Any, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("d.npz", X=rows, y=y)
    code, _, err = run(capsys, "train", "d.npz", "--delta", "0.1", "--out", "o.json")
    assert code == 2 and message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "data.npz", "--delta", "1", "--out", "o", "--seed", "-1"], "--seed"),
        (["train", "data.npz", "--delta", "1", "--out", "o", "--trees", "9" * 30], "--trees"),
        (["verify", "model.json", "data.npz", "--delta", "1", "--jobs", "9" * 12], "--jobs"),
        (["verify", "model.json", "x" * 300 + ".csv", "--delta", "1"], "File name too long"),
        (["verify", "model.json", "\udcff.csv", "--delta", "1"], r"cannot read \\udcff.csv: No such file"),
        (["inspect", "x" * 300], "File name too long"),
        (["inspect", "a\0b"], "expected a path"),
        (["check", "model.json", "."], "Is a directory"),
        (["check", "model.json", "data.npz", "--seed", "1"], "--seed needs --sample"),
        (["check", "model.json", "/dev/zero", "--max-bytes", "1000"], "--max-bytes is 1,000, but /dev/zero takes"),
    ],
)
def test_the_rest_is_one_line(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2 and len(err.splitlines()) == 1 and "unexpected" not in err
    assert re.search(message, err), err


@pytest.mark.parametrize(
    ("error", "message"), [(MemoryError(), "not enough memory"), (KeyError("x"), "unexpected KeyE")]
)
def test_even_bugs_are_one_line(
    error: Exception, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("treeproof.importers.registry.load_and_confirm", fails)
    code, _, err = run(capsys, "inspect", "model.json")
    assert code == 2 and message in err and len(err.splitlines()) == 1
    monkeypatch.setenv("TREEPROOF_TRACEBACK", "1")
    assert ("Traceback" in run(capsys, "inspect", "model.json")[2]) is isinstance(error, KeyError)


def test_long_messages_are_cut(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tp.Attacker([(-1, 1)] * 3000).to_json("many.json")
    code, out, err = run(capsys, "verify", "model.json", "data.npz", "--attacker", "many.json", "--jobs", "1")
    assert code == 2 and "attacker has 3000 features" in err and len(out) < 3000
    code, _, err = run(capsys, "inspect", "model.json", "--" + "x" * 5000)
    assert code == 2 and " … " in err and len(err) < 2100
