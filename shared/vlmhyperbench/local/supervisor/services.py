"""The processes of the embedded stack, in the order in which they start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.local.listening import Listening

_OURS = frozenset(
    {"VLMHB_DATABASE_URL", "VLMHB_REDIS_URL", "VLMHB_STORAGE_URL", "VLMHB_KEY_PEPPER", "VLMHB_API_KEY", "VLMHB_API_URL"}
)
"""Settings that the embedded stack chooses, passed to services in a 0600 file instead of the environment."""
_OURS_BEGIN = "VLMHB_STORAGE_S3__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A process that is kept running."""

    name: str
    module: str
    env: Mapping[str, str] = field(default_factory=dict)
    stop_s: float = 10.0
    """Time between SIGTERM and SIGKILL; a worker drains in it."""


STAGES: tuple[tuple[Service, ...], ...] = (
    (Service(name="scheduler", module="vlmhyperbench_scheduler"),),
    (Service(name="api", module="vlmhyperbench_api"),),
    (
        Service(
            name="evaluation", module="vlmhyperbench_eval_worker", env={"VLMHB_WORKER_NAME": "evaluation"}, stop_s=35
        ),
        Service(name="reporting", module="vlmhyperbench_reporter", env={"VLMHB_WORKER_NAME": "reporting"}, stop_s=35),
        Service(
            name="inference", module="vlmhyperbench_inference_worker", env={"VLMHB_WORKER_NAME": "inference"}, stop_s=35
        ),
    ),
)
"""Stages start in order and stop in reverse order; the services of a stage start and stop together."""


def services_for_other_machines(listening: Listening, certificates: Certificates) -> tuple[Service, ...]:
    """Return what a stack runs besides its stages to be reached from other machines."""
    api = {
        "VLMHB_API_HOST": listening.host,
        "VLMHB_API_PORT": str(listening.port),
        "VLMHB_API_TLS_CERT": str(certificates.cert_file),
        "VLMHB_API_TLS_KEY": str(certificates.key_file),
    }
    return (
        Service(name="relay", module="vlmhyperbench.local.relay", env=listening.env),
        Service(name="api-listening", module="vlmhyperbench_api", env=api),
    )


def choose(names: Sequence[str]) -> tuple[tuple[Service, ...], ...]:
    """Return the stages with only these services, or with all if none is named.

    Raises:
        InvalidInput: there is no such service.
    """
    known = [service.name for stage in STAGES for service in stage]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput(f"There is no service {unknown[0]!r}.", cure=f"There are {', '.join(known)}.", code="usage")
    wanted = set(names or known)
    return tuple(
        chosen for stage in STAGES if (chosen := tuple(service for service in stage if service.name in wanted))
    )


def environment_of_services(*, home: str, api_port: int) -> dict[str, str]:
    """Return the environment variables of every service: the user's settings, without credentials."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith("VLMHB_") and name.upper() not in _OURS and not name.upper().startswith(_OURS_BEGIN)
    }
    return inherited | {"VLMHB_HOME": home, "VLMHB_API_PORT": str(api_port), "PYTHONUNBUFFERED": "1"}
