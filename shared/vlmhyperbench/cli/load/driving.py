"""Measure a planned load once, repeatedly, in pairs, over a sweep or in search of a rate, and print the result."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.load.planning import PlannedLoad, Series
from vlmhyperbench.cli.load.series_text import print_pairs, print_repeats, print_search, print_sweep
from vlmhyperbench.cli.load.text import print_result
from vlmhyperbench.cli.output import emit, note
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.load.idle import IdleProbe
from vlmhyperbench.load.measure import Control, Target, check_record, measure
from vlmhyperbench.load.pairs import PairedResult, Side, measure_in_pairs
from vlmhyperbench.load.presets import with_preset_gates
from vlmhyperbench.load.search import SearchResult, requests_of_probe, search_rate
from vlmhyperbench.load.series import Measure, Repeats, Sweep, at_value, repeat, sweep
from vlmhyperbench.load.workload import Workload, check_load
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable

Result: TypeAlias = LoadResult | Repeats | Sweep | SearchResult | PairedResult
_KINDS: Mapping[type[Result], str] = {
    LoadResult: "load",
    Repeats: "load_repeats",
    Sweep: "load_sweep",
    SearchResult: "load_search",
    PairedResult: "load_against",
}


def run_load(planned: PlannedLoad, *, record: Path | None, is_live: bool, output: OutputFlags) -> int:
    """Check the plan before anything is sent, measure, print the result, and return the exit code.

    Args:
        planned: What is measured.
        record: Folder in which the request records are stored.
        is_live: Whether to print speeds so far even if stderr is not a terminal.
        output: How the output is printed.

    Raises:
        InvalidInput: a load cannot be planned.
        Unavailable: nothing could be measured.
    """
    series, preset = planned.series, planned.preset
    workload, target = _checked(planned.workload, planned.target, series)
    check_record(record)
    stopped_by: list[signal.Signals] = []
    is_watched = not output.quiet and (is_live or sys.stderr.isatty())
    control = Control(report=lambda text: note(text, output), is_watched=is_watched)

    async def measure_at(load: Workload, name: str, at: Target) -> LoadResult:
        folder = record / name if record is not None and name else record
        result = await measure(load, at, control, record=folder)
        return result if preset is None else with_preset_gates(result, load, preset)

    async def measure_target(load: Workload, name: str) -> LoadResult:
        return await measure_at(load, name, target)

    async def measure_side(load: Workload, side: Side, name: str) -> LoadResult:
        endpoint = series.against if side == "second" and series.against is not None else target.endpoint
        return await measure_at(load, name, dataclasses.replace(target, endpoint=endpoint))

    async def drive() -> Result:
        def stop(number: signal.Signals) -> None:
            stopped_by.append(number)
            control.stop()

        with _stopping_at_signals(stop):
            if series.against is not None:
                urls = (target.endpoint.url, series.against.url)
                return await measure_in_pairs(workload, measure_side, control, urls=urls, pairs=series.repeats)
            return await _drive(workload, target, series, control, measure_target)

    try:
        result = asyncio.run(drive())
    except Unavailable as error:
        if not stopped_by:
            raise
        note(error.message, output)
        return _code_of_signal(stopped_by[0])
    _print(result, output)
    if stopped_by:
        return _code_of_signal(stopped_by[0])
    if isinstance(result, SearchResult) and result.ended_by is None and not result.found.is_reached:
        return exits.GATE
    return exits.OK if result.valid else exits.RUN_FAILED


def _code_of_signal(number: signal.Signals) -> int:
    return exits.TERMINATED if number == signal.SIGTERM else exits.INTERRUPTED


async def _drive(
    workload: Workload, target: Target, series: Series, control: Control, measure_target: Measure
) -> Result:
    if series.is_repeated:
        return await repeat(workload, measure_target, control, max_repeats=series.repeats, until=series.until)
    without_slo = dataclasses.replace(target, slo={})
    idle = IdleProbe(workload, lambda probe: measure(probe, without_slo, control))
    if series.axis is not None:
        return await sweep(workload, measure_target, control, axis=series.axis, values=series.values, idle=idle)
    if series.is_search:
        return await search_rate(
            workload,
            measure_target,
            control,
            slo=target.slo,
            first_per_s=series.first_per_s,
            max_probes=series.max_probes,
            idle=idle,
        )
    return await measure_target(workload, "")


def _checked(workload: Workload, target: Target, series: Series) -> tuple[Workload, Target]:
    """Check that every load of the series can be planned; set the number of requests and the certainty of a search."""
    if series.against is not None and series.until is not None:
        raise InvalidInput(
            "--against and --until-precision exclude each other.", cure="Give --repeats, the number of pairs, instead."
        )
    if sum((series.is_repeated, series.axis is not None, series.is_search, series.against is not None)) > 1:
        raise InvalidInput(
            "--repeats, --until-precision, --sweep, --search-rate and --against exclude each other.",
            cure="Give one of them; only --against takes --repeats, its number of pairs.",
        )
    if series.is_search:
        from vlmhyperbench.analysis.rate_search import certainty_of_probe

        is_server = workload.arrivals is not None and workload.scenario != "interactive"
        if workload.duration_s is not None or workload.trace or not is_server:
            raise InvalidInput(
                "--search-rate needs --scenario server, and does not take --duration, --preset or --trace.",
                cure="Leave them out; --requests sets the number of requests of each probe.",
            )
        at_value(workload, "rate", 1.0)  # refuses a workload without a rate
        requests = requests_of_probe(target.slo, workload.requests, max_probes=series.max_probes)
        workload = dataclasses.replace(workload, requests=requests)
        target = dataclasses.replace(target, certainty=certainty_of_probe(max_probes=series.max_probes))
    if series.axis is None:
        check_load(workload)
    for value in series.values:
        check_load(at_value(workload, series.axis or "rate", value))
    return workload, target


def _print(result: Result, output: OutputFlags) -> None:
    if output.json:
        emit(_KINDS[type(result)], result)
        return
    match result:
        case PairedResult():
            print_pairs(result)
        case Repeats():
            print_repeats(result)
        case Sweep():
            print_sweep(result)
        case SearchResult():
            print_search(result)
        case _:
            print_result(result)


@contextmanager
def _stopping_at_signals(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `stop` on Ctrl-C and SIGTERM instead of their usual handlers; does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
