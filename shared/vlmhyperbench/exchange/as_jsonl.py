"""Write a run as JSON Lines: a header, then one line per request, in the format that `import` reads.

Every line has the fields of the neutral format (`answers`), and further fields of our own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.staging import Staging
from vlmhyperbench_sdk.types import JsonObject

FORMAT: Final = "vlmhyperbench-jsonl"
SCHEMA: Final = "vlmhb/answers/v1"


def write_jsonl(run: ExportedRun, samples: Iterable[ExportedSample], *, out: Path, staging: Staging) -> None:
    """Write one file at `out`."""
    with staging.file(out).open("w", encoding="utf-8", newline="\n") as file:
        file.write(_line(_header(run)))
        for sample in samples:
            file.write(_line(_answer(run, sample)))


def run_fields(run: ExportedRun) -> JsonObject:
    """Return the header: everything that applies to the whole run."""
    return {**asdict(run), "extractors": list(run.extractors), "headline": [asdict(score) for score in run.headline]}


def reported(run: ExportedRun, sample: ExportedSample) -> JsonObject:
    """Return a request's numbers as tables show them: metric → value, read by the first extractor."""
    return {measure.key: measure.value for measure in sample.whole(run.extractors[0]) if measure.value is not None}


def _header(run: ExportedRun) -> JsonObject:
    return {
        "schema": SCHEMA,
        "format": FORMAT,
        "tool": run.tool,
        "model": run.model,
        "task": run.task,
        "decoding": run.decoding,
        "run": run_fields(run),
    }


def _answer(run: ExportedRun, sample: ExportedSample) -> JsonObject:
    return {
        "key": sample.key,
        "repeat": sample.repeat,
        "question": sample.question,
        "references": list(sample.references),
        "metadata": sample.metadata,
        "text": sample.text,
        "reasoning": sample.reasoning,
        "error": sample.failure,
        "failure": sample.blamed,
        "finish_reason": sample.finish_reason,
        "prompt_tokens": sample.prompt_tokens,
        "completion_tokens": sample.completion_tokens,
        "latency_ms": sample.latency_ms,
        "reported": reported(run, sample),
        "phase": sample.phase,
        "ordinal": sample.ordinal,
        "sample": sample.sample,
        "images": list(sample.images),
        "system_prompt": sample.system_prompt,
        "user_prompt": sample.user_prompt,
        "examples": [asdict(example) for example in sample.examples],
        "status": sample.status,
        "outcome": sample.outcome,
        "error_code": sample.error_code,
        "ttft_ms": sample.ttft_ms,
        "tpot_ms": sample.tpot_ms,
        "parsed": dict(sample.parsed),
        "measures": [asdict(measure) for measure in sample.measures],
    }


def _line(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"
