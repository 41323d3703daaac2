"""Bodies by which tokens are made, and by which workers of other machines join."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, Field, JsonValue

from vlmhyperbench.domain.steps import WorkerKind
from vlmhyperbench.wire.base import Input, Label, Output

MAX_LIFE_S = 30 * 24 * 3600
MAX_USES = 1000


class JoinTokenCreate(Input):
    """What a new token permits."""

    kind: WorkerKind | None = None
    """The only kind of workers that may join with it; None: any."""
    expires_in_s: Annotated[int, Field(ge=1, le=MAX_LIFE_S)] = 3600
    max_uses: Annotated[int, Field(ge=1, le=MAX_USES)] = 1
    """How many workers may join with it."""


class JoinToken(Output):
    """A join token, without its secret."""

    prefix: str
    """Its public part, by which it is listed and revoked."""
    kind: WorkerKind | None
    state: str
    """`valid`, `expired`, `revoked` or `used`."""
    created_by: str
    created_at: datetime
    expires_at: datetime
    max_uses: int
    uses: int
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    account: str | None = None
    """Account of the workers that have joined with it: `own` (revoking ends it), `ended`, or `shared`."""


class JoinTokenCreated(JoinToken):
    """A new token; it is shown only now."""

    token: str


class JoinRequest(Input):
    """A worker of another machine asks for its settings."""

    token: Annotated[str, Field(min_length=1, max_length=200)]
    kind: WorkerKind
    name: Label
    host: Label
    version: Label
    """Version of the product on the worker's machine."""
    at: AwareDatetime
    """Time of the worker's clock."""


class Proof(Output):
    """A file in storage, by which the worker proves that it sees the storage of the stack."""

    key: str
    sha256: str


class Joined(Output):
    """What a worker of this kind needs; it holds passwords, and is stored nowhere but in a file of mode 0600."""

    version: str
    at: datetime
    """Time of the server's clock."""
    settings: dict[str, JsonValue]
    """Settings of the worker, by their names."""
    ca_pem: str | None = None
    """Certificate authority of Postgres and Redis."""
    s3_ca_pem: str | None = None
    """Certificate authority of S3."""
    proof: Proof
