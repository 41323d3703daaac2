"""The examples of a run as turns of its requests."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.domain.few_shot import answer_of
from vlmhyperbench.domain.specs import AnyPrompt
from vlmhyperbench.errors import NotFound
from vlmhyperbench_inference_worker.requests import Example, images_of
from vlmhyperbench_sdk.types import Prompt


def examples_of(prompt: AnyPrompt, samples: Sequence[ManifestSample], rendered: Sequence[Prompt]) -> list[Example]:
    """Return the examples of a prompt; `rendered` are the prompts of their samples, whose system texts are not sent.

    Raises:
        NotFound: the run has another number of examples than its prompt wants.
    """
    few_shot = prompt.few_shot
    if few_shot is None:
        return []
    if len(samples) != few_shot.count:
        message = f"The run has {len(samples)} of the {few_shot.count} examples of its prompt {prompt.name!r}."
        raise NotFound(message, cure="Submit it again.")
    return [
        Example(
            key=sample.key,
            user=own.user,
            images=images_of(sample),
            answer=answer_of(few_shot, sample.references, sample.metadata),
        )
        for sample, own in zip(samples, rendered, strict=True)
    ]
