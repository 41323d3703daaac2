"""A copy that is read is not evicted, by whatever process; a killed reader holds nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.shared.storage.test_cached import Shelf, _age, _copy, _name
from tests.support.processes import PATIENCE_S
from vlmhyperbench.storage import holding
from vlmhyperbench.storage.cached import CachedStore

_READER = """
import sys
from pathlib import Path
from vlmhyperbench.storage.holds import holding, holds_of
with holding(), holds_of(Path(sys.argv[1])).held(sys.argv[2]):
    print("holds", flush=True)
    sys.stdin.read()
"""


@contextmanager
def reader(folder: Path, content: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds a copy until it ends."""
    argv = [sys.executable, "-c", _READER, str(folder.resolve()), _name(content)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        yield process
        process.kill()


def full(folder: Path) -> tuple[CachedStore, Path]:
    """A cache with no room beside one copy, which was used long ago."""
    store = CachedStore(Shelf(b"1", b"2", b"3", b"4"), folder, max_bytes=1, in_use_s=100)
    old = _copy(store, b"1")
    _age(old, 5000)
    return store, old


def test_a_copy_that_another_process_reads_is_not_evicted_until_it_ends_in_whatever_way(tmp_path: Path) -> None:
    store, old = full(tmp_path)
    with reader(tmp_path, b"1") as process:
        _copy(store, b"2")
        assert old.exists()
        process.kill()
        process.wait(PATIENCE_S)
        _copy(store, b"3")
        assert not old.exists()


def test_what_this_process_opens_in_a_block_stays_until_its_end(tmp_path: Path) -> None:
    store, old = full(tmp_path)
    with holding():
        _copy(store, b"1")
        _age(old, 5000)
        _copy(CachedStore(Shelf(b"2"), tmp_path, max_bytes=1, in_use_s=100), b"2")
        assert old.exists()
        with reader(tmp_path, b"1"):
            pass
    _copy(store, b"3")
    assert not old.exists()


def test_a_copy_that_nobody_holds_makes_room(tmp_path: Path) -> None:
    store, old = full(tmp_path)
    with reader(tmp_path, b"4"):
        _copy(store, b"2")
    assert not old.exists()
