"""Write a run's numbers for a model repository of the Hugging Face Hub: `.eval_results/*.yaml` and `model-index.yaml`.

The first is the Hub's format of evaluation results (https://huggingface.co/docs/hub/eval-results, and huggingface_hub's
`EvalResultEntry`): one number per benchmark and task, the run's first metric. The second is the older `model-index` of
a model card (`EvalResult`), which holds every metric; its content goes between the dashes of `README.md`. If answers
are missing in a number, `notes` and the metric's name and `args` say so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from vlmhyperbench.errors import Conflict
from vlmhyperbench.exchange.exported import ExportedRun, ExportedScore
from vlmhyperbench.exchange.staging import Staging
from vlmhyperbench_sdk.types import JsonObject, JsonValue

TASK_TYPE: Final = "image-text-to-text"
"""The Hub's name of the task of vision-language models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """Names on the Hub; None stands for our own name."""

    dataset: str | None = None
    """Id of the benchmark's dataset: `owner/name`."""
    task: str | None = None
    """Id of the task in the benchmark's `eval.yaml`."""
    source: str | None = None
    """URL of the results' source."""


def write_huggingface(run: ExportedRun, hub: Hub, *, out: Path, staging: Staging) -> None:
    """Write two files into the folder `out`.

    Raises:
        Conflict: there is no number to write.
    """
    scores = [(score, score.value) for score in run.headline if score.value is not None]
    if not scores:
        raise Conflict(
            f"The run {run.id} has no score over its answers to publish.",
            cure="Its report has the reasons; `--format parquet` exports the answers.",
            code="no_scores",
        )
    first, value = scores[0]
    entry = _entry(run, hub, first, value)
    name = re.sub(r"[^\w.-]", "_", run.task)[:100].lstrip(".") or "task"
    _write(staging.file(out / ".eval_results" / f"{name}.yaml"), [entry])
    results = [_result(run, hub, score, number) for score, number in scores]
    _write(staging.file(out / "model-index.yaml"), {"model-index": [{"name": run.model, "results": results}]})


def _entry(run: ExportedRun, hub: Hub, score: ExportedScore, value: float) -> JsonObject:
    dataset: JsonObject = {"id": hub.dataset or run.dataset, "task_id": hub.task or run.task}
    source: JsonObject = {"source": {"url": hub.source, "name": run.tool}} if hub.source else {}
    date = run.finished_at or run.created_at
    return {"dataset": dataset, "value": value, "date": date, **source, "notes": _notes(run, score)}


def _notes(run: ExportedRun, score: ExportedScore) -> str:
    version = f" {score.version}" if score.version else ""
    sentences = [
        f"{score.metric} (profile {score.profile or 'default'}{version}), read by {run.extractors[0]}",
        _count(run, score),
        *([score.gap] if score.gap else []),
        *([] if run.state == "SUCCEEDED" else [f"the run ended {run.state.lower()}"]),
        f"{run.tool}, run {run.id}",
        *([f"evaluation {score.evaluation_id}"] if score.evaluation_id else []),
    ]
    return "; ".join(sentences)


def _count(run: ExportedRun, score: ExportedScore) -> str:
    of = f" of {run.requested}" if run.requested is not None else ""
    return f"{score.n if score.n is not None else 'an unknown number'}{of} answers scored"


def _result(run: ExportedRun, hub: Hub, score: ExportedScore, value: float) -> JsonObject:
    missing = "; ".join(
        [*([] if score.n == run.requested else [_count(run, score)]), *([score.gap] if score.gap else [])]
    )
    arguments: dict[str, JsonValue] = {
        "profile": score.profile,
        "version": score.version,
        "extractor": run.extractors[0],
        "evaluation_id": score.evaluation_id,
        "scored": score.n,
        "requested": run.requested,
        "without_value": score.n_without_value,
        "invalid": score.invalid,
        "lower": score.lower,
        "upper": score.upper,
        "ci_low": score.ci_low,
        "ci_high": score.ci_high,
        "run": run.id,
        "state": run.state,
    }
    result: JsonObject = {
        "task": {"type": TASK_TYPE, "name": run.task},
        "dataset": {"type": hub.dataset or run.dataset, "name": run.dataset},
        "metrics": [
            {
                "type": score.metric,
                "value": value,
                "name": f"{score.key} ({missing})" if missing else score.key,
                "args": arguments,
                "verified": False,
            },
        ],
    }
    return {**result, "source": {"name": run.tool, "url": hub.source}} if hub.source else result


def _write(path: Path, value: JsonValue) -> None:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)
    path.write_text(text, encoding="utf-8")
