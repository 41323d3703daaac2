"""`worker`: run a worker on this machine for a stack, of this machine or of another one that it joins."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.domain.clocks import CLOCK_CURE, clock_warning
from vlmhyperbench.errors import InvalidInput, NotReady, Unavailable
from vlmhyperbench.settings import Settings

if TYPE_CHECKING:
    from vlmhyperbench.worker.shares import Share
Kind = Literal["inference", "evaluation", "reporting"]

_MODULES = {
    "inference": "vlmhyperbench_inference_worker",
    "evaluation": "vlmhyperbench_eval_worker",
    "reporting": "vlmhyperbench_reporter",
}


def worker(
    kind: Annotated[Kind, Parameter(group=STACK)],
    *,
    name: Annotated[str | None, Parameter(group=STACK)] = None,
    server: Annotated[str | None, Parameter(group=STACK)] = None,
    token_file: Annotated[Path | None, Parameter(group=STACK)] = None,
    ca_file: Annotated[Path | None, Parameter(group=STACK)] = None,
    until_idle: Annotated[float | None, Parameter(group=STACK)] = None,
    output: OutputFlags = TEXT,
) -> None:
    """Run a worker on this machine until Ctrl-C or SIGTERM; it then finishes the requests in flight.

    It works for the stack in VLMHB_HOME, for the one that VLMHB_DATABASE_URL, VLMHB_REDIS_URL and VLMHB_STORAGE_URL
    name, or with --server for that of another machine. Joining is needed once: the settings stay in VLMHB_HOME. Of
    inference workers, one is started for each GPU of the machine, or for each gang of VLMHB_GANGS; on a machine without
    GPUs, VLMHB_CPU_WORKERS says how many.

    Args:
        kind: inference asks models, evaluation reads datasets and scores answers, reporting writes reports.
        name: Name of the worker, which no other worker of this kind on this machine may have; by default the name of
            the machine. Several workers have their number added to it.
        server: URL of the API of another machine's stack, https://HOST:PORT, which the worker joins.
        token_file: File with the join token (`-`: stdin); by default the token is in VLMHB_JOIN_TOKEN. It is never an
            argument, because every user can read those.
        ca_file: Certificate authority of the server, a copy of its ca.pem; by default those of the system.
        until_idle: Seconds without a job after which the worker ends by itself, with exit code 0.
        output: How the output is printed.
    """
    module = _MODULES[kind]
    if importlib.util.find_spec(module) is None:
        raise Unavailable(
            f"The {kind} worker is not installed.",
            cure=f"Install it: pip install {module.replace('_', '-')}.",
            code="not_installed",
        )
    if name is not None:
        os.environ["VLMHB_WORKER_NAME"] = name
    if until_idle is not None:
        os.environ["VLMHB_UNTIL_IDLE_S"] = str(until_idle)
    if server is not None:
        settings = _join(server, kind, token_file, ca_file, output)
    elif token_file is not None or ca_file is not None:
        raise InvalidInput("A token joins a server.", cure="Give its URL: --server https://HOST:PORT.", code="usage")
    else:
        settings = Settings.load()
    if not settings.database_url.get_secret_value():
        raise NotReady(
            f"No stack is known in {settings.home}.",
            cure="Start one with `vlmhyperbench up`, join one with --server, or set VLMHB_DATABASE_URL, "
            "VLMHB_REDIS_URL and VLMHB_STORAGE_URL.",
        )
    shares = _shares(settings) if kind == "inference" else []
    if output.json:
        emit(
            "worker", {"kind": kind, "name": settings.worker_name, "home": str(settings.home), "workers": _told(shares)}
        )
    stack = settings.server_url or f"the stack in {settings.home}"
    note(f"The {kind} worker {settings.worker_name!r} starts for {stack}; Ctrl-C stops it.", output)
    for share in shares:
        devices = ", ".join(f"{device.uuid} ({device.name})" for device in share.devices)
        declared = "; declared, no hardware stands behind it" if share.devices[0].is_declared else ""
        note(f"  {share.name}: {devices}{declared}", output)
    if len(shares) > 1:
        module = "vlmhyperbench.local.supervisor.agent"
    elif shares:
        os.environ |= shares[0].variables
    sys.argv[1:] = []  # a service has no arguments
    # As `python -m` does, but in this process, which has imported much of what a worker needs, and gets its signals.
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _shares(settings: Settings) -> Sequence[Share]:
    from vlmhyperbench.worker.shares import free_shares  # needs the libraries of the inference worker

    return free_shares(settings, name=settings.worker_name)


def _told(shares: Sequence[Share]) -> list[dict[str, object]]:
    return [
        {"name": share.name, "devices": [device.uuid for device in share.devices], "cores": sorted(share.cores)}
        for share in shares
    ]


def _join(server: str, kind: Kind, token_file: Path | None, ca_file: Path | None, output: OutputFlags) -> Settings:
    from vlmhyperbench.client.joining import join, read_token, utc_now
    from vlmhyperbench.worker.reachability import check_reachable

    token = read_token(token_file)
    membership = join(server, token, kind=kind, settings=Settings.load(), ca_file=ca_file, now=utc_now)
    warning = clock_warning(membership.clock_ahead, other="the server")
    if warning is not None:
        note(f"warning: {warning} {CLOCK_CURE}", output)
    proof = membership.joined.proof
    asyncio.run(check_reachable(membership.settings, proof=(proof.key, proof.sha256)))
    note(f"This machine has joined {server}.", output)
    return membership.settings
