"""The mapping of columns to samples: read from YAML once, then applied to every row."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from string import ascii_uppercase
from typing import Final

from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import Image, JsonObject, JsonValue, Sample
from vlmhyperbench_table_datasets.choices import CORRECT, Correct, read_correct
from vlmhyperbench_table_datasets.fields import Field, Unmapped, kind_of, read_field
from vlmhyperbench_table_datasets.rows import Cell, Facts, Row

TARGETS: Final = (
    "key", "question", "images", "references", CORRECT, "choices", "document", "group", "split", "metadata",
)  # fmt: skip
"""What columns are mapped to."""
ALIASES: Final[Mapping[str, Sequence[str]]] = {
    "key": ("key", "id"),
    "question": ("question",),
    "images": ("images", "image", "image_path", "file_name", "pages"),
    "references": ("references", "answers", "answer", "truth"),
    "choices": ("choices", "options"),
    "document": ("document",),
    "group": ("group",),
    "split": ("split",),
}
"""Names of columns that need no mapping: the first that a table has; its other columns are metadata."""


CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that no name of a column or of metadata has: controls, separators of lines, unpaired surrogates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A mapping, read and compared with the columns of its table."""

    key: Field | None = None
    question: Field | None = None
    images: tuple[Field, ...] = ()
    references: tuple[Field, ...] = ()
    correct: Correct | None = None
    choices: tuple[Field, ...] = ()
    document: Field | None = None
    group: Field | None = None
    split: Field | None = None
    metadata: Mapping[str, Field] = field(default_factory=dict)

    @property
    def needed(self) -> set[str]:
        """Columns that are read."""
        correct = () if self.correct is None else (self.correct.field,)
        fields = (
            *(self.key, self.question, self.document, self.group, self.split),
            *(*self.images, *self.references, *self.choices, *correct, *self.metadata.values()),
        )
        return {item.column for item in fields if item is not None and item.column is not None}


def default_columns(columns: Collection[str]) -> dict[str, JsonValue]:
    """Return the mapping of a table that states none: by the names of its columns; all others are metadata."""
    mapped: dict[str, JsonValue] = {}
    for target, names in ALIASES.items():
        name = next((name for name in names if name in columns), None)
        if name is not None:
            mapped[target] = name
    return {**mapped, "metadata": [name for name in columns if name not in mapped.values()]}


def read_columns(given: JsonObject, columns: Collection[str] | None) -> tuple[Columns, list[str]]:
    """Read `params.columns`, and return all its problems at once."""
    problems = [
        f"columns.{name}: there is no such field. {did_you_mean(name, TARGETS)}"
        for name in given
        if name not in TARGETS
    ]

    def one(target: str) -> Field | None:
        if target not in given:
            return None
        read, wrong = read_field(f"columns.{target}", given[target], columns)
        problems.extend(wrong)
        return read

    def several(target: str) -> tuple[Field, ...]:
        values = given.get(target, ())
        listed = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
        fields = []
        for number, value in enumerate(listed):
            path = f"columns.{target}" + (f"[{number}]" if len(listed) > 1 else "")
            read, wrong = read_field(path, value, columns)
            problems.extend(wrong)
            fields.append(read)
        return tuple(fields)

    correct, wrong = read_correct(given[CORRECT], columns) if CORRECT in given else (None, [])
    problems.extend(wrong)
    metadata, wrong = _metadata_fields(given.get("metadata", ()), columns)
    problems.extend(wrong)
    if not {"question", "images"} & set(given):
        problems.append("columns: it names neither question nor images, so there is nothing to ask.")
    if correct is not None and correct.needs_choices and "choices" not in given:
        problems.append(f"columns.{CORRECT}: the choices of which one is correct are not mapped; add choices.")
    if correct is not None and "references" in given:
        problems.append(f"columns.{CORRECT}: references are mapped too; leave one of the two out.")
    return Columns(
        key=one("key"),
        question=one("question"),
        images=several("images"),
        references=several("references"),
        correct=correct,
        choices=several("choices"),
        document=one("document"),
        group=one("group"),
        split=one("split"),
        metadata=metadata,
    ), problems


def _metadata_fields(given: JsonValue, columns: Collection[str] | None) -> tuple[dict[str, Field], list[str]]:
    """Read the fields of metadata: a list of columns, or name → field."""
    if isinstance(given, Mapping):
        named = dict(given)
    elif isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(name, str) for name in given):
        named = {str(name): name for name in given}
    else:
        return {}, [f"columns.metadata: {given!r} is neither a list of columns nor a mapping of names to columns."]
    fields, problems = {}, []
    for name, value in named.items():
        if CONTROL.search(name):
            problems.append(f"columns.metadata: the name {name!r} has a control character.")
        fields[name], wrong = read_field(f"columns.metadata.{name}", value, columns)
        problems.extend(wrong)
    return fields, problems


def sample_of(row: Row, columns: Columns, facts: Facts, root: Path) -> Sample:
    """Map a row to its sample.

    Raises:
        Unmapped: a column is missing or has another form.
    """
    cells, labels = row.cells, facts.labels

    def value(item: Field | None) -> Cell:
        return None if item is None else item.of(cells, labels)

    question = value(columns.question)
    if question is not None and not isinstance(question, str):
        raise Unmapped(f"the question ({_column(columns.question)}) is {kind_of(question)}, not text")
    images = tuple(image for item in columns.images for image in _images(item.of(cells, labels), root, item))
    if not (question or "").strip() and not images:
        raise Unmapped("there is neither a question nor an image")
    choices = _choices([part for item in columns.choices for part in _parts(item.of(cells, labels))])
    references = [text for item in columns.references for text in _texts(item.of(cells, labels))]
    if columns.correct is not None:
        references = columns.correct.references(cells, labels, choices)
    metadata: dict[str, JsonValue] = {}
    for name, item in columns.metadata.items():
        if (plain := as_json(_of(item, cells, labels))) not in (None, ""):
            metadata[name] = plain
    if choices:
        metadata["choices"] = choices
    for name, unit in (("document", columns.document), ("group", columns.group)):
        if (text := value(unit)) not in (None, ""):
            metadata[name] = _scalar(text)
    key = value(columns.key)
    if columns.key is not None and key in (None, ""):
        raise Unmapped(f"the key ({_column(columns.key)}) is empty")
    return Sample(
        key=str(row.number) if columns.key is None else _scalar(key),
        question=question or "",
        images=images,
        references=tuple(references),
        metadata=metadata,
        location=row.location,
    )


def _of(item: Field, cells: Mapping[str, Cell], labels: Mapping[str, Sequence[str]]) -> Cell:
    """Return a value of metadata, whose column a row may lack where only rows have names of columns."""
    return None if item.column is not None and item.column not in cells else item.of(cells, labels)


def _column(item: Field | None) -> str:
    return f"the column {item.column!r}" if item is not None and item.column is not None else "a constant"


def _images(value: Cell, root: Path, item: Field) -> list[Image]:
    """Return the images of a cell: bytes, a path, a data URL, what the hub stores, or a list of these."""
    if value is None or value == "":
        return []
    if isinstance(value, (bytes, bytearray)):
        return [Image(data=bytes(value))]
    if isinstance(value, str):
        if value.startswith("data:"):
            return [Image(data=_data_url(value, item))]
        if "\0" in value:
            raise Unmapped(f"the path of the image ({_column(item)}) has a NUL")
        return [Image.at(value, root)]
    if isinstance(value, Mapping) and ("bytes" in value or "path" in value):
        return _images(value.get("bytes") or value.get("path"), root, item)
    if isinstance(value, Sequence):
        return [image for part in value for image in _images(part, root, item)]
    raise Unmapped(f"the image ({_column(item)}) is {kind_of(value)}; it may be bytes, a path or a list of these")


def _data_url(url: str, item: Field) -> bytes:
    head, _, body = url.partition(",")
    try:
        if not head.endswith(";base64"):
            raise ValueError(head)
        return base64.b64decode(body, validate=True)
    except ValueError as error:
        raise Unmapped(f"the image ({_column(item)}) is a data URL that is not in base64") from error


def _parts(value: Cell) -> Sequence[Cell]:
    """Return the items of a list; any other value is the only one."""
    return value if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)) else [value]


def _texts(value: Cell) -> list[str]:
    """Return the texts of accepted answers: a scalar is one, a list is several, an object is its JSON."""
    return [_scalar(part) for part in _parts(value) if part is not None]


def _choices(parts: Sequence[Cell]) -> list[str]:
    """Return the texts of choices without the nulls at the end; one between them would move the letters after it."""
    present = [number for number, part in enumerate(parts) if part is not None]
    for expected, number in enumerate(present):
        if number != expected:
            raise Unmapped(f"the choice {_letter(expected)} is null, and {_letter(number)} is not")
    return [_scalar(part) for part in parts[: len(present)]]


def _letter(number: int) -> str:
    return ascii_uppercase[number] if number < len(ascii_uppercase) else str(number)


def _scalar(value: Cell) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        raise Unmapped("a text is bytes")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value)) if not isinstance(value, bool) else str(value)
    return json.dumps(as_json(value), ensure_ascii=False)


def as_json(value: object) -> JsonValue:
    """Return a value as JSON: times as ISO 8601, numbers that JSON lacks as null.

    Raises:
        Unmapped: it holds bytes.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, timedelta)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        raise Unmapped("metadata is bytes; leave the column out, or map it to images")
    if isinstance(value, Sequence):
        return [as_json(part) for part in value]
    raise Unmapped(f"metadata is {kind_of(value)}, which is no JSON")
