"""`models load` and `models unload`: ask a worker of the stack to load a GGUF model, or to unload it."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.shortages import show_shortage
from vlmhyperbench.client import Client
from vlmhyperbench.wire.models import ModelStatus

POLL_S = 0.5


def load(
    name: str,
    /,
    *,
    pin: Annotated[bool, Parameter(group=STACK, negative=())] = False,
    wait_s: Annotated[float, Parameter(group=STACK)] = 300.0,
    output: OutputFlags = TEXT,
) -> int:
    """Load a GGUF model on a worker, so that the next run of it begins at once; a worker with a job does it later.

    Args:
        name: Registered model.
        pin: Make room only for what needs the worker alone, and load it again when the worker has nothing else to do.
        wait_s: Wait at most so many seconds until it is loaded; 0 only asks.
        output: How the output is printed.
    """
    with Client() as client:
        status = _wait(client, client.load_model(name, pin=pin), {"waiting", "loading"}, wait_s)
    return _print(status, output, exits.SETUP if status.status == "error" else exits.OK)


def unload(name: str, /, *, wait_s: Annotated[float, Parameter(group=STACK)] = 60.0, output: OutputFlags = TEXT) -> int:
    """Unload a model that `models load` has loaded; a worker with a job does it when the job has ended.

    Args:
        name: Registered model.
        wait_s: Wait at most so many seconds until it is unloaded; 0 only asks.
        output: How the output is printed.
    """
    with Client() as client:
        status = _wait(client, client.unload_model(name), {"loading", "loaded"}, wait_s)
    return _print(status, output, exits.OK)


def _wait(client: Client, status: ModelStatus, states: Collection[str], wait_s: float) -> ModelStatus:
    end = time.monotonic() + wait_s
    while status.status in states and time.monotonic() < end:
        time.sleep(POLL_S)
        status = client.model(status.name)
    return status


def _print(status: ModelStatus, output: OutputFlags, code: int) -> int:
    if output.json:
        emit("model-state", status)
        return code
    where = f" by {status.worker}" if status.worker is not None else ""
    say(f"{status.name} is {status.status}{where}{f': {status.reason}' if status.reason else ''}")
    if status.shortage is not None:
        show_shortage(status.shortage)
    return code
