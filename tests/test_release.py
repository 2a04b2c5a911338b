"""What a release says in several places, it says alike: version, date, addresses, Python versions, make targets."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import treeproof
from tools.minimum import pins

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CI: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def sections() -> list[str]:
    return re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_newest_release_is_the_version_and_what_is_cited() -> None:
    assert sections()[0] == "Unreleased"
    assert sections()[1] == f"{treeproof.__version__} — {CITATION['date-released']}"
    assert str(CITATION["version"]) == treeproof.__version__


def test_releases_are_dated_and_stand_newest_first() -> None:
    released = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) — (\d{4}-\d\d-\d\d)", section) for section in sections()[1:]]
    assert all(released), sections()
    for newer, older in itertools.pairwise(released):
        assert newer and older
        assert [int(part) for part in newer.groups()[:3]] > [int(part) for part in older.groups()[:3]]
        assert newer[4] >= older[4]


def test_citation_and_package_name_the_same_authors_licence_and_addresses() -> None:
    assert [author["name"] for author in CITATION["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["url"] == PROJECT["urls"]["Homepage"]
    assert CITATION["repository-code"] == PROJECT["urls"]["Source"]


def test_addresses_of_the_project_are_those_of_pyproject() -> None:
    for page in [*PAGES, ROOT / "CITATION.cff", ROOT / "mkdocs.yml"]:
        for address in re.findall(r"https?://[^\s\"'`<>)]*treeproof[^\s\"'`<>)]*", page.read_text(encoding="utf-8")):
            assert address in PROJECT["urls"].values(), f"{page.name} says {address}, which is not in [project.urls]"


def test_reports_of_flaws_have_an_address() -> None:
    assert f"<{PROJECT['urls']['Security']}>" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


# --- make and CI -------------------------------------------------------------------------------------------------


def targets() -> set[str]:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    return set(phony.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_that_pages_name_exist(page: Path) -> None:
    for words in re.findall(r"(?:`|^\s*)make ([a-z][a-z -]*)", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        assert set(words.split()) <= targets(), f"{page.name} says make {words}"


def steps() -> list[str]:
    return [step["run"] for job in CI["jobs"].values() for step in job["steps"] if "run" in step]


def test_ci_calls_make_and_nothing_else_of_ours() -> None:
    made = {step.removeprefix("make ") for step in steps() if step.startswith("make ")}
    assert made == {"lint", "docs", "test", "test-long", "coverage", "test-minimum", "dist"}
    assert {step for step in steps() if not step.startswith("make ")} == {"brew install libomp"}
    assert made <= targets()


def test_ci_runs_every_python_that_the_package_names() -> None:
    named = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: Python :: 3\.\d+$", name)]
    assert CI["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    (oldest,) = [step["with"] for step in CI["jobs"]["minimum"]["steps"] if "python-version" in step.get("with", {})]
    assert oldest["python-version"] == named[0]


# --- the oldest versions -----------------------------------------------------------------------------------------


def test_oldest_versions_are_the_lower_bounds() -> None:
    metadata = [
        "numpy>=1.26",
        "dask[distributed]!=2024.9,>=2024.8; extra == 'dask'",
        "ruff>=0.6; extra == 'lint'",
        "xgboost-cpu>=2.1.1; (sys_platform == 'linux') and extra == 'test'",
        "xgboost>=2.0; (sys_platform != 'linux') and extra == 'test'",
        "xgboost>=2.0; extra == 'xgboost'",
    ]
    assert pins(metadata) == ["dask[distributed]==2024.8", "numpy==1.26", "xgboost==2.0"]


def test_bounds_that_are_missing_or_disagree_are_refused() -> None:
    with pytest.raises(SystemExit, match="numpy has no lower bound"):
        pins(["numpy"])
    with pytest.raises(SystemExit, match="two lower bounds in pyproject.toml: 2.1, 2.2"):
        pins(["pandas>=2.1; extra == 'pandas'", "pandas>=2.2; extra == 'test'"])
