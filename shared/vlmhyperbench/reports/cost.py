"""What measuring itself took: the load generator's processor time, memory and start-up, as each claim recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import polars

from vlmhyperbench.analysis.labels import short
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.records import ClaimEvidence, numbers
from vlmhyperbench.reports.spans import ANSWERED
from vlmhyperbench.reports.wording import listed, percent, size
from vlmhyperbench_sdk.types import JsonObject

TOKENS, REQUESTS = 100_000, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of the load generators of a run's claims; None where it was not recorded."""

    recorded: int
    """Claims that recorded it."""
    claims: int
    cpu_s: float
    """Parent and measuring processes, start-up and warm-up included."""
    measuring_cpu_s: float | None
    """Of it, the measuring processes."""
    processes: int | None
    """Measuring processes of the claim that had most."""
    peak_rss_bytes: int | None
    """Parent and measuring processes, of the claim that had most."""
    measuring_rss_bytes: int | None
    """The largest measuring process."""
    startup_s: float | None
    """Until the first request could leave; the longest of all claims."""
    busy_share: float | None
    """Of a core, of the busiest measuring process while it measured."""
    core_share: float | None
    """Processor time of all of them over the measured window."""
    cpu_s_per_100k_tokens: float | None
    cpu_s_per_1k_requests: float | None

    def as_json(self) -> JsonObject:
        """Return it for machines."""
        return asdict(self)


def cost_of(rows: polars.DataFrame, claims: Sequence[ClaimEvidence], *, window_s: float | None) -> Cost | None:
    """Sum up what the claims recorded; None where none did.

    Args:
        rows: the requests that the run asked itself.
        claims: those that measured them.
        window_s: how long they took together.
    """
    told = {claim.id: claim.client for claim in claims if claim.client and _known([claim], "cpu_s")}
    if not told:
        return None
    recorded = [claim for claim in claims if claim.id in told]
    cpu_s = sum(_known(recorded, "cpu_s"))
    sent = rows.filter(polars.col("claim_id").is_in(list(told)) & polars.col("sent_ns").is_not_null())
    counts = sent.filter(ANSWERED)["completion_tokens"]
    # Of an unknown number no cost is known; a sum of 32-bit counts is one of 32 bits, too.
    tokens = int(counts.cast(polars.Int64).sum()) if counts.null_count() == 0 else 0
    measuring = _known(recorded, "measuring_cpu_s")
    whole = window_s if len(recorded) == len(claims) else None
    return Cost(
        recorded=len(recorded),
        claims=len(claims),
        cpu_s=cpu_s,
        measuring_cpu_s=sum(measuring) if len(measuring) == len(recorded) else None,
        processes=_most_whole(recorded, "processes"),
        peak_rss_bytes=_most_whole(recorded, "peak_rss_bytes"),
        measuring_rss_bytes=_most_whole(recorded, "measuring_peak_rss_bytes"),
        startup_s=max(_known(recorded, "startup_s"), default=None),
        busy_share=max(_known(recorded, "loop_busy_share"), default=None),
        core_share=cpu_s / whole if whole else None,
        cpu_s_per_100k_tokens=cpu_s / tokens * TOKENS if tokens else None,
        cpu_s_per_1k_requests=cpu_s / sent.height * REQUESTS if sent.height else None,
    )


def cost_table(costs: Sequence[tuple[str, Cost | None]]) -> Table:
    """Lay the cost of one or several runs out, a column each."""
    several = len(costs) > 1
    columns = [_cells(cost) for _, cost in costs]
    labels = max(columns, key=len, default={})
    partly = [run for run, cost in costs if cost is None or cost.recorded < cost.claims]
    note = "The load generator's own, start-up and warm-up included; the worker that stores what it seals is not in it."
    if partly:
        note += f" Not every claim recorded it{f': {listed(partly)}' if several else ''}."
    return Table(
        name="harness-cost",
        title="What measuring took",
        columns=(
            Column(title=""),
            *(Column(title=run if several else "load generator", kind="number") for run, _ in costs),
        ),
        rows=tuple((label, *(cells.get(label) for cells in columns)) for label in labels),
        note=note,
        is_collapsed=True,
    )


def _cells(cost: Cost | None) -> dict[str, Cell]:
    """What stands in a run's column, by label; what nobody recorded is missing."""
    if cost is None:
        return {}
    found: dict[str, tuple[float | None, str]] = {
        "processor time, all processes": (cost.cpu_s, "s"),
        "of it, measuring processes": (cost.measuring_cpu_s, "s"),
        "processor time per 100 000 output tokens": (cost.cpu_s_per_100k_tokens, "s"),
        "processor time per 1 000 requests": (cost.cpu_s_per_1k_requests, "s"),
        "share of a core, all processes": (cost.core_share, "%"),
        "share of a core, busiest measuring process": (cost.busy_share, "%"),
        "peak memory, all processes": (cost.peak_rss_bytes, "B"),
        "peak memory, largest measuring process": (cost.measuring_rss_bytes, "B"),
        "start-up, to the first byte that can leave": (cost.startup_s, "s"),
        "measuring processes": (cost.processes, ""),
    }
    return {label: _written(value, unit) for label, (value, unit) in found.items() if value is not None}


def _written(value: float, unit: str) -> Cell:
    match unit:
        case "%":
            return percent(value)
        case "B":
            return size(value)
        case "":
            return int(value)
        case _:
            return f"{short(value)}\u00a0{unit}"


def _known(claims: Sequence[ClaimEvidence], name: str) -> list[float]:
    return numbers((claim.client for claim in claims), name)


def _most_whole(claims: Sequence[ClaimEvidence], name: str) -> int | None:
    return max((int(value) for value in _known(claims, name)), default=None)
