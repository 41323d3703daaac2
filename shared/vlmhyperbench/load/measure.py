"""Measure one load: plan it while the load generator starts, let it send the requests, read its record."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from vlmhyperbench.analysis.load_result import LoadResult, read_failures, result_of
from vlmhyperbench.analysis.validity import at_least, at_most
from vlmhyperbench.domain.causes import find_configuration_error
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.load.live import LiveSpeeds
from vlmhyperbench.load.neighbours import among_neighbours
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.load.record import read_record
from vlmhyperbench.load.workload import Workload
from vlmhyperbench.load.writing import MEASURED_PHASE, write_load
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable
from vlmhyperbench_sdk.load import EndLine, Endpoint, ProgressLine, SegmentLine
from vlmhyperbench_sdk.memory import peak_rss_bytes

if TYPE_CHECKING:
    import polars as pl

PILOT_REQUESTS = 8
PILOT_SECONDS = 1.0
MAX_PILOT_REQUESTS = 20_000
PILOT_SEED = 1 << 44
SPARE_FACTOR = 1.2
"""Factor on the number of requests that the pilot's rate predicts, if the duration is a minimum."""

_GIVE_KEY = "Give the key: --api-key-env NAME names the environment variable that holds it."


@dataclass(slots=True, kw_only=True)
class Control:
    """Reports the progress of a load, and ends it early."""

    report: Callable[[str], None]
    """Called with each line of progress."""
    is_watched: bool = False
    """Whether the progress includes speeds so far, whose computation costs time."""
    is_stopped: bool = False
    cpu_s: float = 0.0
    """CPU time of this process that is already stated in earlier results."""
    _process: LoadProcess | None = None

    def stop(self) -> None:
        """End the running load, keep its finished requests, and start no other. A signal handler may call it."""
        self.is_stopped = True
        if self._process is not None:
            self._process.cancel_soon()

    def watch(self, process: LoadProcess | None) -> None:
        """Set the process that `stop` ends."""
        self._process = process
        if process is not None and self.is_stopped:
            process.cancel_soon()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server that requests are sent to, and the limits that its answers must keep."""

    endpoint: Endpoint
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Name → whole value of a header; never written to disk."""
    slo: Mapping[str, float] = field(default_factory=dict)
    """Limits in ms."""
    certainty: float | None = None
    """Certainty with which limits are checked; None is the default."""


async def measure(workload: Workload, target: Target, control: Control, *, record: Path | None = None) -> LoadResult:
    """Measure a load over new connections.

    Args:
        workload: What is sent. For a closed loop with a duration, a pilot estimates the number of requests.
        target: Where it is sent.
        control: Reports the progress, and ends the load early.
        record: Folder in which the request records are stored; None to discard them.

    Raises:
        InvalidInput: the load contradicts itself, or the record's folder contains another record.
        Unavailable: nothing could be measured.
        OSError: the disk is full.
    """
    check_record(record)
    min_s = workload.duration_s if workload.is_at_least else None
    if workload.duration_s is not None and not workload.is_open_loop:
        stated_s = control.cpu_s
        workload = await _with_count(workload, workload.duration_s, target, control)
        # The pilot has no result of its own: its CPU time is part of this result.
        control.cpu_s = stated_s
    result = await _measure_counted(workload, target, control, record=record)
    if min_s is None:
        return result
    return result.with_gates(
        at_least("duration_s", result.duration_s, min_s),
        at_least("min_requests", float(result.requests["sent"]), float(workload.min_requests)),
    )


def check_record(record: Path | None) -> None:
    """Check that a record's folder contains no other record.

    Raises:
        InvalidInput: it contains one.
    """
    if record is not None and any(record.rglob("*.parquet")):
        raise InvalidInput(f"--record {record} contains another record.", cure="Name a new folder with --record.")


async def _measure_counted(workload: Workload, target: Target, control: Control, *, record: Path | None) -> LoadResult:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vlmhyperbench-load-")))
        plan_folder, record_folder = scratch / "plan", record or scratch / "record"
        neighbours = stack.enter_context(among_neighbours(uuid4().hex, _ground()))
        async with await LoadProcess.start(plan_folder, record_folder) as process:
            control.watch(process)
            live = LiveSpeeds(record_folder) if control.is_watched else None
            try:
                written = await asyncio.to_thread(write_load, plan_folder, workload, target.endpoint)
                await process.ready(target.secrets)
                async for line in process.lines():
                    match line:
                        case SegmentLine(phase=no) if live is not None and no == MEASURED_PHASE:
                            live.add(line.segment)
                        case ProgressLine(phase=no) if no == MEASURED_PHASE:
                            speeds = "" if live is None else await asyncio.to_thread(live.describe)
                            counts = f"{line.done} done, {line.failed} failed, {line.in_flight} in flight"
                            control.report(f"{counts}; {speeds}" if speeds else counts)
                end = await process.wait()
                neighbours.leave()
            finally:
                control.watch(None)
        if end.outcome == "failed" or not any(record_folder.glob(f"{MEASURED_PHASE}-*.parquet")):
            raise _failure(end)
        rows = read_record(record_folder)
        _check_refusals(rows, target.endpoint.url)
        result = result_of(
            rows,
            end,
            measured_phase=MEASURED_PHASE,
            scheduled=written.requests,
            slo=target.slo,
            certainty=target.certainty,
            open_loop=written.open_loop,
            grouping=written.grouping,
        )
        result = result.with_gates(at_most("disturbers", float(len(neighbours.disturbers)), 0.0))
        # Read last, because this process also reads the record, which takes CPU time.
        used_s, control.cpu_s = time.process_time() - control.cpu_s, time.process_time()
        own = {"driver_cpu_s": used_s, "driver_peak_rss_bytes": peak_rss_bytes()}
        return dataclasses.replace(result, client={**result.client, **own}, extra_body=workload.content.extra_body)


def _ground() -> Ground:
    """Return the cores that this command and its load generator use, for other measurements on this machine."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return Ground(machine="", cores=frozenset(os.sched_getaffinity(0)) if has_affinity else frozenset())


async def _with_count(workload: Workload, duration_s: float, target: Target, control: Control) -> Workload:
    """Return a closed loop with the number of requests that lasts its duration at the rate of a pilot."""
    streams = 1 if workload.scenario == "single_stream" else workload.streams
    count, rate = max(PILOT_REQUESTS, 2 * streams), 0.0
    without_slo = dataclasses.replace(target, slo={})
    while not control.is_stopped:
        control.report(f"pilot: {count} requests, to estimate the number that lasts {duration_s:g} s")
        # The seed differs from that of the measurement, so that no cache knows the measured prompts.
        seed = workload.seed ^ (PILOT_SEED + count)
        pilot = dataclasses.replace(workload, requests=count, duration_s=None, is_at_least=False, baseline=0, seed=seed)
        result = await _measure_counted(pilot, without_slo, control, record=None)
        measured_rate = result.metrics["requests_per_s"]
        if not isinstance(measured_rate, float) or measured_rate <= 0:
            raise Unavailable(
                "Nothing was measured: no request of the pilot succeeded.",
                cure="Give --requests in place of --duration to see the errors of the requests.",
                code="pilot_failed",
            )
        rate = measured_rate
        if result.duration_s >= min(PILOT_SECONDS, duration_s / 4) or count >= MAX_PILOT_REQUESTS:
            break
        count = min(4 * count, MAX_PILOT_REQUESTS)
    planned = math.ceil(rate * duration_s * (SPARE_FACTOR if workload.is_at_least else 1.0))
    return dataclasses.replace(workload, requests=max(planned, workload.min_requests, streams), duration_s=None)


def _check_refusals(rows: pl.DataFrame, url: str) -> None:
    """Check that the server does not refuse all requests for a reason that they share.

    Raises:
        Unavailable: it does, for example because of a wrong key or a parameter that it does not accept.
    """
    if (rows["status"] == "ok").any():
        return
    failed = find_configuration_error([(failed, count) for failed, _, count in read_failures(rows)], ok=0)
    if failed is not None:
        rule = failed.rule
        refusal = f"{urlsplit(url).netloc} refuses the requests: {rule.means}. {failed.statement}"
        cure = _GIVE_KEY if rule.name == "key_refused" else rule.cure
        raise Unavailable(f"Nothing was measured: {refusal}", cure=cure, code=f"endpoint_{rule.name}")


def _failure(end: EndLine) -> Unavailable:
    reason = end.error or "it was cancelled"
    cure = "Check that the server runs and the URL is right." if reason.startswith("connect_failed") else ""
    return Unavailable(f"Nothing was measured: {reason}", cure=cure, code=reason.partition(":")[0])
