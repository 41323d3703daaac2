"""The table of all metrics: what is not in it can be neither counted nor served, alerted on nor drawn.

Names and units follow the conventions of Prometheus. No label has a value that grows with the number of runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "vlmhyperbench_"

API: Final = "api"
SCHEDULER: Final = "scheduler"
WORKERS: Final = "workers"
EVERY: Final = "every service"
PLATFORM: Final = "the API's /metrics"

_REQUEST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TICK_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_DEVICE: Final = ("host", "worker", "device", "name")
_JOB_BUCKETS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 10_800.0, 43_200.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric; `name` lacks the prefix, and for a counter it ends in `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    """What it says, in one sentence."""
    source: str = PLATFORM
    """Who serves it: the API for the whole platform, or processes for themselves."""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name under which it is served."""
        return PREFIX + self.name


def _gauge(name: str, text: str, *labels: str, source: str = PLATFORM) -> Metric:
    return Metric(name=name, kind="gauge", text=text, labels=labels, source=source)


def _counter(name: str, text: str, source: str, *labels: str) -> Metric:
    return Metric(name=name, kind="counter", text=text, labels=labels, source=source)


def _histogram(name: str, text: str, source: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name=name, kind="histogram", text=text, labels=labels, source=source, buckets=buckets)


_PLATFORM: Final = (
    _gauge("build_info", "1, with the version of the API.", "version"),
    _gauge("redis_up", "Whether Redis or Valkey answers: 1 or 0; without it, workers find their jobs by polling."),
    _gauge("database_size_bytes", "Size of the platform's database."),
    _gauge("database_connections", "Connections to the platform's database."),
    _gauge("storage_free_bytes", "Free space of the storage folder; not served for other kinds of storage."),
    _gauge("scheduler_up", "Whether a scheduler leads: 1 or 0; without one, no job is assigned."),
    _gauge("runs", "Runs by state, those that have ended included.", "state"),
    _gauge("jobs", "Jobs that have not ended, by kind and state.", "kind", "state"),
    _gauge("queue_depth", "Jobs that could run now and wait for a worker.", "kind"),
    _gauge("queue_jobs", "These jobs and those that a worker has: as many workers are of use.", "kind"),
    _gauge("queue_oldest_seconds", "Time since the oldest of those that wait was created, its needs were done, or its "
           "pause ended; 0 where none waits.", "kind"),
    _gauge("workers", "Workers by kind and state: live, draining (ending, drained, or without a device that may be "
           "used), or stale (not seen for a while).", "kind", "state"),
    _gauge("worker_slots", "Jobs that the live workers may have at a time.", "kind"),
    _gauge("worker_slots_busy", "Jobs that the live workers have.", "kind"),
    _gauge("devices", "Devices of present workers; `broken` ones are in quarantine.", "kind", "state"),
    _gauge("device_memory_bytes", "Memory of each device of a present worker.", *_DEVICE),
    _gauge("device_memory_reserved_bytes", "Memory of it that jobs have reserved.", *_DEVICE),
    _gauge("device_jobs", "Jobs that have a reservation on the device.", *_DEVICE),
    _gauge("lease_age_seconds", "Time since the running job that waits longest renewed its lease; 0 without one."),
    _gauge("leases_expired", "Running jobs whose lease has expired and that have not been given back."),
    _gauge("alerts_recent", "Alerts that were raised on runs and experiments in the last ten minutes.", "code"),
)  # fmt: skip

_PROCESSES: Final = (
    _counter("http_requests_total", "Requests that the API has answered.", API, "method", "route", "status"),
    _histogram("http_request_duration_seconds", "Time until the answer was sent.", API, _REQUEST_BUCKETS, "route"),
    _gauge("live_connections", "Clients that follow the live feed.", source=API),
    _counter("submissions_total", "Runs and experiments that were submitted.", API, "kind"),
    _counter("list_reads_total", "Lists by the server that they were read from, where there is a replica, and by "
             "its state: current, behind, away, or other than the database's.", API, "server", "cause"),
    _gauge("scheduler_leads", "Whether this scheduler leads: 1 or 0.", source=SCHEDULER),
    _histogram("scheduler_tick_duration_seconds", "Time that a tick took.", SCHEDULER, _TICK_BUCKETS),
    _counter("scheduler_decisions_total", "Decisions: assign, requeue, ring.", SCHEDULER, "decision"),
    _counter("leases_reaped_total", "Claims that were ended because their lease had expired.", SCHEDULER, "kind"),
    _counter("looks_total", "Looks for assignments, by what caused them: doorbell, poll, or the end of a job.",
             WORKERS, "cause"),
    _counter("assignments_found_total", "Assignments found, by what caused the look.", WORKERS, "cause"),
    _counter("claims_total", "Jobs that were claimed.", WORKERS, "kind"),
    _counter("jobs_finished_total", "Claims that ended with an outcome, by it.", WORKERS, "kind", "outcome"),
    _histogram("job_duration_seconds", "Time from claim to outcome.", WORKERS, _JOB_BUCKETS, "kind"),
    _gauge("jobs_running", "Jobs that this worker has.", source=WORKERS),
    _counter("fenced_total", "Claims that were lost: the lease was not renewed in time, or a write was refused.",
             WORKERS, "reason"),
    _counter("lease_renewals_total", "Tries to renew a lease, by result.", WORKERS, "result"),
    _counter("samples_written_total", "Rows of answers that were committed.", WORKERS),
    _counter("target_loads_total", "Targets that were loaded: an engine started, or an endpoint reached.",
             WORKERS, "result"),
    _histogram("target_load_duration_seconds", "Time that loading a target took.", WORKERS, _JOB_BUCKETS),
    _counter("gateway_requests_total", "Control requests to the gateways of engines.", WORKERS, "call", "result"),
    _counter("evaluations_total", "Metrics that were computed for a run.", WORKERS, "result"),
    _counter("reports_total", "Reports that were written.", WORKERS),
    _counter("redis_outages_total", "Times that Redis or Valkey stopped answering this process.", EVERY),
)  # fmt: skip

METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for metric in (*_PLATFORM, *_PROCESSES)}
"""Every metric, by its name without the prefix."""
