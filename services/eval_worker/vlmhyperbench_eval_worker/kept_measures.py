"""Measures that a parent's SCORE made of the same inputs, by their stage fingerprint: they need not be made again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import polars

from vlmhyperbench.db import measures
from vlmhyperbench.db.views import MeasureManifestView, RunView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.identity import SCORING
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, RunSpec
from vlmhyperbench.domain.steps import Stage
from vlmhyperbench.errors import Damaged
from vlmhyperbench.registry.plugins import require_source
from vlmhyperbench.scoring.metrics import open_metric
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_eval_worker.measuring import REPORTED, VERDICTS, packages_of

_ROW = ("phase", "ordinal", "status", "failure", "error_code", "text", REPORTED, VERDICTS)
"""What scoring reads of a row except its sample, which the manifest's hash stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One metric on what one extractor reads, and the answers."""

    spec: RunSpec
    """For its policies."""
    manifest_id: str | None
    """Hash of the samples."""
    metric: MetricSpec
    extractor: ExtractorSpec
    rows: polars.DataFrame
    """Columns as SCORE reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMeasures:
    """A file of measures of another run, verified."""

    manifest: MeasureManifestView
    values: int
    """Rows that have a value."""


def fingerprint(asked: Asked, *, environment: str) -> str:
    """Hash everything that decides a metric's measures: configuration, inputs, packages and our own version.

    Args:
        asked: what is to be measured.
        environment: digest of the packages that compute the metric.
    """
    spec, read = asked.spec, asked.rows.select(name for name in _ROW if name in asked.rows.columns)
    return digest_of(
        {
            "stage": Stage.EVALUATION.value,
            "config": {
                "metric": asked.metric.model_dump(mode="json"),
                "extractor": asked.extractor.model_dump(mode="json"),
                "on_model_failure": spec.on_model_failure,
                "on_invalid": spec.on_invalid,
            },
            "inputs": {
                "samples": asked.manifest_id,
                "answers": hashlib.sha256(read.write_ndjson().encode()).hexdigest(),
            },
            "packages": environment,
            "code": [version("vlmhyperbench"), SCORING],
        }
    )


def environment_of(metric: MetricSpec) -> str:
    """Return the digest of the packages that compute a metric; its code runs in a child only."""
    require_source(metric.package, f"metric {metric.name!r}")
    return digest_of(dict(packages_of(type(open_metric(metric)))))


async def measures_of_parent(job: ClaimedJob, run: RunView, spec: RunSpec) -> Mapping[str, MeasureManifestView]:
    """Read what may be kept of the parent's measures, by fingerprint; nothing where evaluation is to run anew."""
    if run.parent_run_id is None or spec.reuse not in {"equal", "cache"}:
        return {}
    async with job.runtime.database.transaction() as session:
        found = await measures.of_run(session, run.parent_run_id)
    return {manifest.fingerprint: manifest for manifest in found if manifest.fingerprint is not None}


async def reused(job: ClaimedJob, manifest: MeasureManifestView) -> KeptMeasures | None:
    """Read a file of measures; None where it is missing or damaged: then it is made again."""
    try:
        path = await job.runtime.storage.open(manifest.storage_key, manifest.sha256)
    except Damaged:
        return None
    values = await asyncio.to_thread(_values, path)
    return KeptMeasures(manifest=manifest, values=len(values) - values.null_count())


def _values(path: Path) -> polars.Series:
    return polars.read_parquet(path, columns=["value"], glob=False)["value"]
