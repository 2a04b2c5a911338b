"""JSON that every reader understands alike, text of a size that is known, and files written whole or not at all."""

from __future__ import annotations

import errno
import json
import math
import os
import pty
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import treeproof as tp
from treeproof.files import obstacle, parse_json, read_text, same_file, write_whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "'a' occurs twice in one object"),
        ('[{"x": {"a": 1, "a": 2}}]', "'a' occurs twice in one object"),
        ("[1e999]", "1e999 is too large for a double"),
        ("[-1E+0400]", r"-1E\+0400 is too large"),
        ("[" + "9" * 400 + ".0]", "is too large for a double"),
        ("[NaN]", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
    ],
)
def test_what_readers_could_take_differently_is_refused(text: str, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        parse_json(text)
    with pytest.raises(tp.InvalidInput, match=message):
        parse_json(text.encode())


def test_a_key_that_occurs_twice_is_found_at_once_among_many() -> None:
    text = json.dumps({f"key {i}": i for i in range(60_000)})
    with pytest.raises(tp.InvalidInput, match="'key 59999' occurs twice in one object"):
        parse_json(text[:-1] + ', "key 59999": 0}')


def test_everything_else_is_read_as_python_reads_it() -> None:
    assert parse_json('{"a": [1, 2.5, -1e308, 1e-999, true, null, "x"]}') == {
        "a": [1, 2.5, -1e308, 0.0, True, None, "x"]
    }
    low, nan = parse_json("[-Infinity, NaN]", constants=True)
    assert low == -math.inf and math.isnan(nan)


@pytest.mark.parametrize("twice", ["budget", "intervals"])
def test_attackers_with_two_meanings_are_refused(twice: str) -> None:
    text = tp.Attacker.linf(0.1).to_json()
    doubled = text.replace(f'"{twice}":', f'"{twice}": null, "{twice}":')
    assert doubled != text
    with pytest.raises(tp.InvalidInput, match=f"'{twice}' occurs twice"):
        tp.Attacker.from_json(doubled)


def fails(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to("file")
    write_whole(link, "new")
    assert link.is_symlink() and file.read_text() == "new" and stat.S_IMODE(file.stat().st_mode) == 0o640
    dangling = tmp_path / "dangling"
    dangling.symlink_to("made")
    write_whole(dangling, "new")
    assert dangling.is_symlink() and (tmp_path / "made").read_text() == "new"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dangling", "file", "link", "made"]


def test_a_new_file_has_the_mode_that_the_system_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = os.umask(0o027)
    try:
        # Two calls to find out the mask would change it for other threads in between.
        monkeypatch.setattr(os, "umask", fails)
        write_whole(tmp_path / "file", "text")
    finally:
        monkeypatch.undo()
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_pipes_and_devices_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert obstacle(pipe) == ""
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join()
    assert found == ["text"] and pipe.is_fifo()
    # Not /dev/null: if this fails, the machine must not be without it.
    master, slave = pty.openpty()
    terminal = Path(os.ttyname(slave))
    write_whole(terminal, "text")
    assert os.read(master, 100) == b"text" and terminal.is_char_device()
    os.close(master)
    os.close(slave)
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(not Path("/proc/self/fd/1").exists(), reason="our own output has no path that cannot be replaced")
def test_our_own_output_is_written_to_even_if_it_is_a_file(tmp_path: Path) -> None:
    code = "from treeproof.files import *; print('a'); write_whole(Path('/proc/self/fd/1'), 'b\\n'); print('c')"
    with open(tmp_path / "out", "w", encoding="utf-8") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "a\nb\nc\n"


def test_what_cannot_be_written_is_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "lost").symlink_to("none/file")
    for name, message in {
        ".": "it is a folder",
        "none/file": "none is not a folder",
        "file/x": "Not a directory",
        "x" * 300: "File name too long",
        "loop": "Too many levels of symbolic links",
        "lost": "none is not a folder",
    }.items():
        assert obstacle(tmp_path / name).endswith(message), name
        with pytest.raises(tp.InvalidInput, match=f"cannot write .*: .*{message}"):
            write_whole(tmp_path / name, "text")
    assert obstacle(tmp_path / "file") == obstacle(tmp_path / "new") == obstacle(tmp_path / ("x" * 250)) == ""
    assert (tmp_path / "file").read_text() == "old" and not (tmp_path / "new").exists()
    listening = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)
    listening.bind("socket")
    assert obstacle(tmp_path / "socket") == "it is neither a file nor a pipe"
    listening.close()
    with monkeypatch.context() as changed:
        changed.setattr(os, "access", lambda *_: False)
        assert obstacle(tmp_path / "file") == "Permission denied"
    monkeypatch.setattr(os, "open", fails)
    assert obstacle(tmp_path / "file") == "No space left on device"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(tp.InvalidInput, match="cannot write .*file: No space left on device"):
        write_whole(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_the_same_file_is_recognised_however_it_is_spelled(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    os.link(tmp_path / "file", tmp_path / "hard")
    for other in ("link", "hard", "./file", "folder/../file"):
        assert same_file(tmp_path / "file", tmp_path / other), other
    assert same_file(tmp_path / "new", tmp_path / "folder/../new")
    assert not same_file(tmp_path / "file", tmp_path / "new")


def test_text_that_is_no_unicode_is_written_escaped(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "a\ud800b")
    assert (tmp_path / "file").read_text() == "a\\ud800b"


def test_a_file_is_not_read_beyond_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("12345")
    assert read_text(tmp_path / "file", 5) == "12345"
    with pytest.raises(tp.InvalidInput, match="max_bytes is 4, but .*file takes 5; raise max_bytes"):
        read_text(tmp_path / "file", 4)
    with pytest.raises(tp.InvalidInput, match="max_bytes is 1,000, but /dev/zero takes"):
        read_text(Path("/dev/zero"), 1000)
