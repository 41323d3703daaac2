"""The processes of the embedded stack, in the order in which they start."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.files import write_whole
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.local.listening import Listening
from vlmhyperbench.local.supervisor.home import Home

_OURS = frozenset(
    {"VLMHB_DATABASE_URL", "VLMHB_REDIS_URL", "VLMHB_STORAGE_URL", "VLMHB_KEY_PEPPER", "VLMHB_API_KEY", "VLMHB_API_URL"}
)
"""Settings that the embedded stack chooses, passed to services in a 0600 file instead of the environment."""
_OURS_BEGIN = "VLMHB_STORAGE_S3__"


METRICS_PORT = "VLMHB_METRICS_PORT"
CONTAINER_METRICS_PORT = 9464
"""Port of the metrics of every service that has an address of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A process that is kept running."""

    name: str
    module: str
    env: Mapping[str, str] = field(default_factory=dict)
    ends_with: frozenset[int] = frozenset()
    """Exit codes with which it may end by itself, and is not started again then."""
    stop_s: float = 10.0
    """Time between SIGTERM and SIGKILL; a worker drains in it."""


INFERENCE = "inference"
"""Name of the inference workers of the stack, of which a machine has one for each share of it."""

_STAGES: tuple[tuple[Service, ...], ...] = (
    (Service(name="scheduler", module="vlmhyperbench_scheduler"),),
    (Service(name="api", module="vlmhyperbench_api"),),
    (
        Service(
            name="evaluation", module="vlmhyperbench_eval_worker", env={"VLMHB_WORKER_NAME": "evaluation"}, stop_s=35
        ),
        Service(name="reporting", module="vlmhyperbench_reporter", env={"VLMHB_WORKER_NAME": "reporting"}, stop_s=35),
    ),
)
"""Stages start in order and stop in reverse order; the services of a stage start and stop together. The inference
workers are in the last one."""
NAMES = (*(service.name for stage in _STAGES for service in stage), INFERENCE)
"""What may be chosen; `inference` stands for all inference workers."""


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


def inference_service(name: str, variables: Mapping[str, str]) -> Service:
    """Return the service of an inference worker, with the settings that tell it its share of the machine."""
    return Service(name=name, module="vlmhyperbench_inference_worker", env=variables, stop_s=35)


def check_names(names: Sequence[str]) -> None:
    """Refuse the name of a service that does not exist.

    Raises:
        InvalidInput: there is no such service.
    """
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise InvalidInput(f"There is no service {unknown[0]!r}.", cure=f"There are {', '.join(NAMES)}.", code="usage")


def is_chosen(name: str, names: Sequence[str]) -> bool:
    """Return whether a service is among the chosen ones: all, if none is named."""
    return name in (names or NAMES)


def stages_of(names: Sequence[str], inference: Sequence[Service]) -> tuple[tuple[Service, ...], ...]:
    """Return the stages with only these services, or with all if none is named.

    Args:
        names: the chosen services.
        inference: the inference workers of this machine.

    Raises:
        InvalidInput: there is no such service.
    """
    check_names(names)
    workers = tuple(inference) if is_chosen(INFERENCE, names) else ()
    *first, last = (tuple(service for service in stage if is_chosen(service.name, names)) for stage in _STAGES)
    return tuple(stage for stage in (*first, (*last, *workers)) if stage)


def metrics_ports(stages: Sequence[Sequence[Service]], first: str) -> dict[str, dict[str, str]]:
    """Return the variable that gives each service a port of its own for its metrics, counted up from the first."""
    if not first.isdecimal() or int(first) == 0:
        return {}
    names = [service.name for stage in stages for service in stage]
    return {name: {METRICS_PORT: str(int(first) + number)} for number, name in enumerate(names)}


def write_targets(home: Home, api: str, ports: Mapping[str, Mapping[str, str]]) -> None:
    """Write where Prometheus finds the API and the services, as its `file_sd_configs` read it."""
    processes = [
        {"targets": [f"127.0.0.1:{env[METRICS_PORT]}"], "labels": {"service": name}} for name, env in ports.items()
    ]
    for name, targets in (("api", [{"targets": [api]}]), ("processes", processes)):
        write_whole(home.run / f"metrics-{name}.json", json.dumps(targets).encode(), mode=0o600)


def metrics_of(home: Home) -> range:
    """Return the ports of the metrics that the last stack of this home served, or that of containers."""
    try:
        processes = json.loads((home.run / "metrics-processes.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        processes = []
    ports = [int(target.rpartition(":")[2]) for process in processes for target in process["targets"]]
    return range(min(ports), max(ports) + 1) if ports else range(CONTAINER_METRICS_PORT, CONTAINER_METRICS_PORT + 1)


def environment_of_services(*, home: str, api_port: int) -> dict[str, str]:
    """Return the environment variables of every service: the user's settings, without credentials."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith("VLMHB_") and name.upper() not in _OURS and not name.upper().startswith(_OURS_BEGIN)
    }
    return inherited | {"VLMHB_HOME": home, "VLMHB_API_PORT": str(api_port), "PYTHONUNBUFFERED": "1"}
