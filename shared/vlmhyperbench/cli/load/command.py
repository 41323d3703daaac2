"""`load`: measure any OpenAI-compatible URL, without a stack."""

from __future__ import annotations

from vlmhyperbench.cli.load.driving import run_load
from vlmhyperbench.cli.load.flags import (
    ClientFlags,
    LimitFlags,
    RecordFlags,
    ScheduleFlags,
    SeriesFlags,
    SloFlags,
    TargetFlags,
    WorkloadFlags,
)
from vlmhyperbench.cli.load.planning import plan_load
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags

_WORKLOAD, _SCHEDULE, _LIMITS, _SLO = WorkloadFlags(), ScheduleFlags(), LimitFlags(), SloFlags()
_SERIES, _CLIENT, _RECORD = SeriesFlags(), ClientFlags(), RecordFlags()


def load(
    url: str,
    /,
    *,
    target: TargetFlags,
    workload: WorkloadFlags = _WORKLOAD,
    schedule: ScheduleFlags = _SCHEDULE,
    limits: LimitFlags = _LIMITS,
    slo: SloFlags = _SLO,
    series: SeriesFlags = _SERIES,
    client: ClientFlags = _CLIENT,
    record: RecordFlags = _RECORD,
    output: OutputFlags = TEXT,
) -> int:
    """Measure the speed of any OpenAI-compatible URL; no stack is needed.

    Without --prompt-tokens and --images all requests are the same, so a server with a prompt cache answers from it.

    Exit code: 0 if the result is valid, 4 if it is invalid, 5 if --search-rate finds no rate that keeps the limits.

    Args:
        url: Base URL (http://host:port), or the full URL of chat completions.
        target: The server that is measured, and how it is reached.
        workload: The content of the requests.
        schedule: When requests are sent.
        limits: How many requests are sent, and for how long.
        slo: Limits on the times of requests.
        series: How often the load is measured.
        client: How the load generator runs.
        record: What is stored and printed of the measurement.
        output: How the output is printed.
    """
    planned = plan_load(
        url, target, workload=workload, schedule=schedule, limits=limits, slo=slo, series=series, client=client
    )
    return run_load(planned, record=record.record, is_live=record.live, output=output)
