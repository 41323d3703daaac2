"""`worker`: join a stack with one more worker, from this machine."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated, Literal, NoReturn

from cyclopts import Parameter

from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note
from vlmhyperbench.cli.shown import HUMAN, Shown
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
    shown: Shown = HUMAN,
) -> NoReturn:
    """Take a stack's jobs on this machine, until Ctrl-C or SIGTERM: the chunk under way is finished first.

    The stack is that of VLMHB_HOME, or the one that VLMHB_DATABASE_URL, VLMHB_REDIS_URL and VLMHB_STORAGE_URL name.

    Args:
        kind: What it does: `inference` asks models, `evaluation` reads data and scores, `reporting` writes reports.
        name: Its name, the only one of its kind on this machine; by default the machine's.
        shown: How the answer is shown.
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
    if shown.json:
        emit("worker", {"kind": kind, "name": settings.worker_name, "home": str(settings.home)})
    note(f"The {kind} worker {settings.worker_name!r} joins the stack of {settings.home}; Ctrl-C ends it.", shown)
    os.execv(sys.executable, [sys.executable, "-m", module])  # noqa: S606 - signals then reach the worker itself
