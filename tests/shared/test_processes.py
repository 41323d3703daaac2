"""Children own their group, hold no credentials and die with their parent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_S, wait_until_ended
from vlmhyperbench import processes
from vlmhyperbench_sdk.errors import NotFound

pytestmark = pytest.mark.anyio

PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
HOLD = "import sys; print('up', flush=True); sys.stdin.read()"
IGNORE_TERM = "import signal, sys; signal.signal(15, signal.SIG_IGN); print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def test_a_child_inherits_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VLMHB_DATABASE_URL", "VLMHB_HOME", "REDIS_URL", "DATABASE_URL", "PGPASSWORD", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("HF_TOKEN", "hidden")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    async with await processes.start_child(python(PRINT_ENVIRONMENT), env={"GIVEN_KEY": "shown"}) as child:
        seen = json.loads(await child.stdout.readline())
    assert "hidden" not in seen.values()
    assert seen["GIVEN_KEY"] == "shown"
    assert seen["TOKENIZERS_PARALLELISM"] == "false"
    assert seen["PATH"] == os.environ["PATH"]


def _marked(variable: bytes) -> set[int]:
    return {pid for pid, variables in processes.environments() if variable in variables}


def test_a_process_is_known_by_its_variables_even_while_it_replaces_its_program() -> None:
    again = 'exec sh -c "$0" "$0"'
    with subprocess.Popen(["sh", "-c", again, again], env={"PATH": os.environ["PATH"], "MARK": "of a test"}) as process:
        try:
            marked = [
                {pid for pid, found in processes.environments() if b"MARK=of a test" in found} for _ in range(200)
            ]
        finally:
            process.kill()
    assert marked == [{process.pid}] * 200


def test_a_process_without_variables_and_one_that_has_ended_are_not_waited_for() -> None:
    with subprocess.Popen(["sleep", "300"], env={}) as process:
        listed = dict(processes.environments())[process.pid]
        process.kill()
        wait_until_ended(process.pid)
        ended = dict(processes.environments()).get(process.pid)
    assert listed == {b""}
    assert ended in (None, {b""})


async def test_a_child_leads_its_own_process_group() -> None:
    async with await processes.start_child(python(HOLD)) as child:
        assert await child.stdout.readline() == b"up\n"
        assert os.getpgid(child.pid) == child.pid
        assert os.getsid(child.pid) == child.pid


async def test_stopping_a_child_sends_sigterm() -> None:
    child = await processes.start_child(python(HOLD))
    await child.stdout.readline()
    assert child.returncode is None
    assert await child.stop(term_s=PATIENCE_S) == -signal.SIGTERM


async def test_a_child_that_ignores_sigterm_is_killed_with_its_group() -> None:
    code = f"""
        import subprocess, sys
        inner = subprocess.Popen([sys.executable, "-c", {IGNORE_TERM!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        inner.stdout.readline()
        print(inner.pid, flush=True)
        sys.stdin.read()
    """
    child = await processes.start_child(python(textwrap.dedent(code)))
    inner = int(await child.stdout.readline())
    assert await child.stop(term_s=PATIENCE_S) == -signal.SIGTERM
    await asyncio.to_thread(wait_until_ended, inner)
    stubborn = await processes.start_child(python(IGNORE_TERM))
    await stubborn.stdout.readline()
    assert await stubborn.stop(term_s=0) == -signal.SIGKILL
    assert await stubborn.stop() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    code = f"""
        import asyncio, sys
        from vlmhyperbench import processes
        async def main():
            child = await processes.start_child([sys.executable, "-c", {IGNORE_TERM!r}])
            await child.stdout.readline()
            print(child.pid, flush=True)
            await child.wait()
        asyncio.run(main())
    """
    with subprocess.Popen(python(textwrap.dedent(code)), stdout=PIPE) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until_ended(child)


def test_a_child_whose_parent_has_already_died_does_not_start() -> None:
    argv = processes.tied(python("print('ran')"))
    orphan = [*argv[:6], "1", *argv[7:]]
    done = subprocess.run(orphan, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"ran" not in done.stdout


async def test_a_program_that_does_not_exist_is_named() -> None:
    with pytest.raises(NotFound, match="no-such-program"):
        await processes.start_child(["no-such-program"])


async def test_using_a_missing_pipe_of_a_child_is_an_error() -> None:
    async with await processes.start_child(python("pass"), stdin=DEVNULL) as child:
        assert await child.stdout.read() == b""
        with pytest.raises(ValueError, match="stdin"):
            child.stdin.close()


async def test_a_file_that_is_not_a_program_ends_with_127(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    child = await processes.start_child([str(broken)], stderr=STDOUT)
    assert b"Cannot start" in await child.stdout.read()
    assert await child.wait() == 127
