"""`python -m vlmhyperbench_simulated.limits`: measure how many streams the server serves on time on this machine.

A bare loop requests the streams and discards them. The lateness of each write is taken from the server's own record.
With more streams than the limit, the server is no reference for the measurements of a client.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation

MAX_LATE_MS = 1.0
"""Maximum p99 of the lateness at which a number of streams is served on time."""

_BODY = b'{"stream": true, "messages": [{"role": "user", "content": "how late are you?"}]}'
_REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How late the server's writes were for a number of streams."""

    streams: int
    writes: int
    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    server_busy_share: float | None
    """CPU time of the server over wall time; None where /proc is missing."""

    @property
    def is_on_time(self) -> bool:
        """Whether the p99 is within `MAX_LATE_MS`."""
        return self.late_p99_ms <= MAX_LATE_MS


def measure(streams: int, *, gap_ms: float = 10.0, tokens: int = 100, is_realtime: bool = False) -> Limit:
    """Serve `streams` answers at once, begun evenly over one gap, and measure how late their writes were."""
    simulation = Simulation(ttft_ms=100.0, gap_ms=gap_ms, tokens=tokens, record=True)
    with SimulatedProcess(simulation, is_realtime=is_realtime) as engine:
        cpu_s, began_s = _cpu_s(engine.pid), time.monotonic()
        _drain(engine.port, streams, over_s=gap_ms / 1e3)
        took_s, ended_cpu_s = time.monotonic() - began_s, _cpu_s(engine.pid)
        late = sorted(late for record in engine.records() for late in _late_ns(record))
    return Limit(
        streams=streams,
        writes=len(late),
        late_p50_ms=_rank(late, 50) / 1e6,
        late_p99_ms=_rank(late, 99) / 1e6,
        late_max_ms=late[-1] / 1e6,
        server_busy_share=None if cpu_s is None or ended_cpu_s is None else (ended_cpu_s - cpu_s) / took_s,
    )


def main() -> int:
    """Print one JSON line for each number of streams, then the largest number that is served on time."""
    parser = argparse.ArgumentParser(prog="python -m vlmhyperbench_simulated.limits", description=__doc__)
    parser.add_argument("--streams", default="1,16,64,256,1024")
    parser.add_argument("--gap-ms", type=float, default=10.0)
    parser.add_argument("--realtime", action="store_true")
    args = parser.parse_args()
    max_streams = 0
    for streams in sorted({int(number) for number in args.streams.split(",")}):
        limit = measure(streams, gap_ms=args.gap_ms, is_realtime=args.realtime)
        print(json.dumps(asdict(limit)), flush=True)
        if limit.is_on_time:
            max_streams = streams
    print(json.dumps({"max_streams": max_streams, "gap_ms": args.gap_ms, "max_late_p99_ms": MAX_LATE_MS}))
    return 0


def _drain(port: int, streams: int, *, over_s: float) -> None:
    """Send one request on each connection, evenly over `over_s`, and read all answers to their ends."""
    poll = select.epoll()
    connected = {}
    for _ in range(streams):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected[sock.fileno()] = sock
        poll.register(sock.fileno(), select.EPOLLIN)
    began_s, sent = time.monotonic(), 0
    waiting, sockets = dict(connected), list(connected.values())
    while waiting:
        while sent < streams and time.monotonic() >= began_s + sent * over_s / streams:
            sockets[sent].sendall(_REQUEST)
            sent += 1
        for fd, _ in poll.poll(0.001 if sent < streams else None):
            if waiting[fd].recv(262_144).endswith(b"0\r\n\r\n"):
                poll.unregister(fd)
                del waiting[fd]
    poll.close()
    for sock in connected.values():
        sock.close()


def _late_ns(record: dict[str, object]) -> Sequence[int]:
    # The first write is the head, which is due at the arrival of the request, so its lateness is the planning time.
    return cast("list[int]", record["late_ns"])[1:]


def _rank(ordered: Sequence[int], percent: int) -> int:
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def _cpu_s(pid: int) -> float | None:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return None
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
