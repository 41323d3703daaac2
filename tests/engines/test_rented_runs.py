"""Whole runs on rented machines: real SkyPilot, a provider on loopback, a stack whose worker rents, and is killed.

The weights lie in S3, from where the machines download them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from tests.engines.rented import link_skypilot, store_of_skypilot
from tests.support.audit import audit
from tests.support.bucket import SECRET, LoopbackBucket, serve_bucket
from tests.support.rented import KEY, Machine, Provider, address_for_machines, serve_provider
from tests.support.stack import Stack, running_stack, until
from vlmhyperbench_tiny_doc_vlm import path

pytestmark = pytest.mark.timeout(1200)

RENT_S = 600
DOCUMENTS = 400
"""So many that a run does not end before this program has killed its worker or cancelled it."""
XLLAMACPP = "2026.10.11549"
RENTED = {
    "kind": "remote",
    "cloud": "runpod",
    "region": "CA",
    "instance_type": "1x_L4_SECURE",
    "accelerators": "L4:1",
}
FILES = {"weights": "tiny-doc-vlm-q8_0.gguf", "mmproj": "tiny-doc-vlm-mmproj-f16.gguf"}
MODEL = f"""\
backends: [llamacpp-rented]
engine_params: {{n_ctx: 1024, parallel: 4, threads: 1}}
s3: {{prefix: 's3://models/tiny'}}
files: {json.dumps(FILES)}
"""
BACKEND = f"""\
description: llama.cpp on a rented machine.
default_backend_class: llamacpp
environment:
  remote:
    cloud: runpod
    accelerators: L4:1
    max_hourly_cost_usd: 1.0
    max_idle_minutes: 0.25
    requirements: [xllamacpp=={XLLAMACPP}]
"""


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    store_of_skypilot()
    with serve_provider(tmp_path_factory.mktemp("provider"), uv=find_uv_bin()) as running:
        yield running


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackBucket]:
    store_of_skypilot()
    with address_for_machines() as address, serve_bucket(tmp_path_factory.mktemp("s3"), address) as served:
        served.put("models/tiny", {name: path(name, "0.2").read_bytes() for name in FILES.values()})
        yield served


@pytest.fixture(scope="module")
def stack(registries: Path, provider: Provider, bucket: LoopbackBucket) -> Iterator[Stack]:
    """A stack that has SkyPilot, and a model that runs on rented machines only."""
    (registries / "backends" / "llamacpp-rented.yaml").write_text(BACKEND)
    (registries / "models" / "rented.yaml").write_text(MODEL)
    with running_stack(registries, **provider.variables) as running:
        bucket.store_secrets(running.home.root / "secrets")
        cli(running, "models", "fetch", "rented")
        link_skypilot(running.home.root / "environments")
        yield running


def cli(stack: Stack, *arguments: str) -> Any:
    """Run a command as a user does, and return its data."""
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments, "--json"]
    variables = {**os.environ, "VLMHB_HOME": str(stack.home.root)}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:], stack.logs())
    return json.loads(done.stdout)["data"]


def started(stack: Stack, documents: int, *more: str) -> Any:
    """Submit a run and return its id."""
    arguments = ("--model", "rented", "--task", "document-qa", "--limit", str(documents), "--detach", *more)
    return cli(stack, "run", *arguments)["id"]


def records(stack: Stack) -> list[Path]:
    """Return the records of the machines that are rented."""
    return sorted((stack.home.root / "environments" / "machines").glob("*.json"))


def returned(stack: Stack, provider: Provider, machine: Machine) -> None:
    """Wait until a machine is returned, and its record is gone."""

    def is_gone() -> bool:
        names = [record.stem for record in records(stack)]
        return machine.id not in provider.machines and not any(map(machine.name.startswith, names))

    until(is_gone, f"return of {machine.name}", RENT_S)


def guardian(record: Path) -> int:
    """Return the process that returns a machine once nobody uses it."""
    [pid] = [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if _argv(folder)[-1:] == [str(record)] and "-m" in _argv(folder)
    ]
    return pid


def _argv(folder: Path) -> list[str]:
    try:
        return (folder / "cmdline").read_text().split("\0")[:-1]
    except OSError:  # it has ended
        return []


def claims(stack: Stack, run_id: Any) -> list[dict[str, Any]]:
    """Return what is on record about the claims of a run that loaded an engine."""
    columns = "id, engine, environment, machine, measured_at, resources, failure"
    rows = stack.query(
        f"SELECT {columns} FROM claim WHERE run_id = %s AND engine IS NOT NULL ORDER BY started_at", run_id
    )
    return [dict(zip(columns.split(", "), row, strict=True)) for row in rows]


def file_of(stack: Stack, run_id: Any, name: str) -> str:
    [file] = [item for item in stack.client.artifacts(run_id=run_id).items if item.name == name]
    return (stack.home.storage / file.storage_key).read_text()


def test_a_run_survives_the_loss_of_its_worker_and_records_the_machine_that_was_rented(
    stack: Stack, provider: Provider, bucket: LoopbackBucket
) -> None:
    before, sent = len(provider.rented), bucket.sent
    run_id = started(stack, DOCUMENTS)
    stack.wait_done(run_id, 1, timeout_s=RENT_S)
    [machine] = provider.rented[before:]
    [record] = records(stack)
    assert machine.name.startswith(record.stem)
    weights = [path(name, "0.2").read_bytes() for name in FILES.values()]
    assert sum(map(len, weights)) <= bucket.sent - sent < 2 * sum(map(len, weights)), "the machine, and nobody else"
    arrived = machine.folder / "upper/root/vlmhyperbench/files"
    for name, content in zip(FILES.values(), weights, strict=True):
        [there] = arrived.rglob(name)
        assert there.read_bytes() == content
    assert not [file for file in arrived.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
    [listed] = [row for row in cli(stack, "envs", "list") if row["key"] == record.stem]
    assert listed["kind"] == "remote"
    stack.wait_done(run_id, 50, timeout_s=RENT_S)
    os.kill(guardian(record), signal.SIGKILL)  # so that nobody but the next worker can return the machine
    stack.kill("inference")
    next_id = started(stack, DOCUMENTS, "--max-tokens", "31")
    returned(stack, provider, machine)
    assert "worker.rented_machine_returned" in (stack.home.logs / "inference.log").read_text()
    run = stack.wait(run_id, timeout_s=RENT_S)
    assert (run.state, run.done, run.failed, stack.rows(run_id)) == ("SUCCEEDED", DOCUMENTS, 0, DOCUMENTS), stack.logs()
    [_, other] = provider.rented[before:]

    first, last = claims(stack, run_id)
    assert first["failure"]["code"] == "worker_died"
    for claim in (first, last):
        assert claim["measured_at"] == "tunnel"
        assert claim["engine"]["environment"] == RENTED
        assert claim["machine"]["rented"] == RENTED
        assert claim["environment"]["kind"] == "remote"
        assert claim["environment"]["packages"]["xllamacpp"] == XLLAMACPP
        assert claim["resources"] is None
    assert last["engine"]["argv"][0].endswith("/vlmhyperbench/environment/bin/python")

    # No memory, power or energy of this machine is shown as the engine's.
    names = {item.name for item in stack.client.artifacts(run_id=run_id).items}
    assert {f"engine-{claim['id']}.log" for claim in (first, last)} <= names
    assert not [name for name in names if name.startswith("resources-")]
    summary = json.loads(file_of(stack, run_id, "summary.json"))
    assert set(summary["performance"]["resources"].values()) == {None}
    report = file_of(stack, run_id, "report.html")
    for shown in ("tunnel", "1x_L4_SECURE", "L4:1", "runpod"):
        assert shown in report
    written = stack.logs() + "".join(record.read_text() for record in records(stack))
    assert KEY not in written
    assert SECRET not in written

    # The engine is still loaded there: the next run rents nothing. It is cancelled, and the machine is returned.
    stack.wait_done(next_id, 20, timeout_s=RENT_S)
    assert list(provider.machines) == [other.id]
    cli(stack, "cancel", str(next_id))
    assert stack.wait(next_id).state == "CANCELLED"
    returned(stack, provider, other)
    assert len(provider.rented) == before + 2
    audit(stack)


def test_a_run_that_is_cancelled_while_its_machine_boots_returns_it(stack: Stack, provider: Provider) -> None:
    until(lambda: not provider.machines, "return of all machines", RENT_S)
    before = len(provider.rented)
    run_id = started(stack, 5)
    until(lambda: len(provider.rented) > before, "a machine", RENT_S)
    cli(stack, "cancel", str(run_id))
    assert stack.wait(run_id).state == "CANCELLED"
    [machine] = provider.rented[before:]
    returned(stack, provider, machine)
    assert claims(stack, run_id) == []
