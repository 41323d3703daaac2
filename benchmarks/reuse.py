"""Compare the time of a first run of a real model with reruns, re-scores, the cache and an import of its answers.

Usage: python -m benchmarks.reuse [SAMPLES]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.table import Table

from benchmarks.run import ended, stack
from vlmhyperbench.client import Client
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.answers import RunImport
from vlmhyperbench.wire.runs import RunDetail, RunRerun, RunRescore

METRICS = ("exact_match", "anls", "cer")


def main(samples: int) -> None:
    """Measure the time of every way to a scored run of the same questions, and count the requests to the model."""
    with stack() as (_, client):
        ended(client, client.runs.create(_entry(8)))  # loads the model, so that no row of the table includes that
        table = Table("run", "POST to report", "of the first", "requests to a model", title=f"{samples:,} answers")
        first, first_s = _timed(client, lambda: client.runs.create(_entry(samples)))
        content = _as_import(client, first)
        rows: list[tuple[str, Callable[[], RunDetail]]] = [
            ("rerun, nothing changed", lambda: client.runs.rerun(first.id)),
            ("rerun, one more metric", lambda: client.runs.rerun(first.id, RunRerun(run=_entry(samples, "token_f1")))),
            ("rerun, 20 more samples", lambda: client.runs.rerun(first.id, RunRerun(run=_entry(samples + 20)))),
            ("re-score, one metric, another extractor", lambda: client.runs.rescore(first.id, _rescore())),
            ("another run, from the cache", lambda: client.runs.create(_entry(samples, reuse="cache"))),
            ("import of its answers", lambda: client.runs.import_(_import(client, content))),
        ]
        table.add_row("first run", f"{first_s:.1f} s", "1.00", str(_requests(client, first.id)))
        for name, create in rows:
            run, run_s = _timed(client, create)
            table.add_row(name, f"{run_s:.1f} s", f"{run_s / first_s:.2f}", str(_requests(client, run.id)))
    Console().print(table)


def _entry(samples: int, *more: str, reuse: str | None = None) -> RunEntry:
    given = {
        "target": {"model": "tiny-doc-vlm"},
        "task": "document-qa",
        "dataset": {"name": "synthetic-documents", "limit": samples},
        "metrics": [*METRICS, *more],
        "reuse": reuse,
    }
    return RunEntry.model_validate(given)


def _rescore() -> RunRescore:
    return RunRescore(metrics=("anls",), extractors=("first_line",))


def _import(client: Client, content: bytes) -> RunImport:
    return RunImport(answers=client.upload_answers(content).sha256, metrics=METRICS)


def _as_import(client: Client, run: RunDetail) -> bytes:
    answers, cursor = [], None
    while True:
        page = client.results(run_id=run.id, limit=500, cursor=cursor)
        answers += [
            ImportedAnswer(key=row.key or "", question=row.question, references=tuple(row.references), text=row.text)
            for row in page.items
        ]
        if (cursor := page.next) is None:
            break
    file = AnswersFile(format="lm-eval", tool=None, model=run.target, task=run.task, decoding={}, answers=iter(answers))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        write_answers(path, file)
        return path.read_bytes()


def _timed(client: Client, create: Callable[[], RunDetail]) -> tuple[RunDetail, float]:
    start = time.perf_counter()
    run = ended(client, create())
    return run, time.perf_counter() - start


def _requests(client: Client, run_id: UUID) -> int:
    """Return the number of requests that the run's own claims sent and committed, without its warm-up."""
    run = client.runs.get(run_id)
    shards = [job for job in run.jobs if job.kind == "GENERATE"]
    outcomes = [(job.outcome or {}).get("data") for job in shards]
    return sum(int(str(data.get("requests", 0))) for data in outcomes if isinstance(data, dict))


if __name__ == "__main__":
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
