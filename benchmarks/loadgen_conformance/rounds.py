"""Drive the clients against the timed server: the streams, the rounds of cost and accuracy, the arrivals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.loadgen_conformance.clients import Client, Reported, Workload
from benchmarks.loadgen_conformance.findings import Findings, Round, Spent, per_request, per_token
from benchmarks.loadgen_conformance.judging import Truth, errors_of, faults_of, truth_of
from benchmarks.loadgen_conformance.running import ClientFailed, Cost, run_client
from vlmhyperbench.domain.arrivals import shape_of
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_simulated.streams import STREAMS, TRUTH

STREAMED = Simulation(ttft_ms=10.0, gap_ms=10.0, tokens=128, usage="always", record=True)
INSTANT = Simulation(tokens=1, usage="always", record=True)
SOON = replace(INSTANT, ttft_ms=5.0)
SPARSE = replace(STREAMED, ttft_ms=1000.0, gap_ms=40.0)
"""At 1,024 streams it sends as many tokens a second as `STREAMED` at 256, which the server keeps up with. To make that
many answers takes it a while: the first token is due when they are all made."""

ONE_STREAM = Workload(requests=32, streams=8, tokens=32)
ACCURATE = Workload(requests=64, streams=16, tokens=32)
MANY_TOKENS = Workload(requests=1344, streams=64, tokens=128)
ONE_TOKEN = Workload(requests=0, streams=64, tokens=1)
"""With as many requests as the client says."""

NARROW = Workload(requests=192, streams=64, tokens=128)
WIDE = Workload(requests=1024, streams=1024, tokens=128, processes=2)
POISSON = Workload(requests=1200, streams=256, tokens=1, rate_per_s=40.0, arrivals="poisson")
CONSTANT = replace(POISSON, rate_per_s=200.0, arrivals="constant")
ARRIVALS: Mapping[str, Workload] = {"Poisson, 40/s": POISSON, "constant, 200/s": CONSTANT}

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

    @property
    def spent(self) -> Spent:
        """What it took for what."""
        return Spent(cpu_s=self.cost.cpu_s, requests=len(self.truth.requests), tokens=self.truth.tokens)


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
        findings.rounds.setdefault(client.name, []).append(one)
        accurate = _try(client, TRUTH, ACCURATE, findings)
        streamed = _try(client, STREAMED, MANY_TOKENS, findings)
        many = _try(client, INSTANT, replace(ONE_TOKEN, requests=client.one_token_requests), findings)
        if accurate is not None:
            _note_accuracy(one, accurate)
        if streamed is not None:
            _note_size(one, streamed)
            findings.server_late_p99_ms.append(streamed.truth.late_p99_ms)
        if streamed is not None and accurate is not None:
            one.cpu_s_per_100k_tokens = per_token(accurate.spent, streamed.spent) * 1e5
        if many is not None and accurate is not None:
            token_s = max(0.0, one.cpu_s_per_100k_tokens or 0.0) / 1e5
            one.cpu_s_per_1k_requests = per_request(accurate.spent, many.spent, per_token_s=token_s) * 1e3
        say(f"{client.name}: {one}")


def play_arrivals(clients: Sequence[Client], findings: Findings, say: Say, *, seed: int) -> None:
    """Let every client that can send at a rate do so, in the round that was just played."""
    for process, workload in ARRIVALS.items():
        for client in clients:
            outcome = _try(client, SOON, replace(workload, seed=seed), findings)
            shape = None if outcome is None else shape_of(np.array(outcome.truth.received_ns, dtype=np.int64))
            if outcome is None or shape is None:
                continue
            one = findings.rounds[client.name][-1]
            one.arrivals[process] = shape
            itself = outcome.reported.itself
            if workload.arrivals == "constant" and itself is not None:
                one.send_lag_p50_ms, one.send_lag_p99_ms = itself.send_lag_p50_ms, itself.send_lag_p99_ms
            say(f"{process}, {client.name}: {shape}")


def play_wide(client: Client, findings: Findings, say: Say) -> None:
    """Let a client have 64 streams, and 1,024 over two processes, in the round that was just played.

    Each has as many requests of one token as of many, so that what a request costs, and a connection, cancels out.
    """
    one = findings.rounds[client.name][-1]
    short, narrow, few, wide = (
        _try(client, SPARSE, size, findings)
        for size in (replace(NARROW, tokens=1), NARROW, replace(WIDE, tokens=1), WIDE)
    )
    if short is not None and narrow is not None:
        one.narrow_cpu_s_per_100k_tokens = per_token(short.spent, narrow.spent) * 1e5
    if few is not None and wide is not None:
        one.wide_cpu_s_per_100k_tokens = per_token(few.spent, wide.spent) * 1e5
        findings.wide_late_p99_ms.append(wide.truth.late_p99_ms)
    say(f"{client.name}, 1,024 streams over 64: {one.wide_over_narrow}")


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


def _note_accuracy(one: Round, accurate: Outcome) -> None:
    one.accurate = errors_of(accurate.reported, accurate.truth)
    one.first_request_s = accurate.first_request_s
    one.tokens_per_s_share = _share(accurate)
    if accurate.reported.itself is not None:
        one.startup_s = accurate.reported.itself.startup_s


def _note_size(one: Round, streamed: Outcome) -> None:
    one.peak_rss_bytes, one.processes = streamed.cost.peak_rss_bytes, streamed.cost.processes
    one.connections = streamed.truth.connections
    itself = streamed.reported.itself
    if itself is not None:
        one.itself_rss_bytes, one.measuring_rss_bytes = itself.peak_rss_bytes, itself.measuring_peak_rss_bytes


def _share(outcome: Outcome) -> float | None:
    """Compare reported throughput with tokens over the time from the first arrival to the last end."""
    requests = outcome.truth.requests
    ends = [one.received_ns + (one.ttft_ms + sum(one.gaps_ms)) * 1e6 for one in requests]
    true = outcome.truth.tokens / ((max(ends) - outcome.truth.received_ns[0]) / 1e9)
    return None if outcome.reported.tokens_per_s is None else outcome.reported.tokens_per_s / true
