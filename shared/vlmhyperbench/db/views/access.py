"""Copies of the rows of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from vlmhyperbench.domain.steps import WorkerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTokenView:
    """A join token, without its secret."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    prefix: str
    hmac_sha256: str
    kind: WorkerKind | None
    created_by: str
    created_at: datetime
    expires_at: datetime
    max_uses: int
    uses: int
    revoked_at: datetime | None
    revoked_by: str | None
    account: str | None
    redis_sha256: str | None

    def state(self, now: datetime) -> str:
        """Return `valid`, or why it is no longer: `revoked`, `expired` or `used`."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at <= now:
            return "expired"
        return "used" if self.uses >= self.max_uses else "valid"
