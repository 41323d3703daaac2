"""The neutral format of imported answers: JSON Lines with a header and then one line per answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar, cast

import pydantic
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.exchange.lines import lines_of
from vlmhyperbench.files import replacing
from vlmhyperbench.registry.errors import field_of
from vlmhyperbench.registry.validation import validate
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject, JsonValue

SCHEMA: Final = "vlmhb/answers/v1"
OWN: Final = "vlmhyperbench-jsonl"
MAX_KEY_CHARS: Final = 500
MAX_ANSWERS: Final = 1_000_000
"""Maximum number in a file."""

_UNFIT = re.compile("[\0\ud800-\udfff]")
_RUN_EXTRAS: Final = frozenset({"run"})
_ANSWER_EXTRAS: Final = frozenset(
    {
        *("phase", "ordinal", "sample", "images", "system_prompt", "user_prompt", "examples", "status", "outcome"),
        *("error_code", "ttft_ms", "tpot_ms", "parsed", "measures"),
    }
)
"""Fields that our own export adds to the neutral format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedAnswer:
    """An answer to a sample, as recorded in a file; unknown values are None."""

    key: str
    """The sample's id in the file."""
    repeat: int = 0
    """Epoch, or index of the answer among those of the same sample, from 0."""
    question: str | None = None
    references: tuple[str, ...] | None = None
    """Accepted answers; None if the file does not have them."""
    image_urls: tuple[str, ...] = ()
    """Images of the question: data URLs, `same:` with the name of an earlier one (`pictures`), or other text."""
    metadata: JsonObject = field(default_factory=dict)
    """Values by which answers can be grouped: document class, subject …"""
    text: str | None = None
    """The answer; None for a failed request, for which `error` gives the reason."""
    reasoning: str | None = None
    error: str | None = None
    """Reason for a missing answer, as stated in the file."""
    failure: Literal["model", "infrastructure"] | None = None
    """Cause of the failure, if the file states it; otherwise it does not count against the model."""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_ms: float | None = None
    reported: Mapping[str, float] = field(default_factory=dict)
    """Metric → score of this answer according to the file; finite numbers only."""
    location: str = ""
    """`file:line` or `file!entry`, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersFile:
    """A file's answers, with the metadata that applies to all of them."""

    format: str
    """lm-eval | inspect | vlmevalkit | openai-batch | answers-csv | vlmhyperbench-jsonl"""
    tool: str | None
    """Name and version of the tool, as far as the file states them: `lm_eval 0.4.9`."""
    model: str | None
    task: str | None
    decoding: JsonObject
    """Sampling parameters that the file states, by our names (`domain.specs.Decoding`) if they mean the same."""
    answers: Iterator[ImportedAnswer]
    """An iterator that reads the file lazily and can be consumed once."""
    notes: list[str] = field(default_factory=list)
    """Warnings for the user who imports the file; complete once all answers were consumed."""


def answers_key(project_id: str, sha256: str) -> str:
    """Return the storage key of a file of answers; it contains the project, so that no project can read another's."""
    return f"answers/{hashlib.sha256(project_id.encode()).hexdigest()[:16]}/{sha256}.jsonl"


def write_answers(path: Path, file: AnswersFile) -> int:
    """Write answers to `path` in the neutral format and return their number; on any failure no file is written.

    Raises:
        InvalidInput: an answer cannot be read, or its text is not valid Unicode.
        Unavailable: the file cannot be written.
    """
    header = {name: getattr(file, name) for name in ("format", "tool", "model", "task")}
    count = 0
    try:
        with replacing(path) as temporary, temporary.open("wb") as out:
            out.write(_line({"schema": SCHEMA, **header, "decoding": file.decoding}, "the header"))
            for answer in file.answers:
                out.write(_line({name: getattr(answer, name) for name in _WRITTEN}, answer.location))
                count += 1
    except OSError as error:
        raise Unavailable(
            f"The answers cannot be written to {path}: {error.strerror or error}.",
            cure="Free some space, or choose another folder.",
            code="cannot_write",
        ) from error
    return count


def read_answers(path: Path) -> AnswersFile:
    """Read a file in the neutral format, strictly: the header at once, the answers lazily.

    Raises:
        NotFound: it cannot be read.
        InvalidInput: the header is malformed; during iteration: a line is malformed, or a key and repeat are
            duplicated. The message begins with the path and the line.
    """
    lines = lines_of(path)
    number, first = next(lines, (1, ""))
    header = _model(_Header, first, f"{path}:{number}", _RUN_EXTRAS)
    extras = _ANSWER_EXTRAS if header.format == OWN else frozenset[str]()
    if not extras:
        _model(_Header, first, f"{path}:{number}", extras)
    read = (_answer(line, f"{path}:{no}", extras) for no, line in lines)
    return AnswersFile(
        format=header.format,
        tool=header.tool,
        model=header.model,
        task=header.task,
        decoding=header.decoding,
        answers=only_once(read),
    )


def only_once(answers: Iterator[ImportedAnswer]) -> Iterator[ImportedAnswer]:
    """Yield the answers; refuse a duplicate of key and repeat, and more answers than a file may have.

    Raises:
        InvalidInput: an answer is a duplicate (the message names both locations), or there are too many.
    """
    locations: dict[bytes, str] = {}
    for answer in answers:
        identity = _digest(answer)
        if len(locations) >= MAX_ANSWERS:
            raise InvalidInput(
                f"{answer.location}: the file has more than {MAX_ANSWERS} answers.", cure="Split it.", code="too_large"
            )
        if identity in locations:
            which = f" (repeat {answer.repeat})" if answer.repeat else ""
            raise InvalidInput(
                f"{answer.location}: the sample {answer.key[:100]!r}{which} "
                f"is answered already at {locations[identity]}.",
                cure="Give every sample an id of its own, and every further answer to it another repeat.",
                code="repeated_id",
            )
        locations[identity] = answer.location
        yield answer


def _digest(answer: ImportedAnswer) -> bytes:
    """Return a fixed-size digest of key and repeat."""
    return hashlib.blake2b(f"{answer.repeat} {answer.key}".encode(errors="surrogatepass"), digest_size=16).digest()


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_Count = Annotated[int, Field(ge=0, le=2**53)]
_Name = Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)]


class _Header(_Strict):
    schema_: Literal["vlmhb/answers/v1"] = Field(alias="schema")
    format: _Name
    tool: str | None
    model: str | None
    task: str | None
    decoding: dict[str, pydantic.JsonValue]


class _Row(_Strict):
    key: _Name
    repeat: _Count = 0
    question: str | None = None
    references: list[str] | None = None
    image_urls: list[str] = []
    metadata: dict[str, pydantic.JsonValue] = {}
    text: str | None
    reasoning: str | None = None
    error: str | None = None
    failure: Literal["model", "infrastructure"] | None = None
    finish_reason: str | None = None
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    latency_ms: Annotated[FiniteFloat, Field(ge=0)] | None = None
    reported: dict[_Name, FiniteFloat] = {}


Model = TypeVar("Model", bound=_Strict)
_WRITTEN: Final = tuple(_Row.model_fields)


def _answer(line: str, location: str, extras: frozenset[str]) -> ImportedAnswer:
    row = _model(_Row, line, location, extras)
    if row.text is None and not row.error:
        raise InvalidInput(f"{location}: there is neither a text nor an error.", cure="Say why there is no answer.")
    values = {name: getattr(row, name) for name in _WRITTEN}
    references = None if row.references is None else tuple(row.references)
    return ImportedAnswer(
        **{**values, "references": references, "image_urls": tuple(row.image_urls)}, location=location
    )


def _model(model: type[Model], line: str, location: str, extras: frozenset[str]) -> Model:
    value = parse_object(line, what=location, any_text=True)
    ours = {name: item for name, item in value.items() if name not in extras}
    _check_texts(ours, location)
    checked, problems = validate(model, cast("pydantic.JsonValue", ours))
    if checked is None:
        first = problems[0]
        raise InvalidInput(f"{location}: {field_of(first.path)[:200]}: {first.message}", cure=first.cure)
    return checked


def _check_texts(row: JsonObject, location: str) -> None:
    """Refuse text that cannot be stored: lone surrogates anywhere, and NUL except in the model's output."""
    for name, value in row.items():
        wrong = _unfit(value)
        if wrong and not (wrong == "\0" and name in {"text", "reasoning"}):
            what = "a NUL character" if wrong == "\0" else "an unpaired surrogate"
            raise InvalidInput(f"{location}: {name[:100]!r} holds {what}.", cure="Replace it, for example by U+FFFD.")


def _unfit(value: JsonValue) -> str | None:
    """Return a character of the value's texts that cannot be stored: a surrogate if there is one, else NUL."""
    if isinstance(value, str):
        return None if value.isascii() and "\0" not in value else max(_UNFIT.findall(value), default=None)
    if isinstance(value, Mapping):
        characters = {_unfit([name, item]) for name, item in value.items()}
    elif isinstance(value, list):
        characters = {_unfit(item) for item in value}
    else:
        return None
    return max((character for character in characters if character), default=None)


def _line(value: Mapping[str, object], location: str) -> bytes:
    try:
        return (json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (ValueError, TypeError) as error:
        reason = "it holds an unpaired surrogate" if isinstance(error, UnicodeEncodeError) else str(error)
        message = f"{location}: the line cannot be written as JSON: {reason}."
        raise InvalidInput(message, cure="Correct this line of the file.") from error
