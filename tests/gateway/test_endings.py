"""Out of memory, a kill and an exit of an engine have codes of their own, and no message shows a secret."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast
from urllib.parse import quote

import pytest

from vlmhyperbench.errors import PluginFailure
from vlmhyperbench.logs import hide, unhide
from vlmhyperbench.logs.bounded import read_log
from vlmhyperbench_gateway.endings import MemoryKills, Moment, count_memory_kills, describe_end
from vlmhyperbench_gateway.launching import plan
from vlmhyperbench_gateway.memory import _used_mb
from vlmhyperbench_gateway.output import EngineOutput
from vlmhyperbench_sdk.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_simulated.adapter import Simulated

SECRET = "sk-endings/secret+value"


def output_of(text: str, log: Path | None = None) -> EngineOutput:
    async def pump() -> EngineOutput:
        reader = asyncio.StreamReader()
        for piece in (text[:7], text[7:]):
            reader.feed_data(piece.encode())
        reader.feed_eof()
        output = EngineOutput(log)
        await output.pump(reader)
        return output

    return asyncio.run(pump())


@pytest.mark.parametrize(
    ("status", "text", "moment", "kills", "code"),
    [
        (1, "Traceback", "before it was ready", (3, 3), "load_failed"),
        (-9, "serving", "before it was ready", (3, 3), "load_failed"),
        (1, "Traceback", "while it served", (3, 3), "engine_exited"),
        (-9, "serving", "while it served", (3, 3), "engine_exited"),
        (-9, "serving", "while it served", (None, None), "engine_exited"),
        (-9, "serving", "while it served", (3, 4), "oom"),
        (-15, "serving", "while it served", (3, 4), "engine_exited"),
        (1, "torch.OutOfMemoryError: CUDA out of memory.", "while it served", (3, 3), "oom"),
        (1, "ggml: failed to allocate CUDA0 buffer", "before it was ready", (None, None), "oom"),
    ],
)
def test_the_code_says_why_an_engine_ended(
    status: int, text: str, moment: Moment, kills: tuple[int | None, int | None], code: str
) -> None:
    error = describe_end(status, output_of(text), moment, memory_kills=kills)
    assert error.code == code
    assert error.message.endswith(text)


def test_a_kill_for_memory_of_long_ago_says_nothing_about_an_end() -> None:
    counted = [3]
    kills = MemoryKills(lambda: counted[0])
    kills.forget()
    counted[0] = 4  # another process was killed
    assert kills.lately() == (3, 4)
    kills.forget()
    assert kills.lately() == (3, 4)
    kills.forget()
    assert kills.lately() == (4, 4)


def test_kills_for_memory_are_counted_by_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_free_pages 12\noom_kill 7\n")
    assert count_memory_kills(tmp_path) == 7
    (tmp_path / "vmstat").write_text("nr_free_pages 12\n")
    assert count_memory_kills(tmp_path) is None
    assert count_memory_kills(tmp_path / "none") is None


def test_a_secret_in_an_engine_s_output_is_masked_in_its_log_and_in_its_error(tmp_path: Path) -> None:
    address = f"https://hub.example/file?token={quote(SECRET, safe='')}"
    hide([SECRET])
    try:
        output = output_of(f"key {SECRET}\nGET {address}\n", tmp_path / "engine.log")
        shown = describe_end(1, output, "while it served").message + read_log(tmp_path / "engine.log")
    finally:
        unhide([SECRET])
    assert SECRET not in shown
    assert quote(SECRET, safe="") not in shown
    assert shown.count("hub.example/file?token=********") == 2


class Leaking(Simulated):
    """An adapter whose errors repeat what it was given."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def plan_engine(self, load: LoadRequest, *, port: int, python: str, host: str = "") -> object:
        raise self._error(f"cannot log in with {load.env['TOKEN']}")


@pytest.mark.parametrize(("raised", "expected"), [(RuntimeError, PluginFailure), (InvalidInput, InvalidInput)])
def test_a_secret_in_the_error_of_an_adapter_is_masked(
    raised: type[Exception], expected: type[VlmHyperBenchError]
) -> None:
    load = LoadRequest(model="m", backend_class="leaking", env={"TOKEN": SECRET})
    with pytest.raises(expected) as refused:
        plan(Leaking(raised), load, "python")
    assert "********" in str(refused.value)
    error: BaseException | None = refused.value
    assert error is not None
    assert SECRET not in f"{error}{error.args}"
    assert (error.__cause__, error.__suppress_context__) == (None, True)


def test_gpu_memory_that_the_driver_does_not_say_is_unknown() -> None:
    class Refused(Exception):
        """As NVML's bindings raise it."""

    def users(index: int) -> list[SimpleNamespace]:
        if index == 1:
            raise Refused
        return [SimpleNamespace(pid=os.getpid(), usedGpuMemory=3 * 2**20), SimpleNamespace(pid=1, usedGpuMemory=9)]

    def driver(gpus: int) -> ModuleType:
        return cast(
            "ModuleType",
            SimpleNamespace(
                NVMLError=Refused,
                nvmlDeviceGetCount=lambda: gpus,
                nvmlDeviceGetHandleByIndex=lambda index: index,
                nvmlDeviceGetComputeRunningProcesses=users,
            ),
        )

    assert [_used_mb(driver(gpus), os.getpid()) for gpus in (0, 1, 2)] == [None, 3.0, None]
