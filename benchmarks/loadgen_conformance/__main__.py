"""`python -m benchmarks.loadgen_conformance`: compare every installed load generator and write the tables.

Clients take turns within a round, so that other load of the machine affects all of them; figures are medians of rounds.
All peers together take three quarters of an hour; with `--clients vlmhyperbench,sglang,vllm` it takes 20 minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.loadgen_conformance.clients import CLIENTS, OURS
from benchmarks.loadgen_conformance.findings import Findings
from benchmarks.loadgen_conformance.peers import MORE_CLIENTS
from benchmarks.loadgen_conformance.rounds import run_arrivals, run_round, run_streams, run_wide
from benchmarks.loadgen_conformance.tables import write_report
from vlmhyperbench_simulated.streams import STREAMS


def main() -> int:
    """Run the chosen parts and print, or write, the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loadgen_conformance", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of ours, sglang-bench and vllm")
    parser.add_argument("--peer-rounds", type=int, default=1, help="rounds of the others, and of all peers' arrivals")
    parser.add_argument("--streams", default=",".join(["plain", *STREAMS]), help="misleading streams; empty: none")
    parser.add_argument("--clients", default="", help="parts of the names of the clients to run; empty: all")
    parser.add_argument("--no-arrivals", action="store_true")
    parser.add_argument("--wide-rounds", type=int, default=3, help="rounds of ours with 1,024 streams")
    parser.add_argument("--out", type=Path, help="write the report to this file")
    args = parser.parse_args()
    every = [*CLIENTS, *MORE_CLIENTS]
    installed = [client for client in every if client.version() is not None]
    wanted = [part for part in args.clients.split(",") if part]
    clients = [client for client in installed if not wanted or any(part in client.name for part in wanted)]
    findings = Findings()
    report = ""

    def write() -> None:
        nonlocal report
        report = write_report(every, findings, command=" ".join(sys.argv[1:]))
        if args.out is not None:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(report)

    # The report is written after every part, so that the results of an interrupted run are not lost.
    for number in range(args.rounds):
        is_early = number < args.peer_rounds
        taking_part = [client for client in clients if is_early or client in CLIENTS]
        run_round(taking_part, findings, _log)
        if not args.no_arrivals:
            run_arrivals([client for client in taking_part if is_early or client is OURS], findings, _log, seed=number)
        if OURS in taking_part and number < args.wide_rounds:
            run_wide(OURS, findings, _log)
        write()
    run_streams(clients, findings, _log, names=[name for name in args.streams.split(",") if name])
    write()
    print(report)
    return 0


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
