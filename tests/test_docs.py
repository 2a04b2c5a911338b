"""What the README and the docs show, runs."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sklearn

import treeproof as tp
from treeproof.cli.main import main
from treeproof.present.report import curves, planes
from treeproof.results.proof_counts import ProofCounts

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
BESIDE = [page for page in (*sorted(ROOT.glob("*.md")), *ROOT.glob("*/RESULTS.md")) if page.name != "README.md"]

DATA = {
    "credit.md": ["german_credit.csv"],
    "adverse_action.md": ["german_credit.csv", "adult.csv.xz"],
    "income.md": ["adult.csv.xz"],
}
"""The files that the code of a page reads."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def run_python(page: Path) -> dict[str, object]:
    """What a page's Python leaves behind, in the folder that is the current one."""
    names: dict[str, object] = {}
    for file in DATA.get(page.name, ()):
        folder = os.environ.get("TREEPROOF_DATA")
        if folder is None:
            pytest.skip(f"{file} is found through TREEPROOF_DATA")
        shutil.copy(Path(folder, file), file)
    wrong = []
    for block, shown in outputs(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, page.name, "exec"), names)
        if shown and sklearn.__version__.startswith(OUTPUTS_OF) and not is_output(shown, printed.getvalue()):
            wrong.append(f"{page.name} shows\n{shown}\nand its code prints\n{printed.getvalue()}")
    assert not wrong, "\n".join(wrong)
    return names


OUTPUTS_OF = "1.9."
"""The version of scikit-learn whose models made what pages show; others train other trees."""


def outputs(page: Path) -> list[tuple[str, str]]:
    """A page's Python, each block with the output that stands right below it, if any does."""
    pattern = r"^```python\n(.*?)^```(?:\n\n```(?:text)?\n(.*?)^```)?"
    return re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def is_output(shown: str, printed: str) -> bool:
    """Whether that is what was printed; "…" at the end of a line stands for anything, also for more lines."""
    parts = [re.escape(part) for part in re.split(r"…(?=\n)", shown.rstrip("\n") + "\n")]
    return re.fullmatch(".*".join(parts), printed, flags=re.DOTALL) is not None


def test_what_is_left_out_of_an_output_is_all_that_may_differ() -> None:
    assert is_output("a 1\n…\nb …\n", "a 1\nx\ny\nb 2\n") and is_output("a\n", "a\n")
    assert not is_output("a 1\n…\nb\n", "a 2\nx\nb\n") and not is_output("a\n", "a\nb\n")


# ---- commands ---------------------------------------------------------------------------------------------


def commands(page: Path) -> list[str]:
    """The lines `treeproof …` of a page's shell blocks, and what the steps of its YAML run."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    for block in blocks(page, "yaml"):
        lines += [" ".join(run.split()) for run in re.findall(r"run: >-\n((?: {10}.*\n)+)", block)]
    return [line for line in lines if line.startswith("treeproof ")]


def run_command(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command prints; its exit code must be the one that the line states, 0 if it states none."""
    words = shlex.split(line, comments=True)[1:]
    if "--report" in words and not hasattr(tp, "write_report"):
        del words[words.index("--report") : words.index("--report") + 2]
    expected = re.search(r"# exits with (\d+)$", line)
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    assert int(ended.value.code or 0) == (int(expected[1]) if expected else 0), f"{line}\n{err}"
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python") or commands(page)], ids=lambda page: page.name
)
def test_python_and_commands_in_documentation_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands in the folder that the page's own Python leaves behind; without a model, with the files of cli.md."""
    monkeypatch.chdir(tmp_path)
    # Reports take half a minute otherwise.
    monkeypatch.setattr(curves, "MAX_ROWS", 20)
    monkeypatch.setattr(planes, "RESOLUTIONS", (8,))
    assert bool(run_python(page)) == bool(blocks(page, "python"))
    if commands(page) and not Path("model.json").exists():
        run_python(DOCS / "cli.md")
    ran = [run_command(line, capsys) for line in commands(page) if line != "treeproof demo"]
    assert all(ran)


def test_output_shown_for_verify_is_what_verify_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(DOCS / "cli.md")
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```sh\n(treeproof verify [^\n]*)\n```\n\n```\n(.*?)```", text, flags=re.DOTALL)
    printed = {_words(line) for line in run_command(shown[0], capsys).splitlines()}
    for line in shown[1].splitlines():
        assert _words(line) in printed, line


def _words(line: str) -> str:
    """The words of a line; numbers, and which rows are broken how, change with the version of scikit-learn."""
    words = re.sub(r"\d+ rows, [\d.]+ s$|^[─ ]+$", "#", " ".join(line.split()))
    if sklearn.__version__.startswith(OUTPUTS_OF):
        return words
    return re.sub(r"[\d.]+", "#", re.sub("^(broken|nearby) .*", r"\1", words))


def test_every_command_has_its_place_on_the_page() -> None:
    from treeproof.cli.main import COMMANDS

    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"\n## {name}\n" in text or f"[`{name}`]({name}.md)" in text, name


# ---- files and names --------------------------------------------------------------------------------------


def test_the_example_of_the_format_loads(tmp_path: Path) -> None:
    (block,) = blocks(DOCS / "format.md", "json")
    (tmp_path / "model.json").write_text(json.dumps(json.loads(block)))
    ensemble = tp.load_model(tmp_path / "model.json")
    assert ensemble.predict([[40, 30000.0], [40, 30000.1]]).tolist() == ["deny", "grant"]


def test_attackers_shown_as_json_load() -> None:
    shown = [block for page in PAGES for block in blocks(page, "json") if "treeproof-attacker" in block]
    assert shown
    for block in shown:
        assert tp.Attacker.from_json(block).intervals


def fields_in(section: str) -> set[str]:
    """The names in the first cells of the table in a section of the page on formats."""
    text = (DOCS / "format.md").read_text(encoding="utf-8").split(f"## {section}")[1].split("\n## ")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", text, flags=re.MULTILINE)
    return {name for cell in first_cells for name in cell.split("`")[1::2]}


def test_every_field_of_cheapest_attacks_is_written_down() -> None:
    found = tp.cheapest_attack(_stump(), [[0.0], [1.0]], tp.Attacker.l0(1))
    assert set(json.loads(found.to_json())) == fields_in("The format of cheapest attacks")


def test_every_field_of_explanations_and_counterfactuals_is_written_down() -> None:
    reasons = json.loads(tp.explain(_stump(), [[0.0]]).to_json())
    assert set(reasons) == fields_in("The format of explanations")
    changes = json.loads(tp.counterfactual(_stump(), [[0.0]], to=1, attacker=tp.Attacker.l0(1)).to_json())
    assert set(changes) == fields_in("The format of counterfactuals")
    protection = tp.protect(_stump(), [[0.0]], [0], tp.Attacker.l0(1), to=1.0)
    assert set(json.loads(protection.to_json())) == fields_in("The format of protections")
    prose = (DOCS / "format.md").read_text(encoding="utf-8").split("## The format of explanations")[1]
    for name in (*reasons["explanations"][0], *changes["counterfactuals"][0]):
        assert f"`{name}`" in prose, name
    about_one = prose.split("A counterfactual has ")[1].split("\n\n")[0]
    assert {"row", "index", *changes["counterfactuals"][0]} == set(re.findall(r"`(\w+)`", about_one))


def test_every_field_of_a_result_is_written_down() -> None:
    result = tp.verify(_stump(), [[0.0], [1.0]], [0, 1], tp.Attacker.linf(0.1), epsilon=0.1)
    named = fields_in("The result format")
    result = replace(result, decision="label 1 where its probability is at least 0.2", proofs=ProofCounts(2, 0, 0, "1"))
    assert set(json.loads(result.to_json())) == named


def _stump() -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])


def test_the_api_page_has_every_public_name() -> None:
    listed = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    by_name = {path.rpartition(".")[2]: path for path in listed}
    assert set(tp.__all__) <= set(by_name)
    for name in tp.__all__:
        public = getattr(tp, name)
        module, _, _ = by_name[name].rpartition(".")
        assert getattr(importlib.import_module(module), name) is public


def test_numbers_of_the_picture_are_those_of_the_page() -> None:
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None and spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    _, a, b = pictures.two_test_sets()
    assert abs(a.X - b.X).max() < pictures.EPSILON
    assert float(a.robustness) - float(b.robustness) > 0.4
    assert a.accuracy == b.accuracy and float(a.resilience) == float(b.resilience)
    measures = [f"{float(m):.2f}" for one in (a, b) for m in (one.accuracy, one.robustness, one.resilience)]
    told = re.search(r"!\[Two test sets .*?\]\(two_test_sets.svg\)", (DOCS / "index.md").read_text(encoding="utf-8"))
    assert told is not None and re.findall(r"\d\.\d\d", told[0]) == measures


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, *BESIDE]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


PATH = re.compile(r"(?<![\w<>./-])((?:[\w.-]+/)*[\w.-]+(?:\.py\b|/$))(?:: (.*))?")
"""`folder/`, `file.py`, or `file.py: name, Class.name`; what has a <placeholder> in it is none."""


def named_paths(page: Path) -> list[tuple[str, list[str]]]:
    """Every path that stands between backticks on a page, and the names that follow it."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = [match for span in re.findall(r"`([^`\n]+)`", prose) for match in PATH.findall(span)]
    return [(path, re.findall(r"[\w.]+", names)) for path, names in found]


def is_defined(name: str, file: Path) -> bool:
    last = name.rpartition(".")[2]
    return re.search(rf"^\s*(def|class) {last}\b|^{last}\b.* =", file.read_text("utf-8"), re.MULTILINE) is not None


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_and_names_on_a_page_exist(page: Path) -> None:
    """From the root, from the package, or from beside the page."""
    folders = (ROOT, ROOT / "src/treeproof", page.parent)
    for path, names in named_paths(page):
        found = [folder / path for folder in folders if (folder / path).exists()]
        assert found, f"{page.name} names {path}, which does not exist"
        for name in names:
            assert is_defined(name, found[0]), f"{page.name} names {name} of {path}, which does not define it"


def test_paths_are_found_on_pages() -> None:
    found = named_paths(ROOT / "ARCHITECTURE.md")
    assert ("_kernels/walk.py", ["score_rows"]) in found and ("importers/", []) in found and len(found) > 50


def test_the_site_has_every_page() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^ +- [^#\n]*: (\S+\.md)$", config, flags=re.MULTILINE))
    assert {page.name for page in DOCS.glob("*.md")} <= listed
