"""`python -m vlmhyperbench.local.supervisor`: run the supervisor in its own process, with reports on a pipe."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.listening import Listening
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.lock import StackLock
from vlmhyperbench.local.supervisor.services import (
    INFERENCE,
    Service,
    check_names,
    inference_service,
    is_chosen,
    stages_of,
)
from vlmhyperbench.local.supervisor.supervise import Report, Stack
from vlmhyperbench.settings import Settings

log = logging.getLogger(__name__)

ALREADY_RUNS = 10
"""Exit status if another supervisor holds this home's lock."""
SETUP = 3


def main() -> int:
    """Run the supervisor until SIGTERM or SIGINT; start-up reports are written to the pipe `--report-fd`."""
    parser = argparse.ArgumentParser(prog="vlmhyperbench-supervisor")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8760)
    parser.add_argument("--listen", type=Listening.parse, default=None)
    parser.add_argument("--services", default="", help="comma-separated; all where none is named")
    parser.add_argument("--report-fd", type=int, default=None)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    services = [name for name in given.services.split(",") if name]
    report = _reporter(given.report_fd)
    return serve(
        Home.default(), host=given.host, port=given.port, services=services, listening=given.listen, report=report
    )


def serve(
    home: Home,
    *,
    host: str,
    port: int,
    services: Sequence[str] = (),
    listening: Listening | None = None,
    report: Report,
) -> int:
    """Acquire the home's lock and run its stack; return the exit status."""
    os.umask(0o077)  # files are private to their owner, even in a folder that everybody may enter
    try:
        check_names(services)
        home.prepare()
        lock = StackLock(home.lock_file)
        if not lock.acquire():
            report({"event": "already"})
            return ALREADY_RUNS
        try:
            stages = stages_of(services, _inference_services() if is_chosen(INFERENCE, services) else ())
            stack = Stack(home, host=host, port=port, stages=stages, listening=listening, report=report)
            asyncio.run(_serve(stack))
        finally:
            lock.release()
    except VlmHyperBenchError as error:
        log.critical("%s", error)
        report({"event": "failed", "code": error.code, "message": error.message, "cure": error.cure})
        return SETUP
    report({"event": "stopped"})
    return 0


def _inference_services() -> list[Service]:
    """Return one inference worker for each share of this machine.

    Raises:
        VlmHyperBenchError: the settings name a device that this machine does not have, or that another worker
            holds, see `free_shares`.
    """
    from vlmhyperbench.worker.shares import free_shares  # a stack without inference workers asks no driver

    shares = free_shares(Settings.load(), name=INFERENCE)
    for share in shares:
        names = ", ".join(f"{device.uuid} ({device.name})" for device in share.devices)
        log.info("%s uses %s, cores %s.", share.name, names, sorted(share.cores) or "of this process")
    return [inference_service(share.name, share.variables) for share in shares]


async def _serve(stack: Stack) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    await stack.run(stop)


def _reporter(fd: int | None) -> Report:
    """Write one JSON line per report; a closed pipe is no error."""

    def report(message: Mapping[str, str]) -> None:
        if fd is not None:
            with suppress(OSError):
                os.write(fd, json.dumps(dict(message)).encode() + b"\n")

    return report


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.exit(main())
