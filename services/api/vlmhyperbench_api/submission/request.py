"""A submission: what is to be created, who asks for it, and whether the same was asked before."""

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
from vlmhyperbench_api.security import Principal

Body = TypeVar("Body", bound=RunCreate | RunImport | RunRescore | RunRerun | ExperimentCreate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Generic[Body]):
    """One request to create a run or an experiment."""

    body: Body
    principal: Principal
    key: str | None
    """The idempotency key: the same key and body stand for what was created first."""
    catalogue: Catalogue
    runtime: Runtime
    parent_id: UUID | None = None
    """The run that the new one starts from."""

    @property
    def project_id(self) -> str:
        """The project that what is created belongs to."""
        return self.principal.project_id

    @property
    def plugins(self) -> InstalledPlugins:
        """What names of plugins are looked up in."""
        return InstalledPlugins(adapters=self.runtime.settings.engine_environment.adapters)

    @property
    def resource(self) -> Literal["run", "experiment"]:
        """What is to be created."""
        return "experiment" if isinstance(self.body, ExperimentCreate) else "run"

    async def known(self) -> UUID | None:
        """Return what the key stands for already; None where nothing was created for it.

        Raises:
            Conflict: the key was used with another body.
        """
        if self.key is None:
            return None
        async with self.runtime.database.transaction() as session:
            return await idempotency.known(session, principal=self._owner, key=self.key, body_sha256=self._digest)

    async def claim(self, session: AsyncSession, resource_id: UUID) -> UUID:
        """Take the key for what this transaction creates; return that, or what another has created meanwhile.

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
        """Whose keys are told apart from those of others."""
        return f"{self.project_id}/{self.principal.name}"

    @property
    def _digest(self) -> str:
        about = self.resource if self.parent_id is None else f"{self.resource} {self.parent_id}"
        return digest_of({"resource": about, "body": self.body.model_dump(mode="json", exclude_unset=True)})
