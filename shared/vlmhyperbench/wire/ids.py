"""Response body of an id lookup."""

from __future__ import annotations

from uuid import UUID

from vlmhyperbench.domain.short_ids import NamedKind
from vlmhyperbench.wire.base import Output


class Identified(Output):
    """The unique run, experiment or artifact whose id begins with the given digits."""

    kind: NamedKind
    id: UUID
    name: str
