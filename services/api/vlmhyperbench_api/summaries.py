"""Read a run's stored summary and add it to the response."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vlmhyperbench.db.views import ArtifactView
from vlmhyperbench.errors import Damaged
from vlmhyperbench.storage import Storage
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench.wire.summaries import GroupScore, Performance, QualityScore, SpeedGate, Spread
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from vlmhyperbench.summaries.scores import MetricIdentity, Score
    from vlmhyperbench.summaries.summary import RunSummary


async def with_summary(storage: Storage, run: RunDetail, files: Sequence[ArtifactView]) -> RunDetail:
    """Add quality and performance to a run; without a readable summary of the current version it gets neither."""
    summary = await stored_summary(storage, files)
    if summary is None:
        return run
    return run.model_copy(
        update={
            "quality": _quality(summary),
            "performance": _performance(summary),
            "is_degraded": summary.is_degraded,
        }
    )


async def stored_summary(storage: Storage, files: Sequence[ArtifactView]) -> RunSummary | None:
    """Return a run's summary; None where there is none that can be read."""
    file = next((file for file in files if file.kind == "summary"), None)
    if file is None:
        return None
    try:
        path = await storage.open(file.storage_key, file.sha256)
        return await asyncio.to_thread(_read, path)
    except (Damaged, InvalidInput, Unavailable):
        return None


def _read(path: Path) -> RunSummary:
    from vlmhyperbench.summaries.codec import from_json  # imports numpy on first use

    return from_json(path.read_bytes())


def _quality(summary: RunSummary) -> list[QualityScore]:
    return [
        _metric(summary, identity, score) for identity, score in zip(summary.described, summary.metrics, strict=True)
    ]


def _metric(summary: RunSummary, identity: MetricIdentity, score: Score) -> QualityScore:
    return QualityScore(
        **_score(score).model_dump(),
        metric=identity.key,
        label=identity.label,
        profile=identity.profile,
        version=identity.version,
        extractor=identity.extractor,
        evaluation_id=identity.evaluation_id,
        direction=identity.description.direction,
        groups={
            column: [_score(group) for group in summary.groups[column] if group.key == identity.key]
            for column in summary.group_columns
        },
    )


def _score(score: Score) -> GroupScore:
    return GroupScore(
        group=list(score.group),
        value=score.value,
        ci_low=score.low,
        ci_high=score.high,
        n=score.n_scored,
        n_without_value=score.n_unscored,
        lower=score.lower,
        upper=score.upper,
    )


def _performance(summary: RunSummary) -> Performance:
    speeds = summary.performance
    goodput = speeds.goodput
    return Performance(
        validity=speeds.state,
        gates=[
            SpeedGate(name=gate.name, ok=gate.ok, value=gate.value, limit=gate.limit, is_least=gate.is_least)
            for gate in speeds.gates
        ],
        times={
            name: Spread(n=times.n, mean=times.mean, p50=times.p50, p90=times.p90, p99=times.p99, max=times.max)
            for name, times in speeds.times.items()
        },
        window_s=speeds.window_s,
        samples_per_s=speeds.samples_per_s,
        output_tokens_per_s=speeds.output_tokens_per_s,
        output_tokens=speeds.output_tokens,
        goodput_per_s=goodput.per_s if goodput else None,
        goodput_share=goodput.share if goodput else None,
        parts=speeds.parts,
        is_interrupted=speeds.is_interrupted,
        is_partial=speeds.is_partial,
        is_retuned=speeds.is_retuned,
        peak_memory_bytes=speeds.peak_memory_bytes,
        peak_memory_of=speeds.peak_memory_of,
        energy_j_per_answer=speeds.resources.energy_j_per_answer if speeds.resources else None,
    )
