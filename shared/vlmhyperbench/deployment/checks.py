"""What a machine needs to run the platform in containers; each check names what is missing and how it is installed."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vlmhyperbench.deployment.compose_files import MEMORY, PROFILES, inference_workers, is_gpu
from vlmhyperbench.worker.checks import Check
from vlmhyperbench.worker.shares import Share

SERVICES: Final = ("api", "scheduler", "inference-worker", "eval-worker", "reporter")
_ANSWER_S: Final = 20.0
_INSTALL: Final = "Install Docker Engine and the plugin docker-compose-plugin (docs.docker.com/engine/install)."
_PERMIT: Final = "Add the user to the group docker (`sudo usermod -aG docker USER`), and log in again."
_START: Final = "Start Docker's daemon, for example with `sudo systemctl start docker`."
_TOOLKIT: Final = (
    "Install the NVIDIA Container Toolkit, run `sudo nvidia-ctk runtime configure --runtime=docker`, "
    "and restart Docker."
)
_MEMORY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([bkmg]?)b?", re.IGNORECASE)
_UNITS: Final = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_MIN_COMPOSE: Final = (2, 24)
"""The version from which a missing file of settings may be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentCheck(Check):
    """The result of one check, with the code of what is missing."""

    code: str = ""


def check_machine(
    folder: Path, shares: Sequence[Share], variables: Mapping[str, str], memory_bytes: int
) -> Iterator[DeploymentCheck]:
    """Check Docker, its compose plugin, its GPUs, the images, and the ports; a Docker that is away is asked once.

    Args:
        folder: The folder of compose.yaml.
        shares: The inference workers of this machine.
        variables: The variables of the folder's .env.
        memory_bytes: The memory of this machine.
    """
    docker = _docker()
    yield docker
    yield _compose()
    if docker.is_ok and any(map(is_gpu, shares)):
        yield _toolkit()
    is_up = False
    if docker.is_ok:
        yield _images(variables)
        code, services = _output("docker", "compose", "--project-directory", str(folder), "ps", "--quiet")
        is_up = code == 0 and bool(services)
    yield _port(
        "port",
        variables.get("VLMHB_ADDRESS") or "127.0.0.1",
        variables.get("VLMHB_PORT") or "8760",
        is_up,
        "VLMHB_PORT",
    )
    profiles = variables.get(PROFILES, "").split(",")
    if "monitoring" in profiles:
        address, port = variables.get("VLMHB_ADDRESS") or "127.0.0.1", variables.get("VLMHB_GRAFANA_PORT") or "3000"
        yield _port("port of Grafana", address, port, is_up, "VLMHB_GRAFANA_PORT")
    if given := variables.get(MEMORY):
        yield _memory(given, inference_workers(shares), memory_bytes)
    if "tls" in profiles:
        address, port = variables.get("VLMHB_TLS_ADDRESS") or "0.0.0.0", variables.get("VLMHB_TLS_PORT") or "443"  # noqa: S104 - the default of compose.yaml, which is checked
        yield _port("port of TLS", address, port, is_up, "VLMHB_TLS_PORT")


def _docker() -> DeploymentCheck:
    code, said = _output("docker", "version", "--format", "{{.Server.Version}}")
    if code == 0:
        return DeploymentCheck(name="docker", is_ok=True, detail=f"Docker {said}")
    if code is None:
        return DeploymentCheck(
            name="docker", is_ok=False, detail="Docker is not installed.", cure=_INSTALL, code="no_docker"
        )
    is_forbidden = "permission denied" in said
    detail = "This user may not use Docker." if is_forbidden else f"Docker does not answer: {_last_line(said)}"
    return DeploymentCheck(
        name="docker", is_ok=False, detail=detail, cure=_PERMIT if is_forbidden else _START, code="no_docker"
    )


def _compose() -> DeploymentCheck:
    code, said = _output("docker", "compose", "version", "--short")
    version = said.strip().removeprefix("v")
    if code != 0:
        detail = "Docker has no plugin compose."
        return DeploymentCheck(name="compose", is_ok=False, detail=detail, cure=_INSTALL, code="no_compose")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return DeploymentCheck(
        name="compose",
        is_ok=numbers >= _MIN_COMPOSE,
        detail=f"Docker Compose {version}",
        cure=f"Install Docker Compose {'.'.join(map(str, _MIN_COMPOSE))} or newer.",
        code="old_compose",
    )


def _toolkit() -> DeploymentCheck:
    code, said = _output("docker", "info", "--format", "{{json .Runtimes}} {{json .CDISpecDirs}}")
    is_ok = code == 0 and "nvidia" in said
    detail = (
        "Docker gives GPUs to containers"
        if is_ok
        else "Docker does not know the NVIDIA runtime, so that no container gets a GPU."
    )
    return DeploymentCheck(name="nvidia toolkit", is_ok=is_ok, detail=detail, cure=_TOOLKIT, code="no_toolkit")


def _images(variables: Mapping[str, str]) -> DeploymentCheck:
    prefix, tag = variables.get("VLMHB_IMAGES") or "vlmhyperbench", variables.get("VLMHB_TAG") or "latest"
    wanted = [f"{prefix}-{service}:{tag}" for service in SERVICES]
    missing = [image for image in wanted if _output("docker", "image", "inspect", image)[0] != 0]
    detail = f"missing: {', '.join(missing)}" if missing else f"{len(wanted)} are on this machine, {prefix}-…:{tag}"
    cure = "Build them with `make images`, or name those of a registry by VLMHB_IMAGES and VLMHB_TAG in .env."
    return DeploymentCheck(name="images", is_ok=not missing, detail=detail, cure=cure, code="no_images")


def _memory(given: str, workers: int, memory_bytes: int) -> DeploymentCheck:
    form = _MEMORY.fullmatch(given)
    if form is None:
        detail, is_ok = f"{MEMORY}={given} is not an amount of memory.", False
    else:
        together = float(form[1]) * workers * _UNITS[form[2].lower()]
        is_ok = together <= memory_bytes
        detail = (
            f"{workers} inference workers may have {given} each, and the machine has {memory_bytes / 2**30:.0f} GiB"
        )
    cure = f"Write less into {MEMORY} in .env, such as 16g, or remove it, so that the workers divide the memory."
    return DeploymentCheck(name="memory", is_ok=is_ok, detail=detail, cure=cure, code="memory")


def _port(name: str, address: str, port: str, is_up: bool, variable: str) -> DeploymentCheck:
    if is_up:
        return DeploymentCheck(name=name, is_ok=True, detail=f"{address}:{port} (the stack is up)")
    if not port.isdigit() or not 0 < int(port) < 65_536:
        detail = f"{variable}={port} is not a port."
        return DeploymentCheck(
            name=name,
            is_ok=False,
            detail=detail,
            cure=f"Write a number up to 65535 into {variable} in .env.",
            code="port",
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, int(port)))
        except OSError as error:
            detail = f"{address}:{port} cannot be used: {error.strerror or error}."
            cure = f"Stop what uses it, or write another port into {variable} in .env."
            return DeploymentCheck(name=name, is_ok=False, detail=detail, cure=cure, code="port")
    return DeploymentCheck(name=name, is_ok=True, detail=f"{address}:{port} is free")


def _output(*argv: str) -> tuple[int | None, str]:
    """Run a command; return its exit code, or None if it is not there, and what it wrote."""
    try:
        ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_ANSWER_S)
    except FileNotFoundError:
        return None, ""
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {_ANSWER_S:g} s"
    return ended.returncode, (ended.stdout if ended.returncode == 0 else ended.stderr).strip()


def _last_line(text: str) -> str:
    return text.splitlines()[-1] if text else "no reason is given."
