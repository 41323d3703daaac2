"""Bodies of `/health` and `/ready`."""

from __future__ import annotations

from typing import Literal

from vlmhyperbench.wire.base import Output


class Health(Output):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Ready(Output):
    """Whether runs are accepted; without the bus they are, only later."""

    status: Literal["ready", "not_ready"]
    checks: dict[str, bool]
