"""Enumerate a dataset into a sample manifest, in a child process that only has access to storage.

The output of a dataset is not trusted. A sample that cannot be asked (its image cannot be read, its text is not text)
gets a row with an `error`, and the enumeration continues; a dataset that breaks its contract is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Final

from pydantic import JsonValue

from vlmhyperbench.data import manifest
from vlmhyperbench.data.images import Addresses, ImageInfo, InvalidImage, called, check, read_image
from vlmhyperbench.data.integrity import check_hashes
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.data.preprocessing import changes_pixels, kept_pages, prepared
from vlmhyperbench.data.samples import CURE, Selection, doubled_key
from vlmhyperbench.data.threads import ahead
from vlmhyperbench.domain.digests import metadata_json
from vlmhyperbench.domain.specs import DatasetSpec, Limits
from vlmhyperbench.domain.visible import HIDDEN
from vlmhyperbench.errors import InvalidInput, PluginFailure, VlmHyperBenchError
from vlmhyperbench.metric_process import MetricHost
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench_sdk.types import Image, Sample

MAX_KEY_CHARS: Final = 500
MAX_TEXT_CHARS: Final = 1_000_000
"""Maximum length of a question, of a reference, and of metadata as JSON."""
BATCH_SAMPLES: Final = 64
"""Samples without images that a thread takes at once."""
THREADS_PER_CORE: Final = 4
"""A thread that stores an image waits for the disk most of the time."""
MAX_IMAGES: Final = 256
"""Maximum number of images of a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult:
    """The sample manifest that was stored."""

    manifest_id: str
    size_bytes: int
    samples: int
    unreadable: int
    """Number of samples that cannot be asked."""
    group_columns: tuple[str, ...]


def index_in_child(
    spec: DatasetSpec,
    limits: Limits,
    storage_url: str,
    host: MetricHost | None = None,
    addresses: Addresses | None = None,
) -> IndexResult:
    """Open storage and run `index`."""
    return index(spec, limits, open_storage(storage_url), host, addresses)


def index_in_bounds(spec: dict[str, JsonValue], limits: dict[str, JsonValue], storage_url: str) -> dict[str, JsonValue]:
    """Run `index` with arguments and a result in JSON."""
    result = index(DatasetSpec.model_validate(spec), Limits.model_validate(limits), open_storage(storage_url))
    return asdict(result)


def index(
    spec: DatasetSpec,
    limits: Limits,
    storage: Storage,
    host: MetricHost | None = None,
    addresses: Addresses | None = None,
) -> IndexResult:
    """Enumerate a dataset and store its images and its manifest.

    Args:
        spec: The dataset.
        limits: Bounds of its images.
        storage: Where images and manifest are stored.
        host: The environment that the dataset pins, if any.
        addresses: What fetches images at URLs; without it, their samples cannot be asked.

    Raises:
        InvalidInput: the parameters are wrong, no sample remains, or metadata that the task needs is missing.
        NotFound: the dataset's plugin or its files do not exist.
        Conflict: the code of the dataset was edited since the run was submitted.
        PluginFailure: the dataset breaks its contract.
        Unavailable: storage cannot be written, or a server with images does not answer.
    """
    return store(enumerate_samples(spec, limits, storage, host, addresses=addresses), spec, storage)


def enumerate_samples(
    spec: DatasetSpec,
    limits: Limits,
    storage: Storage,
    host: MetricHost | None = None,
    *,
    addresses: Addresses | None = None,
    without: Collection[str] = frozenset(),
) -> list[ManifestSample]:
    """Enumerate a dataset and store its images; samples with the keys `without` are as if they did not exist.

    Raises:
        VlmHyperBenchError: see `index`.
    """
    return _Enumeration(spec, limits, storage, host, addresses, without).run()


def store(samples: Sequence[ManifestSample], spec: DatasetSpec, storage: Storage) -> IndexResult:
    """Store the manifest of samples of a dataset.

    Raises:
        Unavailable: storage cannot be written.
    """
    manifest_id, data = manifest.write(samples, preprocess=spec.preprocess)
    storage.put(manifest.manifest_key(manifest_id), data, media_type="application/vnd.apache.parquet")
    return IndexResult(
        manifest_id=manifest_id,
        size_bytes=len(data),
        samples=len(samples),
        unreadable=sum(sample.error is not None for sample in samples),
        group_columns=tuple(manifest.group_columns(samples)),
    )


class _Enumeration:
    """One pass over a dataset, with its state."""

    def __init__(
        self,
        spec: DatasetSpec,
        limits: Limits,
        storage: Storage,
        host: MetricHost | None,
        addresses: Addresses | None,
        without: Collection[str],
    ) -> None:
        self._spec = spec
        self._limits = limits
        self._storage = storage
        self._addresses = addresses
        self._selection = Selection(spec, host, without=without)
        self._root = self._selection.root
        self._images: dict[str, ImageInfo] = {}
        """By hash, so that an image that several samples share is checked and stored once."""
        self._keys: set[str] = set()
        self._missing: Counter[str] = Counter()

    def run(self) -> list[ManifestSample]:
        """Return the rows of the manifest."""
        check_hashes(self._spec)
        threads = THREADS_PER_CORE * len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(threads) as pool:
            batches = ahead(pool, self._rows, self._batches(), window=2 * threads)
            samples = list(chain.from_iterable(batches))
        for sample in samples:
            self._missing.update(name for name in self._spec.required_fields if sample.metadata.get(name) is None)
        if self._missing:
            counts = ", ".join(f"{name} ({count} of {len(samples)})" for name, count in sorted(self._missing.items()))
            raise InvalidInput(
                f"Samples of the dataset {self._spec.name!r} lack metadata that the task needs: {counts}.",
                cure="Add it to the dataset, or remove it from the task's required_fields.",
            )
        return samples

    def _batches(self) -> Iterator[list[tuple[int, Sample]]]:
        """Yield numbered samples whose keys are right, some at once: a thread costs more than a sample of text."""
        batch: list[tuple[int, Sample]] = []
        for number, sample in enumerate(self._selection):
            self._check_key(sample.key, sample.location)
            batch.append((number, sample))
            if sample.images or len(batch) == BATCH_SAMPLES:
                yield batch
                batch = []
        yield batch

    def _rows(self, batch: Sequence[tuple[int, Sample]]) -> list[ManifestSample]:
        return [self._row(number, sample) for number, sample in batch]

    def _row(self, number: int, sample: Sample) -> ManifestSample:
        """Return the row of a sample, in one of several threads: reading and decoding images does not hold the GIL."""
        problems: list[str] = []
        metadata = _metadata(sample, problems)
        return ManifestSample(
            index=number,
            key=sample.key,
            question=_text(sample.question, "question", problems),
            references=tuple(_text(text, "reference", problems) for text in sample.references),
            images=self._stored(sample.images, problems),
            error=" ".join(problems) or None,
            metadata=metadata,
        )

    def _check_key(self, key: str, location: str | None) -> None:
        if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS or _cleaned(key) != key:
            raise PluginFailure(
                f"The dataset {self._spec.name!r} yields the key {str(key)[:80]!r}, which is not text of 1 to "
                f"{MAX_KEY_CHARS} characters without NUL and unpaired surrogates.",
                cure=CURE,
            )
        if key in self._keys:
            raise self._doubled(key, location)
        self._keys.add(key)

    def _doubled(self, key: str, location: str | None) -> VlmHyperBenchError:
        """Return the error of a key that comes again; the first place is looked for only now, since none is kept."""
        first = next((sample.location for sample in self._selection if sample.key == key), None)
        return doubled_key(self._spec.name, key, first, location)

    def _stored(self, images: Sequence[Image], problems: list[str]) -> tuple[ImageInfo, ...]:
        if len(images) > MAX_IMAGES:
            problems.append(f"The sample has {len(images)} images, more than {MAX_IMAGES}.")
            return ()
        try:
            kept = kept_pages(images, self._spec.preprocess)
        except InvalidImage as error:
            problems.append(str(error))
            return ()
        checked = [self._image(image) for image in kept]
        problems.extend(image for image in checked if isinstance(image, str))
        return tuple(image for image in checked if isinstance(image, ImageInfo))

    def _image(self, image: Image) -> ImageInfo | str:
        """Check and store an image, or return why a model cannot be asked about it."""
        try:
            data = read_image(image, root=self._root, limits=self._limits, addresses=self._addresses)
            sha256 = hashlib.sha256(data).hexdigest()
            if sha256 not in self._images:
                self._images[sha256] = self._put(data, sha256, what=called(image, self._root))
        except InvalidImage as error:
            return str(error)
        return self._images[sha256]

    def _put(self, data: bytes, sha256: str, *, what: str) -> ImageInfo:
        info = check(data, self._limits, what=what, sha256=sha256)
        if changes_pixels(self._spec.preprocess):
            original, data = info, prepared(data, self._spec.preprocess)
            info = replace(check(data, self._limits, what=what), source_sha256=original.sha256)
        self._storage.put(info.storage_key, data, media_type=info.media_type)
        return info


def text_problems(sample: Sample) -> list[str]:
    """Return why the texts of a sample cannot be stored, for which it is an error row, or its dataset is refused."""
    problems: list[str] = []
    _text(sample.key, "key", problems)
    _text(sample.question, "question", problems)
    for text in sample.references:
        _text(text, "reference", problems)
    _metadata(sample, problems)
    return problems


def _text(text: str, what: str, problems: list[str]) -> str:
    if not isinstance(text, str):
        problems.append(f"The {what} is not text.")
        return ""
    if len(text) > MAX_TEXT_CHARS:
        problems.append(f"The {what} is longer than {MAX_TEXT_CHARS} characters.")
        text = text[:MAX_TEXT_CHARS]
    cleaned = _cleaned(text)
    if cleaned != text:
        problems.append(f"The {what} has a NUL or an unpaired surrogate.")
    return cleaned


def _cleaned(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _metadata(sample: Sample, problems: list[str]) -> dict[str, JsonValue]:
    """Return metadata in the form in which it is stored; empty if it cannot be stored."""
    try:
        metadata: dict[str, Any] = dict(sample.metadata)  # a plugin's: anything, of which JSON passes
        text = metadata_json(metadata).decode()
    except (TypeError, ValueError, RecursionError) as error:
        problems.append(f"The metadata is not JSON: {error}.")
        return {}
    if controlled := [name for name in metadata if HIDDEN.search(name)]:
        problems.append(f"The metadata has the name {controlled[0][:80]!r}, which has a control character.")
        return {}
    if len(text) > MAX_TEXT_CHARS:
        problems.append(f"The metadata is longer than {MAX_TEXT_CHARS} characters.")
        return {}
    plain: dict[str, JsonValue] = json.loads(text)
    return plain
