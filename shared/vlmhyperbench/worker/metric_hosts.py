"""The environments of a job's plugins: prepared before the job computes, with progress for those who watch the run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

from vlmhyperbench.environments.metric_hosts import metric_hosts
from vlmhyperbench.environments.programs import TIMEOUT_S
from vlmhyperbench.scoring.metrics import Hosts, RunsApart
from vlmhyperbench.worker.claims import ClaimedJob


@asynccontextmanager
async def hosts_of(job: ClaimedJob, plugins: Iterable[RunsApart]) -> AsyncIterator[Hosts]:
    """Prepare the environments that plugins of a job pin, and hold them while the block runs.

    The job does not stall while they are built.

    Raises:
        InvalidInput: requirements cannot be resolved or installed.
        NotFound: the machine has no such version of Python, or a package is not where its entry says.
        Denied: a repository wants credentials.
        Conflict: a folder has changed since it was pinned.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    preparing = partial(job.preparing, "environment", 2 * TIMEOUT_S)
    async with metric_hosts(plugins, job.settings, preparing=preparing, label=job.context.label) as hosts:
        yield hosts
