"""The examples of a prompt: drawn from another split at INDEX, without those that would give a question away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.data import manifest
from vlmhyperbench.data.enumerating import IndexResult, enumerate_samples, store
from vlmhyperbench.data.images import Addresses
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.few_shot import answer_of
from vlmhyperbench.domain.identity import may_be_paired
from vlmhyperbench.domain.selection import rank
from vlmhyperbench.domain.specs import DatasetSpec, FewShotSpec, Limits
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.metric_process import MetricHost
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import Prompt

MAX_LEFT_OUT: Final = 200
"""Maximum number of samples that are drawn in vain before another split or seed is asked for."""
ASKED: Final = "it is asked itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The examples that were stored, and what was drawn in vain."""

    stored: IndexResult
    keys: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    """Key and reason."""

    def as_json(self) -> dict[str, JsonValue]:
        """Return what events and the outcome of INDEX state."""
        left_out: list[JsonValue] = [{"key": key, "reason": reason} for key, reason in self.left_out]
        return {"manifest_id": self.stored.manifest_id, "keys": list(self.keys), "left_out": left_out}


def draw_in_child(
    few_shot: FewShotSpec,
    asked: DatasetSpec,
    samples: Path,
    limits: Limits,
    storage_url: str,
    host: MetricHost | None,
    addresses: Addresses | None,
) -> Drawn:
    """Open storage and the manifest of the samples that are asked, and run `draw_examples`."""
    known = list(manifest.samples_of(manifest.read(samples)))
    return draw_examples(few_shot, asked, known, limits, open_storage(storage_url), host, addresses)


def draw_examples(
    few_shot: FewShotSpec,
    asked: DatasetSpec,
    samples: Sequence[ManifestSample],
    limits: Limits,
    storage: Storage,
    host: MetricHost | None = None,
    addresses: Addresses | None = None,
) -> Drawn:
    """Draw examples in the order of their hashes, and store them as a manifest.

    A sample that is asked itself, cannot be read or has no answer is left out, and the next one is drawn.

    Args:
        few_shot: Where they are drawn, how many, and with which seed.
        asked: The dataset that is asked.
        samples: Its samples.
        limits: Bounds of images.
        storage: Where images and manifest are put.
        host: The environment that the dataset of the examples pins, if any.
        addresses: What fetches images at URLs, if that is allowed.

    Raises:
        InvalidInput: too few samples remain, or metadata that `few_shot` names is missing.
        NotFound, Conflict, PluginFailure, Unavailable: as `enumerating.index`.
    """
    dataset = few_shot.dataset
    keys = {sample.key for sample in samples} if may_be_paired(asked, dataset, (None, None)) else set[str]()
    questions = {identity_of(sample) for sample in samples}
    left_out: dict[str, str] = {}
    while True:
        try:
            drawn = enumerate_samples(dataset, limits, storage, host, addresses=addresses, without=frozenset(left_out))
        except InvalidInput as error:
            if not left_out:
                raise
            raise _too_few(few_shot, 0, left_out) from error
        _check_answer_field(few_shot, drawn)
        wrong = {sample.key: why for sample in drawn if (why := _why_not(few_shot, sample, keys, questions))}
        left_out |= wrong
        if len(drawn) < few_shot.count or len(left_out) > MAX_LEFT_OUT:
            raise _too_few(few_shot, len(drawn) - len(wrong), left_out)
        if not wrong:
            break
    seed = dataset.sampling.seed if dataset.sampling is not None else 0
    ordered = sorted(drawn, key=lambda sample: rank(seed, sample.key))
    examples = [replace(sample, index=number) for number, sample in enumerate(ordered)]
    return Drawn(
        stored=store(examples, dataset, storage),
        keys=tuple(sample.key for sample in examples),
        left_out=tuple(left_out.items()),
    )


def with_local_files(few_shot: FewShotSpec, asked: DatasetSpec, local: DatasetSpec) -> tuple[FewShotSpec, DatasetSpec]:
    """Return both with the path of the files of the examples on this machine, `local`.

    Files that were fetched have a path of their own; whether they are the same data is said by where they were.
    """
    is_same = asked.path == few_shot.dataset.path
    same = asked.model_copy(update={"path": local.path}) if is_same else asked
    return few_shot.model_copy(update={"dataset": local}), same


def check_leaks(
    examples: Sequence[ManifestSample],
    shown: Sequence[Prompt],
    samples: Sequence[ManifestSample],
    rendered: Sequence[Prompt],
) -> None:
    """Check that no example asks the same text about the same images as a sample.

    INDEX leaves out samples that are asked themselves. Others can become the same by the prompt, which may leave out
    what distinguishes them.

    Args:
        examples: The samples that are shown.
        shown: Their prompts.
        samples: The samples that are asked.
        rendered: Their prompts.

    Raises:
        InvalidInput: an example does; it would show the model the answer.
    """
    asked = {(prompt.user, _images(sample)): sample.key for sample, prompt in zip(samples, rendered, strict=True)}
    for example, prompt in zip(examples, shown, strict=True):
        key = asked.get((prompt.user, _images(example)))
        if key is not None:
            message = f"The example {example.key!r} of the prompt asks what the sample {key!r} asks."
            cure = "Draw the examples from another split or with another seed in few_shot."
            raise InvalidInput(message, cure=cure, code="prompt")


def _images(sample: ManifestSample) -> tuple[str, ...]:
    return tuple(image.sha256 for image in sample.images)


def identity_of(sample: ManifestSample) -> str:
    """Return what makes two samples the same question: its words with its images, or without images its metadata."""
    words = " ".join(sample.question.split()).casefold()
    if sample.images:
        return digest_of([words, list(_images(sample))])
    return digest_of([words, {name: value for name, value in sample.metadata.items() if name != "split"}])


def _why_not(few_shot: FewShotSpec, sample: ManifestSample, keys: set[str], questions: set[str]) -> str:
    """Return why a sample is no example; empty if it is one."""
    if sample.error is not None:
        return f"it cannot be read: {sample.error}"
    if sample.key in keys or identity_of(sample) in questions:
        return ASKED
    return "" if answer_of(few_shot, sample.references, sample.metadata) else "it has no answer"


def _check_answer_field(few_shot: FewShotSpec, drawn: Sequence[ManifestSample]) -> None:
    """Check that the metadata that `few_shot` names as the answer occurs."""
    name, known = few_shot.answer_field, _fields(drawn)
    if name is not None and name not in known:
        message = f"few_shot.answer_field: the dataset {few_shot.dataset.name!r} has no metadata {name!r}."
        raise InvalidInput(message, cure=did_you_mean(name, known, nothing="It has none."), code="prompt")


def _fields(samples: Iterable[ManifestSample]) -> set[str]:
    return {name for sample in samples for name in sample.metadata}


def _too_few(few_shot: FewShotSpec, remaining: int, left_out: Mapping[str, str]) -> InvalidInput:
    dataset = few_shot.dataset
    split = f", split {dataset.split!r}" if dataset.split is not None else ""
    message = f"The dataset {dataset.name!r}{split} has {remaining} of the {few_shot.count} examples of few_shot."
    if left_out:
        key, reason = next(iter(left_out.items()))
        message += f" {len(left_out)} were left out, such as {key!r}: {reason}."
    cure = "Name a split that is not asked, ask for fewer examples, or filter less."
    return InvalidInput(message, cure=cure, code="prompt")
