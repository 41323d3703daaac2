"""Programs that fail: which error that is, where an index of packages, a machine or the program itself is the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlmhyperbench.environments.installer import run_installer
from vlmhyperbench.environments.programs import Step, run_step
from vlmhyperbench.environments.ssh import lost_connection
from vlmhyperbench.errors import InvalidInput, Unavailable

pytestmark = pytest.mark.anyio

REFUSED = "error sending request: Connection refused"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def step(folder: Path, script: str, **fields: object) -> Step:
    given = {"argv": ["sh", "-c", script], "log": folder / "logs" / "a.log", "cwd": folder, "what": "It cannot be done"}
    return Step(**{**given, "code": "step_failed", "cure": "Correct it.", "program": "tool", **fields})


async def test_only_an_installer_that_reaches_no_server_lacks_an_index(tmp_path: Path) -> None:
    script = f"echo '{REFUSED}'; exit 2"
    with pytest.raises(InvalidInput) as of_a_tool:
        await run_step(step(tmp_path, script))
    assert of_a_tool.value.code == "step_failed"
    assert of_a_tool.value.message == f"It cannot be done. The end of the tool's log:\n{REFUSED}\n"
    with pytest.raises(Unavailable) as of_an_installer:
        await run_installer(step(tmp_path, script))
    assert of_an_installer.value.code == "index_unreachable"
    assert (tmp_path / "logs" / "a.log").read_text() == f"{REFUSED}\n" * 2


@pytest.mark.parametrize(
    ("status", "kind", "code"), [(255, Unavailable, "machine_unreachable"), (1, InvalidInput, "step_failed")]
)
async def test_a_lost_connection_is_told_from_a_command_that_fails_on_the_machine(
    tmp_path: Path, status: int, kind: type[Exception], code: str
) -> None:
    with pytest.raises(kind) as raised:
        await run_step(step(tmp_path, f"echo 'Connection reset by peer'; exit {status}"), explain=lost_connection)
    assert getattr(raised.value, "code", None) == code


async def test_a_program_that_does_not_end_is_killed_and_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        await run_step(step(tmp_path, "echo begun; exec sleep 600", timeout_s=2.0))
    assert raised.value.code == "environment_timeout"
    assert raised.value.message == "It cannot be done: the tool did not end within 2 s."


async def test_a_program_inherits_the_named_variables_only_and_its_output_hides_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_INDEX_HERE", "an-index")
    monkeypatch.setenv("SHOWN", "a-hidden-word")
    output = await run_step(step(tmp_path, "env"), inherited=("PATH", "SHOWN"), secrets=["a-hidden-word"])
    assert "an-index" not in output
    assert "SHOWN=********" in output
    assert "a-hidden-word" not in (tmp_path / "logs" / "a.log").read_text()


async def test_the_password_of_a_proxy_is_masked_in_the_output_of_every_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:p%40ss-of-proxy@127.0.0.1:9")
    with pytest.raises(InvalidInput) as raised:
        await run_step(step(tmp_path, "echo $HTTPS_PROXY; echo p@ss-of-proxy; exit 1"))
    for shown in (raised.value.message, (tmp_path / "logs" / "a.log").read_text()):
        assert "ss-of-proxy" not in shown
        assert "http://user:" in shown
