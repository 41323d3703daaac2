"""One answer as inspect_ai's log has it: the sample, its summary, and the name of its file."""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vlmhyperbench.exchange.exported import ExportedMeasure, ExportedRun, ExportedSample
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_STOP: Final = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
}
_PLAIN_ID: Final = re.compile(r"[^\x00-\x1f\x7f\\]{1,150}")
_SUMMARY_CHARS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleId:
    """The unique identification of a sample in a log."""

    id: str
    epoch: int


class SampleIds:
    """Gives each answer a unique pair of id and epoch that is valid in the name of a zip entry."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, int]] = set()

    def of(self, sample: ExportedSample) -> SampleId:
        """Return the id of the next answer: its key and repeat, or the next free epoch."""
        name, epoch = _plain(sample.key), sample.repeat + 1
        while (name, epoch) in self._taken:
            epoch += 1
        self._taken.add((name, epoch))
        return SampleId(id=name, epoch=epoch)


def sample_of(run: ExportedRun, sample: ExportedSample, sample_id: SampleId, images: Mapping[str, str]) -> JsonObject:
    """Return the content of `samples/<id>_epoch_<epoch>.json`; `images` maps hashes to data URLs."""
    system, asked = _system(sample, sample_id), _user(sample.asked, sample.images, images, _ids(sample_id, "user"))
    answer = _answer(run, sample, sample_id)
    latency_s = None if sample.latency_ms is None else sample.latency_ms / 1000
    failed: JsonObject = {"message": sample.failure, "traceback": "", "traceback_ansi": ""}
    return {
        "id": sample_id.id,
        "epoch": sample_id.epoch,
        "input": [*system, asked] if system or images else sample.asked,
        "target": list(sample.references),
        "messages": [*system, *_examples(sample, sample_id, images), asked, *([answer] if answer else [])],
        "output": _output(run, sample, answer, latency_s),
        "scores": {
            _name(run, measure): _score(sample, measure) for measure in sample.measures if measure.field is None
        },
        "metadata": _metadata(sample),
        "store": {},
        "events": [],
        "model_usage": _usage(run, sample),
        "total_time": latency_s,
        "uuid": str(uuid.uuid5(uuid.UUID(run.id), f"{sample_id.id}\n{sample_id.epoch}")),
        "error": failed if sample.failure is not None else None,
        "attachments": dict(images),
    }


def summary_of(whole: JsonObject) -> JsonObject:
    """Return a sample's entry of `summaries.json`, with long texts truncated as by inspect_ai."""
    error, scores = whole["error"], whole["scores"]
    return {
        "id": whole["id"],
        "epoch": whole["epoch"],
        "input": _thin(_without_images(whole["input"])),
        "target": _thin(whole["target"]),
        "metadata": _thin(whole["metadata"]),
        "scores": {
            name: {**score, "answer": _thin(score["answer"]), "explanation": _thin(score["explanation"])}
            for name, score in (scores.items() if isinstance(scores, dict) else ())
            if isinstance(score, dict)
        },
        "model_usage": whole["model_usage"],
        "total_time": whole["total_time"],
        "uuid": whole["uuid"],
        "error": _thin(error["message"]) if isinstance(error, dict) else None,
        "completed": True,
        "message_count": len(whole["messages"]) if isinstance(whole["messages"], list) else 0,
    }


def _system(sample: ExportedSample, sample_id: SampleId) -> list[JsonValue]:
    if sample.system_prompt is None:
        return []
    return [{"role": "system", "content": sample.system_prompt, **_ids(sample_id, "system")}]


def _examples(sample: ExportedSample, sample_id: SampleId, images: Mapping[str, str]) -> list[JsonValue]:
    """Return the answered turns before the question, which inspect_ai has in the messages and not in the input."""
    messages: list[JsonValue] = []
    for number, example in enumerate(sample.examples, 1):
        user, answer = (_ids(sample_id, f"{role}-example-{number}") for role in ("user", "assistant"))
        messages.append(_user(example.user_prompt, example.images, images, user))
        messages.append({"role": "assistant", "content": example.answer, **answer})
    return messages


def _user(text: str, shown: Sequence[str], images: Mapping[str, str], ids: JsonObject) -> JsonObject:
    content: JsonValue = [*map(_image, shown), {"type": "text", "text": text}] if images and shown else text
    return {"role": "user", "content": content, **ids}


def _image(sha256: str) -> JsonObject:
    """Return an image part that refers to the sample's attachments, as inspect_ai writes it."""
    return {"type": "image", "image": f"attachment://{sha256}", "detail": "auto"}


def _without_images(asked: JsonValue) -> JsonValue:
    """Replace images by a text, as inspect_ai does in summaries, which have no attachments."""
    if isinstance(asked, list):
        return list(map(_without_images, asked))
    if not isinstance(asked, Mapping):
        return asked
    if asked.get("type") == "image":
        return {"type": "text", "text": "(Image)"}
    return {**asked, "content": _without_images(asked["content"])} if "content" in asked else asked


def _answer(run: ExportedRun, sample: ExportedSample, sample_id: SampleId) -> JsonObject | None:
    if sample.text is None:
        return None
    content: JsonValue = sample.text
    if sample.reasoning is not None:
        content = [{"type": "reasoning", "reasoning": sample.reasoning}, {"type": "text", "text": sample.text}]
    return {
        "role": "assistant",
        "content": content,
        "model": run.model,
        **_ids(sample_id, "assistant", source="generate"),
    }


def _ids(sample_id: SampleId, role: str, *, source: str = "input") -> JsonObject:
    return {"id": f"{sample_id.id}-{sample_id.epoch}-{role}", "source": source}


def _output(run: ExportedRun, sample: ExportedSample, answer: JsonObject | None, latency_s: float | None) -> JsonObject:
    stop = _STOP.get(sample.finish_reason or "", "unknown")
    usage = _usage(run, sample).get(run.model)
    return {
        "model": run.model,
        "choices": [{"message": answer, "stop_reason": stop}] if answer else [],
        "completion": sample.text or "",
        "usage": usage,
        "time": latency_s,
        "error": sample.failure,
    }


def _usage(run: ExportedRun, sample: ExportedSample) -> JsonObject:
    """Return the token counts if both are known, because inspect_ai reads a missing count as zero."""
    prompt, completion = sample.prompt_tokens, sample.completion_tokens
    if prompt is None or completion is None:
        return {}
    return {run.model: {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion}}


def _metadata(sample: ExportedSample) -> JsonObject:
    """Return the sample's metadata; our additions are in a key of their own."""
    own: JsonObject = {
        "key": sample.key,
        "question": sample.question,
        "images": list(sample.images),
        "status": sample.status,
        "outcome": sample.outcome,
        "finish_reason": sample.finish_reason,
        "prompt_tokens": sample.prompt_tokens,
        "completion_tokens": sample.completion_tokens,
        "ttft_ms": sample.ttft_ms,
        "tpot_ms": sample.tpot_ms,
        "latency_ms": sample.latency_ms,
    }
    fields: list[JsonValue] = [
        {
            "metric": measure.key,
            "extractor": measure.extractor,
            "field": measure.field,
            "value": measure.value,
            "reason": measure.reason,
        }
        for measure in sample.measures
        if measure.field is not None
    ]
    return {**sample.metadata, "vlmhyperbench": {**own, "fields": fields}}


def _name(run: ExportedRun, measure: ExportedMeasure) -> str:
    """Name a score as the report does; unless it is of the first extractor, with the extractor."""
    return measure.key if measure.extractor == run.extractors[0] else f"{measure.key} ({measure.extractor})"


def _score(sample: ExportedSample, measure: ExportedMeasure) -> JsonObject:
    return {
        "value": math.nan if measure.value is None else measure.value,
        "answer": sample.parsed.get(measure.extractor),
        "explanation": measure.reason,
        "reason": measure.reason if measure.value is None else None,
        "metadata": {
            "profile": measure.profile,
            "version": measure.version,
            "extractor": measure.extractor,
            "outcome": measure.outcome,
            "is_invalid": measure.is_invalid,
            "evaluation_id": measure.evaluation_id,
        },
    }


def _plain(key: str) -> str:
    """Return a key if it is valid as a zip entry's name; otherwise a readable form with a part of its hash."""
    parts = key.split("/")
    is_plain = _PLAIN_ID.fullmatch(key) and not any(part in {"", ".", ".."} for part in parts)
    if is_plain:
        return key
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", key)[:60]
    return f"{readable}~{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _thin(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= _SUMMARY_CHARS else f"{value[:_SUMMARY_CHARS]}...\n(content truncated)"
    if isinstance(value, list):
        return [_thin(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _thin(item) for name, item in value.items()}
    return value
