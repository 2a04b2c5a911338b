"""Lets a library read a file in a process of its own: some crash, hang or fill the memory on damaged files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from treeproof.errors import InvalidInput, UnsupportedModel

PATIENCE = 60.0
"""Seconds that reading a file may take, plus one per megabyte."""

MEMORY = 8 * 2**30
"""Bytes of address space, unless a library is known to need less."""

# Runs before the code that is asked for: no core files, no more memory than allowed, and errors in one line.
_PRELUDE = """
import sys
def _one_line(kind, error, trace):
    print(f"{kind.__name__}: {error}".replace("\\n", " ")[:500], file=sys.stderr)
sys.excepthook = _one_line
_memory = int(sys.argv.pop(1))
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_memory, _memory))
except (ImportError, ValueError, OSError):
    pass
"""


def run_child(
    code: str, arguments: Sequence[str], *, folder: Path, library: str, size: int, memory: int = MEMORY
) -> None:
    """Runs Python code in another process, in `folder`; `arguments` become its `sys.argv[1:]`.

    `size` is that of the file that it reads, and `memory` the address space that it gets, plus 64 bytes for each of the
    file. InvalidInput if the library crashes, fails or takes too long, and
    UnsupportedModel if there is no other process.
    """
    seconds = PATIENCE + size / 1e6
    command = [sys.executable, "-c", _PRELUDE + code, str(memory + 64 * size), *arguments]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, env=environment, cwd=folder)
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"{library} did not read it within {seconds:.0f} s") from None
    except OSError as error:
        raise UnsupportedModel(
            f"{library} reads it in a process of its own, which cannot be started: {error}"
        ) from None
    if done.returncode < 0:
        raise InvalidInput(f"{library} crashes on it (signal {-done.returncode}); the file is damaged")
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InvalidInput(said[-1] if said else f"{library} failed with exit code {done.returncode}")
