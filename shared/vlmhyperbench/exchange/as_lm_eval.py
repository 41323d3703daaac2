"""Write a run as lm-evaluation-harness does: `samples_<task>_<date>.jsonl` and `results_<date>.json`.

The layout is that of lm_eval 0.4.13.dev0 (`evaluator.py`, `loggers/evaluation_tracker.py`, `result_schema.py`). An
extractor is what the harness calls a filter: each answer has one row per extractor. Values for which the harness has no
field are under `vlmhyperbench` in each row. A metric without a value is not in a row's `metrics`: its reason is under
`vlmhyperbench.unscored`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from vlmhyperbench.exchange.as_jsonl import run_fields
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.staging import Staging
from vlmhyperbench_sdk.types import JsonObject, JsonValue

OWN: Final = "vlmhyperbench"
_SAMPLING: Final = ("temperature", "top_p", "top_k", "min_p", "seed")
_OF_DOCUMENT: Final = frozenset({"id", "question", "references", "images"})
_FIXED: Final = frozenset(
    {
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash", OWN),
    }
)


def write_lm_eval(run: ExportedRun, samples: Iterable[ExportedSample], *, out: Path, staging: Staging) -> None:
    """Write the two files into `out`, in a folder of the model's name, as the harness does."""
    folder = out / model_folder(run.model)
    rows, documents = hashlib.sha256(), set()
    with staging.file(folder / f"samples_{_task(run)}_{run.stamp}.jsonl").open("w", encoding="utf-8") as file:
        for sample in samples:
            documents.add(sample.sample)
            for row in _rows(run, sample):
                rows.update(f"{row['doc_hash']}{row['prompt_hash']}{row['target_hash']}".encode())
                file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
    results = _results(run, documents=len(documents), task_hash=rows.hexdigest())
    text = json.dumps(results, ensure_ascii=False, allow_nan=False, indent=2)
    staging.file(folder / f"results_{run.stamp}.json").write_text(text + "\n", encoding="utf-8")


def model_folder(model: str) -> str:
    """Return the name of a model's folder: with the harness's replacements, and never a path out of the folder."""
    return re.sub(r'["<>:/|\\?*\[\]\x00-\x1f]+', "__", model)[:150].lstrip(".") or "model"


def _task(run: ExportedRun) -> str:
    return re.sub(r"[^\w.-]", "_", run.task)[:100].lstrip(".") or "task"


def _rows(run: ExportedRun, sample: ExportedSample) -> Iterator[JsonObject]:
    references = list(sample.references)
    document: JsonObject = {
        "id": sample.key,
        "question": sample.question,
        "references": references,
        "images": list(sample.images),
        **{name: value for name, value in sample.metadata.items() if name not in _OF_DOCUMENT},
    }
    target = references[0] if len(references) == 1 else str(references)
    prompt = _prompt(sample)
    for extractor in run.extractors:
        measures = sample.whole(extractor)
        scores: JsonObject = {_named(measure.key): measure.value for measure in measures if measure.value is not None}
        is_answered = sample.text is not None
        parsed = sample.parsed.get(extractor)
        yield {
            "doc_id": sample.sample,
            "doc": document,
            "target": target,
            "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": _generation(run)}},
            "resps": [[sample.text] if is_answered else []],
            "filtered_resps": [parsed] if parsed is not None else [],
            "filter": extractor,
            "metrics": list(scores),
            "doc_hash": _hash(json.dumps(document, indent=2, ensure_ascii=False)),
            "prompt_hash": _hash(prompt),
            "target_hash": _hash(target),
            **scores,
            OWN: {
                "repeat": sample.repeat,
                "status": sample.status,
                "outcome": sample.outcome,
                "error": sample.failure,
                "finish_reason": sample.finish_reason,
                "reasoning": sample.reasoning,
                "prompt_tokens": sample.prompt_tokens,
                "completion_tokens": sample.completion_tokens,
                "latency_ms": sample.latency_ms,
                "unscored": {_named(measure.key): measure.reason for measure in measures if measure.value is None},
                "evaluation_ids": {_named(measure.key): measure.evaluation_id for measure in measures},
            },
        }


def _prompt(sample: ExportedSample) -> str:
    """Return the prompt in the harness's form: text, or with a system prompt or examples messages as JSON."""
    if sample.system_prompt is None and not sample.examples:
        return sample.asked
    turns = [("system", sample.system_prompt)] if sample.system_prompt is not None else []
    for example in sample.examples:
        turns += [("user", example.user_prompt), ("assistant", example.answer)]
    messages = [{"role": role, "content": text} for role, text in [*turns, ("user", sample.asked)]]
    return json.dumps(messages, ensure_ascii=False)


def _generation(run: ExportedRun) -> JsonObject:
    asked, temperature = run.decoding, run.decoding.get("temperature")
    return {
        "until": asked.get("stop", []),
        "max_gen_toks": asked.get("max_tokens"),
        **({} if temperature is None else {"do_sample": bool(temperature)}),
        **{name: asked[name] for name in _SAMPLING if asked.get(name) is not None},
    }


def _results(run: ExportedRun, *, documents: int, task_hash: str) -> JsonObject:
    first = run.extractors[0]
    numbers: dict[str, JsonValue] = {}
    for score in run.headline:
        numbers[f"{_named(score.key)},{first}"] = score.value
        numbers[f"{_named(score.key)}_stderr,{first}"] = "N/A"
    ended = datetime.fromisoformat(run.finished_at or run.created_at)
    return {
        "results": {run.task: {"name": run.task, "alias": run.task, "sample_len": documents, **numbers}},
        "group_subtasks": {run.task: []},
        "configs": {
            run.task: {
                "task": run.task,
                "dataset_path": run.dataset,
                "output_type": "generate_until",
                "repeats": run.decoding.get("n", 1),
                "generation_kwargs": _generation(run),
                "metric_list": [{"metric": _named(score.key)} for score in run.headline],
            }
        },
        "versions": {run.task: run.task_version},
        "n-shot": {run.task: 0},
        "higher_is_better": {run.task: {_named(score.key): None for score in run.headline}},
        "n-samples": {run.task: {"original": documents, "effective": documents}},
        "config": {"model": OWN, "model_args": {"model": run.model}, "limit": None, "gen_kwargs": _generation(run)},
        "git_hash": None,
        "date": ended.timestamp(),
        "task_hashes": {run.task: task_hash},
        "model_source": OWN,
        "model_name": run.model,
        "model_name_sanitized": model_folder(run.model),
        "system_instruction": None,
        "system_instruction_sha": None,
        "fewshot_as_multiturn": None,
        "chat_template": None,
        "chat_template_sha": None,
        OWN: run_fields(run),
    }


def _named(key: str) -> str:
    """Return a metric's name that differs from the row's own fields."""
    return f"{key}_metric" if key in _FIXED else key


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
