"""The bounded cache of models, shared by all processes of a machine: whole, verified files only.

`FOLDER/ORG--NAME/COMMIT/` holds the files (of S3 `s3--BUCKET--PREFIX/VERSION/`), `COMMIT.json` beside it what was
verified. `COMMIT.lock` is locked shared by every process that uses the files, so that none is evicted while an engine
reads it; `COMMIT.fetch` is held by the one process that downloads. `linked/` has folders of links (`linking`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vlmhyperbench.data.downloading import arrived_bytes, download_all, is_whole, stored_bytes, with_known_hash
from vlmhyperbench.data.fetched import (
    Fetched,
    delete_manifest,
    manifest_of,
    read_listing,
    read_manifest,
    record_fetched,
    used_at,
    write_listing,
    write_manifest,
)
from vlmhyperbench.data.repositories import Arrival, Repository, Source
from vlmhyperbench.domain.cached_files import MADE, CachedFile
from vlmhyperbench.errors import Conflict, NotFound, Unavailable
from vlmhyperbench.storage.hashing import content_hash

_HALF_BUILT = ".making"
_LINKED = "linked"
SPARE_BYTES = 1024**3
"""What stays free on the disk beside the models."""


class ModelCache:
    """The cache in one folder. Calls block; several processes may call at the same time."""

    def __init__(self, folder: Path, *, max_bytes: int, spare_bytes: int = SPARE_BYTES) -> None:
        """Hold the bounds.

        Args:
            folder: Folder of all models.
            max_bytes: Bound of all files together; the least recently used models are evicted for new ones.
            spare_bytes: What stays free on the disk beside them.
        """
        self._folder = folder
        self._max_bytes = max_bytes
        self._spare_bytes = spare_bytes

    @property
    def links(self) -> Path:
        """Folder of the folders of links to models' files."""
        return self._folder / _LINKED

    def models(self) -> list[Fetched]:
        """List what is in the cache, the most recently used first."""
        manifests = sorted(self._folder.glob("*/*.json"), key=used_at, reverse=True)
        return [fetched for path in manifests if (fetched := read_manifest(path)) is not None]

    def get(self, repo: str, revision: str) -> Fetched | None:
        """Return a cached model by its commit, or by the branch or tag as which it was fetched last; else None."""
        mine = [fetched for fetched in self.models() if fetched.repo == repo]
        exact = [fetched for fetched in mine if fetched.commit == revision]
        named = sorted((fetched for fetched in mine if fetched.revision == revision), key=lambda each: each.fetched_at)
        return next(iter(exact or named[::-1]), None)

    def look_up(self, source: Source, repo: str, revision: str) -> Repository:
        """List the files of a repository; while its source does not answer, as it listed them last.

        Raises:
            VlmHyperBenchError: see `Source.look_up`; Unavailable only where nothing of this revision was fetched.
        """
        try:
            return source.look_up(repo, revision)
        except Unavailable:
            fetched = self.get(repo, revision)
            listed = read_listing(self._home_of(repo, fetched.commit)) if fetched is not None else None
            if listed is None:
                raise
            return listed

    def keep_listing(self, repository: Repository) -> None:
        """Keep the listing of a repository of which files are in the cache."""
        write_listing(self._home_of(repository.repo, repository.commit), repository)

    def path_of(self, file: CachedFile) -> Path:
        """Return where a file lies if it is in the cache."""
        return self._home_of(file.repo, file.commit) / file.name

    def has(self, files: Collection[CachedFile]) -> bool:
        """Return whether all these files are in the cache, by its manifests."""
        known = {(each.repo, each.commit): each.sha256 for each in self.models()}
        return all(file.name in known.get((file.repo, file.commit), {}) for file in files)

    @contextmanager
    def in_use(self, files: Collection[CachedFile]) -> Iterator[None]:
        """Keep files from being evicted by any process; they count as used now."""
        with ExitStack() as stack:
            for home in sorted({self._home_of(file.repo, file.commit) for file in files}):
                stack.enter_context(_locked(home.with_suffix(".lock"), fcntl.LOCK_SH))
                if manifest_of(home).exists():
                    os.utime(manifest_of(home))
            yield

    def fetch(self, source: Source, repository: Repository, names: Collection[str], arrival: Arrival) -> Fetched:
        """Download and verify these files of a repository, unless they are here and whole.

        Raises:
            NotFound: the repository has no such file, or it is gone.
            Conflict: a file is not the one that its source states, or there is no room for the files.
            Denied: see `Source.download`.
            Unavailable: see `Source.download`.
            Unavailable: the disk has become full (`storage_full`).
            OSError: a file cannot be written for another reason.
        """
        listed = {file.name: file for file in repository.files}
        if missing := sorted(set(names) - set(listed)):
            cure = "Correct the name; the page of the model, or the prefix, lists its files."
            raise NotFound(f"{repository.repo} has no file {', '.join(missing)}.", cure=cure, code="hub_no_file")
        home = self._home_of(repository.repo, repository.commit)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            _locked(home.with_suffix(".lock"), fcntl.LOCK_SH),
            _locked(home.with_suffix(".fetch"), fcntl.LOCK_EX),
        ):
            home.mkdir(mode=0o700, exist_ok=True)  # it may have been evicted while the lock was waited for
            wanted = [with_known_hash(listed[name], read_manifest(manifest_of(home))) for name in sorted(names)]
            missed = [file for file in wanted if not is_whole(home, file)]
            size_bytes = sum(file.size_bytes for file in missed)
            self._make_room(size_bytes - arrived_bytes(home, listed), repository.repo)
            arrival.expect(size_bytes)
            download_all(source, repository, missed, home, arrival.add)
            return record_fetched(home, repository, wanted)

    def get_made(self, key: str, names: Collection[str]) -> Fetched | None:
        """Return what a recipe has made, if it is here; it counts as used now."""
        home = self._home_of(MADE, key)
        made = read_manifest(manifest_of(home))
        if made is None or not all((home / name).is_file() for name in {*names, *made.sha256}):
            return None
        os.utime(manifest_of(home))
        return made

    def is_being_made(self, key: str) -> bool:
        """Return whether a process is in `making` for a recipe now."""
        try:
            with _locked(self._home_of(MADE, key).with_suffix(".fetch"), fcntl.LOCK_SH | fcntl.LOCK_NB):
                return False
        except BlockingIOError:
            return True

    @contextmanager
    def making(self, key: str, size_bytes: int) -> Iterator[Path]:
        """Yield an empty folder in which the files of a recipe are made, to one process at a time.

        What a killed process has left in it is deleted, and never used: only `record_made` makes files known.

        Raises:
            Conflict: there is no room for these bytes.
        """
        home = self._home_of(MADE, key)
        with (
            _locked(home.with_suffix(".lock"), fcntl.LOCK_SH),
            _locked(home.with_suffix(".fetch"), fcntl.LOCK_EX),
        ):
            shutil.rmtree(home / _HALF_BUILT, ignore_errors=True)
            (home / _HALF_BUILT).mkdir(mode=0o700, parents=True)
            try:
                if not manifest_of(home).exists():
                    self._make_room(size_bytes, "the result of the recipe")
                yield home / _HALF_BUILT
            finally:
                shutil.rmtree(home / _HALF_BUILT, ignore_errors=True)

    def record_made(self, key: str, folder: Path) -> Fetched:
        """Put the files that a recipe has made into the cache, with their hashes; the caller is in `making`."""
        home = self._home_of(MADE, key)
        files = {path.name: path for path in folder.iterdir() if path.is_file()}
        for name, path in files.items():
            path.replace(home / name)
        made = Fetched(
            repo=MADE,
            revision=key,
            commit=key,
            license=None,
            sha256={name: content_hash(home / name) for name in sorted(files)},
            sizes={name: (home / name).stat().st_size for name in sorted(files)},
            fetched_at=time.time(),
        )
        write_manifest(home, made)
        return made

    def remove(self, fetched: Fetched) -> None:
        """Delete a model's files.

        Raises:
            Conflict: a process uses them.
        """
        home = self._home_of(fetched.repo, fetched.commit)
        if not _delete(home):
            message = f"{fetched.repo} at {fetched.commit[:8]} is in use by an engine or a download."
            raise Conflict(message, cure="Wait for the run, or cancel it.", code="model_in_use")

    def _make_room(self, size_bytes: int, repo: str) -> None:
        """Evict the least recently used models until these bytes fit the bound and the disk.

        Raises:
            Conflict: they do not fit even then.
        """
        homes = (path for path in self._folder.glob("*/*") if path.is_dir() and path.parent != self.links)
        candidates = sorted(homes, key=lambda home: used_at(manifest_of(home)))  # unfinished downloads first
        if size_bytes > 0 and self._lack(size_bytes, freed_bytes=sum(map(_bytes_in, candidates))):
            candidates = []  # nothing is evicted in vain
        while size_bytes > 0 and (lack := self._lack(size_bytes)):
            if not candidates:
                raise Conflict(
                    f"There is no room for {repo}: {size_text(size_bytes)} are needed, {lack}.",
                    cure="Remove models with `vlmhyperbench models remove`, free some space, raise "
                    "VLMHB_MODELS_MAX_BYTES, or set VLMHB_MODELS_DIR to a folder of a larger disk.",
                    code="no_room",
                )
            _delete(candidates.pop(0))

    def _lack(self, size_bytes: int, *, freed_bytes: int = 0) -> str | None:
        """Say what prevents these bytes from being stored, once others are freed; None if nothing does."""
        used = _bytes_in(self._folder) - freed_bytes
        if used + size_bytes > self._max_bytes:
            bound = size_text(self._max_bytes)
            return f"and the models in {self._folder} may take {bound}, of which {size_text(used)} are used"
        free = shutil.disk_usage(self._folder).free + freed_bytes
        if free < size_bytes + self._spare_bytes:
            spare = size_text(self._spare_bytes)
            return f"and the disk of {self._folder} has {size_text(free)} free, of which {spare} are kept free"
        return None

    def _home_of(self, repo: str, commit: str) -> Path:
        return self._folder / repo.replace("://", "/").replace("/", "--") / commit


def _bytes_in(folder: Path) -> int:
    return sum(map(stored_bytes, folder.rglob("*")))


def _delete(home: Path) -> bool:
    """Delete a model's folder, unless a process uses it; the empty lock files stay, because others may hold them."""
    with home.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        delete_manifest(home)
        shutil.rmtree(home, ignore_errors=True)
    return True


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, kind)
        yield


def size_text(size_bytes: int) -> str:
    """Return a number of bytes as messages state it."""
    return f"{size_bytes / 2**30:.2f} GiB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:.1f} MiB"
