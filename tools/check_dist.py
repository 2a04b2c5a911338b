"""Tries what `make dist` built: the wheel in an environment of its own, the sdist against the files under git."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent

# The only files in version control that a source release does without.
LEFT_OUT = (".ci/", ".gitignore")

CHECK = """
import pathlib, sys, treeproof
assert pathlib.Path(treeproof.__file__).is_relative_to(sys.prefix), f"{treeproof.__file__} is not the wheel's"
assert (pathlib.Path(treeproof.__file__).parent / "py.typed").exists(), "the types are not announced"
print("treeproof", treeproof.__version__, "in", sys.prefix)
"""


def main(folder: Path) -> None:
    """Leaves with a message where something is missing or does not run."""
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    check_contents(sdist)
    with tempfile.TemporaryDirectory() as outside:
        try_wheel(wheel.resolve(), Path(outside))


def check_contents(sdist: Path) -> None:
    """Every file in version control is in the sdist, and nothing else but what packing adds."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in tracked if name not in packed and not name.startswith(LEFT_OUT)]
    foreign = sorted(packed - set(tracked) - {"PKG-INFO"})
    if missing or foreign:
        raise SystemExit(f"{sdist.name} lacks {missing} and has {foreign} too many: see sdist in pyproject.toml")
    print(f"{sdist.name}: {len(packed)} files, all that tests need")


def try_wheel(wheel: Path, outside: Path) -> None:
    """Installs the wheel with what it asks for, and runs it as a user would, far from the sources."""
    venv.create(outside / "env", with_pip=True)
    python = outside / "env" / "bin" / "python"
    for command in (
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel],
        [python, "-m", "pip", "check"],
        [python, "-c", CHECK],
        [python.parent / "treeproof", "--version"],
        [python.parent / "treeproof", "demo"],
    ):
        subprocess.run(list(map(str, command)), cwd=outside, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
