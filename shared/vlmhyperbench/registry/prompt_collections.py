"""Read a collection of prompts: a file with templates by type, whose hash is its version.

- `.csv`: the columns `prompt` and `doc_class_question_type`, separated by `;` (or by `,`), with or without a BOM; the
  type is `<doc_class> <question_type>`
- `.json`, `.yaml`, `.yml`: an object of type → template, or → `{system_prompt, user_prompt}`
- `.txt`: one template for all samples

The type `default` is for samples of all other types.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vlmhyperbench.domain.prompts import MAX_TEMPLATE_CHARS
from vlmhyperbench.domain.specs import PromptText
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.documents import parse_document
from vlmhyperbench_sdk.suggestions import did_you_mean

DEFAULT: Final = "default"
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_TYPES: Final = 5_000
PROMPT, TYPE = "prompt", "doc_class_question_type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Templates by type."""

    texts: Mapping[str, PromptText]
    default: PromptText | None
    sha256: str


def read_collection(path: Path) -> Collection:
    """Read a collection.

    Raises:
        NotFound: there is no such file; the message names a similar one.
        InvalidInput: it cannot be read, is not UTF-8, has an error in a line, or has a type twice.
    """
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise InvalidInput(f"{path}: a collection of this format is not read.", cure=f"Write {', '.join(_READERS)}.")
    content = _content(path)
    texts: dict[str, PromptText] = {}
    for line, name, text in read(_decoded(path, content), path):
        where = f"{path}:{line}" if line else str(path)
        if name in texts:
            raise InvalidInput(f"{where}: the type {name!r} has a prompt already.", cure="Remove one of them.")
        if not any(template and template.strip() for template in (text.user_prompt, text.system_prompt)):
            raise InvalidInput(f"{where}: the prompt of {name!r} is empty.", cure="Write it, or remove the line.")
        texts[name] = text
    if not texts:
        raise InvalidInput(f"{path} has no prompt.", cure="Add one for each type, or one for `default`.")
    if len(texts) > MAX_TYPES:
        raise InvalidInput(f"{path} has more than {MAX_TYPES} types.", cure="Split it into several prompts.")
    default = texts.pop(DEFAULT, None)
    return Collection(texts=texts, default=default, sha256=hashlib.sha256(content).hexdigest())


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            near = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
            cure = did_you_mean(path.name, near, nothing="Correct the path.")
            raise NotFound(f"There is no file {path}.", cure=cure)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", cure="Correct its permissions.") from error
    if len(content) > MAX_BYTES:
        raise InvalidInput(f"{path} is larger than {MAX_BYTES} bytes.", cure="Split it into several prompts.")
    return content


def _decoded(path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"{path}:{line}: it is not UTF-8 (byte {content[error.start]:#04x})."
        raise InvalidInput(message, cure="Save the whole file as UTF-8; lines of other files may differ.") from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InvalidInput(f"{path}:{line}: it has a NUL.", cure="Save the file as UTF-8.")
    return text


_Rows = Iterable[tuple[int, str, PromptText]]
"""Line (0: unknown), type, templates."""


def _csv(text: str, path: Path) -> _Rows:
    header = text.partition("\n")[0]
    separator = ";" if ";" in header else ","
    # A template may be longer than a field of csv, whose limit is one for the process.
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        names = [name.strip() for name in next(rows, [])]
        for name in (PROMPT, TYPE):
            if name not in names:
                message = f"{path}:1: there is no column {name!r}."
                raise InvalidInput(message, cure=f"{did_you_mean(name, names)} The header is {PROMPT};{TYPE}.")
        for cells in rows:
            if not any(cells):
                continue
            if len(cells) != len(names):
                message = f"{path}:{rows.line_num}: it has {len(cells)} cells, and the header {len(names)}."
                raise InvalidInput(message, cure=f'Put a prompt that has {separator} or line breaks into "quotes".')
            row = dict(zip(names, cells, strict=True))
            yield rows.line_num, row[TYPE].strip() or DEFAULT, PromptText(user_prompt=row[PROMPT])
    except csv.Error as error:
        message = f"{path}:{rows.line_num}: it is no CSV: {error}."
        cure = f"Close the quotes; a template has at most {MAX_TEMPLATE_CHARS} characters."
        raise InvalidInput(message, cure=cure) from error


def _txt(text: str, _path: Path) -> _Rows:
    yield 0, DEFAULT, PromptText(user_prompt=text.removesuffix("\n").removesuffix("\r"))


def _json(text: str, path: Path) -> _Rows:
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _distinct(pairs, path))
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{path}:{error.lineno}: it is no JSON: {error.msg}.", cure="Correct the line.") from error
    except RecursionError as error:
        raise InvalidInput(f"{path}: it is nested too deeply.", cure="Write type and template.") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{path}: it is no object.", cure='Write {"<type>": "<template>"}.')
    return [(0, name, _text(path, name, written)) for name, written in value.items()]


def _distinct(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{path}: the key {double!r} is written twice.", cure="Remove one of them.")
    return value


def _yaml(text: str, path: Path) -> _Rows:
    document, errors = parse_document(text, str(path))
    if document is None:
        raise InvalidInput(f"{errors[0].located}", cure=errors[0].cure)
    return [
        (document.location_of((name,)).line, name, _text(path, name, written))
        for name, written in document.value.items()
    ]


def _text(path: Path, name: str, written: object) -> PromptText:
    if isinstance(written, str):
        return PromptText(user_prompt=written)
    fields = written if isinstance(written, dict) else {}
    known = PromptText.model_fields
    wrong = [field for field, value in fields.items() if field not in known or not isinstance(value, str)]
    if not fields or wrong:
        lack = f"its {wrong[0]!r} is no template" if wrong else "it is no template"
        cure = did_you_mean(str(wrong[0]), known) if wrong and wrong[0] not in known else "Write text."
        raise InvalidInput(f"{path}: {name!r}: {lack}.", cure=cure)
    return PromptText(**fields)


_READERS: Final[Mapping[str, Callable[[str, Path], _Rows]]] = {
    ".csv": _csv,
    ".txt": _txt,
    ".json": _json,
    ".yaml": _yaml,
    ".yml": _yaml,
}
