"""`python -m vlmhyperbench_simulated.limits`: measure on this machine how exactly, and for how many, the server sends.

Streams are asked for by one bare loop that reads and forgets; what counts is the server's own record: by how much each
write left after its instant. A table of truths is worth nothing beyond these limits.
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

from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation

MOST_LATE_MS = 1.0
"""The p99 up to which a number of streams counts as served in time."""

_BODY = b'{"stream": true, "messages": [{"role": "user", "content": "how late are you?"}]}'
_REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How late the server's writes were at a number of streams."""

    streams: int
    writes: int
    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    server_busy_share: float | None
    """CPU time of the server over the time it took; None where the system does not tell."""

    @property
    def is_in_time(self) -> bool:
        """Whether this many streams are served in time."""
        return self.late_p99_ms <= MOST_LATE_MS


def measure(streams: int, *, gap_ms: float = 10.0, tokens: int = 100, is_realtime: bool = False) -> Limit:
    """Serve `streams` answers at once, begun evenly over one gap, and say how late their writes were."""
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
    """Measure and print one JSON line for each number of streams, then the largest one served in time."""
    parser = argparse.ArgumentParser(prog="python -m vlmhyperbench_simulated.limits", description=__doc__)
    parser.add_argument("--streams", default="1,16,64,256,1024")
    parser.add_argument("--gap-ms", type=float, default=10.0)
    parser.add_argument("--realtime", action="store_true")
    args = parser.parse_args()
    most = 0
    for streams in sorted({int(number) for number in args.streams.split(",")}):
        limit = measure(streams, gap_ms=args.gap_ms, is_realtime=args.realtime)
        print(json.dumps(asdict(limit)), flush=True)
        if limit.is_in_time:
            most = streams
    print(json.dumps({"most_streams": most, "gap_ms": args.gap_ms, "late_p99_at_most_ms": MOST_LATE_MS}))
    return 0


def _drain(port: int, streams: int, *, over_s: float) -> None:
    """Ask once on each of so many connections, one after the other, and read all answers to their ends."""
    poll = select.epoll()
    connected = {}
    for _ in range(streams):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected[sock.fileno()] = sock
        poll.register(sock.fileno(), select.EPOLLIN)
    began_s, asked = time.monotonic(), 0
    waiting, silent = dict(connected), list(connected.values())
    while waiting:
        while asked < streams and time.monotonic() >= began_s + asked * over_s / streams:
            silent[asked].sendall(_REQUEST)
            asked += 1
        for fd, _ in poll.poll(0.001 if asked < streams else None):
            if waiting[fd].recv(262_144).endswith(b"0\r\n\r\n"):
                poll.unregister(fd)
                del waiting[fd]
    poll.close()
    for sock in connected.values():
        sock.close()


def _late_ns(record: dict[str, object]) -> Sequence[int]:
    late = record["late_ns"]
    assert isinstance(late, list)  # noqa: S101 -- narrows the type
    # The first write is the head, which leaves as soon as the answer is made and is due at once.
    return late[1:]


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
