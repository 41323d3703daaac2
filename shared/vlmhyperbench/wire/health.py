"""Response bodies of `/health` and `/ready`."""

from __future__ import annotations

from typing import Literal

from vlmhyperbench.wire.base import Output


class Health(Output):
    """The API process is alive."""

    status: Literal["ok"] = "ok"
    version: str


class Ready(Output):
    """Whether the API accepts runs; without the bus it does, but they start later."""

    status: Literal["ready", "not_ready"]
    checks: dict[str, bool]
