"""Write into docs/backends.md who can do what: a table that is asked of the adapters themselves.

`python -m tests.architecture.backend_pages` does it, and `make docs` calls that; a test notices what has changed. No
adapter declares what it can do: each is given a request for every feature, and what it refuses, it cannot do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import Backend
from vlmhyperbench_sdk.testing.backends import PIXEL
from vlmhyperbench_sdk.types import JsonValue

ROOT = Path(__file__).parents[2]
PAGE = "docs/backends.md"
TABLE = re.compile(r"(<!-- backends: written by make docs -->\n).*?(<!-- end -->\n)", re.DOTALL)

UNKNOWN_FIELD = "a_field_that_no_engine_has"
SCHEMA: JsonValue = {"name": "answer", "schema": {"type": "object"}}
IMAGE: JsonValue = {"type": "image_url", "image_url": {"url": PIXEL}}
IMAGES: JsonValue = [{"role": "user", "content": [IMAGE, IMAGE, {"type": "text", "text": "Compare them."}]}]

FEATURES: Mapping[str, Mapping[str, JsonValue]] = {
    "several images in a message": {"messages": IMAGES},
    "`response_format`: `json_object`": {"response_format": {"type": "json_object"}},
    "`response_format`: `json_schema`": {"response_format": {"type": "json_schema", "json_schema": SCHEMA}},
    "`response_format`: `regex`": {"response_format": {"type": "regex", "regex": "[0-9]+"}},
    "`stop`": {"stop": ["\n"]},
    "`seed` of a drawn answer": {"seed": 1, "temperature": 1},
    "`temperature`, `top_p`": {"temperature": 0.5, "top_p": 0.9},
    "`top_k`, `min_p`": {"top_k": 5, "min_p": 0.1},
    "`presence_penalty`, `frequency_penalty`": {"presence_penalty": 0.5, "frequency_penalty": 0.5},
    "`max_tokens`": {"max_tokens": 5},
    "`logprobs`, `top_logprobs`": {"logprobs": True, "top_logprobs": 2},
    "`n`": {"n": 2},
    "`ignore_eos`": {"ignore_eos": True},
    "`min_tokens`": {"min_tokens": 2},
    "`tools`": {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
}
"""Feature, as the table names it → the fields that ask for it."""


def table(backends: Mapping[str, Backend]) -> str:
    """Return the table: a row for each feature, a column for each adapter."""
    rows = [f"| | {' | '.join(backends)} |", f"|---{'|---' * len(backends)}|"]
    for feature, fields in FEATURES.items():
        answers = ("yes" if takes(backend, fields) else "no" for backend in backends.values())
        rows.append(f"| {feature} | {' | '.join(answers)} |")
    others = ("passed on" if takes(backend, {UNKNOWN_FIELD: 1}) else "refused" for backend in backends.values())
    rows.append(f"| fields that neither OpenAI nor the adapter knows | {' | '.join(others)} |")
    return "\n".join(rows) + "\n"


def takes(backend: Backend, fields: Mapping[str, JsonValue]) -> bool:
    """Whether an adapter translates a request with these fields."""
    question: JsonValue = [{"role": "user", "content": "Hello"}]
    try:
        backend.to_engine({"model": "m", "messages": question, **fields})
    except InvalidInput:
        return False
    return True


def registered() -> dict[str, Backend]:
    """Return every registered adapter, by its name."""
    return {name: discovery.load("backends", name)() for name in discovery.names("backends")}


def written(page: str, backends: Mapping[str, Backend]) -> str:
    """Return the page with the table of these adapters."""
    return TABLE.sub(lambda marks: f"{marks[1]}{table(backends)}{marks[2]}", page)


if __name__ == "__main__":
    path = ROOT / PAGE
    path.write_text(written(path.read_text(encoding="utf-8"), registered()), encoding="utf-8")
