"""What is made of the load generator's lines, and of its absence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vlmhyperbench.load import process
from vlmhyperbench.load.process import LoadProcess, parse_line
from vlmhyperbench_sdk.errors import PluginFailure, Unavailable
from vlmhyperbench_sdk.load import ProgressLine

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_a_line_becomes_its_dataclass() -> None:
    line = parse_line(b'{"event": "progress", "phase": 1, "done": 2, "failed": 0, "in_flight": 3}')
    assert line == ProgressLine(event="progress", phase=1, done=2, failed=0, in_flight=3)


@pytest.mark.parametrize("text", [b"", b"hello", b"[]", b"{}", b'{"event": "tea"}', b'{"event": "progress"}'])
def test_what_is_no_line_is_refused(text: bytes) -> None:
    with pytest.raises(PluginFailure, match="no line of its contract"):
        parse_line(text)


async def test_without_the_load_generator_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vlmhyperbench_loadgen", None)
    with pytest.raises(Unavailable, match=r"pip install .vlmhyperbench\[load\]"):
        await LoadProcess.start(tmp_path, tmp_path / "record")
    assert not process.is_installed()


async def test_a_process_that_says_nothing_shows_its_log(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named x' >&2\nexit 3\n")
    python.chmod(0o755)
    async with await LoadProcess.start(tmp_path, tmp_path / "record", python=str(python)) as started:
        with pytest.raises(Unavailable, match="ended with status 3 and no word: No module named x"):
            await started.wait()
