"""Drive the clients against the timed server: the streams, the rounds of cost and accuracy, the arrivals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.loadgen_conformance.clients import Client, Reported, Workload
from benchmarks.loadgen_conformance.judging import (
    Arrivals,
    Errors,
    Truth,
    arrivals_of,
    errors_of,
    faults_of,
    truth_of,
)
from benchmarks.loadgen_conformance.running import ClientFailed, Cost, run_client
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_simulated.streams import STREAMS, TRUTH

STREAMED = Simulation(ttft_ms=10.0, gap_ms=10.0, tokens=128, usage="always", record=True)
INSTANT = Simulation(tokens=1, usage="always", record=True)

ONE_STREAM = Workload(requests=32, streams=8, tokens=32)
ACCURATE = Workload(requests=64, streams=16, tokens=32)
MANY_TOKENS = Workload(requests=448, streams=64, tokens=128)
FEW_REQUESTS, MANY_REQUESTS = (
    Workload(requests=64, streams=64, tokens=1),
    Workload(requests=16_448, streams=64, tokens=1),
)
POISSON = Workload(requests=1200, streams=256, tokens=1, rate_per_s=40.0, arrivals="poisson")
CONSTANT = Workload(requests=1200, streams=256, tokens=1, rate_per_s=200.0, arrivals="constant")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of one client."""

    reported: Reported
    truth: Truth
    cost: Cost

    @property
    def first_request_s(self) -> float:
        """From the start of the program to its first request at the server."""
        return (self.truth.received_ns[0] - self.cost.began_ns) / 1e9


@dataclass(slots=True)
class Round:
    """What one round found of one client; None where it failed."""

    accurate: Errors | None = None
    tokens_per_s_share: float | None = None
    """Reported output tokens a second over the true ones."""
    cpu_s_per_100k_tokens: float | None = None
    cpu_s_per_1k_requests: float | None = None
    first_request_s: float | None = None
    peak_rss_bytes: int | None = None
    processes: int | None = None
    connections: int | None = None


@dataclass(slots=True)
class Findings:
    """Everything that the suite found."""

    faults: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """(stream, client) → what it says wrongly."""
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    arrivals: dict[tuple[str, str], Arrivals] = field(default_factory=dict)
    """(process, client) → what arrived."""
    server_late_p99_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def play_streams(clients: Sequence[Client], findings: Findings, say: Say, *, names: Sequence[str]) -> None:
    """Let every client read every stream."""
    streams: Mapping[str, Simulation] = {"plain": TRUTH, **STREAMS}
    for name in names:
        for client in clients:
            outcome = _try(client, streams[name], ONE_STREAM, findings)
            if outcome is not None:
                findings.faults[name, client.name] = faults_of(outcome.reported, outcome.truth)
                say(f"{name}, {client.name}: {'; '.join(findings.faults[name, client.name]) or 'right'}")


def play_round(clients: Sequence[Client], findings: Findings, say: Say) -> None:
    """Let every client do the same once: read exactly, stream many tokens, send many requests."""
    for client in clients:
        one = Round()
        accurate = _try(client, TRUTH, ACCURATE, findings)
        if accurate is not None:
            one.accurate = errors_of(accurate.reported, accurate.truth)
            one.first_request_s = accurate.first_request_s
            one.tokens_per_s_share = _share(accurate)
        streamed = _try(client, STREAMED, MANY_TOKENS, findings)
        if streamed is not None and accurate is not None:
            tokens = streamed.truth.tokens - accurate.truth.tokens
            one.cpu_s_per_100k_tokens = (streamed.cost.cpu_s - accurate.cost.cpu_s) / tokens * 1e5
            one.peak_rss_bytes, one.processes = streamed.cost.peak_rss_bytes, streamed.cost.processes
            one.connections = streamed.truth.connections
            findings.server_late_p99_ms.append(streamed.truth.late_p99_ms)
        few, many = (_try(client, INSTANT, size, findings) for size in (FEW_REQUESTS, MANY_REQUESTS))
        if few is not None and many is not None:
            requests = len(many.truth.requests) - len(few.truth.requests)
            one.cpu_s_per_1k_requests = (many.cost.cpu_s - few.cost.cpu_s) / requests * 1e3
        findings.rounds.setdefault(client.name, []).append(one)
        say(f"{client.name}: {one}")


def play_arrivals(clients: Sequence[Client], findings: Findings, say: Say) -> None:
    """Let every client that can send at a rate do so."""
    for name, workload in (("Poisson, 40/s", POISSON), ("constant, 200/s", CONSTANT)):
        for client in clients:
            outcome = _try(client, replace(INSTANT, ttft_ms=5.0), workload, findings)
            if outcome is not None:
                found = findings.arrivals[name, client.name] = arrivals_of(outcome.truth.received_ns)
                say(f"{name}, {client.name}: {found}")


def _try(client: Client, simulation: Simulation, workload: Workload, findings: Findings) -> Outcome | None:
    """Run a client against a server of its own; what fails is noted and told, not raised."""
    with tempfile.TemporaryDirectory() as scratch, SimulatedProcess(simulation, is_realtime=True) as engine:
        out = Path(scratch)
        argv = client.argv(engine.url, workload, out)
        if argv is None:
            return None
        try:
            cost = run_client(argv, env=client.env, statuses=client.statuses, log=out / "log")
            return Outcome(reported=client.read(out), truth=truth_of(engine.records()), cost=cost)
        except (ClientFailed, OSError, KeyError, ValueError) as error:
            findings.failures.append(f"{client.name}, {workload}: {error}")
            return None


def _share(outcome: Outcome) -> float | None:
    """Compare reported throughput with tokens over the time from the first arrival to the last end."""
    requests = outcome.truth.requests
    ends = [one.received_ns + (one.ttft_ms + sum(one.gaps_ms)) * 1e6 for one in requests]
    true = outcome.truth.tokens / ((max(ends) - outcome.truth.received_ns[0]) / 1e9)
    return None if outcome.reported.tokens_per_s is None else outcome.reported.tokens_per_s / true
