"""Parsing the lines of the load generator, and errors if it is missing or ends early."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.wording import Wording
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
def test_a_line_that_breaks_the_contract_is_refused(text: bytes) -> None:
    with pytest.raises(PluginFailure) as refused:
        parse_line(text)
    assert repr(text) in refused.value.message


async def test_without_the_load_generator_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vlmhyperbench_loadgen", None)
    with pytest.raises(Unavailable, match=r"pip install .vlmhyperbench\[load\]"):
        await LoadProcess.start(tmp_path, tmp_path / "record")
    assert not process.is_installed()


async def test_the_error_for_a_process_without_an_end_line_quotes_its_log(tmp_path: Path, wording: Wording) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho crashed >&2\nexit 3\n")
    python.chmod(0o755)
    async with await LoadProcess.start(tmp_path, tmp_path / "record", python=str(python)) as started:
        with pytest.raises(Unavailable, match="status 3") as refused:
            await started.wait()
    assert "crashed" in refused.value.message
    wording(refused.value)
