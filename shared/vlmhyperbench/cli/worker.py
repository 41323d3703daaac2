"""`worker`: run a worker on this machine for a stack."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated, Literal, NoReturn

from cyclopts import Parameter

from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.errors import NotReady, Unavailable
from vlmhyperbench.settings import Settings

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
    name.

    Args:
        kind: inference asks models, evaluation reads datasets and scores answers, reporting writes reports.
        name: Name of the worker, which no other worker of this kind on this machine may have; by default the name of
            the machine.
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
    if output.json:
        emit("worker", {"kind": kind, "name": settings.worker_name, "home": str(settings.home)})
    note(
        f"The {kind} worker {settings.worker_name!r} starts for the stack in {settings.home}; Ctrl-C stops it.", output
    )
    os.execv(sys.executable, [sys.executable, "-m", module])  # noqa: S606 - replaces this process, so that signals reach the worker
