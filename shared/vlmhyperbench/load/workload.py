"""The description of a load, its checks, and the schedule of an open loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.domain.arrivals import (
    Arrivals,
    Instants,
    arrivals_at_least,
    arrivals_within,
    draw_arrivals,
    trace_instants,
)
from vlmhyperbench.domain.scenarios import MAX_CONVERSATIONS
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.load.bodies import RequestContent
from vlmhyperbench.load.trace import TracedRequest
from vlmhyperbench_sdk.errors import InvalidInput

Scenario = Literal["offline", "single_stream", "multi_stream", "server", "interactive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A load as a user describes it."""

    scenario: Scenario
    content: RequestContent
    requests: int | None
    """Number of measured requests; None for as many as last `duration_s`."""
    duration_s: float | None
    streams: int
    """Number of requests in flight; for `server`, the number of connections that are open before the clock starts."""
    arrivals: Arrivals | None
    """Arrivals of `server`, unless a trace is given."""
    trace: tuple[TracedRequest, ...]
    speed: float
    warmup: int
    timeout_s: float
    seed: int
    processes: int
    is_at_least: bool = False
    """Whether `duration_s` is a minimum and `min_requests` applies, as for presets."""
    min_requests: int = 1
    samples_per_query: int = 0
    """For multi_stream, the number of streams whose k-th requests form query k; 0 if there are no queries."""
    baseline: int = 0
    """For multi_stream, the number of requests that are sent first, one at a time, for comparison."""
    conversations: int | None = None
    """For interactive, the number of conversations; None for as many as arrive in `duration_s`. Without arrivals, each
    stream holds one at a time."""
    turns: int = 1
    """Number of turns of each conversation."""
    think_s: float = 0.0
    """Seconds between the end of an answer and the next turn."""
    max_in_flight: int | None = None
    """For `server`, the maximum number of connections, beyond which requests wait; None for the load generator's."""

    @property
    def is_open_loop(self) -> bool:
        """Whether requests are sent by a schedule, whether or not earlier ones are answered."""
        return self.scenario == "server" or (self.scenario == "interactive" and self.arrivals is not None)


def check_load(workload: Workload) -> None:
    """Check that a load can be planned, without planning it.

    Raises:
        InvalidInput: the description contradicts itself or asks for too much.
    """
    if not workload.trace and workload.requests is not None and workload.duration_s is not None:
        raise InvalidInput(
            "--requests and --duration exclude each other: one sets the number of requests, the other the time.",
            cure="Leave out one of them.",
        )
    if workload.scenario == "interactive":
        _check_conversations(workload)
    if workload.baseline and workload.scenario != "multi_stream":
        message = f"--baseline does not fit {workload.scenario}."
        raise InvalidInput(message, cure="Leave it out, or give --scenario multi_stream.")
    if workload.max_in_flight is not None:
        _check_connections(workload, workload.max_in_flight)
    instants = schedule_of(workload)
    if instants is None:
        count = workload.conversations if workload.scenario == "interactive" else workload.requests
        is_empty = count == 0
    else:
        is_empty = instants.size == 0
    if is_empty:
        raise InvalidInput("The load has no requests.", cure="Give --requests, or a longer --duration.")
    if instants is None and workload.duration_s is None:
        _check_streams(workload)
    if workload.scenario == "interactive" and instants is not None and instants.size > MAX_CONVERSATIONS:
        raise InvalidInput(
            f"{instants.size} conversations would arrive; the maximum is {MAX_CONVERSATIONS}, one stream for each.",
            cure="Give a smaller --rate, --duration or --conversations.",
        )


def _check_connections(workload: Workload, max_in_flight: int) -> None:
    if workload.scenario != "server":
        raise InvalidInput(
            f"--max-in-flight does not fit {workload.scenario}, where the number of connections is fixed.",
            cure="Leave it out; --concurrency sets the number of requests in flight.",
        )
    if workload.streams > max_in_flight:
        raise InvalidInput(
            f"--concurrency {workload.streams} is larger than --max-in-flight {max_in_flight}.",
            cure=f"Give a --concurrency of at most {max_in_flight}, or a larger --max-in-flight.",
        )


def _check_streams(workload: Workload) -> None:
    is_interactive = workload.scenario == "interactive"
    count = workload.conversations if is_interactive else workload.requests
    if workload.scenario != "single_stream" and count is not None and count < workload.streams:
        what = "conversations" if is_interactive else "requests"
        raise InvalidInput(
            f"{count} {what} cannot keep {workload.streams} streams busy.",
            cure=f"Give --{what} {workload.streams} or more (better several times that), or a smaller --concurrency.",
        )


def _check_conversations(workload: Workload) -> None:
    if workload.requests is not None or workload.trace:
        raise InvalidInput(
            "--requests and --trace do not fit interactive, which consists of conversations.",
            cure="Give --conversations and --turns instead.",
        )
    if workload.arrivals is None and (workload.duration_s is not None or workload.conversations is None):
        raise InvalidInput(
            "interactive without --rate needs --conversations, and does not take --duration.",
            cure="Give --conversations, or --rate (conversations per second) with --duration.",
        )
    if (workload.duration_s is None) == (workload.conversations is None):
        raise InvalidInput(
            "interactive with --rate needs either --conversations or --duration.",
            cure="Give exactly one of them.",
        )


def schedule_of(workload: Workload) -> Instants | None:
    """Return the instants at which an open loop sends, drawn at random or from the trace; None for a closed loop.

    Raises:
        InvalidInput: the scenario does not fit the rate or the trace, or the schedule is too long.
    """
    if workload.scenario == "interactive" and workload.arrivals is None:
        return None
    if not workload.is_open_loop:
        if workload.arrivals is not None or workload.trace:
            raise InvalidInput(
                f"--rate and --trace do not fit {workload.scenario}, which sends a request when one has ended.",
                cure="Give --scenario server, or leave them out.",
            )
        return None
    if workload.trace:
        instants = trace_instants([request.timestamp_s for request in workload.trace], speed=workload.speed)
        if workload.duration_s is not None:
            instants = instants[instants < workload.duration_s * NS_PER_S]
        return instants[: workload.requests]
    if workload.arrivals is None:
        raise InvalidInput("--scenario server needs a rate.", cure="Give --rate, or --trace.")
    if workload.duration_s is not None:
        if not workload.is_at_least:
            return arrivals_within(workload.arrivals, duration_s=workload.duration_s, seed=workload.seed)
        return arrivals_at_least(
            workload.arrivals,
            duration_s=workload.duration_s,
            min_count=-(-workload.min_requests // workload.turns),
            seed=workload.seed,
        )
    count = (workload.conversations if workload.scenario == "interactive" else workload.requests) or 0
    return draw_arrivals(workload.arrivals, count=count, seed=workload.seed)
