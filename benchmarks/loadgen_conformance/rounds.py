"""Run the clients against the timed server: misleading streams, rounds of cost and accuracy, arrivals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.loadgen_conformance.checking import Truth, errors_of, faults_of, truth_of
from benchmarks.loadgen_conformance.clients import Client, ClientLoad, Reported
from benchmarks.loadgen_conformance.findings import Findings, Round, Spent, per_request, per_token
from benchmarks.loadgen_conformance.running import ClientFailed, Cost, run_client
from vlmhyperbench.domain.arrivals import shape_of
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_simulated.streams import STREAMS, TRUTH

STREAMED = Simulation(ttft_ms=10.0, gap_ms=10.0, tokens=128, usage="always", record=True)
INSTANT = Simulation(tokens=1, usage="always", record=True)
SOON = replace(INSTANT, ttft_ms=5.0)
SPARSE = replace(STREAMED, ttft_ms=1000.0, gap_ms=40.0)
"""At 1,024 streams it sends as many tokens per second as `STREAMED` at 256, which the server serves on time. The first
token is due after the server has planned all answers."""

ONE_STREAM = ClientLoad(requests=32, streams=8, tokens=32)
ACCURATE = ClientLoad(requests=64, streams=16, tokens=32)
MANY_TOKENS = ClientLoad(requests=1344, streams=64, tokens=128)
ONE_TOKEN = ClientLoad(requests=0, streams=64, tokens=1)
"""The number of requests is the client's `one_token_requests`."""

NARROW = ClientLoad(requests=192, streams=64, tokens=128)
WIDE = ClientLoad(requests=1024, streams=1024, tokens=128, processes=2)
POISSON = ClientLoad(requests=1200, streams=256, tokens=1, rate_per_s=40.0, arrivals="poisson")
CONSTANT = replace(POISSON, rate_per_s=200.0, arrivals="constant")
ARRIVALS: Mapping[str, ClientLoad] = {"Poisson, 40/s": POISSON, "constant, 200/s": CONSTANT}

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRun:
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
        """The CPU time of the run, with its requests and tokens."""
        return Spent(cpu_s=self.cost.cpu_s, requests=len(self.truth.requests), tokens=self.truth.tokens)


def run_streams(clients: Sequence[Client], findings: Findings, log: Log, *, names: Sequence[str]) -> None:
    """Run every client on every stream."""
    streams: Mapping[str, Simulation] = {"plain": TRUTH, **STREAMS}
    for name in names:
        for client in clients:
            client_run = _try(client, streams[name], ONE_STREAM, findings)
            if client_run is not None:
                findings.faults[name, client.name] = faults_of(client_run.reported, client_run.truth)
                log(f"{name}, {client.name}: {'; '.join(findings.faults[name, client.name]) or 'right'}")


def run_round(clients: Sequence[Client], findings: Findings, log: Log) -> None:
    """Run every client once on each of three loads: few requests for accuracy, many tokens, many requests."""
    for client in clients:
        figures = Round()
        findings.rounds.setdefault(client.name, []).append(figures)
        accurate = _try(client, TRUTH, ACCURATE, findings)
        streamed = _try(client, STREAMED, MANY_TOKENS, findings)
        many = _try(client, INSTANT, replace(ONE_TOKEN, requests=client.one_token_requests), findings)
        if accurate is not None:
            _record_accuracy(figures, accurate)
        if streamed is not None:
            _record_size(figures, streamed)
            findings.server_late_p99_ms.append(streamed.truth.late_p99_ms)
        if streamed is not None and accurate is not None:
            figures.cpu_s_per_100k_tokens = per_token(accurate.spent, streamed.spent) * 1e5
        if many is not None and accurate is not None:
            token_s = max(0.0, figures.cpu_s_per_100k_tokens or 0.0) / 1e5
            figures.cpu_s_per_1k_requests = per_request(accurate.spent, many.spent, per_token_s=token_s) * 1e3
        log(f"{client.name}: {figures}")


def run_arrivals(clients: Sequence[Client], findings: Findings, log: Log, *, seed: int) -> None:
    """Run every client that can send at a rate, as a part of its last round."""
    for process, load in ARRIVALS.items():
        for client in clients:
            client_run = _try(client, SOON, replace(load, seed=seed), findings)
            shape = None if client_run is None else shape_of(np.array(client_run.truth.received_ns, dtype=np.int64))
            if client_run is None or shape is None:
                continue
            figures = findings.rounds[client.name][-1]
            figures.arrivals[process] = shape
            self_reported = client_run.reported.self_reported
            if load.arrivals == "constant" and self_reported is not None:
                figures.send_lag_p50_ms = self_reported.send_lag_p50_ms
                figures.send_lag_p99_ms = self_reported.send_lag_p99_ms
            log(f"{process}, {client.name}: {shape}")


def run_wide(client: Client, findings: Findings, log: Log) -> None:
    """Run a client with 64 streams, and with 1,024 over two processes, as a part of its last round.

    Each is run with one token and with many per request, so that the cost of requests and connections cancels out.
    """
    figures = findings.rounds[client.name][-1]
    short, narrow, few, wide = (
        _try(client, SPARSE, size, findings)
        for size in (replace(NARROW, tokens=1), NARROW, replace(WIDE, tokens=1), WIDE)
    )
    if short is not None and narrow is not None:
        figures.narrow_cpu_s_per_100k_tokens = per_token(short.spent, narrow.spent) * 1e5
    if few is not None and wide is not None:
        figures.wide_cpu_s_per_100k_tokens = per_token(few.spent, wide.spent) * 1e5
        findings.wide_late_p99_ms.append(wide.truth.late_p99_ms)
    log(f"{client.name}, 1,024 streams over 64: {figures.wide_over_narrow}")


def _try(client: Client, simulation: Simulation, load: ClientLoad, findings: Findings) -> ClientRun | None:
    """Run a client against a new server; a failure is recorded, not raised."""
    with tempfile.TemporaryDirectory() as scratch, SimulatedProcess(simulation, is_realtime=True) as engine:
        out = Path(scratch)
        argv = client.argv(engine.url, load, out)
        if argv is None:
            return None
        try:
            cost = run_client(argv, env=client.env, statuses=client.statuses, log=out / "log")
            return ClientRun(reported=client.read(out), truth=truth_of(engine.records()), cost=cost)
        except (ClientFailed, OSError, KeyError, ValueError) as error:
            findings.failures.append(f"{client.name}, {load}: {error}")
            return None


def _record_accuracy(figures: Round, accurate: ClientRun) -> None:
    figures.errors = errors_of(accurate.reported, accurate.truth)
    figures.first_request_s = accurate.first_request_s
    figures.tokens_per_s_share = _share(accurate)
    if accurate.reported.self_reported is not None:
        figures.startup_s = accurate.reported.self_reported.startup_s


def _record_size(figures: Round, streamed: ClientRun) -> None:
    figures.peak_rss_bytes, figures.processes = streamed.cost.peak_rss_bytes, streamed.cost.processes
    figures.connections = streamed.truth.connections
    self_reported = streamed.reported.self_reported
    if self_reported is not None:
        figures.loadgen_rss_bytes = self_reported.peak_rss_bytes
        figures.measuring_rss_bytes = self_reported.measuring_peak_rss_bytes


def _share(client_run: ClientRun) -> float | None:
    """Return reported throughput divided by the true one: tokens per time from the first arrival to the last end."""
    requests = client_run.truth.requests
    ends = [request.received_ns + (request.ttft_ms + sum(request.gaps_ms)) * 1e6 for request in requests]
    true = client_run.truth.tokens / ((max(ends) - client_run.truth.received_ns[0]) / 1e9)
    return None if client_run.reported.tokens_per_s is None else client_run.reported.tokens_per_s / true
