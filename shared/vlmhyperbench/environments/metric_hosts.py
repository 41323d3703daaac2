"""Prepare the environments that metrics, datasets and prompts pin, for as long as a job or a command uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Final
from uuid import uuid4

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import GitPackage, IndexPackage
from vlmhyperbench.environments.base import METRIC_VARIABLES, Prepared, Tell, tell_nobody
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.metric_process import MetricHost, end_processes
from vlmhyperbench.processes import child_environment
from vlmhyperbench.scoring.metrics import Hosts, RunsApart
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk.discovery import normalise

OWN: Final = ("vlmhyperbench-sdk",)
"""What of the platform a metric's environment has: the SDK, whose program runs the metric."""


@asynccontextmanager
async def metric_hosts(
    plugins: Iterable[RunsApart],
    settings: Settings,
    *,
    preparing: Callable[[], AbstractContextManager[Tell]],
    label: Mapping[str, str] | None = None,
) -> AsyncIterator[Hosts]:
    """Prepare every environment that the plugins pin, and hold it while the block runs; then end what runs in it.

    Args:
        plugins: Pinned plugins, with or without an environment.
        settings: Settings of this process.
        preparing: Called for each environment; surrounds its preparation, and yields what is told what takes time.
        label: Variables by which the next boot of a worker finds orphan processes.

    Raises:
        InvalidInput, NotFound, Denied, Conflict, Unavailable: as `preparing.prepared`.
    """
    hosts, workshop = dict[str, MetricHost](), Workshop.of(settings)
    async with AsyncExitStack() as held:
        for spec in [plugin.environment for plugin in plugins if plugin.environment is not None]:
            if digest_of(spec) not in hosts:
                with preparing() as tell:
                    ready = await held.enter_async_context(prepared(spec, workshop, tell=tell, own=OWN))
                host = _host(ready, spec, settings, label or {})
                held.push_async_callback(asyncio.to_thread, end_processes, host.mark)
                hosts[digest_of(spec)] = host
        yield hosts


@contextmanager
def metric_hosts_here(plugins: Iterable[RunsApart], settings: Settings, *, tell: Tell = tell_nobody) -> Iterator[Hosts]:
    """Do the same for a command, which may itself be called from an event loop.

    Raises:
        InvalidInput, NotFound, Denied, Conflict, Unavailable: as `preparing.prepared`.
    """
    wanted = [plugin for plugin in plugins if plugin.environment is not None]
    if not wanted:
        yield {}
        return

    block = metric_hosts(wanted, settings, preparing=lambda: nullcontext(tell))
    with ThreadPoolExecutor(1) as thread, ExitStack() as held:
        runner = asyncio.Runner()  # its loop goes on between two calls, always in this thread
        held.callback(lambda: thread.submit(runner.close).result())
        hosts = thread.submit(runner.run, block.__aenter__()).result()
        held.callback(lambda: thread.submit(runner.run, block.__aexit__(None, None, None)).result())
        yield hosts


def _host(ready: Prepared, spec: VirtualenvSpec, settings: Settings, label: Mapping[str, str]) -> MetricHost:
    """Return what runs metrics; a package of a repository or a folder is known by its content, not by its version."""
    packages = {**ready.packages, "python": ready.python_version}
    for package in spec.packages:
        if not isinstance(package, IndexPackage):
            content = f"commit {package.commit}" if isinstance(package, GitPackage) else f"content {package.sha256}"
            name = normalise(package.name)
            packages[name] = f"{packages.get(name, '')} ({content})".strip()
    return MetricHost(
        python=ready.python,
        packages=packages,
        mark=uuid4().hex,
        variables=child_environment(label, inherited=METRIC_VARIABLES),
        memory_bytes=settings.metric_memory_bytes,
        reply_s=settings.timers.metric_s,
    )
