"""Samples of a dataset, and prompts of a strategy, whose code runs in an environment of its own."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeGuard

from vlmhyperbench.domain.specs import DatasetSpec, PromptStrategySpec
from vlmhyperbench.errors import NotReady, PluginFailure
from vlmhyperbench.metric_process import MetricHost, RaisedApart, process_of
from vlmhyperbench_sdk.checks import problem_with_prompt
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Image, JsonObject, JsonValue, Prompt, Sample

BATCH_SAMPLES: Final = 500


def samples_apart(spec: DatasetSpec, source: DatasetSource, host: MetricHost | None) -> Iterator[Sample]:
    """Yield the samples of a dataset; their values are as untrusted as those of a dataset that is read here.

    Raises:
        NotReady: its environment is not prepared here.
        InvalidInput, NotFound, Conflict, PluginFailure: the dataset cannot be opened, or refuses its params.
        PluginFailure: it raises, gives no samples, or its process ended or hangs.
    """
    wanted: JsonObject = {
        "class_path": spec.type,
        "called": spec.name,
        "path": str(source.path) if source.path is not None else None,
        "split": source.split,
        "revision": source.revision,
        "seed": source.seed,
        "params": source.params,
    }
    what, first, is_end = f"dataset {spec.name!r}", 0, False
    while not is_end:
        reply = _ask(host, {"dataset": wanted, "ask": "samples", "of": {"first": first}}, what)
        rows = reply.get("samples")
        if not isinstance(rows, list) or not isinstance(reply.get("is_end"), bool):
            raise PluginFailure(f"The {what} gives no samples.")
        yield from (_sample(row, what) for row in rows)
        first, is_end = first + len(rows), reply["is_end"] is True


def prompts_apart(spec: PromptStrategySpec, samples: Sequence[Sample], host: MetricHost | None) -> list[Prompt]:
    """Return the prompt of every sample, in their order.

    Raises:
        NotReady: its environment is not prepared here.
        InvalidInput, NotFound, Conflict, PluginFailure: the strategy cannot be opened, or refuses a sample.
        PluginFailure: it raises, gives a prompt that cannot be sent, or its process ended or hangs.
    """
    wanted: JsonObject = {"class_path": spec.class_path, "called": spec.name, "params": spec.params}
    what = f"prompt {spec.name!r}"
    prompts: list[Prompt] = []
    for no in range(0, len(samples), BATCH_SAMPLES):
        batch = samples[no : no + BATCH_SAMPLES]
        rows: list[JsonValue] = [[sample.key, sample.question, sample.metadata] for sample in batch]
        rendered = _ask(host, {"prompt": wanted, "ask": "render", "of": rows}, what).get("prompts")
        if not isinstance(rendered, list) or len(rendered) != len(batch):
            raise PluginFailure(f"The {what} gives another number of prompts than samples.", code="prompt")
        prompts += [_prompt(row, sample, what) for row, sample in zip(rendered, batch, strict=True)]
    return prompts


def _ask(host: MetricHost | None, request: JsonObject, what: str) -> Mapping[str, JsonValue]:
    if host is None:
        message = f"The {what} runs in an environment of its own, which is not prepared here."
        raise NotReady(message, cure="Start the run again.", code="no_environment")
    try:
        reply = process_of(host).ask(request, what, within_s=host.reply_s)
    except RaisedApart as error:
        cure = "Correct the plugin; docs/write-a-dataset.md and docs/write-a-prompt.md state the contracts."
        raise PluginFailure(f"The {what} raises {error}.", cure=cure) from error
    return reply if isinstance(reply, Mapping) else {}


def _sample(row: JsonValue, what: str) -> Sample:
    if isinstance(row, Mapping):
        key, question, metadata = row.get("key"), row.get("question"), row.get("metadata")
        references, images, location = row.get("references"), row.get("images"), row.get("location")
        if (
            isinstance(key, str)
            and isinstance(question, str)
            and isinstance(metadata, Mapping)
            and _are_texts(references)
            and isinstance(images, list)
        ):
            return Sample(
                key=key,
                question=question,
                references=tuple(references),
                images=tuple(_image(image, what) for image in images),
                metadata=metadata,
                location=location if isinstance(location, str) else None,
            )
    raise PluginFailure(f"The {what} yields a sample whose key, question, references or metadata have another type.")


def _image(image: JsonValue, what: str) -> Image:
    given = image if isinstance(image, Mapping) else {}
    path, data = given.get("path"), given.get("data")
    try:
        if isinstance(data, str):
            return Image(data=base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise PluginFailure(f"The {what} yields an image that cannot be read.") from error
    if isinstance(url := given.get("url"), str):
        return Image(url=url)
    if not isinstance(path, str):
        raise PluginFailure(f"The {what} yields an image without data, path and url.")
    return Image(path=Path(path))


def _prompt(row: JsonValue, sample: Sample, what: str) -> Prompt:
    user, system = row if isinstance(row, list) and len(row) == 2 else (None, None)
    prompt = Prompt(user=user, system=system) if isinstance(user, str) and isinstance(system, str | None) else None
    problem = problem_with_prompt(prompt)
    if prompt is None or problem is not None:
        raise PluginFailure(f"The {what} fails on the sample {sample.key!r}: {problem}.", code="prompt")
    return prompt


def _are_texts(value: JsonValue) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
