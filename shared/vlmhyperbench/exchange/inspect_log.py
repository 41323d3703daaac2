"""Read logs of inspect_ai: `.eval` (a zip with one entry per sample) and `.json`.

The format is that of inspect_ai 0.3, log version 2 (`log/_log.py`, `log/_recorders/`), the samples whole or in chunks.
An answer is the first choice of the sample's output. A sample that ended in an error counts as failed, as in
inspect_ai, even if the model had answered before. Scores are converted as by inspect_ai's `value_to_float`: C 1, P 0.5,
I and N 0; a value with several parts gives a score for each, `scorer/part`. Values that inspect_ai cannot convert (it
warns, and counts 0) and values that it calls unscored (NaN) are not scores here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer
from vlmhyperbench.exchange.archive import Archive, open_archive
from vlmhyperbench.exchange.foreign import (
    asked_in,
    chat_text,
    count_in,
    decoding_in,
    foreign_object,
    key_of,
    list_in,
    number_from,
    number_in,
    object_in,
    text_in,
)
from vlmhyperbench.exchange.lines import cannot_read
from vlmhyperbench.exchange.pictures import Budget
from vlmhyperbench_sdk.completions import CODE, token_count
from vlmhyperbench_sdk.types import JsonObject, JsonValue

FORMAT: Final = "inspect"
MAX_JSON_BYTES: Final = 256 * 1024**2

_SAMPLE: Final = re.compile(r"samples/(.+)_epoch_\d+(?:\.json|/sample\.json)", re.DOTALL)
_LETTERS: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_FINISH: Final = {"max_tokens": "length", "model_length": "length", "unknown": None}
_ATTACHMENT: Final = "attachment://"
_DECODING: Final = {
    **{name: name for name in ("temperature", "top_p", "top_k", "max_tokens", "seed")},
    "stop_seqs": "stop",
    **{name: name for name in ("frequency_penalty", "presence_penalty", "best_of", "num_choices", "logit_bias")},
    **{name: name for name in ("reasoning_effort", "reasoning_tokens")},
}


def read_inspect_log(path: Path) -> AnswersFile:
    """Read a log; of a `.eval` file one sample is held in memory at a time.

    Raises:
        NotFound: it cannot be read.
        InvalidInput: it is no log, was cut off, or is a zip bomb; during iteration: a sample is damaged.
    """
    log = _Log(path=path)
    if _is_zip(path):
        with open_archive(path) as archive:
            header = _header(archive)
            log.note_header(header, sum(_SAMPLE.fullmatch(name) is not None for name in archive.names))
            if archive.replaced:
                log.notes.append(f"{archive.replaced} entries were replaced by later ones of the same name.")
        return log.file(header, log.from_zip())
    whole = _whole(path)
    samples = list_in(whole.pop("samples", None))
    log.note_header(whole, len(samples))
    return log.file(whole, log.from_json(samples))


@dataclass(slots=True, kw_only=True)
class _Log:
    path: Path
    notes: list[str] = field(default_factory=list)
    odd: Counter[str] = field(default_factory=Counter)
    pictures: Budget = field(default_factory=Budget)
    pictured: set[str] = field(default_factory=set)
    """Samples whose images were already read in an earlier epoch."""

    def note_header(self, header: JsonObject, count: int) -> None:
        """Note what the header says about the evaluation; `count` is the number of samples in the log."""
        status, evaluated = text_in(header.get("status")), object_in(header.get("eval"))
        if not evaluated:
            raise InvalidInput(f"{self.path} is no log of inspect_ai: it has no `eval`.", cure="Give a .eval file.")
        if status != "success":
            self.notes.append(f"The evaluation was not successful: its status is {status or 'unknown'}.")
        if header.get("invalidated") is True:
            self.notes.append("The log was invalidated by its author.")
        total = count_in(object_in(header.get("results")).get("total_samples"))
        if total is not None and total != count:
            self.notes.append(f"The log holds {count} of {total} samples.")

    def file(self, header: JsonObject, answers: Iterator[ImportedAnswer]) -> AnswersFile:
        evaluated = object_in(header.get("eval"))
        packages = object_in(evaluated.get("packages"))
        version = text_in(packages.get("inspect_ai"))
        config = {**object_in(evaluated.get("model_generate_config"))}
        config |= object_in(object_in(header.get("plan")).get("config"))
        return AnswersFile(
            format=FORMAT,
            tool=f"inspect_ai {version}" if version else "inspect_ai",
            model=text_in(evaluated.get("model")),
            task=text_in(evaluated.get("task")),
            decoding=decoding_in(config, _DECODING),
            answers=answers,
            notes=self.notes,
        )

    def from_zip(self) -> Iterator[ImportedAnswer]:
        with open_archive(self.path) as archive:
            names = set(archive.names)
            for name in archive.names:
                if _SAMPLE.fullmatch(name):
                    location = f"{self.path}!{name}"
                    sample = foreign_object(archive.read(name), location)
                    metadata_name = f"{name.removesuffix('sample.json')}metadata.json"
                    if name.endswith("/sample.json") and metadata_name in names:
                        sample["metadata"] = foreign_object(archive.read(metadata_name), f"{self.path}!{metadata_name}")
                    yield self.answer(sample, location)
        self.finish()

    def from_json(self, samples: list[JsonValue]) -> Iterator[ImportedAnswer]:
        for no, sample in enumerate(samples):
            yield self.answer(object_in(sample), f"{self.path}!samples[{no}]")
        self.finish()

    def finish(self) -> None:
        self.notes += [f"{text}: {count}." for text, count in self.odd.items()]
        if self.pictures.left_out:
            self.notes.append(f"Images beyond what a file may hold were left out: {self.pictures.left_out}.")

    def answer(self, sample: JsonObject, location: str) -> ImportedAnswer:
        """Convert a sample to an answer."""
        epoch = count_in(sample.get("epoch"))
        if "id" not in sample or not epoch:
            raise InvalidInput(f"{location}: this is no sample: it has no id, or no epoch.", cure="Give a whole log.")
        output = object_in(sample.get("output"))
        choices = list_in(output.get("choices"))
        choice = object_in(choices[0]) if choices else {}
        content = object_in(choice.get("message")).get("content")
        failure = _failure(sample, is_answered=bool(choices))
        if failure is not None and choices:
            self.odd["Samples that ended in an error though the model had answered"] += 1
        if len(choices) > 1:
            self.odd["Samples with several choices, of which the first is the answer"] += 1
        if failure is None and not isinstance(content, str | list) and not isinstance(output.get("completion"), str):
            failure = f"{CODE}: its content is neither a text nor a list of parts"
        text = text_in(output.get("completion")) or chat_text(content)
        metadata = dict(object_in(sample.get("metadata")))
        own = object_in(metadata.pop("vlmhyperbench", None))
        usage = object_in(output.get("usage"))
        latency_s = number_in(output.get("time"))
        stop = text_in(choice.get("stop_reason"))
        key = text_in(own.get("key")) or key_of(sample["id"], location, "id")
        return ImportedAnswer(
            key=key,
            repeat=epoch - 1,
            question=text_in(own.get("question")) or asked_in(sample.get("input")),
            references=_references(sample.get("target")),
            image_urls=self.images(key, sample),
            metadata=metadata,
            text=_resolved(text, sample, location) if failure is None else None,
            reasoning=_reasoning(content),
            error=failure,
            finish_reason=_FINISH.get(stop, stop) if stop else None,
            prompt_tokens=_prompt_tokens(usage),
            completion_tokens=token_count(usage.get("output_tokens")),
            latency_ms=latency_s * 1000 if latency_s is not None and latency_s >= 0 else None,
            reported=self.scores(sample),
            location=location,
        )

    def images(self, key: str, sample: JsonObject) -> tuple[str, ...]:
        """Return the images of the user's messages, once per sample; an image that is missing is named by its text."""
        if key in self.pictured:
            return ()
        urls = [_attached(url, sample) for url in _images_in(sample.get("input"))]
        if urls:
            self.pictured.add(key)
        return self.pictures.of(urls)

    def scores(self, sample: JsonObject) -> dict[str, float]:
        """Return the sample's scores as numbers, by scorer or `scorer/part`."""
        old = {"score": sample["score"]} if "score" in sample else {}
        scores: dict[str, float] = {}
        for scorer, score in (object_in(sample.get("scores")) or old).items():
            value = object_in(score).get("value")
            if isinstance(value, dict):
                parts = {f"{scorer}/{part}": item for part, item in value.items()}
            elif isinstance(value, list):
                parts = {f"{scorer}/{no}": item for no, item in enumerate(value)}
            else:
                parts = {scorer: value}
            for name, item in parts.items():
                number = _number(item)
                if number is not None:
                    scores[name] = number
                elif item is not None:
                    self.odd[f"Values of {name} that are no number"] += 1
        return scores


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"PK"
    except OSError as error:
        raise cannot_read(path, error) from error


def _header(archive: Archive) -> JsonObject:
    """Return the header; for an unfinished log, that written at its start."""
    for name in ("header.json", "_journal/start.json"):
        if name in archive.names:
            header = foreign_object(archive.read(name), f"{archive.path}!{name}")
            return header if name == "header.json" else {**header, "status": "started"}
    raise InvalidInput(f"{archive.path} is no log of inspect_ai: it has no header.", cure="Give a .eval file.")


def _whole(path: Path) -> dict[str, JsonValue]:
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise InvalidInput(
                f"{path} holds {size >> 20} MiB, and a .json log can only be read as a whole.",
                cure="Convert it: `inspect log convert --to eval`.",
                code="too_large",
            )
        return foreign_object(path.read_bytes(), str(path), max_values=None)
    except OSError as error:
        raise cannot_read(path, error) from error


def _failure(sample: JsonObject, *, is_answered: bool) -> str | None:
    error = object_in(sample.get("error"))
    if error:
        return text_in(error.get("message")) or "the sample failed"
    if is_answered:
        return None
    limit = text_in(object_in(sample.get("limit")).get("type"))
    message = text_in(object_in(sample.get("output")).get("error"))
    return message or (f"the sample reached its limit: {limit}" if limit else "the log holds no output for the sample")


def _references(target: JsonValue) -> tuple[str, ...] | None:
    """Return the targets; inspect_ai writes an empty text for a sample without targets."""
    texts = [target] if isinstance(target, str) else list_in(target)
    references = tuple(text for text in texts if isinstance(text, str))
    return references if any(references) else None


def _reasoning(content: JsonValue) -> str | None:
    parts = [object_in(part) for part in list_in(content)]
    texts = [
        text
        for part in parts
        if part.get("type") == "reasoning"
        and (text := text_in(part.get("summary" if part.get("redacted") else "reasoning")))
    ]
    return "\n".join(texts) or None


def _prompt_tokens(usage: JsonObject) -> int | None:
    """Return all prompt tokens; `input_tokens` excludes cached ones."""
    read = token_count(usage.get("input_tokens"))
    if read is None:
        return None
    return read + sum(token_count(usage.get(f"input_tokens_cache_{name}")) or 0 for name in ("read", "write"))


def _resolved(text: str, sample: JsonObject, location: str) -> str:
    if not text.startswith(_ATTACHMENT):
        return text
    attachment = object_in(sample.get("attachments")).get(text.removeprefix(_ATTACHMENT))
    if not isinstance(attachment, str):
        raise InvalidInput(
            f"{location}: the answer is an attachment that the sample does not hold.",
            cure="Give the log as inspect_ai wrote it.",
        )
    return attachment


def _images_in(asked: JsonValue) -> Iterator[str]:
    """Yield the images of all user messages, in order."""
    for message in map(object_in, list_in(asked)):
        if message.get("role") == "user":
            for part in map(object_in, list_in(message.get("content"))):
                if part.get("type") == "image":
                    yield text_in(part.get("image")) or "nothing"


def _attached(url: str, sample: JsonObject) -> str:
    attachment = object_in(sample.get("attachments")).get(url.removeprefix(_ATTACHMENT))
    return attachment if url.startswith(_ATTACHMENT) and isinstance(attachment, str) else url


def _number(value: JsonValue) -> float | None:
    if isinstance(value, str):
        return _LETTERS.get(value, _WORDS.get(value.lower(), number_from(value)))
    return number_in(value)
