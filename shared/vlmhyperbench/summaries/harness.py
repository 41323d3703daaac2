"""Cost of measuring: the load generator's processor time, memory and start-up, as each claim recorded them."""

from __future__ import annotations

from collections.abc import Sequence

import polars

from vlmhyperbench.analysis.times import sum_counts
from vlmhyperbench.summaries.records import ClaimEvidence, max_integer, numbers
from vlmhyperbench.summaries.spans import ANSWERED
from vlmhyperbench.summaries.speeds import Harness

TOKENS, REQUESTS = 100_000, 1_000


def harness_of(rows: polars.DataFrame, claims: Sequence[ClaimEvidence], *, window_s: float | None) -> Harness | None:
    """Sum the records of the claims; None where no claim recorded its cost.

    Args:
        rows: Requests that the run sent itself.
        claims: Claims that measured them.
        window_s: Time that the requests took together.
    """
    recorded = [claim for claim in claims if _known([claim], "cpu_s")]
    if not recorded:
        return None
    cpu_s = sum(_known(recorded, "cpu_s"))
    is_recorded = polars.col("claim_id").is_in([claim.id for claim in recorded])
    sent = rows.filter(is_recorded & polars.col("sent_ns").is_not_null())
    tokens = sum_counts(sent.filter(ANSWERED)["completion_tokens"])
    measuring = _known(recorded, "measuring_cpu_s")
    whole = window_s if len(recorded) == len(claims) else None
    return Harness(
        recorded=len(recorded),
        claims=len(claims),
        cpu_s=cpu_s,
        measuring_cpu_s=sum(measuring) if len(measuring) == len(recorded) else None,
        processes=max_integer(_known(recorded, "processes")),
        peak_rss_bytes=max_integer(_known(recorded, "peak_rss_bytes")),
        measuring_rss_bytes=max_integer(_known(recorded, "measuring_peak_rss_bytes")),
        startup_s=max(_known(recorded, "startup_s"), default=None),
        busy_share=max(_known(recorded, "loop_busy_share"), default=None),
        core_share=cpu_s / whole if whole else None,
        cpu_s_per_100k_tokens=cpu_s / tokens * TOKENS if tokens else None,
        cpu_s_per_1k_requests=cpu_s / sent.height * REQUESTS if sent.height else None,
    )


def _known(claims: Sequence[ClaimEvidence], name: str) -> list[float]:
    return numbers((claim.client for claim in claims), name)
