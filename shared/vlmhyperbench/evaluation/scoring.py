"""Score the answers of a function with the metrics that its task pins, and sum them up as a run is summed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from vlmhyperbench.data.enumerating import IndexResult
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.identity import id_of, identify
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, RunSpec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.environments.metric_hosts import metric_hosts_here
from vlmhyperbench.evaluation.facts import PHASE
from vlmhyperbench.reports.bundles import MeasureFile, RunBundle
from vlmhyperbench.reports.composing import evidence_of
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.scoring.measured import FACT_COLUMNS, measure_metric
from vlmhyperbench.scoring.metrics import Hosts, host_of
from vlmhyperbench.settings import Settings
from vlmhyperbench.summaries.records import PhaseEvidence
from vlmhyperbench.summaries.summarising import summarise_run

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answers of a function to the samples of a task."""

    id: str
    name: str
    spec: RunSpec
    indexed: IndexResult
    examples_id: str | None
    """Hash of the examples that every call was given; None without examples."""
    facts: polars.DataFrame
    durations_s: Mapping[int, float]
    """Index of a sample → how long its call took; a sample that could not be read has none."""
    started_at: str
    finished_at: str


def score(answered: Answered, settings: Settings) -> ReportedRun:
    """Measure the answers with every metric, and compute the summary.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure, Unavailable: a metric cannot be opened, or its environment
            cannot be prepared.
    """
    spec = answered.spec
    with metric_hosts_here(spec.metrics, settings) as hosts:
        measures = [
            _measure(answered, metric, extractor, hosts) for extractor in spec.extractors for metric in spec.metrics
        ]
        run = evidence_of(_bundle(answered, tuple(measures), hosts))
        return ReportedRun(summary=summarise_run(run), evidence=run)


def _measure(answered: Answered, metric: MetricSpec, extractor: ExtractorSpec, hosts: Hosts) -> MeasureFile:
    spec, host = answered.spec, host_of(metric, hosts)
    measured = measure_metric(
        answered.facts.select(*FACT_COLUMNS),
        metric,
        host=host,
        extractor=extractor,
        on_model_failure=spec.on_model_failure,
        on_invalid=spec.on_invalid,
    )
    environment = digest_of(dict(measured.packages))
    evaluation = identify(
        spec,
        metric=metric,
        extractor=extractor,
        manifest_id=answered.indexed.manifest_id,
        engines=[],
        environment=environment,
        packages=host.packages if host is not None else None,
        examples_id=answered.examples_id,
    )
    return MeasureFile(
        identity=measured.identity, environment=environment, evaluation_id=id_of(evaluation), content=measured.content
    )


def _bundle(answered: Answered, measures: tuple[MeasureFile, ...], hosts: Hosts) -> RunBundle:
    rows, indexed = answered.facts.height, answered.indexed
    return RunBundle(
        id=answered.id,
        name=answered.name,
        state=RunState.RUNNING,
        reason=None,
        spec=answered.spec.model_dump(mode="json"),
        spec_digest=digest_of(answered.spec),
        total=rows,
        manifest_id=indexed.manifest_id,
        samples=indexed.samples,
        unreadable=indexed.unreadable,
        facts=answered.facts,
        measures=measures,
        claims=(),
        phases=(PhaseEvidence(no=PHASE, kind="accuracy", state="COMPLETE", count=rows),),
        created_at=answered.started_at,
        started_at=answered.started_at,
        finished_at=answered.finished_at,
        parent_run_id=None,
        left_out=0,
        differing=0,
        stopping=None,
        judges=(),
        retunes=(),
        platform_version=version("vlmhyperbench"),
        examples_id=answered.examples_id,
        hosts=hosts,
    )
