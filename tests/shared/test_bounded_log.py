"""A log that is bounded keeps its beginning and its end, says what it left out, and is on the disk at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlmhyperbench.logs.bounded import BoundedLog, log_length, read_ends, read_log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "engine.log"


def written(path: Path, *texts: str) -> Path:
    with BoundedLog(path, segment_bytes=10) as log:
        for text in texts:
            log.write(text)
    return path


def test_a_short_log_is_whole(path: Path) -> None:
    assert read_log(path) == ""
    written(path, "one\n", "two\n")
    assert (read_log(path), log_length(path)) == ("one\ntwo\n", 8)


def test_of_a_long_log_the_first_part_and_the_last_two_are_kept(path: Path) -> None:
    written(path, "".join(f"{number:09}\n" for number in range(50)), "end")
    assert read_log(path) == "000000000\n\n[480 bytes are left out here]\n000000049\nend"
    assert log_length(path) == 503
    assert len(list(path.parent.iterdir())) == 3


def test_a_new_log_takes_the_place_of_an_earlier_one(path: Path) -> None:
    written(path, "x" * 95)
    written(path, "new")
    assert (read_log(path), [file.name for file in path.parent.iterdir()]) == ("new", ["engine.log"])


def test_a_claim_sees_the_start_of_the_engine_and_its_own_part_only(path: Path) -> None:
    written(path, "ready\n", "other claims\n", "my claim\n")
    assert read_log(path, first_bytes=6, since=19) == "ready\n\n[13 bytes are left out here]\nmy claim\n"
    assert read_log(path, first_bytes=6, since=28) == "ready\n"
    assert read_log(path, first_bytes=6, since=6) == "ready\nother claims\nmy claim\n"


@given(st.lists(st.text(max_size=30), max_size=20))
@settings(max_examples=60)
def test_nothing_but_the_middle_is_lost_however_the_text_is_cut(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = written(tmp_path_factory.mktemp("log") / "log", *texts)
    whole = "".join(texts).encode("utf-8", "replace")
    kept = b"".join(file.read_bytes() for file in [path, *sorted(path.parent.glob("log.*"), key=_start)])
    assert log_length(path) == len(whole)
    assert whole.startswith(kept[:10])
    assert whole.endswith(kept[10:])
    assert len(kept) == len(whole) if len(whole) <= 30 else 20 < len(kept) <= 30


def _start(path: Path) -> int:
    return int(path.suffix[1:])


def test_what_was_written_survives_the_death_of_its_writer(path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys; from vlmhyperbench.logs.bounded import BoundedLog\n"
        "BoundedLog(pathlib.Path(sys.argv[1])).write('the last words')\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", script, os.fspath(path)], check=False)
    assert (ended.returncode, read_log(path)) == (-signal.SIGKILL, "the last words")


def test_a_growing_file_is_read_from_a_location_without_its_middle(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    assert read_ends(path) == ""
    path.write_text("before" + "0123456789")
    assert read_ends(path, since=6) == "0123456789"
    assert read_ends(path, since=6, max_bytes=4) == "01\n[6 bytes are left out here]\n89"
