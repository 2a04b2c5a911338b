"""Compiled code: kept where it can be, compiled without a crash where not, and never run if its file was damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import treeproof

TINY = """
from treeproof._kernels.jit import entry, tiny

@tiny
def twice(x):
    return 2 * x

@entry
def answer(x):
    return twice(x) + 1
"""
ASK = "import tiny_kernels as k; print(k.answer(20) + 1, len(k.answer._cache_hits), k.answer.stats.cache_path)"


def ask(folder: Path, code: str = ASK, **environment: str) -> tuple[str, str]:
    """Runs the code where `tiny_kernels` can be imported; returns what it says, and on stderr."""
    source = folder / "tiny_kernels.py"
    if not source.exists():
        source.write_text(TINY)
    left = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    path = os.pathsep.join([str(folder), str(Path(treeproof.__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env=left | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def hits(said: str) -> int:
    """How many functions came out of the cache, if the answer is right."""
    number, found = said.split()[:2]
    assert number == "42"
    return int(found)


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """An install that cannot be written to, with no other place for compiled code, except perhaps the temporary one."""
    (tmp_path / "__pycache__").write_text("in the way")
    (tmp_path / "tmp").mkdir()
    return {"NUMBA_CACHE_DIR": "/dev/null/none", "HOME": "/dev/null", "TMPDIR": str(tmp_path / "tmp")}


@pytest.mark.slow
def test_code_is_compiled_once_and_comes_from_the_cache_then(tmp_path: Path) -> None:
    first, err = ask(tmp_path)
    assert hits(first) == 0 and str(tmp_path) in first and err == ""
    assert hits(ask(tmp_path)[0]) == 1
    (tmp_path / "tiny_kernels.py").write_text(TINY.replace("+ 1", "+ 2 - 1"))
    assert hits(ask(tmp_path)[0]) == 0, "other code"


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "emptied", "garbage", "one bit", "of numba itself"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_cache_is_rebuilt(tmp_path: Path, kind: str, damage: str) -> None:
    ask(tmp_path)
    files = list((tmp_path / "__pycache__").glob(f"*.{kind}"))
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        if damage == "one bit":
            content[len(content) // 2] ^= 4
        file.write_bytes(
            {
                "truncated": content[: len(content) // 2],
                "emptied": b"",
                "garbage": np.random.default_rng(0).bytes(len(content)),
                "one bit": content,
                "of numba itself": content[32:],
            }[damage]
        )
    said, err = ask(tmp_path)
    assert hits(said) == 0 and err == ""
    assert hits(ask(tmp_path)[0]) == 1, "rebuilt"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no /dev/null to stand in for what cannot be written")
def test_without_another_place_the_temporary_folder_is_used_and_said_once(
    tmp_path: Path, nowhere: dict[str, str]
) -> None:
    said, err = ask(tmp_path, **nowhere)
    assert hits(said) == 0 and str(tmp_path / "tmp") in said
    assert err.count("RuntimeWarning") == 1 and "NUMBA_CACHE_DIR" in err
    assert hits(ask(tmp_path, **nowhere)[0]) == 1
    [folder] = (tmp_path / "tmp").iterdir()
    assert folder.stat().st_mode & 0o077 == 0, "nobody else can put code there"
    folder.chmod(0o777)
    said, _ = ask(tmp_path, **nowhere)
    assert hits(said) == 0 and str(folder) not in said, "not trusted: others could write there"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no /dev/null to stand in for what cannot be written")
def test_the_users_own_compiled_code_stays_where_numba_keeps_it(tmp_path: Path) -> None:
    ours, users, home, temporary = (tmp_path / name for name in ("ours", "users", "home", "tmp"))
    for folder in (ours, users, home, temporary):
        folder.mkdir()
    # No place beside our file, and no home while it is imported: ours goes to the temporary folder.
    (ours / "__pycache__").write_text("in the way")
    (users / "own.py").write_text("from numba import njit\n\n@njit(cache=True)\ndef own(x):\n    return x + 1\n")
    code = (
        f"import os, sys; sys.path.append({str(users)!r}); {ASK}; import numba; print(repr(numba.config.CACHE_DIR)); "
        f"os.environ['HOME'] = {str(home)!r}; import own; own.own(1); print(own.own.stats.cache_path)"
    )
    said, _ = ask(ours, code, HOME="/dev/null", TMPDIR=str(temporary))
    kept, setting, own = said.splitlines()
    assert hits(kept) == 0 and str(temporary) in kept
    assert setting == "''"
    assert own == str(users / "__pycache__")
    assert list((users / "__pycache__").glob("own.own-*.nbi"))
    assert not [path for path in temporary.rglob("*") if "own.own" in path.name]
    assert hits(ask(ours, HOME="/dev/null", TMPDIR=str(temporary))[0]) == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no /dev/null to stand in for what cannot be written")
def test_without_any_place_code_is_compiled_every_time(tmp_path: Path, nowhere: dict[str, str]) -> None:
    code = f"import tempfile; tempfile.tempdir = '/dev/null/tmp'; {ASK}"
    for _ in range(2):
        said, err = ask(tmp_path, code, **nowhere)
        assert hits(said) == 0 and err.count("RuntimeWarning") == 1 and "compiles it again" in err


def test_a_full_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from treeproof._kernels import cache

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def kernel(x: float) -> float:
        return x

    monkeypatch.setattr(cache.FunctionCache, "save_overload", full)
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="cannot be kept in .*: No space left"):
        cache.CheckedCache(kernel).save_overload(None, None)


def test_inner_kernels_become_machine_code_as_part_of_others_only():
    # If this fails with a new numba: see whether all tests pass with it, then raise LAST_TRIED.
    from treeproof._kernels.compiler import LAST_TRIED, options_of_parts

    assert options_of_parts, f"nobody has tried this numba; the last one was {LAST_TRIED}"


@pytest.mark.slow
def test_a_numba_that_nobody_has_tried_compiles_in_its_own_way(tmp_path: Path):
    code = "import numba; numba.version_info = numba.version_info._replace(short=(99, 0)); " + ASK
    assert hits(ask(tmp_path, code)[0]) == 0
    assert hits(ask(tmp_path, code)[0]) == 1, "what was compiled is not used again"


@pytest.mark.slow
def test_code_for_a_type_that_is_gone_is_compiled_again(tmp_path: Path) -> None:
    source = tmp_path / "tiny_kernels.py"
    source.write_text(
        "from typing import Any, NamedTuple\n"
        "from treeproof._kernels.jit import entry\n"
        "class Pair(NamedTuple):\n    one: Any\n    two: Any\n"
        "@entry\ndef answer(pair):\n    return pair.one + pair.two + 1\n"
    )
    for name in ("Pair", "Two"):
        source.write_text(source.read_text().replace("Pair", name))
        assert hits(ask(tmp_path, ASK.replace("20", f"k.{name}(20, 20)"))[0]) == 0
