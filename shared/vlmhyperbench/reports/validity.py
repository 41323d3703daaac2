"""Whether a run's speeds are a measurement: the gates of `vlmhyperbench load`, on what a run records.

A gate whose value nobody recorded is unknown: it voids nothing, and is said not to have been judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars

from vlmhyperbench.analysis.distributions import nearest_rank
from vlmhyperbench.analysis.labels import short
from vlmhyperbench.analysis.results import Gate
from vlmhyperbench.analysis.validity import (
    ERROR_SHARE,
    MAX_BUSY_SHARE,
    at_most,
    check_closed_lag,
    check_open_lag,
    check_sends,
)
from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE
from vlmhyperbench.domain.short_ids import short as short_id
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.reports.document import Cell, Column, Table, Tone, write_number
from vlmhyperbench.reports.records import ClaimEvidence, Disturber, numbers
from vlmhyperbench.reports.wording import listed, percent
from vlmhyperbench_sdk.types import JsonObject

INVALID = "INVALID"
State = Literal["valid", "invalid", "not known"]
_SHARES = {"error_share", "retried_share", "client_busy_share", "rate_error_share"}
_COUNTS = {"unaccounted", "disturbers"}
_LABELS = {
    "unaccounted": "requests without a row",
    "disturbers": "other inferences on its machine meanwhile",
    "error_share": "share of requests that failed",
    "retried_share": "share of requests that were tried again",
    "client_busy_share": "busiest measuring process, share of a core",
    "send_lag_p99_ms": "p99 from scheduled to sent, ms",
    "send_lag_mean_ms": "mean from free to sent, ms",
    "ttft_p99_shift_ms": "of it in the p99 of TTFT, ms",
    "rate_error_share": "rate of the sends, off the schedule's",
    "dispersion_error": "dispersion of the sends, off the schedule's",
    "sends_like_process_p": "gaps are those of the process, p (Kolmogorov-Smirnov)",
}
_SHORT = {
    "unaccounted": "no row",
    "disturbers": "disturbed by",
    "error_share": "failed",
    "retried_share": "retried",
    "client_busy_share": "client busy",
    "send_lag_p99_ms": "sent late, p99, ms",
    "send_lag_mean_ms": "sent late, mean, ms",
    "ttft_p99_shift_ms": "of it in TTFT p99, ms",
    "rate_error_share": "rate off",
    "dispersion_error": "dispersion off",
    "sends_like_process_p": "like the process, p",
}
_WHY = {
    "unaccounted": "{value} requests have no row",
    "disturbers": "its machine was shared meanwhile with {disturbers}",
    "error_share": "{value} of the requests failed ({limit} may)",
    "retried_share": "{value} of the requests were tried again ({limit} may)",
    "client_busy_share": "a measuring process was busy for {value} of a core ({limit} may be)",
    "send_lag_p99_ms": "1 % of the requests left more than {value} ms late ({limit} ms may be)",
    "send_lag_mean_ms": "the client took {value} ms before each request ({limit} ms may be)",
    "ttft_p99_shift_ms": "{value} ms of the p99 of TTFT are the client's ({limit} ms may be)",
    "rate_error_share": "the rate of the sends is {value} off the schedule's ({limit} may be)",
    "dispersion_error": "the dispersion of the sends is {value} off the schedule's ({limit} may be)",
    "sends_like_process_p": "the gaps between sends are not those of the process (p {value})",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The gates of one run's speeds."""

    gates: tuple[Gate, ...]
    disturbers: tuple[str, ...] = ()
    """Other inferences on the same machine at the same time, in words."""

    @property
    def broken(self) -> tuple[Gate, ...]:
        """Gates whose value is known and beyond the limit."""
        return tuple(gate for gate in self.gates if not gate.ok and gate.value is not None)

    @property
    def unknown(self) -> tuple[Gate, ...]:
        """Gates whose value nobody recorded."""
        return tuple(gate for gate in self.gates if gate.value is None)

    @property
    def is_invalid(self) -> bool:
        """A gate is broken, which voids every speed."""
        return bool(self.broken)

    @property
    def state(self) -> State:
        """What is to be said of the speeds."""
        return "invalid" if self.broken else "not known" if self.unknown else "valid"

    @property
    def reasons(self) -> str:
        """Why the speeds are void, as part of a sentence; empty where they are not."""
        return listed(
            [
                _WHY[gate.name].format(
                    value=_number(gate, gate.value), limit=_limit(gate), disturbers=listed(list(self.disturbers))
                )
                for gate in self.broken
            ]
        )

    def as_json(self) -> JsonObject:
        """Return it for machines."""
        return {
            "state": self.state,
            "gates": [
                {"name": gate.name, "ok": gate.ok, "value": gate.value, "limit": gate.limit, "is_least": gate.is_least}
                for gate in self.gates
            ],
            "disturbers": list(self.disturbers),
        }


def validity_of(
    rows: polars.DataFrame,
    *,
    missing: int,
    claims: Sequence[ClaimEvidence],
    ttft_p50_ms: float | None,
    process: Literal["constant", "poisson", "gamma", "burst", "ramp"] | None = None,
    cv: float = 1.0,
) -> Validity:
    """Judge the gates.

    Args:
        rows: the requests that the run asked itself.
        missing: requests without a row.
        claims: those that measured them.
        ttft_p50_ms: median time to first token.
        process: of an open loop's arrivals.
        cv: of a gamma process.
    """
    asked = rows.filter(polars.col("error_code").ne_missing(UNREADABLE_SAMPLE))
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
            column.cast(polars.Float64).fill_null(math.nan).to_numpy()
            for column in (good["sent_ns"] - good["scheduled_ns"], good["ttft_user_ns"], good["latency_ns"])
        )
        gates += check_closed_lag(lag_ns, ttft_ns, latency_ns)
    else:
        lag = nearest_rank((sent["sent_ns"] - sent["scheduled_ns"]).sort().to_list(), 99)
        gates += check_open_lag(None if lag is None else lag / NS_PER_MS, ttft_p50_ms)
        if sent["claim_id"].n_unique() == 1:
            scheduled, instants = (asked[name].drop_nulls().to_numpy() for name in ("scheduled_ns", "sent_ns"))
            gates += check_sends(process, scheduled, instants, cv=cv).gates
    return Validity(gates=tuple(gates), disturbers=tuple(map(_in_words, disturbers or ())))


def _disturbers(claims: Sequence[ClaimEvidence]) -> list[Disturber] | None:
    """Return each inference that disturbed one of the claims; None where one of them did not record it."""
    told = [claim.disturbed_by for claim in claims]
    if not told or None in told:
        return None
    return list(dict.fromkeys(disturber for found in told if found is not None for disturber in found))


def _in_words(disturber: Disturber) -> str:
    if disturber.is_stranger:
        return f"a measurement of another stack or of `load` ({short_id(disturber.claim_id)})"
    claim = f"claim {short_id(disturber.claim_id)}"
    if disturber.run_id is None:
        return f"a run of another project ({claim})"
    return f"the run {disturber.run_name} ({short_id(disturber.run_id)}, {claim})"


def validity_table(validities: Sequence[tuple[str, Validity]]) -> Table:
    """Lay the gates out: of one run a row each, of several a row for each run."""
    is_void = any(validity.is_invalid for _, validity in validities)
    columns, rows = _by_gate(validities[0][1]) if len(validities) == 1 else _by_run(validities)
    return Table(
        name="validity",
        title=f"Validity: {INVALID}" if is_void else "Validity",
        columns=columns,
        rows=rows,
        note=(
            "A gate that does not hold voids every speed of its run. What was not recorded is not known, and voids "
            "nothing."
        ),
        is_collapsed=not is_void,
    )


def _by_gate(validity: Validity) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    columns = (
        Column(title="gate"),
        Column(title="value", kind="number"),
        Column(title="limit", kind="number"),
        Column(title="verdict"),
    )
    rows = [(_LABELS[gate.name], _number(gate, gate.value), _bound(gate), verdict_of(gate)) for gate in validity.gates]
    return columns, tuple(rows)


def _by_run(
    validities: Sequence[tuple[str, Validity]],
) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    names = list(dict.fromkeys(gate.name for _, validity in validities for gate in validity.gates))
    gates = [{gate.name: gate for gate in validity.gates} for _, validity in validities]
    rows = [
        (
            run,
            INVALID if validity.is_invalid else validity.state,
            *(_in_short(found[name]) if name in found else None for name in names),
        )
        for (run, validity), found in zip(validities, gates, strict=True)
    ]
    titles = [_short_title(name, [found[name] for found in gates if name in found]) for name in names]
    columns = (Column(title="run"), Column(title="speeds"), *(Column(title=title, kind="number") for title in titles))
    return columns, tuple(rows)


def _short_title(name: str, gates: Sequence[Gate]) -> str:
    """Name a gate, with its limit where all runs have the same."""
    bounds = {f"{'≥' if gate.is_least else '≤'}\u00a0{_limit(gate)}" for gate in gates}
    return f"{_SHORT[name]}, {bounds.pop()}" if len(bounds) == 1 else _SHORT[name]


def _in_short(gate: Gate) -> str:
    """The value, and beside it that it breaks the limit."""
    value = _number(gate, gate.value)
    return value if gate.ok else "not known" if gate.value is None else f"{value}\u00a0{INVALID}"


def verdict_of(gate: Gate) -> str:
    """Say in a word what a gate came to."""
    return "holds" if gate.ok else "not known" if gate.value is None else INVALID


def say_validity(validity: Validity) -> str:
    """Say in a sentence whether the speeds count; empty where they do."""
    if validity.is_invalid:
        return f"{INVALID}: {validity.reasons}, so no speed of this run counts as a measurement."
    if validity.unknown:
        names = listed([_LABELS[gate.name] for gate in validity.unknown])
        return f"Whether the speeds count is not known to the end; not recorded: {names}."
    return ""


def marked(text: str, validity: Validity) -> str:
    """Write beside a number or its title that it is void, where it is."""
    return f"{text}\u00a0· {INVALID}" if validity.is_invalid else text


def tone_of_validity(validity: Validity) -> Tone:
    """Say how a number is coloured."""
    return "bad" if validity.is_invalid else "neutral"


def _busy_share(claims: Sequence[ClaimEvidence]) -> float | None:
    """The busiest of all; None where one claim did not record it."""
    known = numbers((claim.client for claim in claims), "loop_busy_share")
    return max(known) if known and len(known) == len(claims) else None


def _bound(gate: Gate) -> str:
    return f"{'at least' if gate.is_least else 'at most'} {_limit(gate)}"


def _number(gate: Gate, value: float | None) -> str:
    if value is None:
        return "–"
    if gate.name in _SHARES:
        return percent(value, digits=2 if value and value < 0.01 else 1)
    if gate.name == "sends_like_process_p" and value < gate.limit:
        return f"< {gate.limit:g}"
    return write_number(value, 0) if gate.name in _COUNTS else short(value)


def _limit(gate: Gate) -> str:
    return f"{100 * gate.limit:g}\u00a0%" if gate.name in _SHARES else short(gate.limit)
