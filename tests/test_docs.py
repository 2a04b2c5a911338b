"""What the README and the docs show, runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import treeproof as tp

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_in_documentation_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    assert names


def test_the_example_of_the_format_loads(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "docs" / "format.md", "json")
    (tmp_path / "model.json").write_text(json.dumps(json.loads(block)))
    ensemble = tp.load_model(tmp_path / "model.json")
    assert ensemble.predict([[40, 30000.0], [40, 30000.1]]).tolist() == ["deny", "grant"]


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
