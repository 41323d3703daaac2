"""The receiver is compiled once, if there is a compiler, into a folder that only the user can write to."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path

import pytest

from tests.loadgen.driving import COMPILES
from vlmhyperbench_loadgen import compiling


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(compiling.LIBRARY, raising=False)
    return tmp_path / "vlmhyperbench"


@COMPILES
def test_the_receiver_is_compiled_once_and_can_be_loaded(cache: Path) -> None:
    made = compiling.library()
    assert made is not None
    assert made.parent == cache
    assert ctypes.CDLL(str(made)).receiver_new
    assert [file.name for file in cache.iterdir()] == [made.name]
    before = made.stat()
    assert compiling.library() == made
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@COMPILES
def test_another_source_or_another_compiler_makes_another_library(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = compiling.library()
    changed = tmp_path / compiling._SOURCE.name
    changed.write_bytes(compiling._SOURCE.read_bytes() + b"\n/* changed */\n")
    with monkeypatch.context() as patched:
        patched.setattr(compiling, "_SOURCE", changed)
        assert compiling.library() not in {made, None}
    monkeypatch.setenv("CC", f"{shutil.which('cc')} -g")
    assert compiling.library() not in {made, None}


@pytest.mark.skipif(sys.platform != "linux", reason="the receiver is compiled on Linux only")
@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_working_compiler_there_is_no_library_and_no_file(
    cache: Path, compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler)
    assert compiling.library() is None
    assert list(cache.iterdir()) == []


@COMPILES
def test_a_folder_that_others_can_write_to_is_not_used(cache: Path) -> None:
    assert compiling.library() is not None
    cache.chmod(0o777)
    assert compiling.library() is None


def test_the_library_of_the_environment_variable_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiling.LIBRARY, str(cache / "mine.so"))
    assert compiling.library() == cache / "mine.so"
