"""Read a trace for replay: the time of each request, and the lengths of its prompt and answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench_sdk.errors import InvalidInput, NotFound

MAX_TIMESTAMP_S = 1e15
"""Maximum distance from 0; beyond it, a float is only precise to an eighth of a second."""

_MAX_TOKENS = 10_000_000
_CURE = 'Write one JSON object per line: {"timestamp_s": 1.5, "prompt_tokens": 100, "output_tokens": 20}.'


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
        InvalidInput: a line is not such an object; the message names the line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise NotFound(f"The trace {path} cannot be read: {error.strerror}.", cure="Correct --trace.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"The trace {path} is not UTF-8.", cure="Save the file as UTF-8.") from error
    requests = [_read_line(line, f"{path.name}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not requests:
        raise InvalidInput(f"The trace {path} contains no requests.", cure=_CURE)
    return requests


def _read_line(line: str, location: str) -> TracedRequest:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{location} is not JSON.", cure=_CURE) from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{location} is not a JSON object.", cure=_CURE)
    timestamp = document.get("timestamp_s")
    if not isinstance(timestamp, (int, float)) or isinstance(timestamp, bool):
        raise InvalidInput(f"{location}: timestamp_s is missing or not a number.", cure=_CURE)
    # Compared before the conversion to float: integers in JSON may be too large for it, and NaN fails the comparison.
    if not abs(timestamp) <= MAX_TIMESTAMP_S:
        raise InvalidInput(
            f"{location}: timestamp_s is not between -{MAX_TIMESTAMP_S:g} and {MAX_TIMESTAMP_S:g}.",
            cure="Give seconds from any origin, such as 1.5.",
        )
    return TracedRequest(
        timestamp_s=float(timestamp),
        prompt_tokens=_tokens(document, "prompt_tokens", location),
        output_tokens=_tokens(document, "output_tokens", location),
    )


def _tokens(document: dict[str, object], name: str, location: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_TOKENS:
        raise InvalidInput(
            f"{location}: {name} is {value!r}, which is not a number of tokens.",
            cure=f"Give a whole number from 1 to {_MAX_TOKENS}, or leave it out.",
        )
    return value
