"""Read lm-evaluation-harness samples: `samples_<task>_<date>.jsonl`, as `--log_samples` writes them.

The format is that of lm_eval 0.4 (`evaluator.py`, `loggers/evaluation_tracker.py`, `result_schema.py`). An answer is
the model's output (`resps`), not the output of a filter, because our own extractors parse it. A file has the samples
once per filter; the scores of one filter are used. Several responses to a sample are its repeats. Its scores then apply
to all of them together: they are used only if the filter returns the first response unchanged, and for that response.

Samples of multiple choice by log-likelihood contain no text of a model and are refused. Only numbers among a sample's
metrics are scores; lists and objects are inputs of the harness's aggregates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer
from vlmhyperbench.exchange.foreign import (
    asked_in,
    count_in,
    decoding_in,
    foreign_object,
    groups_in,
    key_of,
    list_in,
    listed,
    number_in,
    object_in,
    text_in,
)
from vlmhyperbench.exchange.lines import cannot_read, lines_of
from vlmhyperbench_sdk.types import JsonObject, JsonValue

FORMAT = "lm-eval"
MAX_RESULTS_BYTES = 256 * 1024 * 1024

_FIXED = frozenset(
    {
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash", "vlmhyperbench"),
    }
)
_NOT_GROUPS = ("id", "question", "answer", "answers", "references", "images", "image")
_DECODING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "seed": "seed",
    "until": "stop",
    "max_gen_toks": "max_tokens",
    "max_new_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "do_sample": "do_sample",
}
_FILE_NAME = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.+-]+\.jsonl")


def read_lm_eval(
    path: Path, *, filter_name: str | None = None, results: Path | None = None, key: str | None = None
) -> AnswersFile:
    """Read samples.

    Args:
        path: The samples.
        filter_name: The filter whose scores are used; by default the first filter of the file.
        results: `results_<date>.json` of the same evaluation, which names the model and the version.
        key: Field of the documents that is the sample's id; by default `doc_id`.

    Raises:
        NotFound: a file cannot be read.
        InvalidInput: the file has another format; during iteration: a sample is malformed.
    """
    first = next((foreign_object(line, f"{path}:{no}") for no, line in lines_of(path) if line.strip()), None)
    if first is None:
        raise InvalidInput(f"{path} holds no samples.", cure="Evaluate with --log_samples.")
    named = _FILE_NAME.fullmatch(path.name)
    settings = _Settings(task=named[1] if named else None, decoding=_asked_with(first, f"{path}:1"))
    if results is not None:
        settings = _from_results(results, settings)
    chosen = filter_name or text_in(first.get("filter"))
    reader = _Reader(path=path, filter=chosen, key=key, expected=settings.samples)
    return AnswersFile(
        format=FORMAT,
        tool=f"lm_eval {settings.version}" if settings.version else "lm_eval",
        model=settings.model,
        task=settings.task,
        decoding=settings.decoding,
        answers=reader.answers(),
        notes=reader.notes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    task: str | None
    decoding: JsonObject
    version: str | None = None
    model: str | None = None
    samples: int | None = None
    """Expected number of samples."""


def _from_results(path: Path, settings: _Settings) -> _Settings:
    try:
        if path.stat().st_size > MAX_RESULTS_BYTES:
            raise InvalidInput(f"{path} is larger than {MAX_RESULTS_BYTES >> 20} MiB.", cure="Name results_*.json.")
        content = foreign_object(path.read_bytes(), str(path))
    except OSError as error:
        raise cannot_read(path, error) from error
    tasks = object_in(content.get("results"))
    if not tasks:
        raise InvalidInput(f"{path} holds no results of lm-eval.", cure="Name the results_*.json of the samples.")
    task = settings.task or (next(iter(tasks)) if len(tasks) == 1 else None)
    if task is not None and task not in tasks:
        raise InvalidInput(f"{path} has no results of the task {task!r}.", cure="Name the results of these samples.")
    config = object_in(content.get("config"))
    given = config.get("model_args")
    named = object_in(given) or dict(part.partition("=")[::2] for part in (text_in(given) or "").split(","))
    return _Settings(
        task=task,
        decoding=settings.decoding,
        version=text_in(content.get("lm_eval_version")),
        samples=count_in(object_in(object_in(content.get("n-samples")).get(task or "")).get("effective")),
        model=text_in(content.get("model_name")) or text_in(named.get("pretrained")) or text_in(named.get("model")),
    )


@dataclass(slots=True, kw_only=True)
class _Reader:
    path: Path
    filter: str | None
    key: str | None
    expected: int | None
    notes: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)

    def answers(self) -> Iterator[ImportedAnswer]:
        samples = 0
        for no, line in lines_of(self.path):
            if not line.strip():
                continue
            location = f"{self.path}:{no}"
            row = foreign_object(line, location)
            name = text_in(row.get("filter"))
            if name != self.filter:
                self.others.add(str(name))
                continue
            samples += 1
            yield from self._of(row, location)
        named = ", ".join(repr(name) for name in sorted(self.others))
        if not samples:
            raise InvalidInput(f"{self.path} has no filter {self.filter!r}.", cure=f"Choose one of {named}.")
        if self.expected is not None and self.expected != samples:
            self.notes.append(f"The file holds {samples} of {self.expected} samples.")
        if self.others:
            self.notes.append(f"Scores are those of the filter {self.filter!r}; the file has {named} too.")

    def _of(self, row: JsonObject, location: str) -> Iterator[ImportedAnswer]:
        _asked_with(row, location)
        document, own = object_in(row.get("doc")), object_in(row.get("vlmhyperbench"))
        texts = _responses(row, location)
        asked = ImportedAnswer(
            key=self._key(row, document, own, location),
            question=text_in(document.get("question")) or _prompt(row),
            references=self._references(row, document, own),
            metadata=groups_in(document, _NOT_GROUPS),
            location=location,
        )
        if own:
            yield _own(asked, row, own, texts)
            return
        if not texts:
            raise InvalidInput(f"{location}: there is no response.", cure="Give samples of a finished evaluation.")
        scores = self._scores(row, texts)
        for repeat, text in enumerate(texts):
            yield replace(asked, repeat=repeat, text=text, reported=scores if repeat == 0 else {})

    def _key(self, row: JsonObject, document: JsonObject, own: JsonObject, location: str) -> str:
        if self.key is not None:
            if self.key not in document:
                raise InvalidInput(f"{location}: the document has no {self.key!r}.", cure="Name a field of `doc`.")
            return key_of(document[self.key], location, f"doc.{self.key}")
        if own and isinstance(document.get("id"), str):
            return key_of(document["id"], location, "doc.id")
        return key_of(row.get("doc_id"), location, "doc_id")

    def _references(self, row: JsonObject, document: JsonObject, own: JsonObject) -> tuple[str, ...] | None:
        if own and isinstance(document.get("references"), list):
            return tuple(str(reference) for reference in list_in(document["references"]))
        target = row.get("target")
        if target is None or target == "":
            return None
        if not isinstance(target, str):
            return tuple(str(text) for text in target) if isinstance(target, list) else (str(target),)
        references = listed(target, exact=True)
        if references != (target,):
            self._note("Targets that are lists are read as several accepted answers.")
        return references

    def _scores(self, row: JsonObject, texts: list[str]) -> dict[str, float]:
        scores = _scores(row)
        filtered = list_in(row.get("filtered_resps"))
        if len(texts) > 1 and filtered[:1] != texts[:1]:
            self._note("A score of a sample with several responses applies to all of them, so no answer has a score.")
            return {}
        return scores

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _own(asked: ImportedAnswer, row: JsonObject, own: JsonObject, texts: list[str]) -> ImportedAnswer:
    """Read a row of our own export, which has further fields."""
    return replace(
        asked,
        repeat=count_in(own.get("repeat")) or 0,
        text=texts[0] if texts else None,
        reasoning=text_in(own.get("reasoning")),
        error=text_in(own.get("error")),
        finish_reason=text_in(own.get("finish_reason")),
        prompt_tokens=count_in(own.get("prompt_tokens")),
        completion_tokens=count_in(own.get("completion_tokens")),
        latency_ms=number_in(own.get("latency_ms")),
        reported=_scores(row),
    )


def _scores(row: JsonObject) -> dict[str, float]:
    named = row.get("metrics")
    names = [str(name) for name in named] if isinstance(named, list) else [name for name in row if name not in _FIXED]
    scores = {name: number_in(row.get(name)) for name in names}
    return {name: value for name, value in scores.items() if value is not None}


def _arguments(row: JsonObject) -> list[JsonValue]:
    """Return the arguments of each request, in order; depending on its version, the tool writes an object or a list."""
    given = row.get("arguments")
    calls = list(given.values()) if isinstance(given, dict) else list_in(given)
    return [list(call.values()) if isinstance(call, dict) else call for call in calls]


def _asked_with(row: JsonObject, location: str) -> JsonObject:
    """Return the sampling parameters of the answer.

    Raises:
        InvalidInput: the answer was not generated.
    """
    calls = [list_in(call) for call in _arguments(row)]
    is_generated = all(len(call) > 1 and isinstance(call[1], dict) for call in calls)
    responses = [response for request in list_in(row.get("resps")) for response in list_in(request)]
    if not is_generated or not all(isinstance(response, str) for response in responses):
        raise InvalidInput(
            f"{location}: this sample holds log-likelihoods, not a text that the model wrote.",
            cure="Evaluate a task that generates (`output_type: generate_until`).",
            code="no_text",
        )
    return decoding_in(object_in(calls[0][1]), _DECODING) if calls else {}


def _responses(row: JsonObject, location: str) -> list[str]:
    requests = list_in(row.get("resps"))
    if len(requests) > 1:
        raise InvalidInput(
            f"{location}: the sample has {len(requests)} requests, so its answer is ambiguous.",
            cure="Evaluate a task with one request per sample.",
        )
    return [str(argument) for request in requests for argument in list_in(request)]


def _prompt(row: JsonObject) -> str | None:
    calls = _arguments(row)
    prompt = next(iter(list_in(calls[0])), None) if calls else None
    return asked_in(prompt) if isinstance(prompt, list) else text_in(prompt)
