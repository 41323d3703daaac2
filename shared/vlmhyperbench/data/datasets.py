"""Bring a dataset from S3 or a hub to this machine before it is read, into the cache that also holds the models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Final

from vlmhyperbench.data.archives import unpacked
from vlmhyperbench.data.buckets import Bucket
from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.data.repositories import DATASETS, Arrival, Hub, Repository, Source
from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.domain.datasets import HUB, HubDataset, is_elsewhere, parse_hub_path
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import NotFound
from vlmhyperbench.settings import Settings

_NEWEST = "latest"
_TABLES: Final = (".parquet", ".arrow", ".jsonl", ".csv", ".tsv")
"""Formats of tables, the preferred one first: of one repository only one is fetched."""
_BESIDE: Final = ("README.md", "dataset_info.json", "dataset_dict.json", "state.json")
"""Files that say which tables there are."""


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
    continues where it ended, and what is fetched is verified.

    Raises:
        NotFound: there is no such bucket, prefix, object, repository or revision.
        Conflict: a file was replaced meanwhile, or there is no room.
        Denied: the source refuses the credentials of this machine.
        Unavailable: the source does not answer, or may not be asked.
        OSError: a file cannot be written.
    """
    if spec.path is None or not is_elsewhere(spec.path):
        yield spec
        return
    if spec.path.startswith(HUB):
        source: Source = Hub.of(settings.secrets_dir, is_offline=settings.offline)
        repository, inside, wanted = _of_hub(source, parse_hub_path(spec.path), spec.revision)
    else:
        source = Bucket.of(settings.secrets_dir, is_offline=settings.offline, is_deep=True)
        repository, inside = _look_up(source, spec.path.rstrip("/"))
        wanted = repository.names
    cache = open_cache(settings)
    files = [CachedFile(repository.repo, repository.commit, name) for name in wanted]
    with cache.in_use(files):
        cache.fetch(source, repository, wanted, arrival)
        folder = cache.path_of(files[0]).parents[wanted[0].count("/")]
        yield spec.model_copy(update={"path": str(folder / inside), "revision": None})


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


def _of_hub(hub: Source, dataset: HubDataset, revision: str | None) -> tuple[Repository, str, list[str]]:
    """Return the listing of a repository, the path inside of it, and the files to fetch: its tables in one format."""
    repository = hub.look_up(DATASETS + dataset.repo, revision or "main")
    within = [name for name in repository.names if dataset.holds(name)]
    for suffix in _TABLES:
        if any(name.lower().endswith(suffix) for name in within):
            beside = [name for name in repository.names if PurePosixPath(name).name in _BESIDE]
            images = [] if suffix == ".parquet" else [name for name in within if not name.lower().endswith(_TABLES)]
            tables = [name for name in within if name.lower().endswith(suffix)]
            return repository, dataset.inside, sorted({*tables, *images, *beside})
    where = f"{dataset.repo}/{dataset.inside}".rstrip("/")
    raise NotFound(
        f"{where} at {repository.commit} has no table: none of its files ends with {', '.join(_TABLES)}.",
        cure="Name the revision refs/convert/parquet, where the hub itself keeps most datasets as Parquet.",
        code="hub_no_file",
    )
