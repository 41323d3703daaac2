"""Render the prompts of samples: a linear template in this process, all others in a child with bounded resources."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from vlmhyperbench.bounded import TOO_LARGE, ChildBounds, run_bounded
from vlmhyperbench.data.apart import prompts_apart
from vlmhyperbench.data.strategies import render_by_strategy
from vlmhyperbench.domain.prompts import is_linear, render
from vlmhyperbench.domain.specs import AnyPrompt, PromptSpec, PromptStrategySpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.metric_process import MetricHost
from vlmhyperbench_sdk.types import JsonObject, Prompt, Sample

if TYPE_CHECKING:
    from vlmhyperbench.data.manifest import ManifestSample

BOUNDS = ChildBounds(cpu_s=60, wall_s=300)
"""Limits of the child for all samples of a job; ten thousand ordinary samples take a second."""
_SPEC: Final = TypeAdapter[AnyPrompt](AnyPrompt)


async def render_prompts(
    spec: AnyPrompt,
    samples: Sequence[ManifestSample],
    *,
    bounds: ChildBounds = BOUNDS,
    host: MetricHost | None = None,
) -> list[Prompt]:
    """Return the prompt of every sample, in their order; `host` is the environment that the prompt pins, if any.

    Raises:
        NotFound, Conflict: the prompt's plugin is not installed in the version that the run pins.
        InvalidInput: a template is wrong, asks for what a sample lacks, or takes too much time or memory.
        PluginFailure: a plugin fails.
        Unavailable: the child died.
    """
    inputs = [Sample(key=sample.key, question=sample.question, metadata=dict(sample.metadata)) for sample in samples]
    if not inputs:
        return []
    if isinstance(spec, PromptSpec) and is_linear(spec):
        return await asyncio.to_thread(lambda: [_fill(spec, sample) for sample in inputs])
    if isinstance(spec, PromptStrategySpec) and spec.environment is not None:
        return await asyncio.to_thread(prompts_apart, spec, inputs, host)
    with tempfile.TemporaryDirectory(prefix="vlmhb-prompts-") as folder:
        source, target = Path(folder) / "samples.jsonl", Path(folder) / "prompts.jsonl"
        rows = ([sample.key, sample.question, sample.metadata] for sample in inputs)
        await asyncio.to_thread(_write, source, rows)
        what = f"the prompt {spec.name!r}"
        try:
            await run_bounded(
                render_file, spec.model_dump(mode="json"), str(source), str(target), what=what, bounds=bounds
            )
        except InvalidInput as error:
            if error.code != TOO_LARGE:
                raise
            message = f"Rendering {what} takes too much time or memory: {error.message}"
            cure = "Write a simpler template." if isinstance(spec, PromptSpec) else "Correct the prompt strategy."
            raise InvalidInput(message, cure=cure, code="prompt") from error
        return await asyncio.to_thread(lambda: [Prompt(user=user, system=system) for user, system in _read(target)])


def render_file(spec: JsonObject, source: str, target: str) -> None:
    """Render the sample of every line of `source` into a line of `target`; runs in the child.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: as `render_prompts`.
    """
    samples = (Sample(key=key, question=question, metadata=metadata) for key, question, metadata in _read(Path(source)))
    _write(Path(target), ([prompt.user, prompt.system] for prompt in _render(_SPEC.validate_python(spec), samples)))


def _render(spec: AnyPrompt, samples: Iterable[Sample]) -> Iterable[Prompt]:
    if isinstance(spec, PromptSpec):
        return (_fill(spec, sample) for sample in samples)
    return render_by_strategy(spec, samples)


def _fill(spec: PromptSpec, sample: Sample) -> Prompt:
    return render(spec, question=sample.question, metadata=sample.metadata)


def _read(path: Path) -> Iterable[Any]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _write(path: Path, rows: Iterable[object]) -> None:
    with path.open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row) + "\n")
