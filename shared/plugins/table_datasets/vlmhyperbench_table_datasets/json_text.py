"""Parse the JSON of tables: a key that comes twice and NaN are refused, since nobody knows which value is meant."""

from __future__ import annotations

import json
from typing import Any, Final

from vlmhyperbench_sdk.jsontext import json_problem, unique_members


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=unique_members, parse_constant=_refuse_constant)


class NoJson(ValueError):
    """A text that is no JSON; the message says why."""


def parse(text: str) -> Any:
    """Parse a text.

    Raises:
        NoJson: it is no JSON.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise NoJson("it is nested too deeply") from error
    except ValueError as error:
        raise NoJson(f"it is no JSON: {json_problem(error)}") from error
