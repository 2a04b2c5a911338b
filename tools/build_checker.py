"""Packs the checker of proofs into one file that needs nothing but Python: `python tools/build_checker.py TARGET`."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import zipapp
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "treeproof"
CORE = ("rules", "claims")
"""What says which steps of proofs hold."""


def _needed(name: str) -> set[str]:
    """A module of the folder `check` and all that it imports from there."""
    found, waiting = {name}, [name]
    while waiting:
        text = (SOURCE / "check" / f"{waiting.pop()}.py").read_text("utf-8")
        others = set(re.findall(r"^from treeproof\.check\.(\w+) import", text, re.MULTILINE)) - found
        found |= others
        waiting += others
    return found


FILES = sorted(_needed("__main__"))
"""All that checking takes, of the folder `check`."""


def main(target: Path) -> None:
    """Writes the file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "treeproof"
        (package / "check").mkdir(parents=True)
        version = re.search(r'^__version__ = ".*"$', (SOURCE / "__init__.py").read_text("utf-8"), re.MULTILINE)
        assert version is not None
        (package / "__init__.py").write_text(version.group() + "\n", "utf-8")
        (package / "check" / "__init__.py").touch()
        for name in FILES:
            shutil.copy(SOURCE / "check" / f"{name}.py", package / "check")
        (Path(folder) / "__main__.py").write_text(
            "import sys\nfrom treeproof.check.__main__ import main\nsys.exit(main())\n", "utf-8"
        )
        zipapp.create_archive(folder, target, interpreter="/usr/bin/env python3", compressed=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
