"""Make reports from bundles: CPU work for a child process that has neither database nor storage."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import polars

from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, RunSpec
from vlmhyperbench.reports.comparison_report import comparison_document
from vlmhyperbench.reports.document import Document
from vlmhyperbench.reports.evidence import OpenedMetric, RunEvidence, ScoredMetric, name_metrics
from vlmhyperbench.reports.headline import scores_of
from vlmhyperbench.reports.html import to_html
from vlmhyperbench.reports.json import to_json
from vlmhyperbench.reports.markdown import markdown_files
from vlmhyperbench.reports.plots import Drawing, to_svg
from vlmhyperbench.reports.run_report import run_document
from vlmhyperbench.reports.samples import NAME, write_samples
from vlmhyperbench.reports.tables import answers_csv, metrics_detailed_csv, metrics_summary_csv
from vlmhyperbench.reports.thumbnails import MAX_COUNT, MAX_FURTHER, make_thumbnails
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.scoring.metrics import open_answering
from vlmhyperbench_reporter.bundles import Draft, MeasureFile, ReportFile, RunBundle

_MEDIA_TYPES = {".md": "text/markdown", ".svg": "image/svg+xml", ".webp": "image/webp"}


def compose_run(bundle: RunBundle) -> Draft:
    """Build the report of a run.

    Raises:
        NotFound: a metric of the run is not installed.
        InvalidInput: a metric refuses its params.
        Conflict: another version of a metric is installed.
        PluginFailure: a metric cannot be constructed.
    """
    run = _evidence(bundle)
    document = run_document(run)
    tables = [_parquet(NAME, write_samples(run))]
    if "csv" in run.spec.reports:
        tables += [
            _table("answers.csv", answers_csv(run)),
            _table("metrics_detailed.csv", metrics_detailed_csv(run)),
            _table("metrics_summary.csv", metrics_summary_csv([run])),
        ]
    return replace(_draft(document, tuple(tables)), headline=scores_of(document.headline[0]))


def compose_comparison(experiment_id: str, name: str, state: str, bundles: Sequence[RunBundle]) -> Draft:
    """Build the comparison of an experiment's runs, in their order.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: as `compose_run`.
    """
    runs = [_evidence(bundle) for bundle in bundles]
    document = comparison_document(experiment_id, name, state, runs)
    return _draft(document, (_table("metrics_summary.csv", metrics_summary_csv(runs, is_named=True)),))


def render(draft: Draft, images: Mapping[str, bytes], *, formats: Sequence[str]) -> tuple[ReportFile, ...]:
    """Write a report's files: those of the formats asked for, and the tables.

    `images` maps content hashes to the pages' bytes; what is missing or no image is named instead of shown.
    """
    thumbnails = make_thumbnails(images)
    document, drawings, tables = _opened_draft(draft)
    files = list(tables)
    if "html" in formats:
        page = to_html(document, drawings=drawings, thumbnails=thumbnails)
        files.append(ReportFile(name="report.html", kind="report", media_type="text/html", content=page))
    if "json" in formats:
        content = to_json(document)
        files.append(ReportFile(name="report.json", kind="report", media_type="application/json", content=content))
    if "markdown" in formats:
        beside = markdown_files(document, drawings=drawings, thumbnails=thumbnails)
        files += [
            ReportFile(name=name, kind="report", media_type=_MEDIA_TYPES[PurePath(name).suffix], content=content)
            for name, content in beside.items()
        ]
    return tuple(files)


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


def _evidence(bundle: RunBundle) -> RunEvidence:
    spec = RunSpec.model_validate(bundle.spec)
    first, *others = [
        _scored(spec, extractor, bundle.measures, with_judges=no == 0) for no, extractor in enumerate(spec.extractors)
    ]
    return RunEvidence(
        id=bundle.id,
        name=bundle.name,
        state=bundle.state,
        reason=bundle.reason,
        spec=spec,
        spec_digest=bundle.spec_digest,
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
        left_out=bundle.left_out,
        differing=bundle.differing,
        judged=bundle.judged,
        stopping=bundle.stopping,
        platform_version=bundle.platform_version,
        events=bundle.events,
        alone=bundle.alone,
    )


def _scored(
    spec: RunSpec, extractor: ExtractorSpec, files: Sequence[MeasureFile], *, with_judges: bool
) -> tuple[ScoredMetric, ...]:
    """Open every metric of a run with what it measured on what one extractor read; a judge reads the whole answer."""
    wanted = [
        (metric, TEXT if is_judge(metric) else extractor)
        for metric in spec.metrics
        if with_judges or not is_judge(metric)
    ]
    opened = [found for metric, reader in wanted if (found := _opened(spec, metric, reader, files)) is not None]
    return name_metrics(opened)


def _opened(
    run: RunSpec, spec: MetricSpec, extractor: ExtractorSpec, files: Sequence[MeasureFile]
) -> OpenedMetric | None:
    """Open a metric with its measures, or return None where nothing was measured by it."""
    wanted = {
        "name": spec.name,
        "profile": spec.profile,
        "version": spec.version,
        "extractor": extractor.label,
    }
    found = [file for file in files if all(file.identity.get(key) == value for key, value in wanted.items())]
    if not found:
        return None
    measures = polars.concat([polars.read_parquet(io.BytesIO(file.content)) for file in found], how="diagonal")
    return OpenedMetric(
        spec=spec,
        metric=open_answering(spec, on_invalid=run.on_invalid),
        environment=found[0].environment,
        extractor=extractor.label,
        evaluation_id=found[0].evaluation_id or "",
        measures=measures,
    )
