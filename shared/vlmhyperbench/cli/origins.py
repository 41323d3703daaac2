"""Where the values of a submitted entry were written: flags of `run`, or lines of a file; a run's manifest shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.origins import locations_of

_DECODING: Final = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "n")
_TARGET: Final = ("model", "backend", "endpoint", "model_name")
FLAGS: Final = {
    **{name: f"--{name}" for name in ("task", "dataset", "limit", "prompt", "scenario")},
    "metrics": "--metric",
    "extractors": "--extractor",
    "group_by": "--group-by",
    "secrets": "--secret",
    **{f"target.{name}": f"--{name.replace('_', '-')}" for name in _TARGET},
    "target.engine_params": "--engine-param",
    "target.engine_params.api_key_secret": "--api-key",
    "target.engine_params.headers": "--header",
    "target.engine_params.extra_body": "--extra-body",
    "target.engine_params.max_tokens_field": "--max-tokens-field",
    "target.engine_params.omit": "--omit",
    **{f"decoding.{name}": f"--{name.replace('_', '-')}" for name in _DECODING},
    "decoding.stop": "--stop-text",
}
"""Path in the entry that `run` makes of its flags → the flag."""


def origins_of_flags(*, is_data_given: bool, is_task_given: bool) -> dict[str, str]:
    """Return the origins of an entry that was made of flags; a CSV file stands for the task or the dataset."""
    if not is_data_given:
        return dict(FLAGS)
    return {**FLAGS, "dataset" if is_task_given else "task": "--data"}


def origins_of_file(path: Path) -> dict[str, str]:
    """Return the origins of an entry that was read from a file."""
    document, _ = read_document(path, str(path))
    return {} if document is None else locations_of(document)
