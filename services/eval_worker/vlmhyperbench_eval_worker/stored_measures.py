"""The measures of one metric as a stored file: computed in a child, or reused from the parent run.

A file of the parent is reused if its stage fingerprint shows that it was computed from the same inputs.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import polars

from vlmhyperbench.db import measures
from vlmhyperbench.db.views import MeasureManifestView, RunView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.identity import SCORING
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, PackageRef, RunSpec
from vlmhyperbench.domain.steps import Stage
from vlmhyperbench.errors import Damaged
from vlmhyperbench.metric_process import MetricHost
from vlmhyperbench.scoring.measured import REPORTED, VERDICTS, measure_metric, packages_of
from vlmhyperbench.scoring.metrics import open_metric
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_sdk.types import JsonObject

_FINGERPRINTED = ("phase", "ordinal", "status", "failure", "error_code", "text", REPORTED, VERDICTS)
"""Columns that scoring reads, except those of the sample, for which the manifest's hash stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInput:
    """The input of one metric: the answers, and the extractor that parses them."""

    spec: RunSpec
    """The run, for its policies."""
    manifest_id: str | None
    """Hash of the samples."""
    metric: MetricSpec
    extractor: ExtractorSpec
    host: MetricHost | None
    """The environment that the metric pins, prepared; None if it pins none."""
    rows: polars.DataFrame
    """Columns as SCORE reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMeasures:
    """A file of measures in storage."""

    storage_key: str
    sha256: str
    size_bytes: int
    rows: int
    values: int
    """Number of rows that have a value."""
    identity: JsonObject
    environment: str
    """Digest of the packages that computed them."""
    fingerprint: str | None
    is_reused: bool


async def measure(job: ClaimedJob, source: MetricInput, *, no: int) -> StoredMeasures:
    """Compute a metric in a child and store its measures; `no` makes the storage key unique within the claim."""
    metric = source.metric
    measured = await job.run_cpu(
        measure_metric,
        source.rows,
        metric,
        host=source.host,
        extractor=source.extractor,
        on_model_failure=source.spec.on_model_failure,
        on_invalid=source.spec.on_invalid,
    )
    key = f"runs/{job.run_id}/measures/{job.claim_id}/{no}-{_slug(metric.name)}.parquet"
    stored = await asyncio.to_thread(
        job.runtime.storage.put, key, measured.content, media_type="application/vnd.apache.parquet"
    )
    environment = digest_of(dict(measured.packages))
    # Code of a dotted path may import other code that changes unnoticed, so its measures are never reused. In its own
    # environment all code has a version.
    is_versioned = isinstance(metric.package, PackageRef) or is_judge(metric) or metric.environment is not None
    return StoredMeasures(
        storage_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        rows=measured.rows,
        values=measured.values,
        identity=measured.identity,
        environment=environment,
        fingerprint=await asyncio.to_thread(fingerprint, source, environment=environment) if is_versioned else None,
        is_reused=False,
    )


async def reuse(
    job: ClaimedJob, source: MetricInput, known: Mapping[str, MeasureManifestView]
) -> StoredMeasures | None:
    """Return the file among `known` that was computed from the same inputs; None if it is missing or damaged."""
    if not known:
        return None
    if source.host is not None:
        environment = digest_of(dict(source.host.packages))
    else:
        environment = await job.run_cpu(environment_of, source.metric)
    mark = await asyncio.to_thread(fingerprint, source, environment=environment)
    manifest = known.get(mark)
    if manifest is None:
        return None
    try:
        path = await job.runtime.storage.open(manifest.storage_key, manifest.sha256)
    except Damaged:
        return None
    values = await asyncio.to_thread(_values, path)
    return StoredMeasures(
        storage_key=manifest.storage_key,
        sha256=manifest.sha256,
        size_bytes=manifest.size_bytes,
        rows=manifest.rows,
        values=len(values) - values.null_count(),
        identity={name: value for name, value in manifest.metrics[0].items() if name != "evaluation"},
        environment=environment,
        fingerprint=mark,
        is_reused=True,
    )


async def measures_of_parent(job: ClaimedJob, run: RunView, spec: RunSpec) -> Mapping[str, MeasureManifestView]:
    """Read the parent's measures by fingerprint; empty if the run has no parent or must not reuse measures."""
    if run.parent_run_id is None or spec.reuse not in {"equal", "cache"}:
        return {}
    async with job.runtime.database.transaction() as session:
        manifests = await measures.of_run(session, run.parent_run_id)
    return {manifest.fingerprint: manifest for manifest in manifests if manifest.fingerprint is not None}


def fingerprint(source: MetricInput, *, environment: str) -> str:
    """Return a hash of everything that determines a metric's measures: configuration, inputs, packages, our version.

    Args:
        source: the input of the metric.
        environment: digest of the packages that compute the metric.
    """
    spec, rows = source.spec, source.rows.select(name for name in _FINGERPRINTED if name in source.rows.columns)
    return digest_of(
        {
            "stage": Stage.EVALUATION.value,
            "config": {
                "metric": source.metric.model_dump(mode="json"),
                "extractor": source.extractor.model_dump(mode="json"),
                "on_model_failure": spec.on_model_failure,
                "on_invalid": spec.on_invalid,
            },
            "inputs": {
                "samples": source.manifest_id,
                "answers": hashlib.sha256(rows.write_ndjson().encode()).hexdigest(),
            },
            "packages": environment,
            "code": [version("vlmhyperbench"), SCORING],
        }
    )


def environment_of(metric: MetricSpec) -> str:
    """Return the digest of the packages that compute a metric; call it in a child, since it loads the metric's code."""
    return digest_of(dict(packages_of(type(open_metric(metric)))))


def _values(path: Path) -> polars.Series:
    return polars.read_parquet(path, columns=["value"], glob=False)["value"]


def _slug(name: str) -> str:
    """Return a metric's name in the characters of storage keys."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:80]
