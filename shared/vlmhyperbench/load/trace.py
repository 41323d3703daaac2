"""Read a trace to be replayed: when requests came, and how long they and their answers were."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench_sdk.errors import InvalidInput, NotFound

MAX_TIMESTAMP_S = 1e15
"""Either side of the origin; further out a float holds a time to an eighth of a second at best."""

_MAX_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRequest:
    """One line of a trace."""

    timestamp_s: float
    prompt_tokens: int | None = None
    output_tokens: int | None = None


def read_trace(path: Path) -> list[TracedRequest]:
    """Read JSON lines: `{"timestamp_s": 1.5, "prompt_tokens": 100, "output_tokens": 20}`, the lengths optional.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: a line is not such an object; the message names it.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise NotFound(f"The trace {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"The trace {path} is not UTF-8.") from error
    requests = [_read_line(line, f"{path.name}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not requests:
        raise InvalidInput(f"The trace {path} has no request.")
    return requests


def _read_line(line: str, place: str) -> TracedRequest:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{place} is not JSON.") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{place} is not an object.")
    timestamp = document.get("timestamp_s")
    if not isinstance(timestamp, (int, float)) or isinstance(timestamp, bool):
        raise InvalidInput(f"{place} has no timestamp_s in seconds.")
    # Compared before it becomes a float: JSON's whole numbers have no end, and Infinity and NaN are none.
    if not abs(timestamp) <= MAX_TIMESTAMP_S:
        raise InvalidInput(
            f"{place} has a timestamp_s beyond {MAX_TIMESTAMP_S:g}, which is no time in seconds.",
            cure="Give seconds from any origin, such as 1.5.",
        )
    return TracedRequest(
        timestamp_s=float(timestamp),
        prompt_tokens=_tokens(document, "prompt_tokens", place),
        output_tokens=_tokens(document, "output_tokens", place),
    )


def _tokens(document: dict[str, object], name: str, place: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_TOKENS:
        raise InvalidInput(f"{place} has {name} {value!r}, which is no number of tokens.")
    return value
