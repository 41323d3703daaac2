"""Render the prompts of samples: a template that is linear here, any other in a child with bounded time and memory."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlmhyperbench.bounded import TOO_MUCH, ChildBounds, run_bounded
from vlmhyperbench.domain.prompts import is_linear, render
from vlmhyperbench.domain.specs import PromptSpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, Prompt

if TYPE_CHECKING:
    from vlmhyperbench.data.manifest import ManifestSample

BOUNDS = ChildBounds(cpu_s=60, wall_s=300)
"""What the child may use for all samples of a job; ten thousand ordinary samples take a second."""


async def render_prompts(
    spec: PromptSpec, samples: Sequence[ManifestSample], *, bounds: ChildBounds = BOUNDS
) -> list[Prompt]:
    """Return the prompt of every sample, in their order.

    Raises:
        InvalidInput: a template is wrong, asks for what a sample lacks, or takes too much time or memory.
        Unavailable: the child died.
    """
    asked = [(sample.question, dict(sample.metadata)) for sample in samples]
    if not asked or is_linear(spec):
        return await asyncio.to_thread(lambda: list(_render(spec, asked)))
    with tempfile.TemporaryDirectory(prefix="vlmhb-prompts-") as folder:
        given, made = Path(folder) / "samples.jsonl", Path(folder) / "prompts.jsonl"
        await asyncio.to_thread(_write, given, asked)
        what = f"the prompt {spec.name!r}"
        try:
            await run_bounded(
                render_file, spec.model_dump(mode="json"), str(given), str(made), what=what, bounds=bounds
            )
        except InvalidInput as error:
            if error.code != TOO_MUCH:
                raise
            message = f"Rendering {what} takes too much time or memory: {error.message}"
            raise InvalidInput(message, cure="Write a simpler template.", code="prompt") from error
        return await asyncio.to_thread(lambda: [Prompt(user=user, system=system) for user, system in _read(made)])


def render_file(spec: JsonObject, given: str, made: str) -> None:
    """Render every line of a file into a line of another, in a child.

    Raises:
        InvalidInput: a template is wrong, or asks for what a sample lacks.
    """
    prompts = _render(PromptSpec.model_validate(spec), _read(Path(given)))
    _write(Path(made), ([prompt.user, prompt.system] for prompt in prompts))


def _render(spec: PromptSpec, asked: Iterable[tuple[str, JsonObject]]) -> Iterable[Prompt]:
    return (render(spec, question=question, metadata=metadata) for question, metadata in asked)


def _read(path: Path) -> Iterable[Any]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _write(path: Path, rows: Iterable[object]) -> None:
    with path.open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row) + "\n")
