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
SECRETS: Final = ".compose"
_BASE: Final = {"file": "deploy/compose/inference.yaml", "service": "inference"}
_OVERRIDE_HEAD: Final = (
    "# Written by `vlmhyperbench compose` for the GPUs of this machine; run it again when they have changed.\n"
)
_MEMORY_SHARE: Final = 0.8
"""Part of the machine's memory that inference workers may have together; the rest is for the other services."""


def override(shares: Sequence[Share]) -> str:
    """Return the override with an inference worker for each share of GPUs; without services where there are none."""
    services = {f"inference-{share.name}": _service(share) for share in shares if is_gpu(share)}
    return _OVERRIDE_HEAD + yaml.safe_dump({"services": services}, sort_keys=False)


def is_gpu(share: Share) -> bool:
    """Return whether a share has GPUs that are there."""
    return any(device.kind == "gpu" and not device.is_declared for device in share.devices)


def variables(given: Mapping[str, str], shares: Sequence[Share], memory_bytes: int) -> dict[str, str]:
    """Return the variables of this machine: those that are given stay, and missing ones are chosen."""
    profile = "gpu" if any(map(is_gpu, shares)) else "cpu"
    others = [name for name in given.get("COMPOSE_PROFILES", "").split(",") if name and name not in {"gpu", "cpu"}]
    memory_gib = max(2, int(memory_bytes * _MEMORY_SHARE / max(1, len(shares)) / 2**30))
    return {
        "VLMHB_INFERENCE_MEMORY": f"{memory_gib}g",
        **given,
        "COMPOSE_PROFILES": ",".join((profile, *others)),
    }


def read_variables(path: Path) -> dict[str, str]:
    """Return the variables of an .env file; lines that set none are left out.

    Raises:
        InvalidInput: it is not UTF-8.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a text in UTF-8.", cure="Write it anew, or remove it.") from error
    pairs = (line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _service(share: Share) -> dict[str, JsonValue]:
    uuids: list[JsonValue] = [device.uuid for device in share.devices]
    gpus: dict[str, JsonValue] = {"driver": "nvidia", "device_ids": uuids, "capabilities": ["gpu"]}
    service: dict[str, JsonValue] = {
        "extends": dict(_BASE),
        "profiles": ["gpu"],
        "environment": dict(share.variables),
        "depends_on": {"migrate": {"condition": "service_completed_successfully"}},
        "deploy": {"resources": {"reservations": {"devices": [gpus]}}},
    }
    if share.cores:
        service["cpuset"] = ",".join(map(str, sorted(share.cores)))
    return service
