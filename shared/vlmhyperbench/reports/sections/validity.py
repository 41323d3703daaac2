"""The gates on speeds in words and as a table, and the mark on numbers that a failed gate makes invalid."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.labels import short
from vlmhyperbench.analysis.results import Gate
from vlmhyperbench.reports.document import Cell, Column, Table, Tone, write_number
from vlmhyperbench.reports.sections.wording import listed, percent
from vlmhyperbench.summaries.speeds import Performance

INVALID = "INVALID"
_SHARES = {"error_share", "retried_share", "client_busy_share", "rate_error_share"}
_COUNTS = {"unaccounted", "disturbers", "min_requests"}
_LABELS = {
    "unaccounted": "requests without a row",
    "disturbers": "other inferences on the machine at the same time",
    "error_share": "share of requests that failed",
    "retried_share": "share of requests that were tried again",
    "client_busy_share": "busiest measuring process, share of a core",
    "send_lag_p99_ms": "send lag after the schedule, p99, ms",
    "send_lag_mean_ms": "send lag after a free slot, mean, ms",
    "ttft_p99_shift_ms": "part of the p99 of TTFT that is send lag, ms",
    "rate_error_share": "error of the send rate against the schedule",
    "dispersion_error": "error of the dispersion of sends against the schedule",
    "sends_like_process_p": "gaps between sends follow the arrival process, p (Kolmogorov-Smirnov)",
    "duration_s": "time that the requests took together, s",
    "min_requests": "requests that were sent",
}
_SHORT = {
    "unaccounted": "no row",
    "disturbers": "disturbed by",
    "error_share": "failed",
    "retried_share": "retried",
    "client_busy_share": "client busy",
    "send_lag_p99_ms": "send lag, p99, ms",
    "send_lag_mean_ms": "send lag, mean, ms",
    "ttft_p99_shift_ms": "send lag in TTFT p99, ms",
    "rate_error_share": "rate error",
    "dispersion_error": "dispersion error",
    "sends_like_process_p": "arrival process, p",
    "duration_s": "duration, s",
    "min_requests": "requests",
}
_WHY = {
    "unaccounted": "{value} requests have no row",
    "disturbers": "the machine was shared at the same time with {disturbers}",
    "error_share": "{value} of the requests failed (limit {limit})",
    "retried_share": "{value} of the requests were tried again (limit {limit})",
    "client_busy_share": "a measuring process was busy for {value} of a core (limit {limit})",
    "send_lag_p99_ms": "1 % of the requests were sent more than {value} ms late (limit {limit} ms)",
    "send_lag_mean_ms": "the client took {value} ms to send each request (limit {limit} ms)",
    "ttft_p99_shift_ms": "the client caused {value} ms of the p99 of TTFT (limit {limit} ms)",
    "rate_error_share": "the send rate differs from the schedule by {value} (limit {limit})",
    "dispersion_error": "the dispersion of sends differs from the schedule by {value} (limit {limit})",
    "sends_like_process_p": "the gaps between sends do not follow the arrival process (p {value})",
    "duration_s": "the requests took {value} s together (the preset asks for {limit} s)",
    "min_requests": "{value} requests were sent (the preset asks for {limit})",
}


def _label(name: str) -> str:
    """Name a gate; those of a preset name the percentile that is certified, or the limit that is certainly kept."""
    if name in _LABELS:
        return _LABELS[name]
    if name.startswith("certified_"):
        return f"certified bound of {_time(name)}, ms"
    return f"requests over the limit on {name.removesuffix('_over').replace('_', ' ')}"


def _short(name: str) -> str:
    return _SHORT.get(name) or (_time(name) if name.startswith("certified_") else name.replace("_", " "))


def _why(name: str) -> str:
    if name in _WHY:
        return _WHY[name]
    if name.startswith("certified_"):
        return f"too few requests were answered to certify {_time(name)}"
    limit = name.removesuffix("_over").replace("_", " ")
    return f"{{value}} requests exceeded the limit on {limit} (at most {{limit}} show that it is kept)"


def _time(name: str) -> str:
    return name.removeprefix("certified_").removesuffix("_ms").replace("_", " ")


def reasons_of(performance: Performance) -> str:
    """Return a clause that says why the speeds are invalid; empty if they are valid."""
    failed = [gate for gate in performance.gates if not gate.ok and gate.value is not None]
    disturbers = listed(list(performance.validity.disturbers if performance.validity else ()))
    return listed(
        [
            _why(gate.name).format(value=_number(gate, gate.value), limit=_limit(gate), disturbers=disturbers)
            for gate in failed
        ]
    )


def validity_table(runs: Sequence[tuple[str, Performance]]) -> Table:
    """Return the table of gates: a row for each gate of a single run, or a row for each of several runs."""
    is_void = any(performance.is_invalid for _, performance in runs)
    columns, rows = _by_gate(runs[0][1]) if len(runs) == 1 else _by_run(runs)
    return Table(
        name="validity",
        title=f"Validity: {INVALID}" if is_void else "Validity",
        columns=columns,
        rows=rows,
        note=(
            "A gate that does not hold makes every speed of the run invalid. A value that was not recorded is not "
            "known and makes nothing invalid."
        ),
        is_collapsed=not is_void,
    )


def _by_gate(performance: Performance) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    columns = (
        Column(title="gate"),
        Column(title="value", kind="number"),
        Column(title="limit", kind="number"),
        Column(title="verdict"),
    )
    rows = [
        (_label(gate.name), _number(gate, gate.value), _bound(gate), verdict_of(gate)) for gate in performance.gates
    ]
    return columns, tuple(rows)


def _by_run(runs: Sequence[tuple[str, Performance]]) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    gates = [{gate.name: gate for gate in performance.gates} for _, performance in runs]
    names = list(dict.fromkeys(name for of_run in gates for name in of_run))
    rows = [
        (
            run,
            INVALID if performance.is_invalid else performance.validity.state if performance.validity else None,
            *(_in_short(of_run[name]) if name in of_run else None for name in names),
        )
        for (run, performance), of_run in zip(runs, gates, strict=True)
    ]
    titles = [_short_title(name, [of_run[name] for of_run in gates if name in of_run]) for name in names]
    columns = (Column(title="run"), Column(title="speeds"), *(Column(title=title, kind="number") for title in titles))
    return columns, tuple(rows)


def _short_title(name: str, gates: Sequence[Gate]) -> str:
    """Name a gate, with its limit if all runs have the same."""
    bounds = {f"{'≥' if gate.is_least else '≤'}\u00a0{_limit(gate)}" for gate in gates}
    return f"{_short(name)}, {bounds.pop()}" if len(bounds) == 1 else _short(name)


def _in_short(gate: Gate) -> str:
    """Return the value, with a mark if it exceeds the limit."""
    value = _number(gate, gate.value)
    return value if gate.ok else "not known" if gate.value is None else f"{value}\u00a0{INVALID}"


def verdict_of(gate: Gate) -> str:
    """Return the result of a gate in a word."""
    return "holds" if gate.ok else "not known" if gate.value is None else INVALID


def say_validity(performance: Performance) -> str:
    """Return a sentence on speeds that are invalid or not known to be valid; empty if they are valid."""
    if performance.is_invalid:
        return f"{INVALID}: {reasons_of(performance)}, so no speed of this run counts as a measurement."
    unknown = [_label(gate.name) for gate in performance.gates if gate.value is None]
    if unknown:
        names = listed(unknown)
        return f"It is not known whether the speeds are valid; not recorded: {names}."
    return ""


def marked(text: str, performance: Performance) -> str:
    """Mark a number or its title if the speeds are invalid."""
    return f"{text}\u00a0· {INVALID}" if performance.is_invalid else text


def tone_of_speed(performance: Performance) -> Tone:
    """Return the colour of a speed."""
    return "bad" if performance.is_invalid else "neutral"


def _bound(gate: Gate) -> str:
    return f"{'at least' if gate.is_least else 'at most'} {_limit(gate)}"


def _number(gate: Gate, value: float | None) -> str:
    if value is None:
        return "–"
    if gate.name in _SHARES:
        return percent(value, digits=2 if value and value < 0.01 else 1)
    if gate.name == "sends_like_process_p" and value < gate.limit:
        return f"< {gate.limit:g}"
    return write_number(value, 0) if gate.name in _COUNTS or gate.name.endswith("_over") else short(value)


def _limit(gate: Gate) -> str:
    return f"{100 * gate.limit:g}\u00a0%" if gate.name in _SHARES else short(gate.limit)
