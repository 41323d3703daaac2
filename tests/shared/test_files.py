"""A file is replaced completely or not at all, and only regular files are replaced."""

from __future__ import annotations

import os
import resource
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.files import destination, replace, replacing, write_whole

Make = Callable[[Path], object]


def _device(path: Path) -> None:
    """Create a device like `/dev/full` if the test may; otherwise return the system's."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        path.symlink_to("/dev/full")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _write(path: Path, meanwhile: Callable[[], object]) -> None:
    with replacing(path) as temporary:
        temporary.write_text("new")
        meanwhile()


KINDS: dict[str, Make] = {
    "device": _device,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": _socket,
    "link to a link to a device": lambda path: (
        _device(path.with_name("full")),
        path.with_name("near").symlink_to("full"),
        path.symlink_to(path.with_name("near")),
    ),
    "link to a folder": lambda path: path.symlink_to(path.parent),
    "link to itself": _loop,
    "open file of a process": lambda path: path.symlink_to("/dev/stdout"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_is_not_a_regular_file_is_refused_and_unchanged(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "there"
    KINDS[kind](path)
    before = {path: path.lstat().st_mode for path in tmp_path.iterdir()}
    new = tmp_path / "new"
    new.write_text("new")
    for attempt in (lambda: write_whole(path, b"new"), lambda: destination(path), lambda: replace(new, path)):
        with pytest.raises(InvalidInput) as refused:
            attempt()
        assert (refused.value.code, str(path) in refused.value.message) == ("not_a_file", True)
    new.unlink()
    assert {path: path.lstat().st_mode for path in tmp_path.iterdir()} == before


def test_the_file_of_a_redirected_stdout_is_not_replaced(tmp_path: Path) -> None:
    program = "from pathlib import Path; from vlmhyperbench.files import destination; destination(Path('/dev/stdout'))"
    with (tmp_path / "redirected").open("wb") as out:
        found = subprocess.run([sys.executable, "-c", program], stdout=out, stderr=subprocess.PIPE, check=False)
    assert b"InvalidInput" in found.stderr


def test_a_dash_is_not_a_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput):
        write_whole(Path("-"), b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_has_become_a_device_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "there"
    with pytest.raises(InvalidInput):
        _write(path, lambda: os.mkfifo(path))
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("older", ["old", None])
def test_a_link_is_kept_and_its_file_is_replaced(tmp_path: Path, older: str | None) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    if older is not None:
        file.write_text(older)
    link.symlink_to("file")
    write_whole(link, b"new")
    assert (link.is_symlink(), file.read_text(), len(list(tmp_path.iterdir()))) == (True, "new", 2)


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        _write(path, lambda: 1 / 0)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "old")]


def test_a_write_that_fails_names_its_file_and_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="too large") as failed:
            write_whole(tmp_path / "file", b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failed.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_private_file_is_never_readable_by_others(tmp_path: Path) -> None:
    write_whole(tmp_path / "key", b"secret", mode=0o600, is_durable=True)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_name_of_the_maximum_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_folder_that_is_missing_is_named_by_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "none" / "out", b"x")
    assert caught.value.filename == str(tmp_path / "none" / "out")
