"""What an id stands for."""

from __future__ import annotations

from uuid import UUID

from vlmhyperbench.domain.short_ids import NamedKind
from vlmhyperbench.wire.base import Output


class Identified(Output):
    """The one run, experiment or artifact whose id begins with the digits that were given."""

    kind: NamedKind
    id: UUID
    name: str
