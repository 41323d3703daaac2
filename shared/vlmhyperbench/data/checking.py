"""Check a dataset before anything is asked: broken, blank and doubled images, doubled keys, leaks between splits."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Literal

from PIL import Image as Pillow

from vlmhyperbench.data.enumerating import text_problems
from vlmhyperbench.data.images import Addresses, InvalidImage, called, check, read_image
from vlmhyperbench.data.integrity import check_hashes
from vlmhyperbench.data.preprocessing import kept_pages, prepared
from vlmhyperbench.data.samples import Selection, root_of
from vlmhyperbench.data.threads import ahead
from vlmhyperbench.domain.specs import DatasetSpec, Limits
from vlmhyperbench_sdk.types import Image, Sample

MAX_KEYS: Final = 10
"""Maximum number of samples that a finding names."""
BLANK_SPREAD: Final = 2
"""Largest difference between the darkest and the brightest grey value of an image that counts as blank."""

Code = Literal[
    "broken_text",
    "broken_image",
    "doubled_key",
    "leak",
    "blank_image",
    "doubled_image",
    "doubled_question",
    "no_reference",
]
ERRORS: Final[frozenset[Code]] = frozenset({"broken_text", "broken_image", "doubled_key", "leak"})
"""Findings that make a score wrong or lose samples; the others may be meant."""


@dataclass(slots=True, kw_only=True)
class Finding:
    """What was found, with the first samples that have it."""

    code: Code
    count: int = 0
    keys: list[str] = field(default_factory=list)
    detail: str = ""
    """The first case in words."""

    @property
    def is_error(self) -> bool:
        return self.code in ERRORS


@dataclass(slots=True, kw_only=True)
class Checked:
    """What a dataset has, and what is wrong with it."""

    samples: int = 0
    images: int = 0
    findings: dict[Code, Finding] = field(default_factory=dict)

    def add(self, code: Code, key: str, detail: str) -> None:
        """Count a case."""
        finding = self.findings.setdefault(code, Finding(code=code, detail=detail))
        finding.count += 1
        if len(finding.keys) < MAX_KEYS:
            finding.keys.append(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """An image that was decoded, or why it cannot be."""

    sha256: str = ""
    pixels: str = ""
    """Hash of size and pixels, which two files of one picture share."""
    is_blank: bool = False
    problem: str = ""


def check_dataset(
    spec: DatasetSpec,
    limits: Limits,
    *,
    against: Sequence[str] = (),
    threads: int = 4,
    addresses: Addresses | None = None,
) -> Checked:
    """Read every selected sample and decode its images, in threads.

    Args:
        spec: The dataset, whose files are on this machine.
        limits: Bounds of images.
        against: Other splits of the dataset, which may share no question about the same images with it.
        threads: How many images are decoded at once.
        addresses: What fetches images at URLs; without it, they count as broken.

    Raises:
        VlmHyperBenchError: the dataset cannot be read at all; see `Selection`.
    """
    check_hashes(spec)
    checked = Checked()
    elsewhere: dict[str, str] = {}
    for split in against:
        other = spec.model_copy(update={"split": split, "limit": None, "sampling": None})
        for sample, images in _decoded(other, limits, threads, addresses):
            elsewhere.setdefault(_identity(sample, images), f"{split}: {sample.key}")
    keys, pictures, questions = dict[str, str](), dict[str, str](), dict[str, str]()
    for sample, images in _decoded(spec, limits, threads, addresses):
        checked.samples += 1
        checked.images += len(images)
        if sample.key in keys:
            places = " and of ".join(place for place in (keys[sample.key], sample.location) if place)
            checked.add("doubled_key", sample.key, f"{sample.key!r} is the key of {places or 'several samples'}")
        keys.setdefault(sample.key, sample.location or "")
        if problems := text_problems(sample):
            checked.add("broken_text", sample.key, " ".join(problems))
        _add_images(checked, sample, images, pictures)
        identity = _identity(sample, images)
        if identity in elsewhere:
            checked.add("leak", sample.key, f"{sample.key!r} has the question and images of {elsewhere[identity]!r}")
        first = questions.setdefault(identity, sample.key)
        if first != sample.key:
            checked.add("doubled_question", sample.key, f"{sample.key!r} has the question and images of {first!r}")
        if not any(text.strip() for text in sample.references):
            checked.add("no_reference", sample.key, f"{sample.key!r} has no accepted answer")
    return checked


def _add_images(checked: Checked, sample: Sample, images: Sequence[_Seen], pictures: dict[str, str]) -> None:
    for image in images:
        if image.problem:
            checked.add("broken_image", sample.key, image.problem)
            continue
        if image.is_blank:
            checked.add("blank_image", sample.key, f"an image of {sample.key!r} has one colour")
        first = pictures.setdefault(image.pixels, image.sha256)
        if first != image.sha256:
            checked.add("doubled_image", sample.key, f"an image of {sample.key!r} has the pixels of another file")


def _decoded(
    spec: DatasetSpec, limits: Limits, threads: int, addresses: Addresses | None
) -> Iterator[tuple[Sample, list[_Seen]]]:
    """Yield the samples with what was seen of their images."""
    root = root_of(spec)

    def seen(image: Image) -> _Seen:
        try:
            data = read_image(image, root=root, limits=limits, addresses=addresses)
            check(data, limits, what=called(image, root))
            return _seen(prepared(data, spec.preprocess))
        except InvalidImage as error:
            return _Seen(problem=error.message)

    def of(sample: Sample) -> tuple[Sample, list[_Seen]]:
        try:
            return sample, [seen(image) for image in kept_pages(sample.images, spec.preprocess)]
        except InvalidImage as error:
            return sample, [_Seen(problem=error.message)]

    with ThreadPoolExecutor(threads) as pool:
        yield from ahead(pool, of, Selection(spec), window=4 * threads)


def _seen(data: bytes) -> _Seen:
    with Pillow.open(io.BytesIO(data)) as image:
        grey = image.convert("L")
        darkest, brightest = grey.getextrema()
        pixels = hashlib.sha256(repr(image.size).encode() + image.convert("RGBA").tobytes()).hexdigest()
    return _Seen(
        sha256=hashlib.sha256(data).hexdigest(),
        pixels=pixels,
        is_blank=float(brightest) - float(darkest) <= BLANK_SPREAD,  # type: ignore[arg-type]  # of one band: numbers
    )


def _identity(sample: Sample, images: Sequence[_Seen]) -> str:
    """Return what makes two samples the same question: its words and its pixels, or without images its metadata."""
    words = " ".join(sample.question.split()).casefold()
    about = {} if images else {name: value for name, value in sample.metadata.items() if name != "split"}
    shown = [image.pixels or image.problem for image in images] or [json.dumps(about, sort_keys=True, default=repr)]
    text = "\n".join([words, *shown])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
