"""Whole runs on rented machines: real SkyPilot, a provider on loopback, a stack whose worker rents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from tests.engines.rented import store_of_skypilot
from tests.support.rented import Machine, Provider, serve_provider
from tests.support.stack import Stack, running_stack, until

pytestmark = pytest.mark.timeout(1200)

RENT_S = 600
XLLAMACPP = "2026.10.11549"
RENTED = {
    "kind": "remote",
    "cloud": "runpod",
    "region": "CA",
    "instance_type": "1x_L4_SECURE",
    "accelerators": "L4:1",
}
BACKEND = f"""\
description: llama.cpp on a rented machine.
default_backend_class: llamacpp
environment:
  remote:
    cloud: runpod
    accelerators: L4:1
    max_hourly_cost_usd: 1.0
    max_idle_minutes: 0.1
    requirements: [xllamacpp=={XLLAMACPP}]
"""


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    store_of_skypilot()
    with serve_provider(tmp_path_factory.mktemp("provider"), uv=find_uv_bin()) as running:
        yield running


@pytest.fixture(scope="module")
def stack(registries: Path, provider: Provider) -> Iterator[Stack]:
    """A stack that has SkyPilot, and a model that runs on rented machines only."""
    (registries / "backends" / "llamacpp-rented.yaml").write_text(BACKEND)
    model = (registries / "models" / "tiny-doc-vlm-0.2-q8.yaml").read_text()
    (registries / "models" / "rented.yaml").write_text(model.replace("[llamacpp]", "[llamacpp-rented]"))
    with running_stack(registries, **provider.variables) as running:
        environments = running.home.root / "environments"
        environments.mkdir(exist_ok=True)
        for entry in store_of_skypilot().iterdir():
            if entry.name != "machines":
                (environments / entry.name).symlink_to(entry)
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


def claims(stack: Stack, run_id: Any) -> list[dict[str, Any]]:
    """Return what is on record about the claims of a run that loaded an engine."""
    columns = "id, engine, environment, machine, measured_at, resources, failure"
    rows = stack.query(
        f"SELECT {columns} FROM claim WHERE run_id = %s AND engine IS NOT NULL ORDER BY started_at", run_id
    )
    return [dict(zip(columns.split(", "), row, strict=True)) for row in rows]


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
