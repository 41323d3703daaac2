"""The gates of runs' speeds, in words and as a table; what a broken gate voids is marked beside every number."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.labels import short
from vlmhyperbench.analysis.results import Gate
from vlmhyperbench.reports.document import Cell, Column, Table, Tone, write_number
from vlmhyperbench.reports.sections.wording import listed, percent
from vlmhyperbench.summaries.speeds import Performance

INVALID = "INVALID"
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


def reasons_of(performance: Performance) -> str:
    """Say why the speeds are void, as part of a sentence; empty where they are not."""
    broken = [gate for gate in performance.gates if not gate.ok and gate.value is not None]
    disturbers = listed(list(performance.validity.disturbers if performance.validity else ()))
    return listed(
        [
            _WHY[gate.name].format(value=_number(gate, gate.value), limit=_limit(gate), disturbers=disturbers)
            for gate in broken
        ]
    )


def validity_table(runs: Sequence[tuple[str, Performance]]) -> Table:
    """Lay the gates out: of one run a row each, of several a row for each run."""
    is_void = any(performance.is_invalid for _, performance in runs)
    columns, rows = _by_gate(runs[0][1]) if len(runs) == 1 else _by_run(runs)
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


def _by_gate(performance: Performance) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    columns = (
        Column(title="gate"),
        Column(title="value", kind="number"),
        Column(title="limit", kind="number"),
        Column(title="verdict"),
    )
    rows = [
        (_LABELS[gate.name], _number(gate, gate.value), _bound(gate), verdict_of(gate)) for gate in performance.gates
    ]
    return columns, tuple(rows)


def _by_run(runs: Sequence[tuple[str, Performance]]) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    gates = [{gate.name: gate for gate in performance.gates} for _, performance in runs]
    names = list(dict.fromkeys(name for found in gates for name in found))
    rows = [
        (
            run,
            INVALID if performance.is_invalid else performance.validity.state if performance.validity else None,
            *(_in_short(found[name]) if name in found else None for name in names),
        )
        for (run, performance), found in zip(runs, gates, strict=True)
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


def say_validity(performance: Performance) -> str:
    """Say in a sentence whether the speeds count; empty where they do."""
    if performance.is_invalid:
        return f"{INVALID}: {reasons_of(performance)}, so no speed of this run counts as a measurement."
    unknown = [_LABELS[gate.name] for gate in performance.gates if gate.value is None]
    if unknown:
        names = listed(unknown)
        return f"Whether the speeds count is not known to the end; not recorded: {names}."
    return ""


def marked(text: str, performance: Performance) -> str:
    """Write beside a number or its title that it is void, where it is."""
    return f"{text}\u00a0· {INVALID}" if performance.is_invalid else text


def tone_of_speed(performance: Performance) -> Tone:
    """Say how a number is coloured."""
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
    return write_number(value, 0) if gate.name in _COUNTS else short(value)


def _limit(gate: Gate) -> str:
    return f"{100 * gate.limit:g}\u00a0%" if gate.name in _SHARES else short(gate.limit)
