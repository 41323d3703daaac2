"""What is known of a model in the cache: its verified files with their hashes, in a manifest beside its folder."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from vlmhyperbench.data.repositories import Repository, RepositoryFile
from vlmhyperbench.files import write_whole
from vlmhyperbench.storage.hashing import content_hash


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


def manifest_of(home: Path) -> Path:
    """Return the path of the manifest of a model's folder."""
    return home.with_suffix(".json")


def write_listing(home: Path, repository: Repository) -> None:
    """Write what a source listed, so that what was fetched can be chosen while the source does not answer."""
    write_whole(_listing_of(home), json.dumps(asdict(repository)).encode(), is_durable=False)


def read_listing(home: Path) -> Repository | None:
    """Read what a source listed; None where nothing was written, or by another version."""
    try:
        known = json.loads(_listing_of(home).read_text(encoding="utf-8"))
        return Repository(**{**known, "files": tuple(RepositoryFile(**file) for file in known["files"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def delete_manifest(home: Path) -> None:
    """Delete what is known of a model, so that it is no longer in the cache."""
    manifest_of(home).unlink(missing_ok=True)
    _listing_of(home).unlink(missing_ok=True)


def _listing_of(home: Path) -> Path:
    return home.with_suffix(".listing")


def read_manifest(path: Path) -> Fetched | None:
    """Read a manifest; None where there is none, or none that this version wrote."""
    try:
        return Fetched(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_manifest(home: Path, fetched: Fetched) -> None:
    """Write the manifest beside a model's folder; it survives a failure of the computer."""
    write_whole(manifest_of(home), json.dumps(asdict(fetched), indent=1).encode(), is_durable=True)


def used_at(manifest: Path) -> float:
    """Return when a model was used last, in seconds since 1970."""
    try:
        return manifest.stat().st_mtime
    except FileNotFoundError:  # nothing is verified yet, or another process has just evicted it
        return 0.0


def record_fetched(home: Path, repository: Repository, files: Collection[RepositoryFile]) -> Fetched:
    """Write what was verified, beside what earlier fetches of the same commit have verified."""
    known = read_manifest(manifest_of(home))
    sha256 = {**(known.sha256 if known else {}), **{file.name: content_hash(home / file.name) for file in files}}
    fetched = Fetched(
        repo=repository.repo,
        revision=repository.revision,
        commit=repository.commit,
        license=repository.license,
        sha256=dict(sorted(sha256.items())),
        sizes={name: (home / name).stat().st_size for name in sorted(sha256)},
        fetched_at=time.time(),
    )
    write_manifest(home, fetched)
    return replace(fetched, sha256={file.name: sha256[file.name] for file in files})
