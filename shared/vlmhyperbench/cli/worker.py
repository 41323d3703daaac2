"""`worker`: run a worker on this machine for a stack."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

from cyclopts import Parameter

from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.errors import NotReady, Unavailable
from vlmhyperbench.settings import Settings

if TYPE_CHECKING:
    from vlmhyperbench.worker.shares import Share

_MODULES = {
    "inference": "vlmhyperbench_inference_worker",
    "evaluation": "vlmhyperbench_eval_worker",
    "reporting": "vlmhyperbench_reporter",
}


def worker(
    kind: Literal["inference", "evaluation", "reporting"],
    /,
    *,
    name: Annotated[str | None, Parameter(group=STACK)] = None,
    output: OutputFlags = TEXT,
) -> NoReturn:
    """Run a worker on this machine until Ctrl-C or SIGTERM; it then finishes the requests in flight.

    It works for the stack in VLMHB_HOME, or for the one that VLMHB_DATABASE_URL, VLMHB_REDIS_URL and VLMHB_STORAGE_URL
    name. Of inference workers, one is started for each GPU of the machine, or for each gang of VLMHB_GANGS; on a
    machine without GPUs, VLMHB_CPU_WORKERS says how many.

    Args:
        kind: inference asks models, evaluation reads datasets and scores answers, reporting writes reports.
        name: Name of the worker, which no other worker of this kind on this machine may have; by default the name of
            the machine. Several workers have their number added to it.
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
    settings = Settings.load()
    if not settings.database_url.get_secret_value():
        raise NotReady(
            f"No stack is known in {settings.home}.",
            cure="Start one with `vlmhyperbench up`, or set VLMHB_DATABASE_URL, VLMHB_REDIS_URL and VLMHB_STORAGE_URL.",
        )
    shares = _shares(settings) if kind == "inference" else []
    if output.json:
        emit(
            "worker", {"kind": kind, "name": settings.worker_name, "home": str(settings.home), "workers": _told(shares)}
        )
    note(
        f"The {kind} worker {settings.worker_name!r} starts for the stack in {settings.home}; Ctrl-C stops it.", output
    )
    for share in shares:
        devices = ", ".join(f"{device.uuid} ({device.name})" for device in share.devices)
        declared = "; declared, no hardware stands behind it" if share.devices[0].is_declared else ""
        note(f"  {share.name}: {devices}{declared}", output)
    if len(shares) > 1:
        module = "vlmhyperbench.local.supervisor.agent"
    elif shares:
        os.environ |= shares[0].variables
    os.execv(sys.executable, [sys.executable, "-m", module])  # noqa: S606 - replaces this process, so that signals reach the worker


def _shares(settings: Settings) -> Sequence[Share]:
    from vlmhyperbench.worker.shares import free_shares  # needs the libraries of the inference worker

    return free_shares(settings, name=settings.worker_name)


def _told(shares: Sequence[Share]) -> list[dict[str, object]]:
    return [
        {"name": share.name, "devices": [device.uuid for device in share.devices], "cores": sorted(share.cores)}
        for share in shares
    ]
