"""Work on untrusted input ends within its limits, and so do all of its processes."""

from __future__ import annotations

import asyncio
import errno
import math
import operator
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.processes import PATIENCE_S, wait_until_ended
from vlmhyperbench import bounded
from vlmhyperbench.bounded import TOO_LARGE, ChildBounds, run_bounded
from vlmhyperbench.errors import InvalidInput, NotFound, PluginFailure, Unavailable, VlmHyperBenchError

MIB = 2**20
MESSAGE = "It is wrong."


def _run(function: Callable[..., object], *args: object, bounds: ChildBounds | None = None) -> object:
    return asyncio.run(run_bounded(function, *args, what="the file", bounds=bounds))


def fails_with(number: int) -> None:
    """Raise the error of a file that cannot be used."""
    raise OSError(number, os.strerror(number))


def raises(name: str) -> None:
    """Raise the error with that class name."""
    raise {"NotFound": NotFound, "InvalidInput": InvalidInput}[name](MESSAGE, cure="Correct it.", code="odd")


def test_the_result_of_a_function_is_returned_as_json() -> None:
    assert _run(operator.mul, [1, "ä\ud800"], 2) == [1, "ä\ud800"] * 2


@pytest.mark.parametrize(
    ("function", "args", "bounds"),
    [
        (operator.mul, ("x", 64 * MIB), ChildBounds(memory_bytes=32 * MIB)),
        (math.factorial, (20_000_000,), ChildBounds(cpu_s=1)),
        (time.sleep, (60,), ChildBounds(wall_s=0.5)),
        (os.kill, (0, signal.SIGKILL), ChildBounds()),
    ],
    ids=["memory", "processor", "time", "killed by the system"],
)
def test_work_that_exceeds_a_limit_is_refused(
    function: Callable[..., object], args: tuple[object, ...], bounds: ChildBounds
) -> None:
    with pytest.raises(InvalidInput) as refused:
        _run(function, *args, bounds=bounds)
    assert (refused.value.code, "the file" in refused.value.message, bool(refused.value.cure)) == (
        TOO_LARGE,
        True,
        True,
    )
    assert _readers() == []


def test_work_within_its_limits_succeeds() -> None:
    assert _run(operator.mul, "x", MIB, bounds=ChildBounds(memory_bytes=64 * MIB)) == "x" * MIB


@pytest.mark.parametrize(("name", "kind"), [("NotFound", NotFound), ("InvalidInput", InvalidInput)])
def test_an_error_of_the_error_tree_is_raised_unchanged(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: type[VlmHyperBenchError]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with pytest.raises(kind) as raised:
        _run(raises, name)
    assert (raised.value.message, raised.value.cure, raised.value.code) == (MESSAGE, "Correct it.", "odd")


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (errno.ENOSPC, Unavailable, "storage_full"),
        (errno.EIO, Unavailable, "unavailable"),
        (errno.EFBIG, InvalidInput, "too_large"),
    ],
)
def test_a_file_that_cannot_be_used_is_not_a_failure_of_the_plugin(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[VlmHyperBenchError], code: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with pytest.raises(kind) as raised:
        _run(fails_with, number)
    assert raised.value.code == code


def test_any_other_error_is_named_by_its_class() -> None:
    with pytest.raises(PluginFailure, match="ZeroDivisionError"):
        _run(operator.truediv, 1, 0)


def test_the_limits_also_apply_to_processes_that_the_child_starts() -> None:
    command = [
        sys.executable,
        "-c",
        "import resource as r; print(r.getrlimit(r.RLIMIT_FSIZE), r.getrlimit(r.RLIMIT_CORE))",
    ]
    assert _run(subprocess.getoutput, f"{command[0]} -c '{command[2]}'", bounds=ChildBounds(file_bytes=MIB)) == (
        f"({MIB}, {MIB}) (0, 0)"
    )


def test_the_child_holds_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLMHB_DATABASE_URL", "postgres://secret")
    assert _run(os.getenv, "VLMHB_DATABASE_URL") is None


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    program = (
        "import asyncio, time\nfrom vlmhyperbench.bounded import run_bounded\n"
        "asyncio.run(run_bounded(time.sleep, 600, what='it'))"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        children = _until(lambda: _readers(parent.pid))
        parent.kill()
        gone, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert (len(gone), alive) == (1, [])


def test_cancelling_the_call_kills_the_child() -> None:
    async def go() -> None:
        task = asyncio.ensure_future(run_bounded(time.sleep, 600, what="it"))
        await asyncio.to_thread(_until, _readers)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert _readers() == []


def starts_a_session() -> int:
    """Start a process in another session, which waits for ever, and return its id."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.Popen(["sleep", "600"], start_new_session=True, **streams).pid


def starts_a_session_and_waits(written: str) -> None:
    """Start such a process, write its id, and wait with it."""
    Path(written).write_text(str(starts_a_session()))
    time.sleep(600)


def test_processes_that_the_work_started_in_other_sessions_end_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pid = _run(starts_a_session)
    assert isinstance(pid, int)
    wait_until_ended(pid)
    with pytest.raises(InvalidInput):
        _run(starts_a_session_and_waits, str(tmp_path / "pid"), bounds=ChildBounds(wall_s=10))
    wait_until_ended(int((tmp_path / "pid").read_text()))


def test_a_call_does_not_kill_the_processes_of_another_call() -> None:
    async def go() -> None:
        other = asyncio.ensure_future(run_bounded(time.sleep, 3, what="it"))
        await asyncio.to_thread(_until, _readers)
        assert await run_bounded(operator.mul, 2, 3, what="it") == 6
        assert await other is None

    asyncio.run(go())


def test_a_lower_limit_of_the_system_is_kept() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    assert hard == resource.RLIM_INFINITY or hard > 0
    program = (
        "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (1000, 1000))\n"
        "from vlmhyperbench.bounded import ChildBounds, _limit\n_limit(ChildBounds())\n"
        "print(r.getrlimit(r.RLIMIT_FSIZE))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "(1000, 1000)"


def _readers(parent: int | None = None) -> list[psutil.Process]:
    return [child for child in psutil.Process(parent).children() if bounded.__name__ in child.cmdline()]


def _until(found: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if children := found():
            return children
        time.sleep(0.01)
    raise AssertionError("no child has started")
