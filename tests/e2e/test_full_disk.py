"""The disk of a whole stack is full for a while: it says so, and then no sample is lost or doubled."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.audit import audit
from tests.support.machines import need_machines
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack, running_stack, until
from vlmhyperbench.registry.schemas import RunEntry

SAMPLES = 80
_DISK = "1g"
_PIECE = bytes(2**16)


@pytest.fixture(scope="module")
def registries(registries: Path) -> Path:
    (registries / "models" / "steady.yaml").write_text(
        "description: 400 ms an answer.\nbackends: [simulated]\n"
        "engine_params: {ttft_ms: 395, gap_ms: 1, tokens: 6, usage: always}\n"
    )
    return registries


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of its own."""
    need_machines("mount")
    folder = tmp_path_factory.mktemp("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def stack(registries: Path, disk: Path) -> Iterator[Stack]:
    with running_stack(registries, folder=disk) as found:
        yield found


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Leave no byte of a disk free until the block ends."""
    ballast = disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            while True:
                file.write(_PIECE)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    try:
        yield
    finally:
        ballast.unlink()


def test_a_run_goes_on_when_the_disk_has_room_again(stack: Stack, disk: Path) -> None:
    given = {
        "target": {"model": "steady"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": SAMPLES},
    }
    run = stack.client.runs.create(RunEntry.model_validate(given))
    stack.wait_done(run.id, 4)
    with filled(disk):
        full = ("storage_full", "no space left", "no space is left")
        until(lambda: any(sign in stack.logs().lower() for sign in full), "a full disk", PATIENCE_S, last=stack.logs)
    ended = stack.wait_without_pauses(run.id)
    assert ended.state == "SUCCEEDED", stack.logs()
    assert stack.rows(run.id) == SAMPLES
    audit(stack)
