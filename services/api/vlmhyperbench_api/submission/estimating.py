"""Estimate the memory of the targets of a submission, so that their first jobs are placed by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from vlmhyperbench.data.estimating import estimate_memory
from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.specs import Target
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_sdk.protocols import MemoryEstimate


async def estimates_of(runtime: Runtime, targets: Sequence[Target]) -> dict[str, MemoryEstimate]:
    """Return what the adapters estimate, by digest of the target, as far as their files are on this machine."""

    def estimated() -> dict[str, MemoryEstimate]:
        cache = open_cache(runtime.settings)
        known = {digest_of(target): estimate_memory(target, cache) for target in targets}
        return {digest: estimate for digest, estimate in known.items() if estimate is not None}

    return await asyncio.to_thread(estimated)
