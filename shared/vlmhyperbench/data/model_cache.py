"""The bounded cache of models, shared by all processes of a machine: whole, verified files only.

`FOLDER/ORG--NAME/COMMIT/` holds the files (of S3 `s3--BUCKET--PREFIX/VERSION/`), `COMMIT.json` beside it what was
verified. `COMMIT.lock` is locked shared by every process that uses the files, so that none is evicted while an engine
reads it; `COMMIT.fetch` is held by the one process that downloads. `linked/` has folders of links (`linking`).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from vlmhyperbench.data.repositories import Arrival, OnBytes, Repository, RepositoryFile, Source
from vlmhyperbench.data.verifying import check_file, hash_of
from vlmhyperbench.domain.cached_files import MADE, CachedFile
from vlmhyperbench.errors import STORAGE_FULL, Conflict, NotFound, Unavailable, is_disk_full
from vlmhyperbench.files import write_whole

MAX_WORKERS = 8
"""Files that are downloaded at the same time."""
_HALF_BUILT = ".making"
_LINKED = "linked"
SPARE_BYTES = 1024**3
"""What stays free on the disk beside the models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The verified files of a repository at a commit."""

    repo: str
    revision: str
    """The branch, tag or commit that was asked for last."""
    commit: str
    license: str | None
    sha256: dict[str, str]
    """File name → hash."""
    sizes: dict[str, int]
    """File name → bytes."""
    fetched_at: float
    """Seconds since 1970."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all its files."""
        return sum(self.sizes.values())


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
        manifests = sorted(self._folder.glob("*/*.json"), key=_used_at, reverse=True)
        return [fetched for path in manifests if (fetched := _read(path)) is not None]

    def get(self, repo: str, revision: str) -> Fetched | None:
        """Return a cached model by its commit, or by the branch or tag as which it was fetched last; else None."""
        mine = [fetched for fetched in self.models() if fetched.repo == repo]
        exact = [fetched for fetched in mine if fetched.commit == revision]
        named = sorted((fetched for fetched in mine if fetched.revision == revision), key=lambda each: each.fetched_at)
        return next(iter(exact or named[::-1]), None)

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
                if _manifest(home).exists():
                    os.utime(_manifest(home))
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
            wanted = [_with_known_hash(listed[name], _read(_manifest(home))) for name in sorted(names)]
            missed = [file for file in wanted if not _is_whole(home, file)]
            size_bytes = sum(file.size_bytes for file in missed)
            self._make_room(size_bytes - _arrived_bytes(home, listed), repository.repo)
            arrival.expect(size_bytes)
            with ThreadPoolExecutor(MAX_WORKERS) as pool:
                tasks = [pool.submit(_download, source, repository, file, home, arrival.add) for file in missed]
                try:
                    for task in tasks:
                        task.result()
                except BaseException as error:
                    pool.shutdown(wait=False, cancel_futures=True)
                    if isinstance(error, OSError) and is_disk_full(error):
                        raise _full(self._folder) from error
                    raise
            return _record(home, repository, wanted)

    def get_made(self, key: str, names: Collection[str]) -> Fetched | None:
        """Return what a recipe has made, if it is here; it counts as used now."""
        home = self._home_of(MADE, key)
        made = _read(_manifest(home))
        if made is None or not all((home / name).is_file() for name in {*names, *made.sha256}):
            return None
        os.utime(_manifest(home))
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
                if not _manifest(home).exists():
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
            sha256={name: hash_of(home / name) for name in sorted(files)},
            sizes={name: (home / name).stat().st_size for name in sorted(files)},
            fetched_at=time.time(),
        )
        write_whole(_manifest(home), json.dumps(asdict(made), indent=1).encode(), is_durable=True)
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
        candidates = sorted(homes, key=lambda home: _used_at(_manifest(home)))  # unfinished downloads first
        while size_bytes > 0 and (lack := self._lack(size_bytes)):
            if not candidates:
                raise Conflict(
                    f"There is no room for {repo}: {_size(size_bytes)} are needed, {lack}.",
                    cure="Remove models with `vlmhyperbench models remove`, free some space, raise "
                    "VLMHB_MODELS_MAX_BYTES, or set VLMHB_MODELS_DIR to a folder of a larger disk.",
                    code="no_room",
                )
            _delete(candidates.pop(0))

    def _lack(self, size_bytes: int) -> str | None:
        """Say what prevents these bytes from being stored; None if nothing does."""
        used = sum(map(_stored_bytes, self._folder.rglob("*")))
        if used + size_bytes > self._max_bytes:
            return (
                f"and the models in {self._folder} may take {_size(self._max_bytes)}, of which {_size(used)} are used"
            )
        free = shutil.disk_usage(self._folder).free
        if free < size_bytes + self._spare_bytes:
            spare = _size(self._spare_bytes)
            return f"and the disk of {self._folder} has {_size(free)} free, of which {spare} are kept free"
        return None

    def _home_of(self, repo: str, commit: str) -> Path:
        return self._folder / repo.replace("://", "/").replace("/", "--") / commit


def _full(folder: Path) -> Unavailable:
    """Return the error of a disk that has become full."""
    return Unavailable(
        f"The disk of {folder} has become full while a model was fetched.",
        cure="Free some space, for example with `vlmhyperbench models remove`, or set VLMHB_MODELS_DIR to a folder of "
        "a larger disk, and repeat the command: what has arrived is kept.",
        code=STORAGE_FULL,
    )


def _download(source: Source, repository: Repository, file: RepositoryFile, home: Path, on_bytes: OnBytes) -> None:
    (home / file.name).unlink(missing_ok=True)  # a damaged copy would be taken for the file
    source.download(repository, file.name, home, on_bytes)
    try:
        check_file(home / file.name, file)
    except Conflict:
        (home / file.name).unlink(missing_ok=True)
        raise


def _stored_bytes(path: Path) -> int:
    """Return the bytes that a file takes; one that is being fetched has its full length before its content."""
    try:
        status = path.lstat()
    except FileNotFoundError:  # another process has just renamed or evicted it
        return 0
    return min(status.st_size, 512 * status.st_blocks) if stat.S_ISREG(status.st_mode) else 0


def _arrived_bytes(home: Path, listed: Collection[str]) -> int:
    """Return the bytes that an interrupted fetch of this model has left: they are already stored."""
    return sum(_stored_bytes(path) for path in home.rglob("*") if path.name not in listed)


def _with_known_hash(file: RepositoryFile, known: Fetched | None) -> RepositoryFile:
    """Add the hash that was computed when the file was fetched, if its source states none."""
    if file.sha256 is not None or file.blob_id is not None or known is None:
        return file
    return replace(file, sha256=known.sha256.get(file.name))


def _is_whole(home: Path, file: RepositoryFile) -> bool:
    try:
        check_file(home / file.name, file)
    except (Conflict, OSError):
        return False
    return True


def _record(home: Path, repository: Repository, files: Collection[RepositoryFile]) -> Fetched:
    """Write what was verified, beside what earlier fetches of the same commit have verified."""
    known = _read(_manifest(home))
    sha256 = {**(known.sha256 if known else {}), **{file.name: hash_of(home / file.name) for file in files}}
    fetched = Fetched(
        repo=repository.repo,
        revision=repository.revision,
        commit=repository.commit,
        license=repository.license,
        sha256=dict(sorted(sha256.items())),
        sizes={name: (home / name).stat().st_size for name in sorted(sha256)},
        fetched_at=time.time(),
    )
    write_whole(_manifest(home), json.dumps(asdict(fetched), indent=1).encode(), is_durable=True)
    return replace(fetched, sha256={file.name: sha256[file.name] for file in files})


def _read(path: Path) -> Fetched | None:
    """Read a manifest; None where there is none, or none that this version wrote."""
    try:
        return Fetched(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _delete(home: Path) -> bool:
    """Delete a model's folder, unless a process uses it; the empty lock files stay, because others may hold them."""
    with home.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _manifest(home).unlink(missing_ok=True)
        shutil.rmtree(home, ignore_errors=True)
    return True


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, kind)
        yield


def _manifest(home: Path) -> Path:
    return home.with_suffix(".json")


def _used_at(manifest: Path) -> float:
    try:
        return manifest.stat().st_mtime
    except FileNotFoundError:  # nothing is verified yet, or another process has just evicted it
        return 0.0


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:.1f} MiB"
