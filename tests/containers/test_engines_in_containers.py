"""An engine in a container: what it sees, what it may do, how it ends, and what is left then."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.containers.room import (
    apptainer_spec,
    containers_and_networks,
    docker_spec,
    need,
    other_machine,
    write_adapter,
)
from tests.support.environments import workshop_in
from tests.support.processes import PATIENCE_S, is_alive, wait_until_ended
from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec
from vlmhyperbench.environments.base import Prepared
from vlmhyperbench.environments.docker_daemon import OWNER, docker_client, remove_orphaned_containers
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.processes import owner_of
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess

KINDS = ("docker", "apptainer")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of environments; the SIF is built once for the module."""
    return tmp_path_factory.mktemp("environments")


def spec_of(kind: str, **fields: object) -> DockerSpec | ApptainerSpec:
    need(kind)
    return docker_spec(**fields) if kind == "docker" else apptainer_spec(**fields)


def prepare(spec: DockerSpec | ApptainerSpec, store: Path) -> tuple[Prepared, list[str]]:
    """Prepare an environment without holding it; return it with the steps that took time."""
    steps: list[str] = []

    async def tell(step: str, _: int | None) -> None:
        steps.append(step)

    async def run() -> Prepared:
        async with AsyncExitStack() as held:
            return await held.enter_async_context(prepared(spec, workshop_in(store), tell=tell))

    return asyncio.run(run()), steps


@contextmanager
def gateway(spec: DockerSpec | ApptainerSpec, store: Path, folder: Path) -> Iterator[GatewayProcess]:
    """A gateway whose engine runs in a container."""
    write_adapter(folder)
    plain = EngineEnvironment(adapters=("contained-adapter",), variables={"VLMHB_LABEL": "mark"})
    environment = prepare(spec, store)[0].engine(plain)
    with GatewayProcess(
        env={"PYTHONPATH": str(folder), "SECRET_OF_HOST": "x", **environment.to_variables()}
    ) as process:
        yield process


def load_request(folder: Path) -> LoadRequest:
    weights = folder / "the, weights:1.bin"  # names in which commas and colons must not end a path
    weights.write_text("weights")
    weights.chmod(0o666)
    return LoadRequest(
        model="m",
        backend_class="contained",
        files={"weights": str(weights)},
        env={"TOKEN": "the-secret-value"},
        load_timeout_s=90,
    )


def engine_of(process: GatewayProcess, folder: Path) -> dict[str, Any]:
    answer = process.load(load_request(folder))
    assert answer.status == 200, answer.body
    engine = answer.json()["engine"]
    assert isinstance(engine, dict)
    return engine


def ask(process: GatewayProcess, **order: object) -> Any:
    return process.chat({"model": "m", "messages": [{"role": "user", "content": json.dumps(order)}]})


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_sees_its_image_and_its_files_and_cannot_write(kind: str, store: Path, tmp_path: Path) -> None:
    spec = spec_of(kind)
    with gateway(spec, store, tmp_path) as process:
        engine = engine_of(process, tmp_path)
        assert engine["environment"]["kind"] == kind
        assert engine["environment"]["image"].startswith("sha256:")
        assert is_alive(engine["pid"])
        facts = engine["properties"]["/props"]
        assert facts["files"] == ["weights"]
        assert (facts["rights"], facts["gains"]) == (0, 1)
        assert facts["processes"] <= 5, "it sees no process of the machine"
        assert (facts["image"], facts["model"], facts["scratch"]) == ("OSError", "OSError", "written")
        variables = facts["environment"]
        assert (variables["OWN"], variables["VLMHB_LABEL"]) == ("yes", "mark")
        assert variables["TOKEN"] == "********"
        assert {"SECRET_OF_HOST", "PYTHONPATH", "VLMHB_ENGINE_ENVIRONMENT"}.isdisjoint(variables)
        assert ask(process).status == 200
        if kind == "docker":
            (name,) = containers_and_networks()[0]
            with docker_client() as client:
                assert "the-secret-value" not in json.dumps(client.containers.get(name).attrs)
    if kind == "docker":
        assert facts["uid"] != 0
        assert containers_and_networks() == ([], [])
    assert not is_alive(engine["pid"])


@pytest.mark.parametrize(("is_open", "expected"), [(False, "not reached"), (True, "reached")])
def test_a_docker_container_reaches_other_machines_only_if_it_is_declared(
    is_open: bool, expected: str, store: Path, tmp_path: Path
) -> None:
    spec = spec_of("docker", network=is_open)
    with other_machine() as address, gateway(spec, store, tmp_path) as process:
        engine_of(process, tmp_path)
        answer = ask(process, reach=address)
        assert json.loads(answer.json()["choices"][0]["message"]["content"]) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_death_of_the_gateway_ends_the_container(kind: str, store: Path, tmp_path: Path) -> None:
    spec = spec_of(kind)
    with gateway(spec, store, tmp_path) as process:
        engine = engine_of(process, tmp_path)
        os.kill(process.pid, signal.SIGKILL)
        wait_until_ended(engine["pid"])
        if kind == "docker":
            eventually(lambda: containers_and_networks()[0] == [], "the container is there")
            wait_until_ended(process.pid)
    if kind == "docker":
        remove_orphaned_containers()
        assert containers_and_networks() == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_engine_is_reported_and_may_be_loaded_again(kind: str, store: Path, tmp_path: Path) -> None:
    spec = spec_of(kind)
    with gateway(spec, store, tmp_path) as process:
        engine = engine_of(process, tmp_path)
        family = psutil.Process(engine["pid"]).children(recursive=True)
        (server,) = [child for child in family if any("server.py" in word for word in child.cmdline())][-1:]
        server.kill()
        eventually(lambda: process.status()["state"] == "error", "the end is not noticed")
        status = process.status()
        assert status["error_code"] == "engine_exited"
        assert "SIGKILL" in str(status["error"])
        assert "The engine listens." in str(status["error"]), "the log is streamed"
        assert engine_of(process, tmp_path)["pid"] != engine["pid"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_over_its_memory_limit_is_out_of_memory(kind: str, store: Path, tmp_path: Path) -> None:
    spec = spec_of(kind, memory_gib=0.125)
    with gateway(spec, store, tmp_path) as process:
        engine_of(process, tmp_path)
        assert ask(process, take_mib=20).status == 200
        assert ask(process, take_mib=400).status >= 500
        eventually(lambda: process.status()["state"] == "error", "the end is not noticed")
        assert process.status()["error_code"] == "oom"


@pytest.mark.parametrize("kind", KINDS)
def test_the_processes_and_processors_of_an_engine_are_limited(kind: str, store: Path, tmp_path: Path) -> None:
    spec = spec_of(kind, max_processes=64, cpus=0.5)
    with gateway(spec, store, tmp_path) as process:
        engine_of(process, tmp_path)
        begun = int(ask(process, begin=100).json()["choices"][0]["message"]["content"])
        assert 20 < begun < 64
        if kind == "docker":
            (name,) = containers_and_networks()[0]
            with docker_client() as client:
                assert client.containers.get(name).attrs["HostConfig"]["NanoCpus"] == 500_000_000


def test_what_is_prepared_once_is_not_examined_again(store: Path) -> None:
    for kind in KINDS:
        spec = spec_of(kind)
        first, _ = prepare(spec, store)
        second, steps = prepare(spec, store)
        assert steps == []
        assert (second.key, second.image, second.packages) == (first.key, first.image, first.packages)


def test_only_what_a_dead_process_left_is_removed() -> None:
    need("docker")
    image = docker_spec().image
    living, dead = owner_of(os.getpid()), owner_of(os.getpid()).rsplit("/", 1)[0] + "/1"
    earlier = "an-earlier-boot/" + living.partition("/")[2]
    elsewhere = living.split("/")[0] + "/1/" + "/".join(living.split("/")[2:])
    with docker_client() as client:
        made = [
            client.containers.create(image, ["true"], labels={OWNER: owner})
            for owner in (living, dead, earlier, elsewhere)
        ]
        try:
            removed = remove_orphaned_containers()
            assert {made[1].name, made[2].name} <= set(removed)
            assert {made[0].name, made[3].name}.isdisjoint(removed)
        finally:
            for container in (made[0], made[3]):
                container.remove()
