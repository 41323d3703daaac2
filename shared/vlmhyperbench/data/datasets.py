"""Bring a dataset from S3 or a hub to this machine before it is read, into the cache that also holds the models."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from vlmhyperbench.data.archives import unpacked
from vlmhyperbench.data.buckets import Bucket
from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.data.hub_tables import needed_files, small_files
from vlmhyperbench.data.model_cache import size_text
from vlmhyperbench.data.repositories import DATASETS, Arrival, Hub, Repository, Source
from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.domain.datasets import HUB, is_elsewhere, parse_hub_path
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import NotFound
from vlmhyperbench.settings import Settings

_NEWEST: Final = "latest"


@contextmanager
def on_this_machine(spec: DatasetSpec, settings: Settings, arrival: Arrival) -> Iterator[DatasetSpec]:
    """Yield the spec with the path of its files on this machine: fetched if they are elsewhere, then unpacked.

    They are not evicted until the block ends.

    Raises:
        InvalidInput: it is an archive that is refused.
        VlmHyperBenchError: see `_fetched`.
    """
    home, max_bytes = settings.home / "unpacked", settings.unpacked_max_bytes
    with _fetched(spec, settings, arrival) as local, unpacked(local, home, max_bytes=max_bytes) as there:
        yield there


@contextmanager
def _fetched(spec: DatasetSpec, settings: Settings, arrival: Arrival) -> Iterator[DatasetSpec]:
    """Yield the spec with the path of its files on this machine; they are not evicted until the block ends.

    The listing decides which version is there: files that did not change are not fetched again, an interrupted fetch
    continues where it ended, and what is fetched is verified. Of a hub only the config and the split are fetched, and
    while it does not answer, its last listing says what is here.

    Raises:
        NotFound: there is no such bucket, prefix, object, repository, revision, config or split.
        InvalidInput: there are several configs or splits, and none is named.
        Conflict: a file was replaced meanwhile, or there is no room.
        Denied: the source refuses the credentials of this machine.
        Unavailable: the source does not answer, or may not be asked, and the files are not here.
        OSError: a file cannot be written.
    """
    if spec.path is None or not is_elsewhere(spec.path):
        yield spec
        return
    cache = open_cache(settings)
    if spec.path.startswith(HUB):
        source: Source = Hub.of(settings.secrets_dir, is_offline=settings.offline)
        dataset = parse_hub_path(spec.path)
        repository = cache.look_up(source, DATASETS + dataset.repo, spec.revision or "main")
        inside = dataset.inside
    else:
        source, dataset = Bucket.of(settings.secrets_dir, is_offline=settings.offline, is_deep=True), None
        repository, inside = _look_up(source, spec.path.rstrip("/"))
    folder = CachedFile(repository.repo, repository.commit, "")
    with cache.in_use([folder]):
        home, needed = cache.path_of(folder), repository.names
        if dataset is not None:
            if small := small_files(repository, dataset):
                cache.fetch(source, repository, small, arrival)
            needed = needed_files(repository, dataset, spec, home)
        fetched = cache.get(repository.repo, repository.commit)
        if missing := [name for name in needed if fetched is None or name not in fetched.sha256]:
            arrival.announce(_announced(repository, missing))
        cache.fetch(source, repository, needed, arrival)
        if dataset is not None:
            cache.keep_listing(repository)
        yield spec.model_copy(update={"path": str(home / inside), "revision": None})


def _announced(repository: Repository, missing: Collection[str]) -> str:
    sizes = {file.name: file.size_bytes for file in repository.files}
    size = size_text(sum(sizes[name] for name in missing))
    title = f"{repository.repo} at {repository.commit[:8]}"
    return f"Fetching {title}: {len(missing)} of its {len(sizes)} files, {size} of {size_text(sum(sizes.values()))} …"


def _look_up(bucket: Source, url: str) -> tuple[Repository, str]:
    """Return the listing of a prefix; or, for the URL of one object, of the prefix around it, and the object's name."""
    try:
        return bucket.look_up(url, _NEWEST), ""
    except NotFound:
        around, _, name = url.rpartition("/")
        if around.count("/") < 2:  # nothing but the bucket: an object directly in it
            raise
        repository = bucket.look_up(around, _NEWEST)
        if name not in repository.names:
            raise
        return repository, name
