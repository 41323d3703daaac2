"""Response bodies of `/health`, `/ready` and `/doctor`."""

from __future__ import annotations

from datetime import datetime
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


class DiagnosisCheck(Output):
    """The result of one check."""

    name: str
    is_ok: bool
    detail: str
    cure: str
    """What can be done where it failed."""


class Diagnosis(Output):
    """What `doctor` says of the API's machine and of the platform."""

    version: str
    is_ok: bool
    checked_at: datetime
    checks: list[DiagnosisCheck]
