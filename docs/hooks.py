"""Pages that live beside `docs/` (measurements, architecture, security, changelog) become pages of the site, too.

Links between them are written so that they work in the repository; here they are turned into links of the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
FOLDERS = ("benchmarks", "experiments")
"""Folders whose RESULTS.md becomes a page, with its pictures."""


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages and pictures from outside `docs/`."""
    beside = [path for path in ROOT.glob("*.md") if path.name != "README.md"]
    for folder in FOLDERS:
        results = ROOT / folder / "RESULTS.md"
        if results.exists():
            pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", results.read_text(encoding="utf-8"))
            beside += [results, *((results.parent / name).resolve() for name in pictures)]
    for path in beside:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are inside the site: there, what is in `docs/` lies beside the pages from the project's root."""
    if page.file.generated_by is not None:
        return re.sub(r"\]\((\.\./)?docs/", r"](\1", markdown)
    return re.sub(r"\]\(\.\./", "](", markdown)
