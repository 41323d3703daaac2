"""What `docker compose` reads beside compose.yaml: variables of this machine, and a service for each of its GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.worker.shares import Share
from vlmhyperbench_sdk.types import JsonValue

COMPOSE: Final = "compose.yaml"
OVERRIDE: Final = "compose.override.yaml"
VARIABLES: Final = ".env"
PROFILES: Final = "COMPOSE_PROFILES"
MEMORY: Final = "VLMHB_INFERENCE_MEMORY"
"""Variable with the limit of memory of each inference worker; by default they divide the memory of the machine."""
SECRETS: Final = ".compose"
_BASE: Final = {"file": "deploy/compose/inference.yaml", "service": "inference"}
_OVERRIDE_HEAD: Final = (
    "# Written by `vlmhyperbench compose` for the GPUs of this machine; run it again when they have changed.\n"
)
_MEMORY_SHARE: Final = 0.8
"""Part of the machine's memory that inference workers may have together; the rest is for the other services."""


def override(shares: Sequence[Share], memory_bytes: int) -> str:
    """Return the override: an inference worker for each share of GPUs, or the memory of the one on the processor.

    `memory_bytes` is the memory of the machine, which its inference workers divide.
    """
    limits: dict[str, JsonValue] = {"memory": f"${{{MEMORY}:-{_memory_gib(shares, memory_bytes)}g}}"}
    services = {f"inference-{share.name}": _service(share, limits) for share in shares if is_gpu(share)}
    if not services:
        services = {"inference-cpu": {"deploy": {"resources": {"limits": limits}}}}
    return _OVERRIDE_HEAD + yaml.safe_dump({"services": services}, sort_keys=False)


def inference_workers(shares: Sequence[Share]) -> int:
    """Return the number of containers of inference workers: one for each share of GPUs, else one on the processor."""
    return max(1, sum(map(is_gpu, shares)))


def _memory_gib(shares: Sequence[Share], memory_bytes: int) -> int:
    return max(2, int(memory_bytes * _MEMORY_SHARE / inference_workers(shares) / 2**30))


def is_gpu(share: Share) -> bool:
    """Return whether a share has GPUs that are there."""
    return any(device.kind == "gpu" and not device.is_declared for device in share.devices)


def with_profiles(text: str, shares: Sequence[Share]) -> str:
    """Return an .env file with the profile of this machine; all else in it, remarks included, stays as it is."""
    profile = "gpu" if any(map(is_gpu, shares)) else "cpu"
    given = variables_in(text).get(PROFILES, "")
    others = [name for name in given.split(",") if name and name not in {"gpu", "cpu"}]
    line = f"{PROFILES}={','.join((profile, *others))}"
    lines = text.splitlines()
    places = [no for no, old in enumerate(lines) if _name_in(old) == PROFILES]
    lines = [old for no, old in enumerate(lines) if no not in places[:-1]]
    if places:
        lines[places[-1] - len(places) + 1] = line
    else:
        lines.append(line)
    return "\n".join(lines) + "\n"


def read_env_file(path: Path) -> str:
    """Return the text of an .env file; empty if there is none.

    Raises:
        InvalidInput: it is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a text in UTF-8.", cure="Write it anew, or remove it.") from error


def variables_in(text: str) -> dict[str, str]:
    """Return the variables of an .env file; lines that set none are left out."""
    return {name: line.partition("=")[2].strip() for line in text.splitlines() if (name := _name_in(line))}


def _name_in(line: str) -> str | None:
    """Return the name of the variable that a line of an .env file sets."""
    return line.partition("=")[0].strip() if "=" in line and not line.lstrip().startswith("#") else None


def _service(share: Share, limits: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    uuids: list[JsonValue] = [device.uuid for device in share.devices]
    gpus: dict[str, JsonValue] = {"driver": "nvidia", "device_ids": uuids, "capabilities": ["gpu"]}
    service: dict[str, JsonValue] = {
        "extends": dict(_BASE),
        "profiles": ["gpu"],
        "environment": dict(share.variables),
        "depends_on": {"migrate": {"condition": "service_completed_successfully"}},
        "deploy": {"resources": {"limits": dict(limits), "reservations": {"devices": [gpus]}}},
    }
    if share.cores:
        service["cpuset"] = ",".join(map(str, sorted(share.cores)))
    return service
