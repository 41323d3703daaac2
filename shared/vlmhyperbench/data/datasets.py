"""Bring a dataset from S3 to this machine before it is enumerated, into the cache that also holds the models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vlmhyperbench.addresses import S3
from vlmhyperbench.data.buckets import Bucket
from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.data.repositories import Arrival, Repository
from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.errors import NotFound
from vlmhyperbench.settings import Settings

_NEWEST = "latest"


def is_elsewhere(path: str | None) -> bool:
    """Return whether the files of a dataset are in S3."""
    return path is not None and path.startswith(S3)


@contextmanager
def on_this_machine(url: str, settings: Settings, arrival: Arrival) -> Iterator[Path]:
    """Yield the folder, or the file, that an `s3://` URL names; it is not evicted until the block ends.

    The listing decides which version is there: objects that did not change are not fetched again, an interrupted fetch
    continues where it ended, and what is fetched is verified.

    Raises:
        NotFound: there is no such bucket, prefix or object.
        Conflict: an object was replaced meanwhile, or there is no room.
        Denied: S3 refuses the credentials of this machine.
        Unavailable: S3 does not answer, or may not be asked.
        OSError: a file cannot be written.
    """
    bucket = Bucket.of(settings.secrets_dir, is_offline=settings.offline, is_deep=True)
    repository, name = _look_up(bucket, url.rstrip("/"))
    cache = open_cache(settings)
    files = [CachedFile(repository.repo, repository.commit, listed) for listed in repository.names]
    with cache.in_use(files):
        cache.fetch(bucket, repository, repository.names, arrival)
        folder = cache.path_of(files[0]).parents[repository.names[0].count("/")]
        yield folder / name


def _look_up(bucket: Bucket, url: str) -> tuple[Repository, str]:
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
