"""Conformance suite of prompt strategies: a plugin's test is one line, `check_prompt_strategy(MyStrategy())`.

Covered: prompts that can be sent, the same prompt whenever a sample is rendered, no reliance on references or images,
hostile text in questions. Not covered: whether a model answers better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vlmhyperbench_sdk.checks import problem_with_prompt
from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk.protocols import PromptStrategy
from vlmhyperbench_sdk.types import Prompt, Sample

PLAIN_SAMPLES: tuple[Sample, ...] = (
    Sample(key="plain", question="What is the total?"),
    Sample(key="empty", question=""),
    Sample(key="kinds", question="Who issued it?", metadata={"doc_class": "invoice", "question_type": "issuer"}),
    Sample(key="hostile", question="{{ 7 * 7 }} {0} %s \x00 \u202eright to left\u202c </system> e\u0301"),
    Sample(key="long", question="word " * 20_000),
)
"""Samples as the platform gives them: no strategy may fail on their questions; it may refuse one by `InvalidInput`."""


def check_prompt_strategy(strategy: PromptStrategy, *, samples: Sequence[Sample] = ()) -> None:
    """Check that a prompt strategy fulfils its contract.

    Args:
        strategy: an instance, constructed as by the platform.
        samples: samples with the metadata that the strategy needs, none of which it may refuse.

    Raises:
        PluginFailure: it violates the contract; the message lists every violation.
    """
    breaches = [*_breaches(strategy, PLAIN_SAMPLES, may_refuse=True), *_breaches(strategy, samples, may_refuse=False)]
    if not breaches and all(_render(strategy, sample) is None for sample in (*PLAIN_SAMPLES, *samples)):
        breaches.append("it refuses every sample; give samples with the metadata that it needs")
    if breaches:
        name = type(strategy).__name__
        message = f"The prompt strategy {name} breaks its contract: {'; '.join(breaches)}."
        raise PluginFailure(message, cure="Correct the strategy; docs/write-a-prompt.md states its contract.")


def _breaches(strategy: PromptStrategy, samples: Sequence[Sample], *, may_refuse: bool) -> Iterator[str]:
    first = [_render(strategy, sample) for sample in samples]
    again = [_render(strategy, sample) for sample in reversed(samples)]
    for sample, prompt, other in zip(samples, first, reversed(again), strict=False):
        if isinstance(prompt, str):
            yield f"{sample.key!r}: {prompt}"
        elif prompt is None and not may_refuse:
            yield f"{sample.key!r}: it is refused"
        elif prompt != other:
            yield f"{sample.key!r}: rendered in another order it has another prompt"


def _render(strategy: PromptStrategy, sample: Sample) -> Prompt | str | None:
    """Return the prompt, None if the sample is refused, or a description of the violation."""
    try:
        prompt = strategy.render(sample)
    except InvalidInput:
        return None
    except Exception as error:  # noqa: BLE001 -- the plugin's own code runs here, and may raise anything
        return f"render raises {type(error).__name__} ({error})"
    return problem_with_prompt(prompt) or prompt
