"""What an id stands for."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from vlmhyperbench.wire.base import Output


class Identified(Output):
    """The one run, experiment or artifact whose id begins with the digits that were given."""

    kind: Literal["run", "experiment", "artifact"]
    id: UUID
    name: str
