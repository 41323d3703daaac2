"""Validity of a run's speeds: the gates of `vlmhyperbench load`, applied to the records of a run.

A gate whose value was not recorded is unknown: it voids nothing, and the state is `not known`.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars

from vlmhyperbench.analysis.distributions import nearest_rank
from vlmhyperbench.analysis.results import Gate
from vlmhyperbench.analysis.times import floats_of
from vlmhyperbench.analysis.validity import (
    ERROR_SHARE,
    MAX_BUSY_SHARE,
    at_most,
    check_closed_lag,
    check_open_lag,
    check_sends,
)
from vlmhyperbench.domain.arrivals import Process
from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE
from vlmhyperbench.domain.short_ids import short as short_id
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.summaries.records import ClaimEvidence, Disturber, numbers
from vlmhyperbench.summaries.speeds import State, Validity


def validity_of(
    rows: polars.DataFrame,
    *,
    missing: int,
    claims: Sequence[ClaimEvidence],
    ttft_p50_ms: float | None,
    process: Process | None = None,
    cv: float = 1.0,
    rules: Sequence[Gate] = (),
) -> Validity | None:
    """Check the gates; None where nothing was sent and nothing was to be sent.

    Args:
        rows: Requests that the run sent itself.
        missing: Number of requests without a row.
        claims: Claims that measured them.
        ttft_p50_ms: Median time to first token.
        process: Arrival process of an open loop; None for a closed loop.
        cv: Coefficient of variation of a gamma process.
        rules: Further gates, of a preset.
    """
    asked = rows.filter(polars.col("error_code").ne_missing(UNREADABLE_SAMPLE))
    if not asked.height and not missing:
        return None
    failed = asked.filter(polars.col("status") != "ok").height
    retried = asked.filter(polars.col("tries") > 1).height
    sent = asked.filter(polars.col("sent_ns").is_not_null())
    disturbers = _disturbers(claims)
    gates = [
        at_most("unaccounted", float(missing), 0.0),
        at_most("error_share", failed / asked.height if asked.height else None, ERROR_SHARE),
        at_most("retried_share", retried / asked.height if asked.height else None, ERROR_SHARE),
        at_most("client_busy_share", _busy_share(claims), MAX_BUSY_SHARE),
        at_most("disturbers", None if disturbers is None else float(len(disturbers)), 0.0),
    ]
    if process is None:
        good = sent.filter(polars.col("status") == "ok")
        lag_ns, ttft_ns, latency_ns = (
            floats_of(column)
            for column in (good["sent_ns"] - good["scheduled_ns"], good["ttft_user_ns"], good["latency_ns"])
        )
        gates += check_closed_lag(lag_ns, ttft_ns, latency_ns)
    else:
        lag = nearest_rank((sent["sent_ns"] - sent["scheduled_ns"]).sort().to_list(), 99)
        gates += check_open_lag(None if lag is None else lag / NS_PER_MS, ttft_p50_ms)
        if sent["claim_id"].n_unique() == 1:
            # The schedule of a conversation is that of its first turn.
            arrived = asked.filter(polars.col("turn") == 0)
            scheduled, instants = (arrived[name].drop_nulls().to_numpy() for name in ("scheduled_ns", "sent_ns"))
            gates += check_sends(process, scheduled, instants, cv=cv).gates
    gates += rules
    return Validity(state=_state(gates), gates=tuple(gates), disturbers=tuple(map(_describe, disturbers or ())))


def _state(gates: Sequence[Gate]) -> State:
    if any(not gate.ok and gate.value is not None for gate in gates):
        return "invalid"
    return "not known" if any(gate.value is None for gate in gates) else "valid"


def _disturbers(claims: Sequence[ClaimEvidence]) -> list[Disturber] | None:
    """Return each inference that disturbed a claim; None where a claim did not record it."""
    recorded = [claim.disturbed_by for claim in claims]
    if not recorded or None in recorded:
        return None
    return list(dict.fromkeys(disturber for disturbers in recorded for disturber in disturbers or ()))


def _describe(disturber: Disturber) -> str:
    if disturber.is_stranger:
        return f"a measurement of another stack or of `load` ({short_id(disturber.claim_id)})"
    claim = f"claim {short_id(disturber.claim_id)}"
    if disturber.run_id is None:
        return f"a run of another project ({claim})"
    return f"the run {disturber.run_name} ({short_id(disturber.run_id)}, {claim})"


def _busy_share(claims: Sequence[ClaimEvidence]) -> float | None:
    """Return the largest share of all claims; None where a claim did not record it."""
    known = numbers((claim.client for claim in claims), "loop_busy_share")
    return max(known) if known and len(known) == len(claims) else None
