"""Labels and written numbers that several sections share."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vlmhyperbench.analysis.costs import Cost
from vlmhyperbench.analysis.labels import short
from vlmhyperbench.domain.publishing import public_address
from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget, ModelTarget, PipelineTarget, RunSpec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.reports.document import Tone, write_number
from vlmhyperbench_sdk.types import JsonValue

_COLUMNS = {"doc_class": "document class", "doc_type": "document type"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_CELL_CHARS = 120


def path_of(spec: RunSpec) -> str:
    """Name what answers: the adapter, the endpoint's address without query or user, the file's tool, or a function."""
    match spec.target:
        case ModelTarget(backend=backend):
            return backend
        case EndpointTarget(endpoint=endpoint):
            return public_address(endpoint)
        case PipelineTarget():
            return "a pipeline of models"
        case ImportTarget(is_function=True):
            return "a Python function"
        case ImportTarget(tool=tool, format=format_name):
            return f"a file of {tool or format_name}"


def tone_of(state: str) -> Tone:
    """Return the colour of a state."""
    return "good" if state == RunState.SUCCEEDED else "neutral" if state in {"PARTIAL", "DONE"} else "bad"


def group_title(column: str) -> str:
    """Return the title of a group column."""
    return _COLUMNS.get(column, column.replace("_", " "))


def percent(share: float | None, *, digits: int = 1) -> str:
    """Write a share as a percentage."""
    return "–" if share is None else f"{write_number(100 * share, digits)}\u00a0%"


def milliseconds(value: float | None) -> str:
    """Write a time with three significant digits, in seconds from 10 s on."""
    if value is None:
        return "–"
    return f"{short(value)}\u00a0ms" if value < 10_000 else f"{short(value / 1000)}\u00a0s"


def size(value: float | None) -> str:
    """Write a number of bytes."""
    if value is None:
        return "–"
    step = 0
    while value >= 1024 and step < len(_UNITS) - 1:
        value, step = value / 1024, step + 1
    return f"{short(value)}\u00a0{_UNITS[step]}"


def write_money(cost: Cost, amount: float | None = None) -> str:
    """Write the total cost, or an amount in its currency, with four significant digits; `unknown` without a value."""
    value = cost.total if amount is None else amount
    if value is None:
        return "unknown"
    digits = 2 if value >= 10 or value == 0 else 3 - math.floor(math.log10(value))
    return f"{write_number(value, digits)}\u00a0{cost.currency}"


def cut_cell(text: str) -> str:
    """Shorten a text for a cell of a table."""
    return text if len(text) <= _CELL_CHARS else f"{text[: _CELL_CHARS - 1]}…"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Write a count with its noun."""
    return f"{write_number(count, 0)} {noun if count == 1 else nouns or noun + 's'}"


def listed(parts: list[str]) -> str:
    """Join parts with commas and a final `and`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def in_sentence(label: str) -> str:
    """Write a label inside a sentence: `Exact match` becomes `exact match`, `ANLS` stays."""
    return label[0].lower() + label[1:] if label[1:2].islower() else label


def upper_first(sentence: str) -> str:
    """Write the first letter of a sentence as a capital and leave the rest unchanged."""
    return sentence[:1].upper() + sentence[1:]


def plain(value: JsonValue) -> str:
    """Write a JSON value as readable text: scalars as they are, objects as `key=value`."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={plain(value[key])}" for key in sorted(value)) or "–"
    if isinstance(value, str | int | float):
        return str(value)
    return ", ".join(plain(item) for item in value) or "–"
