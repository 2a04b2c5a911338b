"""Commands run in this process, as a user would type them."""

from __future__ import annotations

from typing import Any

import pytest

from treeproof.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    """(exit code, what went to stdout, what went to stderr)."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err
