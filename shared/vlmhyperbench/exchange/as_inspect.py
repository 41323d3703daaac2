"""Write a run as an `.eval` log: a zip with one JSON file per answer, which inspect_ai and its viewer open.

Log version 2, as inspect_ai 0.3.285 writes and reads it. An unscored sample is NaN with a reason, as inspect_ai writes
it; its own metrics leave it out. Images are attachments of their samples, as inspect_ai writes them; beyond the limits
of `pictures` only their SHA-256 is written.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.inspect_sample import SampleIds, sample_of, summary_of
from vlmhyperbench.exchange.pictures import Pictures
from vlmhyperbench.exchange.staging import Staging
from vlmhyperbench_sdk.types import JsonObject, JsonValue

LOG_VERSION: Final = 2
METRIC: Final = "value"
"""inspect_ai's name of a score over all answers."""

_STATUS: Final = {"SUCCEEDED": "success", "PARTIAL": "success", "FAILED": "error", "CANCELLED": "cancelled"}
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
"""Timestamp of every file in the zip; it is constant, so that equal runs give equal bytes."""


def write_inspect(
    run: ExportedRun,
    samples: Iterable[ExportedSample],
    *,
    out: Path,
    staging: Staging,
    pictures: Pictures | None = None,
) -> None:
    """Write one file to `out`; without `pictures` only the hashes of images are written.

    Raises:
        InvalidInput: the name does not end in `.eval`, by which inspect_ai knows its logs.
    """
    if out.suffix != ".eval":
        raise InvalidInput(f"{out.name} would not be opened as a log.", cure="Give it a name that ends in .eval.")
    sample_ids, totals = SampleIds(), _Totals()
    summaries = staging.scratch(out)
    with zipfile.ZipFile(staging.file(out), "w", zipfile.ZIP_DEFLATED) as archive:
        start: JsonObject = {"version": LOG_VERSION, "eval": _spec(run, None), "plan": _plan(run)}
        _add(archive, "_journal/start.json", start)
        with summaries.open("w", encoding="utf-8") as file:
            for sample in samples:
                sample_id = sample_ids.of(sample)
                shown = pictures.of(_sent_images(sample)) if pictures is not None else {}
                whole = sample_of(run, sample, sample_id, shown)
                file.write("," if totals.answers else "[")
                file.write(_text(summary_of(whole)))
                _add(archive, f"samples/{sample_id.id}_epoch_{sample_id.epoch}.json", whole)
                totals.add(sample)
            file.write("]")
        _add_file(archive, "summaries.json", summaries)
        _add(archive, "header.json", _header(run, totals))


def _sent_images(sample: ExportedSample) -> tuple[str, ...]:
    return (*(sha256 for example in sample.examples for sha256 in example.images), *sample.images)


class _Totals:
    """Counts for the log's header."""

    def __init__(self) -> None:
        self.answers = 0
        self.answered = 0
        self.prompt_tokens: int | None = 0
        self.completion_tokens: int | None = 0
        self._samples: set[int] = set()

    def add(self, sample: ExportedSample) -> None:
        """Count an answer; a sum of tokens is known only if the tokens of every answer are."""
        self.answers += 1
        self._samples.add(sample.sample)
        if sample.failure is not None:
            return
        self.answered += 1
        self.prompt_tokens = _plus(self.prompt_tokens, sample.prompt_tokens)
        self.completion_tokens = _plus(self.completion_tokens, sample.completion_tokens)

    @property
    def samples(self) -> int:
        return len(self._samples)


def _plus(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


def _header(run: ExportedRun, totals: _Totals) -> JsonObject:
    failed = {"message": run.reason or "The run failed.", "traceback": "", "traceback_ansi": ""}
    return {
        "version": LOG_VERSION,
        "status": _STATUS[run.state],
        "eval": _spec(run, totals.samples),
        "plan": _plan(run),
        "results": {
            "total_samples": max(run.requested or 0, totals.answers),
            "completed_samples": totals.answered,
            "logged_samples": totals.answers,
            "scores": _scores(run),
        },
        "stats": {
            "started_at": run.started_at or "",
            "completed_at": run.finished_at or "",
            "model_usage": _usage(run, totals),
        },
        "error": failed if run.state == "FAILED" else None,
    }


def _spec(run: ExportedRun, samples: int | None) -> JsonObject:
    return {
        "eval_id": run.id,
        "run_id": run.id,
        "created": run.created_at,
        "task": run.task,
        "task_id": run.task,
        "task_version": run.task_version,
        "dataset": {"name": run.dataset, "samples": samples},
        "model": run.model,
        "model_generate_config": _config(run),
        "config": {"epochs": run.decoding.get("n", 1)},
        "scorers": [
            {"name": score.key, "metrics": [{"name": METRIC}], "metadata": _identity(score.profile, score.version)}
            for score in run.headline
        ],
        "metadata": {
            "run": run.name,
            "state": run.state,
            "reason": run.reason,
            "spec_digest": run.spec_digest,
            "parent_run_id": run.parent_run_id,
            "spec": run.spec,
            "exported_by": run.tool,
        },
    }


def _plan(run: ExportedRun) -> JsonObject:
    return {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": _config(run)}


def _config(run: ExportedRun) -> JsonObject:
    names = ("temperature", "top_p", "top_k", "max_tokens", "seed")
    config: JsonObject = {name: run.decoding[name] for name in names if run.decoding.get(name) is not None}
    return {**config, "stop_seqs": run.decoding["stop"]} if run.decoding.get("stop") else config


def _scores(run: ExportedRun) -> list[JsonValue]:
    """Return the numbers of the report; an undefined number is left out."""
    scores: list[JsonValue] = []
    for score in run.headline:
        numbers = {METRIC: score.value, "ci_low": score.ci_low, "ci_high": score.ci_high}
        scores.append(
            {
                "name": score.key,
                "scorer": score.key,
                "scored_samples": score.n,
                "unscored_samples": score.n_without_value,
                "params": {},
                "metrics": {
                    name: {"name": name, "value": value, "params": {}}
                    for name, value in numbers.items()
                    if value is not None
                },
                "metadata": {
                    **_identity(score.profile, score.version),
                    "extractor": run.extractors[0],
                    "evaluation_id": score.evaluation_id,
                    "invalid": score.invalid,
                    "lower": score.lower,
                    "upper": score.upper,
                    "gap": score.gap,
                },
            }
        )
    return scores


def _identity(profile: str, version: str | None) -> JsonObject:
    return {"profile": profile, "version": version}


def _usage(run: ExportedRun, totals: _Totals) -> JsonObject:
    prompt, completion = totals.prompt_tokens, totals.completion_tokens
    if prompt is None or completion is None or not totals.answered:
        return {}
    return {run.model: {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion}}


def _add(archive: zipfile.ZipFile, name: str, value: JsonObject) -> None:
    archive.writestr(_entry(name), _text(value))


def _add_file(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    entry = _entry(name)
    entry.file_size = path.stat().st_size
    with path.open("rb") as source, archive.open(entry, "w") as target:
        shutil.copyfileobj(source, target)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _MOMENT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry


def _text(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False)
