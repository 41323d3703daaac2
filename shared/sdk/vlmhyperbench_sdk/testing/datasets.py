"""Conformance suite of datasets: checks of every sample and of repeatability between readings.

Covered: unique stable keys, the same samples in the same order on every reading, JSON metadata, encodable text, images
that look like images, refusal of unknown params. Not covered: whether references are right, and how much memory is
used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk.protocols import Dataset, DatasetSource
from vlmhyperbench_sdk.types import Image, Sample

MAX_KEY_CHARS = 500
MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")
"""First bytes of PNG, JPEG and WEBP files."""


def check_dataset(dataset: type[Dataset], source: DatasetSource, *, max_samples: int = 1000) -> int:
    """Read at most `max_samples` samples, three times, and return their number.

    Raises:
        PluginFailure: the dataset breaks its contract; every breach is named.
    """
    instance = dataset(source)
    first = list(islice(iter(instance), max_samples))
    breaches = [*_params(dataset, source), *_keys(first)]
    for sample in first:
        breaches.extend(f"{sample.key!r}: {breach}" for breach in _sample(sample))
    if not first:
        breaches.append("there is no sample")
    if not breaches:
        again, fresh = islice(iter(instance), max_samples), islice(iter(dataset(source)), max_samples)
        breaches.extend(_same(first, list(again), "a second reading"))
        breaches.extend(_same(first, list(fresh), "another instance"))
    if breaches:
        message = f"The dataset {dataset.__name__} breaks its contract: {'; '.join(breaches)}."
        raise PluginFailure(message, cure="Correct the dataset; docs/write-a-dataset.md states its contract.")
    return len(first)


def _params(dataset: type[Dataset], source: DatasetSource) -> Iterator[str]:
    try:
        dataset(replace(source, params={**source.params, "no_such_param": 1}))
    except InvalidInput:
        return
    yield "it accepts a param that it does not know"


def _keys(samples: list[Sample]) -> Iterator[str]:
    seen: set[str] = set()
    for sample in samples:
        if sample.key in seen:
            yield f"the key {sample.key!r} comes twice"
        seen.add(sample.key)


def _sample(sample: Sample) -> Iterator[str]:
    if not 0 < len(sample.key) <= MAX_KEY_CHARS:
        yield f"its key is empty or longer than {MAX_KEY_CHARS} characters"
    if not isinstance(sample.references, tuple) or not all(isinstance(text, str) for text in sample.references):
        yield "references is not a tuple of strings"
    elif not all(map(_is_encodable, (sample.key, sample.question, *sample.references))):
        yield "a text holds a lone surrogate or a NUL"
    try:
        json.dumps(sample.metadata, allow_nan=False)
    except (TypeError, ValueError) as error:
        yield f"its metadata is not JSON ({error})"
    for image in sample.images:
        yield from _image(image)


def _image(image: Image) -> Iterator[str]:
    try:
        data = image.read()
    except OSError as error:
        yield f"an image cannot be read ({error.strerror})"
        return
    if not data.startswith(MAGIC):
        yield "an image is no PNG, JPEG or WEBP"


def _same(samples: list[Sample], others: list[Sample], whose: str) -> Iterator[str]:
    if len(samples) != len(others):
        yield f"{whose} gives {len(others)} samples instead of {len(samples)}"
    for sample, other in zip(samples, others, strict=False):
        if _content(sample) != _content(other):
            yield f"{whose} gives {other.key!r} instead of {sample.key!r}, or other content"
            return


def _content(sample: Sample) -> tuple[object, ...]:
    images = tuple(image.read() for image in sample.images)
    return sample.key, sample.question, images, sample.references, dict(sample.metadata)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
