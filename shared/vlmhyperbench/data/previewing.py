"""The first samples of a dataset as they would be asked, with their images decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from vlmhyperbench.data.images import Addresses, InvalidImage, called, check, read_image
from vlmhyperbench.data.integrity import check_hashes
from vlmhyperbench.data.preprocessing import kept_pages, prepared
from vlmhyperbench.data.samples import Selection, root_of
from vlmhyperbench.domain.digests import metadata_json
from vlmhyperbench.domain.specs import DatasetSpec, Limits
from vlmhyperbench_sdk.types import Image, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedSample:
    """A sample in words."""

    key: str
    question: str
    images: tuple[str, ...]
    """Size and format of each image, or why it cannot be sent."""
    references: tuple[str, ...]
    metadata: Mapping[str, JsonValue]


def preview_dataset(spec: DatasetSpec, limits: Limits, addresses: Addresses | None = None) -> Iterator[PreviewedSample]:
    """Yield the selected samples of a dataset whose files are on this machine.

    Raises:
        VlmHyperBenchError: the dataset cannot be read; see `Selection`.
    """
    check_hashes(spec)
    for sample in Selection(spec):
        yield PreviewedSample(
            key=sample.key,
            question=sample.question,
            images=tuple(_images(sample, spec, limits, addresses)),
            references=sample.references,
            metadata=json.loads(metadata_json(dict(sample.metadata))),  # type: ignore[arg-type]  # of a plugin
        )


def _images(sample: Sample, spec: DatasetSpec, limits: Limits, addresses: Addresses | None) -> Iterator[str]:
    try:
        kept = kept_pages(sample.images, spec.preprocess)
    except InvalidImage as error:
        yield str(error)
        return
    for image in kept:
        yield _image(image, spec, limits, addresses)


def _image(image: Image, spec: DatasetSpec, limits: Limits, addresses: Addresses | None) -> str:
    root = root_of(spec)
    try:
        data = read_image(image, root=root, limits=limits, addresses=addresses)
        check(data, limits, what=called(image, root))
        info = check(prepared(data, spec.preprocess), limits)
    except InvalidImage as error:
        return str(error)
    return f"{info.width} × {info.height} {info.media_type}, {info.size_bytes:,} bytes"
