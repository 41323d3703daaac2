"""Models and datasets in S3: list the objects below a prefix, download one in parallel ranges; its errors become ours.

Endpoint and credentials are the machine's: secrets of the names that AWS's own tools use, else what boto3 finds itself
(variables, `~/.aws`). None of our messages holds an endpoint or a key.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from vlmhyperbench.data.licences import MAX_BYTES, licence_among
from vlmhyperbench.data.repositories import OnBytes, Repository, RepositoryFile, offline
from vlmhyperbench.data.small_objects import SmallObjects
from vlmhyperbench.domain.cached_files import S3, CachedFile
from vlmhyperbench.errors import Conflict, Denied, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.extras import needed_for
from vlmhyperbench.logs import hide
from vlmhyperbench.secret_files import read_secret
from vlmhyperbench.storage.s3_client import connect

SUMS: Final = "SHA256SUMS"
"""Object of a prefix that states the hashes of the others, as `sha256sum` prints them."""
RANGE_BYTES: Final = 16 * 1024**2
"""Length of the ranges in which an object is downloaded; those that arrived are not asked for again."""
MAX_RANGES: Final = 4
"""Ranges of one object that are downloaded at the same time."""
SIGNED_S: Final = 6 * 3600
"""How long a signed URL is valid."""
_TRIES: Final = 5
_REQUESTS: Final = 4
"""Times that a request is sent until it fails; a download is tried again beyond that."""
_READ_BYTES: Final = 1024**2
_MAX_SUMS_BYTES: Final = 4 * 1024**2
_ARGUMENTS: Final = {
    "endpoint_url": "AWS_ENDPOINT_URL_S3",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "region_name": "AWS_REGION",
}
"""Argument of boto3 → secret that holds it."""
_PUBLIC: Final = frozenset({"region_name"})
_NO_PARTS: Final = frozenset({"", ".", ".."})
_SUM: Final = re.compile(r"([0-9a-f]{64})[ *]+(?:\./)?([^/]+)")


class Bucket:
    """S3, as this machine may use it."""

    def __init__(self, options: Mapping[str, str], *, is_offline: bool = False, is_deep: bool = False) -> None:
        """Hold arguments of boto3's client; those that are not given are found by boto3 itself.

        `is_deep` lists the objects below the prefix at any depth, as a dataset has them.
        """
        self._options = dict(options)
        self._is_offline = is_offline
        self._is_deep = is_deep
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while a small object is written: threads that wait for a folder in the kernel use processor time."""
        self._made: Any = None
        self._small: SmallObjects | None = None
        self._listed: dict[tuple[str, str], tuple[str, int]] = {}
        """Entity tag and length of each object that was listed, so that downloading it takes one request less."""

    @classmethod
    def of(cls, secrets_dir: Path, *, is_offline: bool = False, is_deep: bool = False) -> Bucket:
        """Return S3 with the secrets of this machine, which no line of its logs shows from now on.

        Raises:
            InvalidInput: other users may read a secret.
        """
        names = {argument: name for argument, name in _ARGUMENTS.items() if (secrets_dir / name).exists()}
        options = {argument: read_secret(secrets_dir, name) for argument, name in names.items()}
        hide(value for argument, value in options.items() if argument not in _PUBLIC)
        return cls(options, is_offline=is_offline, is_deep=is_deep)

    def look_up(self, repo: str, revision: str) -> Repository:
        """List the objects directly below `s3://BUCKET/PREFIX`; their version is a hash of the listing.

        Raises:
            NotFound: there is no such bucket, or nothing below the prefix.
            Denied: the credentials are missing or refused.
            Unavailable: S3 does not answer or may not be asked, or boto3 is missing.
        """
        bucket, prefix = _split(repo)
        with self._errors_of(repo):
            pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            listed = [entry for page in pages for entry in page.get("Contents", ())]
        objects = {entry["Key"].removeprefix(prefix): entry for entry in listed}
        objects = {name: entry for name, entry in sorted(objects.items()) if self._is_file(name)}
        self._listed |= {(repo, name): (str(entry["ETag"]), int(entry["Size"])) for name, entry in objects.items()}
        if not objects:
            cure = "Correct the prefix: a folder of files in a bucket, s3://BUCKET/PREFIX."
            raise NotFound(f"There is no object below {repo}.", cure=cure, code="s3_no_prefix")
        sums = self._sums(repo, bucket, prefix, objects[SUMS]["Size"]) if SUMS in objects else {}
        state = "\n".join([repo, *(f"{name} {entry['Size']} {entry['ETag']}" for name, entry in objects.items())])
        return Repository(
            repo=repo,
            revision=revision,
            commit=hashlib.sha256(state.encode()).hexdigest()[:40],
            license=licence_among(objects, lambda name: self._beginning(repo, bucket, prefix + name)),
            files=tuple(
                RepositoryFile(name=name, size_bytes=entry["Size"], sha256=sums.get(name), blob_id=None)
                for name, entry in objects.items()
            ),
        )

    def download(self, repository: Repository, name: str, folder: Path, on_bytes: OnBytes) -> None:
        """Download an object in ranges; those that an interrupted download left are kept while the object is the same.

        Raises:
            NotFound: the object is gone.
            Conflict: it was replaced meanwhile.
            Denied: the credentials are missing or refused.
            Unavailable: S3 does not answer, or the connection was cut several times.
            OSError: the file cannot be written.
        """
        bucket, prefix = _split(repository.repo)
        with self._errors_of(repository.repo):
            client = self._client()
            etag, size = self._listed.get((repository.repo, name)) or _head(client, bucket, prefix + name)
            target = folder / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.part")
            content = self._small_objects().read(bucket, prefix + name, etag=etag, size_bytes=size)
            if content is not None:
                with self._writing:
                    part.write_bytes(content)
                    part.replace(target)
                on_bytes(size)
                return
            state = target.with_name(f".{target.name}.ranges")
            done = _read_state(state, etag) if part.exists() else set()
            if not done:
                state.write_text(f"{etag}\n", encoding="utf-8")
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(descriptor, size)
                starts = range(0, size, RANGE_BYTES)
                on_bytes(sum(min(RANGE_BYTES, size - start) for start in starts if start in done))

                def fetch(start: int) -> None:
                    end = min(start + RANGE_BYTES, size)
                    wanted = {"Bucket": bucket, "Key": prefix + name, "IfMatch": etag}
                    _fetch_range(client, wanted, descriptor, start, end, on_bytes)
                    with self._lock, state.open("a", encoding="utf-8") as file:
                        file.write(f"{start}\n")

                _fetch_all(fetch, [start for start in starts if start not in done])
            finally:
                os.close(descriptor)
            part.replace(target)
            state.unlink(missing_ok=True)

    def signed_url(self, file: CachedFile) -> str:
        """Return a URL from which anybody may download an object for `SIGNED_S`; it states the id of the key.

        Raises:
            Denied: there are no credentials.
            Unavailable: nothing may be fetched, or boto3 is missing.
        """
        bucket, prefix = _split(file.repo)
        with self._errors_of(file.repo):
            wanted = {"Bucket": bucket, "Key": prefix + file.name}
            return str(self._client().generate_presigned_url("get_object", Params=wanted, ExpiresIn=SIGNED_S))

    def _is_file(self, name: str) -> bool:
        """Return whether the rest of a key becomes a file: no folder's marker, no way out of the cache's folder."""
        parts = name.split("/")
        return (self._is_deep or len(parts) == 1) and not any(part in _NO_PARTS for part in parts)

    def _sums(self, repo: str, bucket: str, prefix: str, size_bytes: int) -> dict[str, str]:
        if size_bytes > _MAX_SUMS_BYTES:
            message = f"{SUMS} below {repo} has {size_bytes} bytes."
            raise Conflict(message, cure="Write one line for each object, as sha256sum does.", code="s3_sums")
        with self._errors_of(repo):
            text = self._client().get_object(Bucket=bucket, Key=prefix + SUMS)["Body"].read().decode("utf-8", "replace")
        return {match[2]: match[1] for line in text.splitlines() if (match := _SUM.fullmatch(line.strip()))}

    def _beginning(self, repo: str, bucket: str, key: str) -> bytes:
        with self._errors_of(repo):
            content: bytes = self._client().get_object(Bucket=bucket, Key=key)["Body"].read(MAX_BYTES)
        return content

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = connect(self._options, tries=_REQUESTS)
            return self._made

    def _small_objects(self) -> SmallObjects:
        client = self._client()
        with self._lock:
            if self._small is None:
                self._small = SmallObjects(client, ca_file=self._options.get("verify"))
            return self._small

    @contextmanager
    def _errors_of(self, repo: str) -> Iterator[None]:
        if self._is_offline:
            raise offline(repo)
        with needed_for("fetching models from S3", extra="s3"):
            from botocore import exceptions
        try:
            yield
        except exceptions.ClientError as error:
            raise self._as_ours(repo, error.response) from None  # its message may hold an endpoint
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError):
            raise self._denied(repo, "no credentials are stored") from None
        except (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError):
            raise _unreachable(repo) from None
        except (exceptions.BotoCoreError, ValueError) as error:
            message = f"S3 cannot be asked for {repo}: {type(error).__name__}."
            cure = f"Check the secrets {', '.join(_ARGUMENTS.values())}: the endpoint is a URL such as https://HOST."
            raise Denied(message, cure=cure, code="s3_denied") from None

    def _as_ours(self, repo: str, response: Mapping[str, Any]) -> VlmHyperBenchError:
        code = str(response.get("Error", {}).get("Code", ""))
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status in {401, 403}:
            return self._denied(repo, f"it answers HTTP {status}, {code}")
        if status == 404:
            cure = "Correct the name, or the secret AWS_ENDPOINT_URL_S3 if the bucket is on another server."
            return NotFound(f"S3 has no {repo}, or an object below it is gone.", cure=cure, code="s3_no_prefix")
        if status == 412:
            message = f"An object below {repo} was replaced while it was fetched."
            return Conflict(message, cure="Repeat the command.", code="wrong_hash")
        message = f"S3 answers HTTP {status} to a request for {repo}."
        return Unavailable(message, cure="Try again later; what has arrived is kept.", code="s3_unreachable")

    def _denied(self, repo: str, reason: str) -> Denied:
        used = [name for argument, name in _ARGUMENTS.items() if argument in self._options]
        asked = (
            f"with the secrets {', '.join(used)}" if used else "with what boto3 finds itself, as no secret is stored"
        )
        return Denied(
            f"S3 refuses {repo}: {reason}; it was asked {asked}.",
            cure="On the machine that fetches, store the keys of an account that may read it, with "
            "`vlmhyperbench secret set`: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and for another server than AWS's "
            "AWS_ENDPOINT_URL_S3.",
            code="s3_denied",
        )


def _split(repo: str) -> tuple[str, str]:
    """Return the bucket, and the beginning of its objects' keys."""
    bucket, _, prefix = repo.removeprefix(S3).partition("/")
    return bucket, f"{prefix}/" if prefix else ""


def _head(client: Any, bucket: str, key: str) -> tuple[str, int]:
    """Return the entity tag and the length of an object."""
    head = client.head_object(Bucket=bucket, Key=key)
    return str(head["ETag"]), int(head["ContentLength"])


def _fetch_all(fetch: Callable[[int], None], starts: Sequence[int]) -> None:
    """Fetch the ranges that begin here, several at a time; raises what one of them did."""
    if len(starts) <= 1:  # a dataset has many small objects, which need no threads of their own
        for start in starts:
            fetch(start)
        return
    with ThreadPoolExecutor(MAX_RANGES) as pool:
        try:
            list(pool.map(fetch, starts))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch_range(
    client: Any, wanted: Mapping[str, str], descriptor: int, start: int, end: int, on_bytes: OnBytes
) -> None:
    """Write the bytes from `start` up to `end`; a cut connection continues where it was cut."""
    for _ in range(_TRIES):
        for written in _arriving(client, wanted, descriptor, start, end):
            start += written
            on_bytes(written)
        if start >= end:
            return
    raise _unreachable(f"{S3}{wanted['Bucket']}/{wanted['Key']}")


def _arriving(client: Any, wanted: Mapping[str, str], descriptor: int, start: int, end: int) -> Iterator[int]:
    """Write what one request brings at its place, yielding the bytes written, until it ends or is cut."""
    from botocore import exceptions

    with suppress(exceptions.HTTPClientError, exceptions.IncompleteReadError):
        body = client.get_object(**wanted, Range=f"bytes={start}-{end - 1}")["Body"]
        while chunk := body.read(_READ_BYTES):
            for written in _write(descriptor, chunk, start):
                start += written
                yield written


def _write(descriptor: int, chunk: bytes, start: int) -> Iterator[int]:
    """Write a chunk at its place, yielding the bytes that each call has written: a full disk may take a part."""
    rest = memoryview(chunk)
    while rest:
        written = os.pwrite(descriptor, rest, start)
        start, rest = start + written, rest[written:]
        yield written


def _read_state(state: Path, etag: str) -> set[int]:
    """Return the beginnings of the ranges that have arrived of this very object."""
    try:
        first, *starts = state.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return set()
    return {int(start) for start in starts if start.isdigit()} if first == etag else set()


def _unreachable(repo: str) -> Unavailable:
    return Unavailable(
        f"S3 does not answer a request for {repo}.",
        cure="Check the network, the proxy and the secret AWS_ENDPOINT_URL_S3, and repeat the command: what has "
        "arrived is kept.",
        code="s3_unreachable",
    )
