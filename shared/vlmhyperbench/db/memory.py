"""What targets need of devices: estimates of their adapters, and peaks that claims have measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench_sdk.protocols import MemoryEstimate


async def needs_of(session: AsyncSession, target_digests: Collection[str], *, margin: float) -> dict[str, MemoryNeed]:
    """Read what targets need, by digest; those of which nothing is known are left out.

    Args:
        session: the transaction.
        target_digests: digests of the targets.
        margin: factor of the estimates.
    """
    values = {"digests": list(target_digests)}
    peaks: dict[str, dict[str, int]] = defaultdict(dict)
    for row in await session.execute(text(_PEAKS), values):
        peaks[row.target_digest][row.device_name] = row.bytes
    needs = {digest: MemoryNeed(peaks=measured) for digest, measured in peaks.items()}
    for row in await session.execute(text(_ESTIMATES), values):
        needs[row.target_digest] = MemoryNeed(
            device_bytes=row.device_bytes,
            host_bytes=row.host_bytes,
            device_share=row.device_share,
            knobs=tuple(row.knobs),
            min_device_bytes=row.min_device_bytes,
            min_host_bytes=row.min_host_bytes,
            peaks=peaks.get(row.target_digest, {}),
            margin=margin,
        )
    return needs


def need_of(estimate: MemoryEstimate, *, margin: float) -> MemoryNeed:
    """Return what a target needs by an estimate that is not stored."""
    return MemoryNeed(
        device_bytes=estimate.device_bytes,
        host_bytes=estimate.host_bytes,
        device_share=estimate.device_share,
        knobs=estimate.knobs,
        min_device_bytes=estimate.min_device_bytes,
        min_host_bytes=estimate.min_host_bytes,
        margin=margin,
    )


async def write_estimates(session: AsyncSession, estimates: Mapping[str, MemoryEstimate]) -> None:
    """Write what adapters estimate, by digest of the target; an earlier estimate is replaced."""
    for digest, estimate in sorted(estimates.items()):
        values = asdict(estimate) | {"digest": digest, "knobs": list(estimate.knobs)}
        await session.execute(text(_WRITE_ESTIMATE), {name: values[name] for name in _COLUMNS})


async def write_peak(session: AsyncSession, target_digest: str, device_name: str, peak_bytes: int) -> None:
    """Write what a loaded target has used on a device; a larger peak of an earlier claim stays."""
    values = {"digest": target_digest, "device": device_name, "bytes": peak_bytes}
    await session.execute(text(_WRITE_PEAK), values)


_COLUMNS = ("digest", "device_bytes", "host_bytes", "device_share", "knobs", "min_device_bytes", "min_host_bytes")

_ESTIMATES = "SELECT * FROM memory_estimate WHERE target_digest = ANY(CAST(:digests AS varchar[]))"

_PEAKS = "SELECT * FROM memory_peak WHERE target_digest = ANY(CAST(:digests AS varchar[]))"

_WRITE_ESTIMATE = """
INSERT INTO memory_estimate (target_digest, device_bytes, host_bytes, device_share, knobs, min_device_bytes,
    min_host_bytes)
VALUES (:digest, :device_bytes, :host_bytes, :device_share, CAST(:knobs AS varchar[]), :min_device_bytes,
    :min_host_bytes)
ON CONFLICT (target_digest) DO UPDATE SET device_bytes = excluded.device_bytes, host_bytes = excluded.host_bytes,
    device_share = excluded.device_share, knobs = excluded.knobs, min_device_bytes = excluded.min_device_bytes,
    min_host_bytes = excluded.min_host_bytes, estimated_at = now()
"""

_WRITE_PEAK = """
INSERT INTO memory_peak (target_digest, device_name, bytes) VALUES (:digest, :device, :bytes)
ON CONFLICT (target_digest, device_name) DO UPDATE
SET bytes = GREATEST(memory_peak.bytes, excluded.bytes), measured_at = now()
"""
