"""The streams that mislead careless clients, and the parsing of a registry's parameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import get_args, get_type_hints

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import JsonObject
from vlmhyperbench_simulated.simulation import Simulation

TRUTH = Simulation(ttft_ms=100.0, gap_ms=10.0, tokens=32, usage="always", record=True)
"""First token at 100 ms, 32 tokens with gaps of 10 ms: the truth of all streams below."""

STREAMS: Mapping[str, Simulation] = {
    "role_with_first": dataclasses.replace(TRUTH, role_chunk="with_first"),
    "role_at_headers": dataclasses.replace(TRUTH, role_chunk="at_headers"),
    "half_reasoning": dataclasses.replace(TRUTH, reasoning_tokens=16),
    "four_tokens_per_event": dataclasses.replace(TRUTH, tokens_per_event=4),
    "four_events_per_write": dataclasses.replace(TRUTH, events_per_write=4),
    "late_tail": dataclasses.replace(TRUTH, tail_ms=300.0),
    "every_fourth_fails": dataclasses.replace(TRUTH, fail_every=4),
    "split_character": dataclasses.replace(TRUTH, words="multibyte", split_ahead_ms=4.0),
    "empty_deltas": dataclasses.replace(TRUTH, empty_deltas=True),
    "comments": dataclasses.replace(TRUTH, comments=True),
    "crlf": dataclasses.replace(TRUTH, line_end="crlf"),
    "running_usage": dataclasses.replace(TRUTH, running_usage=True, tokens_per_event=4),
    "finish_with_last": dataclasses.replace(TRUTH, finish_chunk="with_last", tail_ms=300.0),
    "renamed_reasoning": dataclasses.replace(TRUTH, reasoning_tokens=16, reasoning_key="reasoning"),
    "tool_call": dataclasses.replace(TRUTH, tool_tokens=16),
}
"""Streams that mislead a careless client, by name; all have the same truth."""


def parse_simulation(params: JsonObject) -> Simulation:
    """Make a simulation from untrusted parameters; `stream` names the one of `STREAMS` whose values are the defaults.

    Raises:
        InvalidInput: a name is unknown, or a value has the wrong type or range.
    """
    rest = dict(params)
    stream = rest.pop("stream", None)
    if stream is not None and stream not in STREAMS:
        raise InvalidInput(f"No simulated stream is called {stream!r}.", cure=f"Choose one of {', '.join(STREAMS)}.")
    start = STREAMS[stream] if isinstance(stream, str) else Simulation()
    hints = get_type_hints(Simulation)
    for name, value in rest.items():
        if name not in hints:
            raise InvalidInput(f"The simulated engine has no parameter {name!r}.", cure=did_you_mean(name, hints))
        _check_type(name, value, hints[name])
    return dataclasses.replace(start, **rest)  # type: ignore[arg-type]  # `_check_type` has checked them


def _check_type(name: str, value: object, wanted: object) -> None:
    choices = get_args(wanted)
    if wanted is bool:
        right, expected = isinstance(value, bool), "true or false"
    elif wanted is int or int in choices:
        right = isinstance(value, int) and not isinstance(value, bool)
        right, expected = right or (value is None and type(None) in choices), "a whole number"
    elif wanted is float:
        right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        expected = "a finite number"
    elif choices and all(isinstance(choice, str) for choice in choices):
        right, expected = value in choices, f"one of {', '.join(choices)}"
    else:
        right = isinstance(value, str) or (value is None and type(None) in choices)
        expected = "text"
    if not right:
        raise InvalidInput(f"The simulated engine's {name} must be {expected}, not {value!r}.")
