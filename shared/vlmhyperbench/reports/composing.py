"""Make reports from bundles: CPU work that needs neither database nor storage."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars

from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, RunSpec
from vlmhyperbench.reports.bundles import Draft, ReportFile, RunBundle
from vlmhyperbench.reports.comparison_report import comparison_document
from vlmhyperbench.reports.document import Document
from vlmhyperbench.reports.ensembles import ensemble_evidence
from vlmhyperbench.reports.run_report import run_document
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.reports.samples import NAME, write_samples
from vlmhyperbench.reports.sections.limitations import add_limitations
from vlmhyperbench.reports.writers.formats import Pages, write_report
from vlmhyperbench.reports.writers.json import to_json as write_json
from vlmhyperbench.reports.writers.plots import Drawing, to_svg
from vlmhyperbench.reports.writers.tables import answers_csv, metrics_detailed_csv, metrics_summary_csv
from vlmhyperbench.reports.writers.thumbnails import MAX_COUNT, MAX_FURTHER, make_thumbnails
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.scoring.metrics import open_stored
from vlmhyperbench.summaries.codec import NAME as SUMMARY
from vlmhyperbench.summaries.codec import from_json, to_json
from vlmhyperbench.summaries.columns import columns_of
from vlmhyperbench.summaries.evidence import OpenedMetric, RunEvidence, ScoredMetric, name_metrics
from vlmhyperbench.summaries.headline import scores_of
from vlmhyperbench.summaries.manifest import NAME as MANIFEST
from vlmhyperbench.summaries.manifest import manifest_of
from vlmhyperbench.summaries.manifest import to_json as write_manifest
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.errors import InvalidInput


def compose_run(bundle: RunBundle) -> Draft:
    """Build the report of a run.

    Raises:
        NotFound: a metric of the run is not installed.
        InvalidInput: a metric refuses its params.
        Conflict: another version of a metric is installed.
        PluginFailure: a metric cannot be constructed.
    """
    run = evidence_of(bundle)
    return draft_of(summarise_run(run), run)


def draft_of(summary: RunSummary, run: RunEvidence) -> Draft:
    """Build the report of a run from its summary and the evidence that the summary was computed from."""
    document = run_document(summary, run)
    tables = [
        ReportFile(name=SUMMARY, kind="summary", media_type="application/json", content=to_json(summary)),
        ReportFile(name=MANIFEST, kind="manifest", media_type="application/json", content=_manifest(run)),
        _parquet(NAME, write_samples(summary, run)),
    ]
    if "csv" in run.spec.reports:
        tables += [
            _table("answers.csv", answers_csv(run)),
            _table("metrics_detailed.csv", metrics_detailed_csv(run)),
            _table("metrics_summary.csv", metrics_summary_csv([ReportedRun(summary=summary, evidence=run)])),
        ]
    return replace(_draft(document, tuple(tables)), headline=scores_of(summary), columns=columns_of(summary))


def evidence_of(bundle: RunBundle) -> RunEvidence:
    """Open a run's metrics with what they measured, and return everything that its summary is computed from.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: as `compose_run`.
    """
    spec = RunSpec.model_validate(bundle.spec)
    first, *others = [
        _scored(bundle, spec, extractor, with_judges=no == 0) for no, extractor in enumerate(spec.extractors)
    ]
    return RunEvidence(
        id=bundle.id,
        name=bundle.name,
        state=bundle.state,
        reason=bundle.reason,
        spec=spec,
        spec_digest=bundle.spec_digest,
        origins=bundle.origins,
        total=bundle.total,
        manifest_id=bundle.manifest_id,
        samples=bundle.samples,
        unreadable=bundle.unreadable,
        facts=bundle.facts,
        scored=first,
        scored_otherwise={
            extractor.label: scored for extractor, scored in zip(spec.extractors[1:], others, strict=True) if scored
        },
        claims=bundle.claims,
        phases=bundle.phases,
        created_at=bundle.created_at,
        started_at=bundle.started_at,
        finished_at=bundle.finished_at,
        parent_run_id=bundle.parent_run_id,
        examples_id=bundle.examples_id,
        left_out=bundle.left_out,
        differing=bundle.differing,
        judges=bundle.judges,
        retunes=bundle.retunes,
        stopping=bundle.stopping,
        platform_version=bundle.platform_version,
        events=bundle.events,
        baseline_rows=bundle.baseline_rows,
        ensemble=ensemble_evidence(bundle.pipeline, spec) if bundle.pipeline is not None else None,
    )


def compose_comparison(experiment_id: str, name: str, state: str, bundles: Sequence[RunBundle]) -> Draft:
    """Build the comparison of an experiment's runs, in their order.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: as `compose_run`.
    """
    runs = [_reported(bundle) for bundle in bundles]
    document = comparison_document(experiment_id, name, state, runs)
    return _draft(document, (_table("metrics_summary.csv", metrics_summary_csv(runs, is_named=True)),))


def as_json(draft: Draft) -> bytes:
    """Return the content of `report.json`, which plugins are given."""
    return write_json(_opened_draft(draft)[0])


def render(
    draft: Draft, images: Mapping[str, bytes], *, formats: Sequence[str], limitations: Sequence[str] = ()
) -> tuple[ReportFile, ...]:
    """Write a report's files: those of the formats asked for, and the tables.

    Args:
        draft: The report.
        images: Content hash → bytes of a page; a page that is missing or no image is named instead of shown.
        formats: The built-in formats.
        limitations: Limitations that became known after the report was made.
    """
    document, drawings, tables = _opened_draft(draft)
    document = add_limitations(document, limitations)
    pages = Pages(document=document, drawings=drawings, thumbnails=make_thumbnails(images))
    written = [
        ReportFile(name=file.name, kind="report", media_type=file.media_type, content=file.content)
        for file in write_report(pages, formats)
    ]
    return (*tables, *written)


def _manifest(run: RunEvidence) -> bytes:
    about = {
        "run_id": run.id,
        "name": run.name,
        "spec_digest": run.spec_digest,
        "sample_manifest": run.manifest_id,
        "example_manifest": run.examples_id,
        "platform_version": run.platform_version,
    }
    return write_manifest(manifest_of(run.spec, run.claims, run=about, origins=run.origins, retunes=run.retunes))


def _draft(document: Document, tables: tuple[ReportFile, ...]) -> Draft:
    drawings = {figure.name: to_svg(figure) for figure in document.figures}
    images = (*document.images[:MAX_COUNT], *document.further_images[:MAX_FURTHER])
    return Draft(images=images, content=pickle.dumps((document, drawings, tables)))


def _opened_draft(draft: Draft) -> tuple[Document, Mapping[str, Drawing], tuple[ReportFile, ...]]:
    document, drawings, tables = pickle.loads(draft.content)  # noqa: S301 -- made by `_draft`, never stored
    return document, drawings, tables


def _table(name: str, content: bytes) -> ReportFile:
    return ReportFile(name=name, kind="table", media_type="text/csv", content=content)


def _parquet(name: str, content: bytes) -> ReportFile:
    return ReportFile(name=name, kind="table", media_type="application/vnd.apache.parquet", content=content)


def _reported(bundle: RunBundle) -> ReportedRun:
    """Return a run that has ended, with its stored summary, or with a new one if none is stored."""
    evidence = evidence_of(bundle)
    summary = _stored(bundle) or summarise_run(evidence)
    ended = summary.ended(bundle.state, reason=bundle.reason, finished_at=bundle.finished_at)
    return ReportedRun(summary=ended, evidence=evidence)


def _stored(bundle: RunBundle) -> RunSummary | None:
    """Return the stored summary; None if there is none, or if it is of another version."""
    if bundle.summary is None:
        return None
    try:
        return from_json(bundle.summary)
    except InvalidInput:
        return None


def _scored(
    bundle: RunBundle, spec: RunSpec, extractor: ExtractorSpec, *, with_judges: bool
) -> tuple[ScoredMetric, ...]:
    """Open every metric of a run with what it measured on what one extractor read; a judge reads the whole answer."""
    wanted = [
        (metric, TEXT if is_judge(metric) else extractor)
        for metric in spec.metrics
        if with_judges or not is_judge(metric)
    ]
    opened = [metric for metric in (_opened(bundle, spec, metric, reader) for metric, reader in wanted) if metric]
    return name_metrics(opened)


def _opened(bundle: RunBundle, run: RunSpec, spec: MetricSpec, extractor: ExtractorSpec) -> OpenedMetric | None:
    """Open a metric with its measures, or return None where nothing was measured by it."""
    wanted = {
        "name": spec.name,
        "profile": spec.profile,
        "version": spec.version,
        "extractor": extractor.label,
    }
    measured = [
        file for file in bundle.measures if all(file.identity.get(key) == value for key, value in wanted.items())
    ]
    if not measured:
        return None
    measures = polars.concat([polars.read_parquet(io.BytesIO(file.content)) for file in measured], how="diagonal")
    return OpenedMetric(
        spec=spec,
        metric=open_stored(spec, measured[0].identity.get("description"), bundle.hosts, on_invalid=run.on_invalid),
        environment=measured[0].environment,
        extractor=extractor.label,
        evaluation_id=measured[0].evaluation_id or "",
        measures=measures,
    )
