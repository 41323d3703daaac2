"""Read answers from a file of any supported tool: detect the format by its content, and validate the answers."""

from __future__ import annotations

import dataclasses
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vlmhyperbench.domain.valid_text import storable, storable_json, valid_unicode
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange import answers_csv, inspect_log, lm_eval, openai_batch, own_tables, vlmevalkit
from vlmhyperbench.exchange.answers import MAX_KEY_CHARS, OWN, AnswersFile, ImportedAnswer, only_once, read_answers
from vlmhyperbench.exchange.archive import DAMAGES
from vlmhyperbench.exchange.foreign import foreign_object
from vlmhyperbench.exchange.lines import head_of, lines_of
from vlmhyperbench_sdk.types import JsonObject

AUTO: Final = "auto"
FORMATS: Final = {
    lm_eval.FORMAT: "samples_*.jsonl of lm-evaluation-harness",
    inspect_log.FORMAT: ".eval or .json log of inspect_ai",
    vlmevalkit.FORMAT: "tsv, csv or xlsx with the predictions of VLMEvalKit",
    openai_batch.FORMAT: "output of the OpenAI Batch API",
    answers_csv.FORMAT: "our answers.csv",
    OWN: "our own export as JSON Lines",
    own_tables.CSV: "our own export as CSV",
    own_tables.PARQUET: "our own export as Parquet",
}
"""What can be read."""

_HEAD_BYTES: Final = 64 * 1024
_LOCAL_NAME_AT: Final = 30
_INSPECT_NAMES: Final = ("header.json", "_journal/", "samples/", "summaries.json", "reductions.json")
_OPTIONS: Final = {
    "filter_name": lm_eval.FORMAT,
    "results": lm_eval.FORMAT,
    "key": lm_eval.FORMAT,
    "requests": openai_batch.FORMAT,
}


def read(
    path: Path,
    format: str = AUTO,  # noqa: A002 (the word of the command line)
    *,
    filter_name: str | None = None,
    results: Path | None = None,
    key: str | None = None,
    requests: Path | None = None,
) -> AnswersFile:
    """Read a file's answers lazily.

    Lone surrogates become U+FFFD, as in answers that we request ourselves.

    Args:
        path: The file.
        format: One of `FORMATS`; by default it is detected.
        filter_name: Of lm-eval: the filter whose scores are used.
        results: Of lm-eval: `results_*.json`, which names the model.
        key: Of lm-eval: the field of the documents that is the sample's id.
        requests: Of OpenAI: the batch's input, which has the questions.

    Raises:
        NotFound: a file cannot be read.
        InvalidInput: the format is unknown, the file is malformed, or an option is not for its format; during
            iteration: an answer is malformed, a sample's key and repeat are duplicated, or there is no answer.
    """
    detected = detect(path) if format == AUTO else format
    if detected not in FORMATS:
        raise InvalidInput(f"There is no format {format!r}.", cure=f"Choose one of {', '.join(FORMATS)}.", code="usage")
    given = {"filter_name": filter_name, "results": results, "key": key, "requests": requests}
    for option, owner in _OPTIONS.items():
        if given[option] is not None and owner != detected:
            raise InvalidInput(f"The file is {detected}: {option} is for {owner}.", cure="Leave it out.", code="usage")
    match detected:
        case lm_eval.FORMAT:
            file = lm_eval.read_lm_eval(path, filter_name=filter_name, results=results, key=key)
        case inspect_log.FORMAT:
            file = inspect_log.read_inspect_log(path)
        case vlmevalkit.FORMAT:
            file = vlmevalkit.read_vlmevalkit(path)
        case openai_batch.FORMAT:
            file = openai_batch.read_openai_batch(path, requests=requests)
        case answers_csv.FORMAT:
            file = answers_csv.read_answers_csv(path)
        case own_tables.CSV:
            file = own_tables.read_csv(path)
        case own_tables.PARQUET:
            file = own_tables.read_parquet(path)
        case _:
            file = read_answers(path)
    checked = only_once(_fit(answer) for answer in file.answers)
    return dataclasses.replace(
        file,
        tool=storable(file.tool),
        model=storable(file.model),
        task=storable(file.task),
        decoding=storable_json(file.decoding),
        answers=_not_empty(checked, path),
    )


def detect(path: Path) -> str:
    """Detect the format of a file by its content.

    Raises:
        NotFound: it cannot be read.
        InvalidInput: it has none of the supported formats.
    """
    head = head_of(path, _HEAD_BYTES)
    if head.startswith(b"PAR1"):
        return own_tables.PARQUET
    detected = _of_zip(path, head) if head.startswith(b"PK") else _of_text(path, head)
    if detected is None:
        known = "; ".join(f"{name} ({what})" for name, what in FORMATS.items())
        raise InvalidInput(
            f"The format of {path} is unknown.",
            cure=f"Give one of: {known}.",
            code="unknown_format",
        )
    return detected


def _of_zip(path: Path, head: bytes) -> str | None:
    try:
        with zipfile.ZipFile(path) as opened:
            names = opened.namelist()
    except DAMAGES:  # a zip that was cut off is known by the name of its first entry
        size = int.from_bytes(head[26:28], "little")
        names = [head[_LOCAL_NAME_AT : _LOCAL_NAME_AT + size].decode("utf-8", "replace")]
    if any(name.startswith(_INSPECT_NAMES) for name in names):
        return inspect_log.FORMAT
    return vlmevalkit.FORMAT if any(name.startswith(("xl/", "[Content_Types]")) for name in names) else None


def _of_text(path: Path, head: bytes) -> str | None:
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").lstrip()
    if text.startswith("{"):
        return _of_json(path, text)
    first = text.partition("\n")[0].rstrip("\r")
    names = {name.strip('"') for name in re.split(r"[\t,;]", first)}
    if names >= {"index", "prediction"}:
        return vlmevalkit.FORMAT
    if names >= own_tables.KNOWN_BY and ";" in first:
        return own_tables.CSV
    return answers_csv.FORMAT if names >= set(answers_csv.REQUIRED) and ";" in first else None


def _of_json(path: Path, head: str) -> str | None:
    if re.match(r'\{\s*"(version|status|eval)"\s*:', head) and re.search(r'"eval"\s*:\s*\{', head):
        return inspect_log.FORMAT
    if re.match(r'\{\s*"results"\s*:', head):
        raise InvalidInput(
            f"{path} holds lm-eval's results, not its samples.",
            cure="Give samples_*.jsonl, which --log_samples writes, and name this file as its results.",
        )
    line, text = next((no, line) for no, line in lines_of(path) if line.strip())
    if text.rstrip() == "{":
        return None
    row = foreign_object(text, f"{path}:{line}")
    if str(row.get("schema")).startswith("vlmhb/answers/"):
        return OWN
    if "custom_id" in row:
        return _batch(row, path)
    return lm_eval.FORMAT if "doc_id" in row and ("resps" in row or "filtered_resps" in row) else None


def _batch(row: JsonObject, path: Path) -> str:
    if "response" in row or "error" in row:
        return openai_batch.FORMAT
    raise InvalidInput(f"{path} is a batch's input.", cure="Give its output, and name this file as its requests.")


def _not_empty(answers: Iterator[ImportedAnswer], path: Path) -> Iterator[ImportedAnswer]:
    is_any = False
    for answer in answers:
        is_any = True
        yield answer
    if not is_any:
        raise InvalidInput(f"{path} holds no answers.", cure="Give a file with at least one.", code="no_answers")


def _fit(answer: ImportedAnswer) -> ImportedAnswer:
    """Return an answer that can be stored: valid Unicode, and NUL only in the model's output.

    Raises:
        InvalidInput: its key or a reference is invalid; they are not repaired, because they would mean something else.
    """
    if not 0 < len(answer.key) <= MAX_KEY_CHARS or storable(answer.key) != answer.key:
        raise InvalidInput(
            f"{answer.location}: the id {answer.key[:100]!r} is empty, longer than {MAX_KEY_CHARS} characters, or holds"
            " NUL or half of a surrogate pair.",
            cure="Give the sample another id.",
        )
    references = answer.references
    if references is not None and any("\0" in reference for reference in references):
        raise InvalidInput(f"{answer.location}: a reference holds a NUL character.", cure="Take it out.")
    error = storable(answer.error)
    if answer.text is None and not error:
        error = "the file has neither an answer nor an error"
    return dataclasses.replace(
        answer,
        question=storable(answer.question),
        references=None if references is None else tuple(map(valid_unicode, references)),
        image_urls=tuple(storable(url) for url in answer.image_urls),
        metadata=storable_json(answer.metadata),
        text=valid_unicode(answer.text),
        reasoning=valid_unicode(answer.reasoning),
        error=error,
        finish_reason=storable(answer.finish_reason),
        reported={storable(name) or "score": value for name, value in answer.reported.items()},
    )
