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
from vlmhyperbench.cli.shown import HUMAN, Shown

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
    shown: Shown = HUMAN,
) -> int:
    """Measure any OpenAI-compatible URL, without a stack.

    Without `--prompt-tokens` and `--images` every request is the same, so a server that caches prompts answers from its
    cache.

    Args:
        url: Base URL (http://host:port), or the full URL of chat completions.
        target: Which server is measured, and how it is reached.
        workload: What the requests hold.
        schedule: When requests are sent.
        limits: How much is sent, and how long that may take.
        slo: Which limits the times must keep.
        series: How often the load is measured.
        client: How the load generator itself runs.
        record: What is kept and shown of the measurement.
        shown: How the answer is shown.
    """
    planned = plan_load(
        url, target, workload=workload, schedule=schedule, limits=limits, slo=slo, series=series, client=client
    )
    return run_load(planned, record=record.record, is_live=record.live, shown=shown)
