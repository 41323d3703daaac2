"""Fetch the pinned files of models that this machine lacks, from a hub or from S3, and count the bytes that arrive."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from vlmhyperbench.data.buckets import Bucket
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival, Hub, Source
from vlmhyperbench.data.weights import cached_files
from vlmhyperbench.domain.cached_files import MADE, S3, CachedFile, parse_cached_location
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.settings import Settings

SourceOf = Callable[[str], Source]
"""Returns where a repository or a prefix is fetched from."""


def open_cache(settings: Settings) -> ModelCache:
    """Return the cache of models of this machine."""
    return ModelCache(settings.models_dir, max_bytes=settings.models_max_bytes)


def sources_of(settings: Settings) -> SourceOf:
    """Return the sources that this machine may use, with its own credentials."""

    def source_of(repo: str) -> Source:
        kind = Bucket if repo.startswith(S3) else Hub
        return kind.of(settings.secrets_dir, is_offline=settings.offline)

    return source_of


def is_complete(files: Collection[ModelFile], cache: ModelCache) -> bool:
    """Return whether no file of these has to be fetched or made."""
    return cache.has(cached_files(files))


def fetch_missing(
    files: Collection[ModelFile], cache: ModelCache, source_of: SourceOf, arrival: Arrival | None = None
) -> None:
    """Fetch the pinned files that are not in the cache; those that are cost no request.

    Raises:
        NotFound: the repository, the prefix or a file is gone.
        Conflict: there is no room, or a file is not the pinned one.
        Denied: the source refuses the credentials of this machine.
        Unavailable: the source does not answer, or may not be asked.
        OSError: a file cannot be written.
    """
    arrival = arrival or Arrival()
    pinned = {(file.repo, file.name): model_file.sha256 for model_file in files for file in _fetched([model_file])}
    wanted = _fetched(files)
    for repo, commit in sorted({(file.repo, file.commit) for file in wanted}):
        mine = [file for file in wanted if (file.repo, file.commit) == (repo, commit)]
        if cache.has(mine):
            continue
        source = source_of(repo)
        listed = source.look_up(repo, commit)
        # What counts are the pinned hashes: the listing of a prefix may differ although its objects are the same.
        hashed = tuple(replace(file, sha256=pinned.get((repo, file.name), file.sha256)) for file in listed.files)
        cache.fetch(source, replace(listed, commit=commit, files=hashed), [file.name for file in mine], arrival)


def _fetched(files: Collection[ModelFile]) -> list[CachedFile]:
    cached = (parse_cached_location(file.location) for file in files)
    return [file for file in cached if file is not None and file.repo != MADE]
