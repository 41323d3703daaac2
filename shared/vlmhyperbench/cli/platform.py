"""The platform in a few lines of `status`: the numbers that `GET /metrics` serves, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vlmhyperbench.cli.output import say, table
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.monitoring.numbers import Number, find, read_text
from vlmhyperbench.wire.placement import Drain
from vlmhyperbench.wire.workers import Worker

_OPEN = ("QUEUED", "INDEXED", "RUNNING")


def missing_parts(home: Home) -> list[str]:
    """Return a sentence on each part of the stack of a home that does not answer, without which nothing goes on."""
    from vlmhyperbench.client import Client

    url, key = home.api_url(), home.api_key()
    if url is None or key is None:
        return []
    try:
        with Client(url, key) as client:
            checks = client.ready().checks
    except VlmHyperBenchError as error:
        return [f"{error.message} Its log: {home.log_of('api')}."]
    if checks.get("database", True):
        return []
    log = home.root / "postgres" / "postgres.log"
    return [f"The database does not answer. Runs wait, and go on by themselves when it is back. Its log: {log}."]


def read_numbers(home: Home) -> list[Number]:
    """Return the numbers of the stack of a home; none if its API does not answer."""
    from vlmhyperbench.client import Client

    url, key = home.api_url(), home.api_key()
    if url is None or key is None:
        return []
    try:
        with Client(url, key) as client:
            return read_text(client.metrics())
    except VlmHyperBenchError:
        return []


def platform_lines(numbers: Sequence[Number]) -> Iterator[str]:
    """Yield a line each on runs, queues and workers, and one on every part that is away."""
    if not numbers:
        return
    states = {number.labels["state"]: int(number.value) for number in find(numbers, "runs")}
    under_way = sum(states.get(state, 0) for state in _OPEN)
    ended = ", ".join(f"{count} {state.lower()}" for state, count in states.items() if state not in _OPEN and count)
    yield f"runs: {under_way} under way" + (f", {ended}" if ended else "")
    queues = ", ".join(f"{number.labels['kind']} {number.value:g}" for number in find(numbers, "queue_depth"))
    yield f"jobs that wait for a worker: {queues}"
    busy = {number.labels["kind"]: number.value for number in find(numbers, "worker_slots_busy")}
    slots = [
        f"{number.labels['kind']} {busy.get(number.labels['kind'], 0):g} of {number.value:g}"
        for number in find(numbers, "worker_slots")
    ]
    yield f"busy slots of workers: {', '.join(slots)}"
    for name, words in (("scheduler_up", "No scheduler leads."), ("redis_up", "Redis or Valkey does not answer.")):
        if any(number.value == 0 for number in find(numbers, name)):
            yield words


def say_workers(workers: Sequence[Worker], drained: Sequence[Drain]) -> None:
    """Print the devices of workers, and what is drained, by whom and why."""
    if workers:
        table(["worker", "device", "name", "memory", "state"], _device_rows(workers), right=["memory"])
    for drain in drained:
        say(f"drained: the {drain.scope} {drain.name}, by {drain.drained_by}: {drain.reason}")


def _device_rows(workers: Sequence[Worker]) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    for worker in workers:
        for device in worker.devices:
            state = "quarantined" if device.state == "BROKEN" else "stale" if worker.is_stale else worker.state.lower()
            name = f"{device.name} (declared)" if worker.is_declared else device.name
            rows.append((worker.name, device.uuid, name, mebibytes(device.memory_bytes), state))
    return rows


def quarantined(workers: Sequence[Worker]) -> list[str]:
    """Return an alert for each device that is in quarantine."""
    return [
        f"the device {device.uuid} ({device.name}) of the worker {worker.name} is in quarantine since"
        f" {device.state_since:%Y-%m-%d %H:%M:%S} UTC: {device.state_reason} Once it works again:"
        f" vlmhyperbench workers release-device {device.uuid}"
        for worker in workers
        for device in worker.devices
        if device.state == "BROKEN"
    ]


def mebibytes(size: int | None) -> str | None:
    """Return a size in words; None if it is unknown."""
    return None if size is None else f"{size / 2**20:.0f} MiB"
