"""Measure how long the report of a run of 100,000 samples takes, and how large its files are.

Usage: python -m benchmarks.report_scale [SAMPLES]    Four questions per document, five metrics, every format. The
report is made in a separate process, by the code of the reporter.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import datetime

import polars
from PIL import Image, ImageDraw
from rich.console import Console
from rich.table import Table

from vlmhyperbench.db.fact_rows import FACT_COLUMNS
from vlmhyperbench.domain.specs import DatasetSpec, EndpointTarget, MetricSpec, PromptSpec, RunSpec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.facts.schema import polars_schema
from vlmhyperbench.reports.bundles import MeasureFile, RunBundle
from vlmhyperbench.reports.composing import compose_run, render
from vlmhyperbench.scoring.measured import measure_metric
from vlmhyperbench.summaries.records import ClaimEvidence, PhaseEvidence
from vlmhyperbench_sdk.memory import peak_rss_bytes
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch
from vlmhyperbench_text_metrics.token_f1 import TokenF1
from vlmhyperbench_text_metrics.wer import Wer

METRICS: tuple[Metric, ...] = (ExactMatch(), Anls(), TokenF1(), Cer(), Wer())
FORMATS = ("markdown", "html", "json")
DOC_CLASSES, QUESTION_TYPES, SAMPLES_PER_DOCUMENT = 20, 10, 4
LOST, REFUSED, WRONG = 0.01, 0.005, 0.3
AIM_S, AIM_HTML_BYTES = 30.0, 5e6
CLAIM = "c0000000-0000-0000-0000-000000000001"
MS = 1_000_000
_WORDS = [f"{syllable}{ending}" for syllable in ("inv", "tot", "dat", "sel", "buy", "net") for ending in "abcdefgh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Time, memory and files of one report."""

    compose_s: float
    render_s: float
    cpu_s: float
    peak_bytes: int
    input_bytes: int
    """Peak memory before the report: of making the run."""
    files: dict[str, int]
    """Name → size in bytes."""

    @property
    def total_s(self) -> float:
        return self.compose_s + self.render_s


def main(samples: int) -> None:
    """Make the report in a child process and print its time, memory and files."""
    made = in_child(samples)
    table = Table("figure", "measured", "aim", title=f"report of {samples:,} samples by {len(METRICS)} metrics")
    table.add_row("composing, tables included", f"{made.compose_s:.1f} s", "")
    table.add_row("rendering", f"{made.render_s:.1f} s", "")
    table.add_row("together", f"{made.total_s:.1f} s ({made.cpu_s:.1f} s CPU)", f"≤ {AIM_S:.0f} s")
    table.add_row("report.html", _size(made.files["report.html"]), f"≤ {_size(AIM_HTML_BYTES)}")
    for name, size in made.files.items():
        if name != "report.html" and size > 1e5:
            table.add_row(name, _size(size), "")
    table.add_row("peak memory (input)", f"{_size(made.peak_bytes)} ({_size(made.input_bytes)})", "")
    Console().print(table)


def in_child(samples: int) -> Made:
    """Make the report in a new process."""
    argv = [sys.executable, "-m", "benchmarks.report_scale", str(samples), "child"]
    return Made(**json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout))


def make(samples: int) -> Made:
    """Make the report in this process."""
    bundle = run_bundle(samples)
    pages = {sha256: _page(sha256) for sha256 in _hashes(40)}
    input_bytes = peak_rss_bytes()
    start, cpu_start = time.perf_counter(), time.process_time()
    draft = compose_run(bundle)
    composed = time.perf_counter()
    images = dict(zip(draft.images, pages.values(), strict=False))
    files = render(draft, images, formats=FORMATS)
    return Made(
        compose_s=composed - start,
        render_s=time.perf_counter() - composed,
        cpu_s=time.process_time() - cpu_start,
        peak_bytes=peak_rss_bytes(),
        input_bytes=input_bytes,
        files={file.name: len(file.content) for file in files},
    )


def run_bundle(samples: int) -> RunBundle:
    """Make a run as it is in database and storage; the same number makes the same run."""
    facts, spec = _facts(samples), _spec()
    measured = [measure_metric(facts, metric) for metric in spec.metrics]
    return RunBundle(
        id="r0000000-0000-0000-0000-000000000001",
        name="large",
        state=RunState.RUNNING,
        reason=None,
        spec=spec.model_dump(mode="json"),
        spec_digest="f" * 64,
        total=samples,
        manifest_id="9" * 64,
        samples=samples,
        unreadable=0,
        facts=facts,
        measures=tuple(
            MeasureFile(identity=metric.identity, environment="1" * 64, evaluation_id=None, content=metric.content)
            for metric in measured
        ),
        claims=(_claim(),),
        phases=(PhaseEvidence(no=1, kind="accuracy", state="COMPLETE", count=samples),),
        created_at="2026-01-01T00:00:00Z",
        started_at="2026-01-01T00:00:01Z",
        finished_at="2026-01-01T03:00:00Z",
        parent_run_id=None,
        left_out=0,
        differing=0,
        stopping=None,
        judges=(),
        retunes=(),
        platform_version="0.1.0",
    )


def _spec() -> RunSpec:
    described = [metric.description for metric in METRICS]
    return RunSpec(
        target=EndpointTarget(endpoint="http://127.0.0.1:8000/v1", model_name="large"),
        task="document-qa",
        task_version="1.0.0",
        dataset=DatasetSpec(name="documents", version="1.0.0", type="annotation_csv"),
        prompt=PromptSpec(name="plain", version="1.0.0"),
        metrics=tuple(
            MetricSpec(name=metric.name, profile=metric.profile, version=metric.version, class_path=metric.name)
            for metric in described
        ),
        reports=(*FORMATS, "csv"),
    )


def _facts(samples: int) -> polars.DataFrame:
    chance = random.Random(30)
    documents = _hashes(-(-samples // SAMPLES_PER_DOCUMENT))
    rows = [_fact(ordinal, documents[ordinal // SAMPLES_PER_DOCUMENT], chance) for ordinal in range(samples)]
    texts = ("text", "error", "system_prompt", "user_prompt", "key", "question", "metadata")
    lists = ("references", "images")
    schema = polars.Schema(
        {
            **polars_schema(FACT_COLUMNS),
            **dict.fromkeys(texts, polars.String()),
            **dict.fromkeys(lists, polars.List(polars.String())),
            "pixels": polars.Int64(),
            **dict.fromkeys(("group.doc_class", "group.question_type"), polars.String()),
        }
    )
    return polars.DataFrame(rows, schema=schema)


def _fact(ordinal: int, document: str, chance: random.Random) -> dict[str, object]:
    reference = " ".join(chance.choices(_WORDS, k=4))
    question = f"What stands in field {ordinal}?"
    text, failure, code = _answer(reference, chance)
    latency_ns = int(chance.lognormvariate(5.5, 0.5) * MS)
    return {
        "phase": 1,
        "ordinal": ordinal,
        "phase_kind": "accuracy",
        "is_reused": False,
        "run_id": "r0000000-0000-0000-0000-000000000001",
        "source_phase": 1,
        "sample": ordinal,
        "repeat": 0,
        "turn": 0,
        "member": 0,
        "stream": ordinal % 16,
        "status": "ok" if failure is None else "error",
        "origin": "live",
        "failure": failure,
        "error_code": code,
        "http_status": 200,
        "finish_reason": "length" if chance.random() < 0.01 else "stop",
        "tries": 1,
        "prompt_tokens": 1200,
        "completion_tokens": 12,
        "token_source": "usage",
        "scheduled_ns": 100 * ordinal * MS,
        "sent_ns": 100 * ordinal * MS + MS,
        "queue_ns": MS,
        "ttft_user_ns": latency_ns // 3,
        "ttft_service_ns": latency_ns // 3 - MS,
        "tpot_ns": latency_ns / 18,
        "latency_ns": latency_ns,
        "stream_end_ns": 100 * ordinal * MS + latency_ns,
        "request_sha256": "e" * 64,
        "claim_id": CLAIM,
        "chunk": ordinal // 256,
        "row": ordinal % 256,
        "text": text,
        "error": None if failure is None else "the engine closed the connection",
        "system_prompt": "Answer in the words of the document.",
        "user_prompt": question,
        "key": f"sample-{ordinal:07}",
        "question": question,
        "references": [reference],
        "images": [document],
        "pixels": 1240 * 1754,
        "metadata": "{}",
        "group.doc_class": f"class-{ordinal // SAMPLES_PER_DOCUMENT % DOC_CLASSES:02}",
        "group.question_type": f"question-{chance.randrange(QUESTION_TYPES)}",
    }


def _answer(reference: str, chance: random.Random) -> tuple[str | None, str | None, str | None]:
    """Make an answer: its text, the kind of its failure and the error code."""
    luck = chance.random()
    if luck < LOST:
        return None, "infrastructure", "connection_lost"
    if luck < LOST + REFUSED:
        return None, "model", "context_too_long"
    if luck > LOST + REFUSED + WRONG:
        return reference, None, None
    misread = chance.randrange(len(reference))
    wrong = (
        reference[:misread] + "#" + reference[misread + 1 :],
        f"The document says: {reference}, as far as it can be read.",
        " ".join(chance.choices(_WORDS, k=4)),
        reference[: len(reference) // 2],
        "",
    )
    return chance.choice(wrong), None, None


def _claim() -> ClaimEvidence:
    return ClaimEvidence(
        id=CLAIM,
        job="GENERATE",
        host="bench",
        machine={"cpu_model": "CPU", "cpu_threads": 2, "memory_total_bytes": 2**34},
        engine={"name": "engine", "version": "1", "argv": ["engine"], "packages": {}},
        packages={"vlmhyperbench": "0.1.0"},
        client=None,
        measured_at="engine",
        job_id="job",
        anchor_monotonic_ns=0,
        anchor_wall_ns=1_767_225_600 * 1_000_000_000,
        started_at="2026-01-01T00:00:01Z",
        ended_at="2026-01-01T03:00:00Z",
        disturbed_by=(),
    )


def _hashes(count: int) -> list[str]:
    chance = random.Random(31)
    return [f"{chance.getrandbits(256):064x}" for _ in range(count)]


def _page(sha256: str) -> bytes:
    """Draw a page of grey lines, different for each hash."""
    chance = random.Random(sha256)
    page = Image.new("L", (1240, 1754), 255)
    draw = ImageDraw.Draw(page)
    for y in range(80, 1680, 32):
        x = 80
        while x < 1100:
            width = chance.randrange(20, 120)
            draw.rectangle((x, y, x + width, y + 16), fill=chance.randrange(160))
            x += width + 12
    buffer = io.BytesIO()
    page.save(buffer, "PNG")
    return buffer.getvalue()


def _size(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    if len(sys.argv) > 2:
        print(json.dumps(asdict(make(wanted))))
    else:
        print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs")
        main(wanted)
