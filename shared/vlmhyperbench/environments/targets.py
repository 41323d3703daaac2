"""Where gateway, body writer and engine of a target run: one value, made of the environments that the target pins."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from vlmhyperbench.domain.environments import EnvironmentSpec
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget
from vlmhyperbench.environments.base import Prepared, Tell, tell_nobody
from vlmhyperbench.environments.own_wheels import GATEWAY
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.used import combined, record_platform, record_prepared
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench_sdk.gateway import EngineEnvironment, EngineIdentity
from vlmhyperbench_sdk.types import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTarget:
    """The environments of a target, ready for as long as the block that prepared them lasts."""

    environment: EngineEnvironment
    lock_fds: tuple[int, ...] = ()
    """Open lock files with which a gateway holds the environments after the block."""
    adapter_packages: Mapping[str, str] = field(default_factory=dict)
    """Distribution → version where the adapter runs, if it comes from a package and the engine runs elsewhere."""
    used: Mapping[str, JsonValue] | None = None
    """What a claim records of them, and by which a certificate names them; None for an endpoint."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Distribution → where it comes from, for packages of others."""
    rented: Path | None = None
    """Record of the rented machine on which the engine will run; None: it runs on this one."""

    def on_record(self, engine: EngineIdentity | None) -> EngineIdentity | None:
        """Return what is recorded of an engine, with the packages of its adapter."""
        if engine is None:
            return None
        return replace(engine, adapter_packages=dict(self.adapter_packages), sources=dict(self.sources))


@asynccontextmanager
async def prepared_target(
    target: ModelTarget | EndpointTarget,
    plain: EngineEnvironment,
    workshop: Workshop,
    *,
    tell: Tell = tell_nobody,
) -> AsyncIterator[PreparedTarget]:
    """Build the environments of a target unless they are there, and hold them while the block runs.

    Args:
        target: The model or endpoint.
        plain: Where targets run that pin no environment.
        workshop: Where environments are built and kept.
        tell: Is told what takes time.

    Raises:
        InvalidInput: requirements cannot be resolved or installed, or a package cannot be built or has another name.
        NotFound: the machine has no such version of Python, or a package is not where its entry says.
        Denied: a repository wants credentials.
        Conflict: a folder has changed since it was pinned.
        Unavailable: uv is missing, the disk is full, or an index or a repository does not answer.
    """
    if not isinstance(target, ModelTarget) or (target.environment is None and target.adapter_environment is None):
        yield PreparedTarget(environment=plain, used=record_platform() if isinstance(target, ModelTarget) else None)
        return
    environment, locks, used = plain, list[int](), list[dict[str, JsonValue]]()
    adapter_packages: Mapping[str, str] = {}
    async with AsyncExitStack() as held:

        async def prepare(pinned: EnvironmentSpec, own: tuple[str, ...] = ()) -> Prepared:
            ready = await held.enter_async_context(prepared(pinned, workshop, tell=tell, own=own))
            locks.append(ready.lock_fd)
            used.append(record_prepared(pinned, ready))
            return ready

        if target.adapter_environment is not None:
            adapter = await prepare(target.adapter_environment, GATEWAY)
            names = {package.name for package in target.adapter_environment.packages}
            if {".", ":"} & set(target.backend_class):  # a dotted path is known by its package
                names.add(re.split(r"[.:]", target.backend_class, maxsplit=1)[0])
            allowed = tuple(sorted({*plain.adapters, *names}))
            environment = replace(adapter.engine(plain), gateway=adapter.python, adapters=allowed)
            adapter_packages = adapter.packages if target.environment is not None else {}
        rented: Path | None = None
        if target.environment is not None:
            ready = await prepare(target.environment)
            environment, rented = ready.engine(environment), ready.rented
        yield PreparedTarget(
            environment=environment,
            lock_fds=tuple(locks),
            adapter_packages=adapter_packages,
            used=combined(used),
            sources={package.name: package.origin for package in target.packages},
            rented=rented,
        )
