"""Build the evidence of a small run, with defaults: every number in it can be checked by mental arithmetic."""

from __future__ import annotations

import io
from collections.abc import Sequence

import polars
from PIL import Image

from vlmhyperbench.db.fact_rows import FACT_COLUMNS
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.specs import (
    DatasetSpec,
    ExtractorSpec,
    MetricSpec,
    ModelTarget,
    PromptSpec,
    RunSpec,
    Target,
)
from vlmhyperbench.facts.schema import polars_schema
from vlmhyperbench.reports.comparison_report import comparison_document
from vlmhyperbench.reports.document import Document
from vlmhyperbench.reports.run_report import run_document
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.reports.samples import write_samples
from vlmhyperbench.reports.writers.thumbnails import Thumbnail, make_thumbnail
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.scoring.scores import Row
from vlmhyperbench.scoring.scores import score as score_rows
from vlmhyperbench.summaries.evidence import OpenedMetric, RunEvidence, name_metrics
from vlmhyperbench.summaries.records import ClaimEvidence, PhaseEvidence
from vlmhyperbench.summaries.speeds import Performance
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch

CLAIM = "c0000000-0000-0000-0000-000000000001"
PAGES = ("a" * 64, "b" * 64)
MS = 1_000_000

TARGET = ModelTarget(
    model="tiny",
    version="1.0.0",
    backend="llamacpp",
    backend_class="llamacpp",
    files=(ModelFile(role="weights", location="package:tiny/tiny.gguf", sha256="d" * 64),),
    quantization="F16",
)


def run_spec(*, metrics: Sequence[Metric] = (), target: Target = TARGET, **changes: object) -> RunSpec:
    """Make a spec of a document task."""
    spec = RunSpec(
        target=target,
        task="document-qa",
        task_version="1.0.0",
        dataset=DatasetSpec(name="documents", version="1.0.0", type="synthetic_documents"),
        prompt=PromptSpec(name="plain", version="1.0.0"),
        metrics=tuple(metric_spec(metric) for metric in metrics),
    )
    return spec.model_copy(update=changes)


def metric_spec(metric: Metric) -> MetricSpec:
    """Pin a metric."""
    described = metric.description
    return MetricSpec(
        name=described.name, profile=described.profile, version=described.version, class_path=described.name
    )


def fact(ordinal: int, text: str | None, reference: str, **changes: object) -> dict[str, object]:
    """Make a row: first token after 10 ms, latency of 20 + ordinal ms, two samples per page."""
    row: dict[str, object] = {
        "phase": 1,
        "ordinal": ordinal,
        "phase_kind": "accuracy",
        "is_reused": False,
        "run_id": "run",
        "source_phase": 1,
        "sample": ordinal,
        "repeat": 0,
        "turn": 0,
        "member": 0,
        "stream": 0,
        "status": "ok" if text is not None else "error",
        "origin": "live",
        "failure": None if text is not None else "infrastructure",
        "error_code": None if text is not None else "connection_lost",
        "http_status": 200,
        "finish_reason": "stop",
        "tries": 1,
        "prompt_tokens": 100,
        "completion_tokens": 11,
        "token_source": "usage",
        "scheduled_ns": 100 * ordinal * MS,
        "sent_ns": 100 * ordinal * MS + MS // 10,
        "queue_ns": MS // 10,
        "ttft_user_ns": 10 * MS,
        "ttft_service_ns": 10 * MS - MS // 10,
        "tpot_ns": 1.0 * MS,
        "latency_ns": (20 + ordinal) * MS,
        "stream_end_ns": (100 * ordinal + 20 + ordinal) * MS,
        "request_sha256": "e" * 64,
        "claim_id": CLAIM,
        "chunk": 0,
        "row": ordinal,
        "text": text,
        "error": None,
        "system_prompt": None,
        "user_prompt": f"Question {ordinal}?",
        "key": f"s{ordinal}",
        "question": f"Question {ordinal}?",
        "references": [reference],
        "images": [PAGES[ordinal // 2 % 2]],
        "pixels": 192 * 96,
        "metadata": "{}",
        "group.doc_class": "receipt" if ordinal % 2 == 0 else "ticket",
        "group.question_type": "field" if ordinal < 3 else "kind",
    }
    return row | changes


def facts_frame(rows: Sequence[dict[str, object]]) -> polars.DataFrame:
    """Make the frame that `facts.read` returns."""
    texts = dict.fromkeys(
        ("text", "error", "system_prompt", "user_prompt", "key", "question", "metadata"), polars.String()
    )
    groups = dict.fromkeys(("group.doc_class", "group.question_type"), polars.String())
    lists = dict.fromkeys(("references", "images"), polars.List(polars.String()))
    sizes = dict.fromkeys(("pixels", "vram_before_bytes", "vram_peak_bytes"), polars.Int64())
    schema = polars.Schema({**polars_schema(FACT_COLUMNS), **texts, **lists, **sizes, **groups})
    return polars.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def measures(metric: Metric, facts: polars.DataFrame, *, extractor: ExtractorSpec = TEXT) -> polars.DataFrame:
    """Score the facts as SCORE does."""
    rows = [
        Row(status=row["status"], text=row["text"], references=row["references"], failure=row["failure"])
        for row in facts.iter_rows(named=True)
    ]
    scores = score_rows(metric, rows, extractor=extractor)
    measured = [score.measure for score in scores]
    names = sorted({name for measure in measured for name in measure.statistics})
    return facts.select("phase", "ordinal").with_columns(
        polars.lit(None, dtype=polars.String).alias("field"),
        polars.lit(extractor.label).alias("extractor"),
        polars.Series("outcome", [score.outcome.value for score in scores], dtype=polars.String),
        polars.Series("value", [measure.value for measure in measured], dtype=polars.Float64),
        polars.Series("reason", [measure.reason for measure in measured], dtype=polars.String),
        polars.Series("is_invalid", [score.is_invalid for score in scores], dtype=polars.Boolean),
        *(polars.Series(f"stat.{name}", [measure.statistics.get(name, 0.0) for measure in measured]) for name in names),
    )


def claim(**changes: object) -> ClaimEvidence:
    """Make the claim that measured the run."""
    fields: dict[str, object] = {
        "id": CLAIM,
        "job": "GENERATE",
        "job_id": "job",
        "host": "bench",
        "machine": {"cpu_model": "CPU", "cpu_threads": 2, "memory_total_bytes": 2**31, "devices": []},
        "engine": {
            "name": "llama.cpp",
            "version": "b1",
            "argv": ["llama-server", "--model", "my model.gguf"],
            "packages": {"xllamacpp": "0.2"},
        },
        "packages": {"vlmhyperbench": "0.1.0"},
        "client": None,
        "measured_at": "engine",
        "resources": {"engine_rss_bytes_peak": 1024},
        "anchor_monotonic_ns": 0,
        "anchor_wall_ns": 1_000_000_000 * 1_000_000_000,
        "started_at": "2026-01-01T00:00:00Z",
        "ended_at": "2026-01-01T00:01:00Z",
        "sending_from_ns": 0,
        "sending_until_ns": 60 * 1_000_000_000,
        "disturbed_by": (),
    }
    return ClaimEvidence(**(fields | changes))


def evidence(
    rows: Sequence[dict[str, object]] | None = None,
    *,
    metrics: Sequence[Metric] | None = None,
    spec: RunSpec | None = None,
    **changes: object,
) -> RunEvidence:
    """Make a run; by default four right answers, a near miss and a request lost to the infrastructure."""
    default = [*(fact(i, "yes", "yes") for i in range(4)), fact(4, "yez", "yes"), fact(5, None, "yes")]
    facts = facts_frame(default if rows is None else rows)
    used = (ExactMatch(), Anls(), Cer()) if metrics is None else metrics
    fields: dict[str, object] = {
        "id": "r0000000-0000-0000-0000-000000000001",
        "name": "tiny",
        "state": "RUNNING",
        "reason": None,
        "spec": spec or run_spec(metrics=used),
        "spec_digest": "f" * 64,
        "total": facts.height,
        "manifest_id": "9" * 64,
        "samples": facts.height,
        "unreadable": 0,
        "facts": facts,
        "scored": name_metrics(
            [
                OpenedMetric(
                    spec=metric_spec(metric), metric=metric, environment="1" * 64, measures=measures(metric, facts)
                )
                for metric in used
            ]
        ),
        "claims": [claim()],
        "phases": [PhaseEvidence(no=1, kind="accuracy", state="COMPLETE", count=facts.height)],
    }
    return RunEvidence(**(fields | changes))


def reported(run: RunEvidence) -> ReportedRun:
    """Summarise a run as the reporter does."""
    return ReportedRun(summary=summarise_run(run), evidence=run)


def document_of(run: RunEvidence) -> Document:
    """Make the report of a run."""
    return run_document(summarise_run(run), run)


def comparison_of(experiment_id: str, name: str, state: str, runs: Sequence[RunEvidence]) -> Document:
    """Make the comparison of runs."""
    return comparison_document(experiment_id, name, state, [reported(run) for run in runs])


def samples_of(run: RunEvidence) -> bytes:
    """Write the samples file of a run."""
    return write_samples(summarise_run(run), run)


def performance_of(run: RunEvidence) -> Performance:
    """Summarise the speeds of a run."""
    return summarise_run(run).performance


def thumbnail() -> Thumbnail:
    """Make the picture of a white page."""
    buffer = io.BytesIO()
    Image.new("RGB", (192, 96), "white").save(buffer, "PNG")
    picture = make_thumbnail(buffer.getvalue())
    assert picture is not None
    return picture
