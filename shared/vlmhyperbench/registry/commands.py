"""Write a run as the command line that submits the same; what flags cannot say is read from a file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.registry.matrix import target_name
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench_sdk.gateway import KEY_PARAM

FILE: Final = "run.yaml"
"""Name of the file in a command; the entry is written into it first."""
MAX_NAME: Final = 200
"""Characters of the name of a run."""
_PROGRAM: Final = "vlmhyperbench run"
_TEXTS: Final = ("prompt", "scenario", "dataset", "limit")
_LISTS: Final = {"metrics": "metric", "group_by": "group-by", "secrets": "secret"}
_GGUF: Final = ".gguf"
"""Ending by which the command takes the name of a model for that of a file."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and whether it reads the entry from `FILE`."""

    text: str
    reads_file: bool


class _NoFlag(Exception):
    """A value that no flag can say."""


def default_name(run: RunEntry) -> str:
    """Return the name of a run that is given by flags and has none: its model and its task."""
    return f"{target_name(run)}, {run.task}"[:MAX_NAME]


def command_of(run: str | RunEntry, *, name: str | None = None, priority: int = 0) -> Command:
    """Return the command that submits a registered run, or an entry."""
    named, urgent = [*_flag("name", name)], [*(_flag("priority", priority) if priority else ())]
    if isinstance(run, str):
        return Command(_joined([run, *named, *urgent]), reads_file=False)
    try:
        flags = list(_flags(run.model_dump(mode="json", exclude_unset=True)))
    except _NoFlag:
        return Command(_joined([FILE, *named, *urgent]), reads_file=True)
    given = [] if name == default_name(run) else named
    return Command(_joined([*flags, *given, *urgent]), reads_file=False)


def _joined(words: list[str]) -> str:
    return " ".join([_PROGRAM, *map(shlex.quote, words)])


def _flags(values: Mapping[str, JsonValue]) -> Iterator[str]:
    target = values["target"]
    if not isinstance(target, dict):
        raise _NoFlag
    yield from _of_target(target)
    yield from _flag("task", values["task"])
    for key, value in values.items():
        if value is None or key in {"target", "task"}:
            continue
        if key in _TEXTS:
            yield from _flag(key, value)
        elif key in _LISTS:
            yield from _each(_LISTS[key], value)
        elif key == "extractors" and isinstance(value, list):
            yield from _each("extractor", [each if isinstance(each, str) else json.dumps(each) for each in value])
        elif key == "decoding" and isinstance(value, dict):
            yield from _of_decoding(value)
        else:
            raise _NoFlag


def _of_target(target: Mapping[str, JsonValue]) -> Iterator[str]:
    for key, value in target.items():
        if key == "engine_params" and isinstance(value, dict):
            for name, param in value.items():
                yield from _param(name, param)
        elif key in {"model", "backend", "endpoint", "model_name"} and isinstance(value, str):
            if key == "model" and value.lower().endswith(_GGUF):
                raise _NoFlag
            yield from _flag(key.replace("_", "-"), value)
        elif value is not None:
            raise _NoFlag


def _param(name: str, value: JsonValue) -> Iterator[str]:
    if name == KEY_PARAM and isinstance(value, str):
        yield from _flag("api-key", value)
    elif not name or "=" in name or value is None:
        raise _NoFlag
    else:
        yield from _flag("engine-param", f"{name}={json.dumps(value, ensure_ascii=False)}")


def _of_decoding(decoding: Mapping[str, JsonValue]) -> Iterator[str]:
    for key, value in decoding.items():
        if key == "stop":
            yield from _each("stop-text", value)
        else:
            yield from _flag(key.replace("_", "-"), value if value is not None else [])


def _each(flag: str, values: JsonValue) -> Iterator[str]:
    if not isinstance(values, list) or not values:
        raise _NoFlag
    for value in values:
        yield from _flag(flag, value)


def _flag(flag: str, value: JsonValue) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, str | int | float) or value == "":
        raise _NoFlag
    text = str(value)
    if text.startswith("-"):
        yield f"--{flag}={text}"
    else:
        yield from (f"--{flag}", text)
