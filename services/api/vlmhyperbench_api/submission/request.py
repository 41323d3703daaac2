"""A submission: the body of a creation request, its sender, and its idempotency key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar
from uuid import UUID

from vlmhyperbench.db import idempotency
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.registry.loading import Catalogue
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.answers import RunImport
from vlmhyperbench.wire.runs import ExperimentCreate, RunCreate, RunRerun, RunRescore
from vlmhyperbench.wire.sessions import SessionCreate, SessionRerun
from vlmhyperbench_api.security import Principal

Body = TypeVar(
    "Body", bound=RunCreate | RunImport | RunRescore | RunRerun | SessionCreate | SessionRerun | ExperimentCreate
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Generic[Body]):
    """A request to create a run or an experiment."""

    body: Body
    principal: Principal
    key: str | None
    """The idempotency key: a repeated request with the same key and body returns what the first one created."""
    catalogue: Catalogue
    runtime: Runtime
    parent_id: UUID | None = None
    """The run that the new run re-scores or repeats."""

    @property
    def project_id(self) -> str:
        """The project of the new run or experiment."""
        return self.principal.project_id

    @property
    def plugins(self) -> InstalledPlugins:
        """The installed plugins, in which names are looked up."""
        return InstalledPlugins(adapters=self.runtime.settings.engine_environment.adapters)

    @property
    def resource(self) -> Literal["run", "experiment"]:
        """The type of resource to create."""
        return "experiment" if isinstance(self.body, ExperimentCreate) else "run"

    async def known(self) -> UUID | None:
        """Return the id of what was already created with the key, or None.

        Raises:
            Conflict: the key was used with another body.
        """
        if self.key is None:
            return None
        async with self.runtime.database.transaction() as session:
            return await idempotency.known(session, principal=self._owner, key=self.key, body_sha256=self._digest)

    async def claim(self, session: AsyncSession, resource_id: UUID) -> UUID:
        """Claim the key for `resource_id`; return this id, or that of a concurrent request that claimed the key first.

        Raises:
            Conflict: the key was used with another body.
        """
        if self.key is None:
            return resource_id
        return await idempotency.claim(
            session,
            principal=self._owner,
            key=self.key,
            body_sha256=self._digest,
            resource=self.resource,
            resource_id=resource_id,
        )

    @property
    def _owner(self) -> str:
        """Namespace of the idempotency keys: one per project and principal."""
        return f"{self.project_id}/{self.principal.name}"

    @property
    def _digest(self) -> str:
        about = self.resource if self.parent_id is None else f"{self.resource} {self.parent_id}"
        return digest_of({"resource": about, "body": self.body.model_dump(mode="json", exclude_unset=True)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSubmission(Submission[Body]):
    """A request to create a run from another run."""

    parent_id: UUID
