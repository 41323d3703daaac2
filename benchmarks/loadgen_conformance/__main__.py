"""`python -m benchmarks.loadgen_conformance`: judge every installed load generator and write the tables.

Clients take turns within a round, so that what else the machine does meets all of them; figures are medians of rounds.
With every peer installed that takes three quarters of an hour; with `--clients vlmhyperbench,sglang,vllm`, 20 minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.loadgen_conformance.clients import CLIENTS, OURS
from benchmarks.loadgen_conformance.findings import Findings
from benchmarks.loadgen_conformance.peers import MORE_CLIENTS
from benchmarks.loadgen_conformance.rounds import play_arrivals, play_round, play_streams, play_wide
from benchmarks.loadgen_conformance.tables import write_report
from vlmhyperbench_simulated.streams import STREAMS


def main() -> int:
    """Run the parts that are asked for and print, or write, the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loadgen_conformance", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of ours and of the two that the aims are ratios to")
    parser.add_argument("--peer-rounds", type=int, default=1, help="of the others, and of arrivals of all but ours")
    parser.add_argument("--streams", default=",".join(["plain", *STREAMS]), help="names, or nothing")
    parser.add_argument("--clients", default="", help="parts of the names of those to run; all if empty")
    parser.add_argument("--no-arrivals", action="store_true")
    parser.add_argument("--wide-rounds", type=int, default=3, help="of ours with 1,024 streams")
    parser.add_argument("--out", type=Path, help="write the report to this file")
    args = parser.parse_args()
    every = [*CLIENTS, *MORE_CLIENTS]
    installed = [client for client in every if client.version() is not None]
    wanted = [part for part in args.clients.split(",") if part]
    clients = [one for one in installed if not wanted or any(part in one.name for part in wanted)]
    findings = Findings()
    report = ""

    def write() -> None:
        nonlocal report
        report = write_report(every, findings, command=" ".join(sys.argv[1:]))
        if args.out is not None:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(report)

    # Written after every part: an interrupted hour is not lost.
    for number in range(args.rounds):
        is_early = number < args.peer_rounds
        taking_part = [one for one in clients if is_early or one in CLIENTS]
        play_round(taking_part, findings, _say)
        if not args.no_arrivals:
            play_arrivals([one for one in taking_part if is_early or one is OURS], findings, _say, seed=number)
        if OURS in taking_part and number < args.wide_rounds:
            play_wide(OURS, findings, _say)
        write()
    play_streams(clients, findings, _say, names=[name for name in args.streams.split(",") if name])
    write()
    print(report)
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
