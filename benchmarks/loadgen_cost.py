"""Measure the cost of the load generator: CPU per token and per request, start-up, memory, error of TTFT.

Usage: python -m benchmarks.loadgen_cost    Costs are marginal: the difference of a larger and a smaller plan. A bare
epoll loop that sends the same requests is measured in the same rounds.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import select
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL

import polars as pl
from rich.console import Console
from rich.table import Table

from vlmhyperbench.load.plan import write_bodies, write_plan
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.processes import start_child
from vlmhyperbench_sdk.load import PLAN_VERSION, EndLine, Endpoint, LoadLimits, LoadPlan, PhasePlan

STREAMS = 64
TOKENS = 128
GAP_MS = 10.0
ROUNDS = 3
SMALL, LARGE = 128, 640
"""Numbers of requests of the two plans; twenty times as many for one-token requests."""

IMAGE_BYTES = 100_000
IMAGE_TOKENS = 16


def main() -> None:
    """Measure and print the table."""
    asyncio.run(_main())


async def _main() -> None:
    table = Table("figure", "load generator", "bare epoll loop", "aim", title=f"{os.cpu_count()} CPUs")
    streamed, bare = await _marginal_cpu_s(TOKENS, gap_ms=GAP_MS, small=SMALL, large=LARGE)
    scale = 100_000 / (TOKENS * (LARGE - SMALL))
    table.add_row("CPU-s per 100k streamed tokens", f"{streamed * scale:.2f}", f"{bare * scale:.2f}", "≤ 1.3")
    single, bare = await _marginal_cpu_s(1, gap_ms=0.0, small=20 * SMALL, large=20 * LARGE)
    scale = 1000 / (20 * (LARGE - SMALL))
    table.add_row("CPU-s per 1k one-token requests", f"{single * scale:.3f}", f"{bare * scale:.3f}", "≤ 0.06")
    images, bare = await _marginal_cpu_s(IMAGE_TOKENS, gap_ms=2.0, small=SMALL, large=LARGE, image_bytes=IMAGE_BYTES)
    scale = 1000 / (LARGE - SMALL)
    title = f"CPU-s per 1k requests of {IMAGE_TOKENS} tokens with an image of {IMAGE_BYTES // 1000} KB"
    table.add_row(title, f"{images * scale:.3f}", f"{bare * scale:.3f}", "")
    async with _engine(tokens=TOKENS, gap_ms=GAP_MS, records=True) as url:
        end, error_ms = await _drive(url, SMALL)
    table.add_row("start-up to the first byte sent", f"{end.startup_s:.2f} s", "", "≤ 0.6 s")
    table.add_row("peak memory, parent and one measuring process", f"{end.peak_rss_bytes / 1e6:.0f} MB", "", "")
    p50, p99 = error_ms[len(error_ms) // 2], error_ms[len(error_ms) * 99 // 100]
    table.add_row("TTFT against the server's own instants, p50 / p99", f"+{p50:.2f} / +{p99:.2f} ms", "", "")
    Console().print(table)


async def _marginal_cpu_s(
    tokens: int, *, gap_ms: float, small: int, large: int, image_bytes: int = 0
) -> tuple[float, float]:
    """Return the median difference of the CPU time of two plans: of the load generator and of the bare loop."""
    ours, bare = [], []
    async with _engine(tokens=tokens, gap_ms=gap_ms) as url:
        for _ in range(ROUNDS):
            costs = [(await _drive(url, count, image_bytes))[0].cpu_s for count in (small, large)]
            ours.append(costs[1] - costs[0])
            floors = [await asyncio.to_thread(_bare_cpu_s, url, count, image_bytes) for count in (small, large)]
            bare.append(floors[1] - floors[0])
    return statistics.median(ours), statistics.median(bare)


@asynccontextmanager
async def _engine(*, tokens: int, gap_ms: float, records: bool = False) -> AsyncIterator[str]:
    params = {"tokens": tokens, "gap_ms": gap_ms, "ttft_ms": gap_ms, "usage": "always", "record": records}
    argv = [sys.executable, "-m", "vlmhyperbench_simulated", "--params", json.dumps(params)]
    async with await start_child(argv, stdin=DEVNULL) as child:
        port = json.loads(await child.stdout.readline())["port"]
        yield f"http://127.0.0.1:{port}"


def _body(number: int, image_bytes: int = 0) -> bytes:
    content: list[dict[str, object]] = [{"type": "text", "text": f"question {number}"}]
    if image_bytes:
        data = base64.b64encode(random.Random(number).randbytes(image_bytes * 3 // 4)).decode()
        content.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}})
    return json.dumps({"stream": True, "messages": [{"role": "user", "content": content}]}).encode()


async def _drive(url: str, count: int, image_bytes: int = 0) -> tuple[EndLine, list[float]]:
    """Run a plan; return its end line and, if the engine recorded its sends, the error of each TTFT."""
    with tempfile.TemporaryDirectory() as folder:
        plan_folder, record_folder = Path(folder) / "plan", Path(folder) / "record"
        requests = write_bodies(plan_folder, (_body(number, image_bytes) for number in range(count)), phase=1)
        plan = LoadPlan(
            version=PLAN_VERSION,
            phases=(PhasePlan(no=1, kind="offline", count=count, params={"in_flight": STREAMS}),),
            endpoint=Endpoint(url=f"{url}/v1/chat/completions"),
            limits=LoadLimits(),
            seed=0,
        )
        write_plan(plan_folder, plan=plan, requests=requests)
        async with await LoadProcess.start(plan_folder, record_folder) as process:
            await process.ready()
            end = await process.wait()
        if end.outcome != "complete":
            raise RuntimeError(end.error)
        frame = pl.read_parquet(record_folder / "*.parquet")
    first_ns = {row["request_sha256"]: row["event_ns"][0] for row in frame.iter_rows(named=True)}
    sent = json.loads(await asyncio.to_thread(_get, f"{url}/record"))["records"]
    return end, sorted((first_ns[record["body_sha256"]] - record["event_ns"][0]) / 1e6 for record in sent)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        data: bytes = answer.read()
    return data


def _bare_cpu_s(url: str, count: int, image_bytes: int) -> float:
    """Send the same number of requests from a minimal loop that parses nothing; return its CPU time."""
    port = int(url.rpartition(":")[2])
    poll = select.epoll()
    body = _body(0, image_bytes)
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    sockets: dict[int, socket.socket] = {}
    reads: list[tuple[int, bytes]] = []
    for _ in range(STREAMS):
        connected = socket.create_connection(("127.0.0.1", port))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(connected.fileno(), select.EPOLLIN)
        sockets[connected.fileno()] = connected
    started_s = time.thread_time()
    left, done = count - STREAMS, 0
    for connected in sockets.values():
        connected.sendall(request)
    while done < count:
        for fd, _ in poll.poll():
            data = sockets[fd].recv(65_536)
            reads.append((time.monotonic_ns(), data))
            if data.endswith(b"0\r\n\r\n"):
                done += 1
                if left:
                    left -= 1
                    sockets[fd].sendall(request)
    used_s = time.thread_time() - started_s
    poll.close()
    for connected in sockets.values():
        connected.close()
    return used_s


if __name__ == "__main__":
    main()
