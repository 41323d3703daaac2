"""Ask SkyPilot to rent or return a machine: a program in an environment of its own, with JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any, Final

from vlmhyperbench.domain.environments import Cloud, RentedSpec, VirtualenvSpec
from vlmhyperbench.environments.base import tell_nobody
from vlmhyperbench.environments.local_venv import prepared_virtualenv
from vlmhyperbench.environments.programs import last_lines, run_logged, variables_like
from vlmhyperbench.environments.ssh import Machine
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import InvalidInput, Unavailable

SKYPILOT: Final = "0.14.1"
SKY_VARIABLES: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "SSH_AUTH_SOCK", "SKYPILOT_*", "RUNPOD_API_BASE_URL"),
    *("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AZURE_CONFIG_DIR", "CLOUDSDK_*"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "OCI_CONFIG"),
)
"""Variables that SkyPilot inherits: none is a secret; it reads those of providers from their files in HOME."""
_PROGRAM: Final = Path(__file__).with_name("sky_program.py")
_FINAL: Final = frozenset({"no_credentials", "no_machine", "too_expensive"})
"""What another try cannot change."""
_MIN_ALONE_MINUTES: Final = 2
"""SkyPilot on the machine counts whole minutes, and the session that shows the machine's use may break for a moment."""
_RETURN_S: Final = 3600.0


def skypilot_spec(cloud: Cloud) -> VirtualenvSpec:
    """Return SkyPilot's own environment, with what it needs for a provider."""
    return VirtualenvSpec(requirements=(f"skypilot[{cloud}]=={SKYPILOT}",), overrides=("click==8.1.8",))


async def rent(spec: RentedSpec, name: str, workshop: Workshop) -> Machine:
    """Rent a machine, or find the one of this name, and wait until it can be logged in to.

    Raises:
        InvalidInput: there are no credentials of the provider, or nobody offers such a machine at this price.
        Unavailable: no such machine is free, it does not come up in time, or SkyPilot fails, whose cause may pass.
    """
    place = f"{spec.cloud}/{spec.region}" if spec.region is not None else spec.cloud
    alone_minutes = max(_MIN_ALONE_MINUTES, ceil(spec.max_idle_minutes))
    resources = {
        "infra": place,
        "accelerators": spec.accelerators,
        "disk_size": spec.disk_gib,
        "use_spot": spec.is_spot,
        "max_hourly_cost": spec.max_hourly_cost_usd,
        "autostop": {"idle_minutes": alone_minutes, "down": True, "wait_for": "jobs_and_ssh"},
        **({"image_id": spec.image} if spec.image is not None else {}),
    }
    order = {
        "do": "rent",
        "name": name,
        "cloud": spec.cloud,
        "region": spec.region,
        "accelerators": spec.accelerators,
        "resources": resources,
    }
    what, log = f"No machine with {spec.accelerators} of {place} came up", log_of(name, workshop.logs)
    try:
        status, output = await _run(order, spec.cloud, workshop, timeout_s=spec.max_start_minutes * 60)
    except TimeoutError as error:
        cure = f"Read {log}, or raise max_start_minutes."
        message = f"{what} within {spec.max_start_minutes:g} minutes."
        raise Unavailable(message, cure=cure, code="machine_timeout") from error
    if status != 0:
        message = f"{what}. The end of SkyPilot's log:\n{last_lines(output)}\n"
        raise Unavailable(message, cure=f"Read {log}.", code="machine_failed")
    answer: Mapping[str, Any] = json.loads([line for line in output if line][-1])
    if "error" in answer:
        kind = InvalidInput if answer["code"] in _FINAL else Unavailable
        raise kind(answer["error"], cure=answer["cure"], code=answer["code"])
    return Machine(name=name, **answer)


async def give_back(name: str, cloud: Cloud, workshop: Workshop) -> None:
    """Return a machine; one that is already gone is no error.

    Raises:
        Unavailable: SkyPilot fails, or does not end.
    """
    what, cure = f"The machine {name} cannot be returned", f"Return it on the page of {cloud}."
    try:
        status, output = await _run({"do": "return", "name": name}, cloud, workshop, timeout_s=_RETURN_S)
    except TimeoutError as error:
        message = f"{what}: SkyPilot did not end within {_RETURN_S:g} s."
        raise Unavailable(message, cure=cure, code="machine_not_returned") from error
    if status != 0:
        message = f"{what}. The end of SkyPilot's log:\n{last_lines(output)}\n"
        raise Unavailable(message, cure=cure, code="machine_not_returned")


def log_of(name: str, logs: Path) -> Path:
    """Return the log of what was done with a machine."""
    return logs / f"rented-{name}.log"


async def _run(
    order: Mapping[str, Any], cloud: Cloud, workshop: Workshop, *, timeout_s: float
) -> tuple[int, list[str]]:
    """Run the program in SkyPilot's environment; return its exit status and its output, whose last line answers.

    Raises:
        TimeoutError: it takes longer than `timeout_s`.
        VlmHyperBenchError: SkyPilot's environment cannot be prepared.
    """
    async with prepared_virtualenv(skypilot_spec(cloud), workshop, tell=tell_nobody) as sky:
        return await run_logged(
            [sky.python, "-I", str(_PROGRAM), json.dumps(order)],
            log=log_of(order["name"], workshop.logs),
            cwd=workshop.store.folder,
            variables=variables_like(SKY_VARIABLES) | {"PYTHONUNBUFFERED": "1"},
            timeout_s=timeout_s,
        )
