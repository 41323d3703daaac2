"""Render prompts by a plugin, in the child that `rendering` bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from vlmhyperbench.domain.specs import PromptStrategySpec
from vlmhyperbench.errors import PluginFailure, VlmHyperBenchError
from vlmhyperbench.registry.plugins import require_pinned
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.checks import problem_with_prompt
from vlmhyperbench_sdk.protocols import PromptStrategy
from vlmhyperbench_sdk.types import Prompt, Sample


def render_by_strategy(spec: PromptStrategySpec, samples: Iterable[Sample]) -> Iterator[Prompt]:
    """Yield the prompt of every sample, in their order.

    Raises:
        NotFound: the plugin is not installed.
        InvalidInput: the plugin refuses its params or a sample.
        Conflict: another version of the plugin is installed than the run pins.
        PluginFailure: the plugin fails, or returns a prompt that cannot be sent.
    """
    require_pinned(spec.package, f"prompt {spec.name!r}")
    strategy = cast("PromptStrategy", discovery.construct("prompts", spec.class_path, spec.params, called=spec.name))
    for sample in samples:
        yield _render(strategy, sample, spec.name)


def _render(strategy: PromptStrategy, sample: Sample, name: str) -> Prompt:
    where = f"The prompt strategy {name!r} fails on the sample {sample.key!r}"
    try:
        prompt = strategy.render(sample)
    except (VlmHyperBenchError, MemoryError):
        raise
    except Exception as error:  # the plugin's own code runs here, and may raise anything
        raise PluginFailure(f"{where}: {type(error).__name__}: {error}.", code="prompt") from error
    problem = problem_with_prompt(prompt)
    if problem is not None:
        raise PluginFailure(f"{where}: {problem}.", code="prompt")
    return prompt
