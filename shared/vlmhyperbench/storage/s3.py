"""A store in a bucket of S3: each object is written once, in parts if it is large, and downloaded in parallel parts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from vlmhyperbench.addresses import S3Access, split_bucket
from vlmhyperbench.errors import Conflict, Denied, InvalidInput, Unavailable
from vlmhyperbench.logs import hide
from vlmhyperbench.storage.hashing import content_hash
from vlmhyperbench.storage.s3_client import TRIES, Failure, answer_of, are_keys_refused, connect, failure_of
from vlmhyperbench.storage.stores import Listed, Stored

PART_BYTES: Final = 16 * 1024**2
"""Size above which an object is sent and fetched in parts of this size."""
_SHA256: Final = "sha256"
"""Metadata of an object: the hash of its content. Some servers forget it."""
_PROBE: Final = "probe"
_CHECK_TRIES: Final = 3


class S3Store:
    """Objects of one bucket below one prefix. Nothing is locked here: a key names its content or its writer."""

    def __init__(self, url: str, access: S3Access, *, tries: int = TRIES) -> None:
        """Hold the way to the bucket; nothing is sent yet.

        Raises:
            InvalidInput: the URL names no bucket, or the endpoint is no URL.
            Unavailable: boto3 is not installed.
        """
        self._url = url
        self._access = access
        self._tries = tries
        self._bucket, self._prefix = split_bucket(url)
        revealed = access.revealed()
        hide(value for name, value in revealed.items() if name in {"secret_access_key", "session_token"})
        try:
            self._client = connect(revealed, tries=tries)
        except ValueError as error:
            cure = "Set VLMHB_STORAGE_S3__ENDPOINT_URL to a URL such as https://HOST."
            raise InvalidInput("The endpoint of S3 is not a URL.", cure=cure, code="s3_endpoint") from error

    def put(self, key: str, data: bytes | Path, media_type: str, /) -> Stored:
        try:
            content = data if isinstance(data, bytes) else None
            sha256 = hashlib.sha256(content).hexdigest() if content is not None else content_hash(Path(str(data)))
            size_bytes = len(content) if content is not None else Path(str(data)).stat().st_size
        except OSError as error:
            raise Unavailable(f"{key} cannot be stored: {error.strerror or error}.") from error
        stored = Stored(key=key, sha256=sha256, size_bytes=size_bytes)
        with self._errors_of(key):
            if not self._has(stored, data):
                self._send(stored, data, media_type)
        return stored

    def download(self, key: str, target: Path, /) -> bool:
        from boto3.s3.transfer import TransferConfig

        parts = TransferConfig(
            multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, num_download_attempts=TRIES
        )
        try:
            with self._errors_of(key):
                self._client.download_file(self._bucket, self._prefix + key, str(target), Config=parts)
        except _Missing:
            return False
        return True

    def exists(self, key: str, /) -> bool:
        try:
            with self._errors_of(key):
                self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
        except _Missing:
            return False
        return True

    def delete(self, key: str, /) -> None:
        with self._errors_of(key, "may not delete"):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def listed(self, prefix: str, /) -> Iterator[Listed]:
        with self._errors_of(prefix, "may not list"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for item in page.get("Contents", ()):
                    yield Listed(
                        key=item["Key"].removeprefix(self._prefix),
                        size_bytes=int(item["Size"]),
                        modified_s=item["LastModified"].timestamp(),
                    )

    def check(self) -> None:
        """Write, read and so prove that the bucket is there and that the keys permit what the product does.

        Raises:
            InvalidInput: there is no such bucket (`s3_no_bucket`), or the endpoint is no S3 server (`s3_endpoint`).
            Denied: the keys are missing, refused or lack a permission; the message names which.
            Unavailable: S3 does not answer, or the clocks differ.
        """
        probe = S3Store(self._url, self._access, tries=_CHECK_TRIES)
        content = b"VLMHyperBench stores its files below this prefix.\n"
        with probe._errors_of(_PROBE, "may not write"):
            probe._send(
                Stored(key=_PROBE, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content)),
                content,
                "text/plain",
            )
        with probe._errors_of(_PROBE, "may not read"):
            found = probe._client.get_object(Bucket=self._bucket, Key=self._prefix + _PROBE)["Body"].read()
        if found != content:
            raise self._no_server("it gives other content than was stored")

    def _has(self, stored: Stored, data: bytes | Path) -> bool:
        """Return whether this very content is stored already.

        Raises:
            Conflict: the key has other content.
        """
        where = {"Bucket": self._bucket, "Key": self._prefix + stored.key}
        try:
            with self._errors_of(stored.key):
                head = self._client.head_object(**where)
        except _Missing:
            return False
        known = head.get("Metadata", {}).get(_SHA256)
        if int(head["ContentLength"]) != stored.size_bytes:
            known = "of another length"
        elif known is None and str(head.get("ETag", "")).strip('"') == _md5(data).hexdigest():
            known = stored.sha256
        if known is None:  # neither metadata nor the entity tag tell, so the content does
            digest = hashlib.sha256()
            for block in self._client.get_object(**where)["Body"].iter_chunks(1024**2):
                digest.update(block)
            known = digest.hexdigest()
        if known != stored.sha256:
            message = f"{stored.key} is stored already, with other content."
            raise Conflict(message, cure="Delete the stored file, or restore it from a backup.")
        return True

    def _send(self, stored: Stored, data: bytes | Path, media_type: str) -> None:
        where: dict[str, Any] = {"Bucket": self._bucket, "Key": self._prefix + stored.key}
        described = {"ContentType": media_type, "Metadata": {_SHA256: stored.sha256}}
        if stored.size_bytes <= PART_BYTES:
            content = data if isinstance(data, bytes) else data.read_bytes()
            # The server refuses what was damaged on its way.
            checksum = base64.b64encode(_md5(content).digest()).decode()
            self._client.put_object(**where, **described, Body=content, ContentMD5=checksum)
            return
        self._send_parts(where, described, data, stored)

    def _send_parts(self, where: dict[str, Any], described: dict[str, Any], data: bytes | Path, stored: Stored) -> None:
        from io import BytesIO

        from boto3.s3.transfer import TransferConfig

        parts = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)
        source = BytesIO(data) if isinstance(data, bytes) else data.open("rb")
        with source:
            self._client.upload_fileobj(source, where["Bucket"], where["Key"], ExtraArgs=described, Config=parts)
        arrived = int(self._client.head_object(**where)["ContentLength"])
        if arrived != stored.size_bytes:
            message = f"S3 has {arrived} bytes of {stored.key}, of {stored.size_bytes} that were sent."
            raise Unavailable(message, cure="Try again; if it stays so, look at the log of the S3 server.")

    @contextmanager
    def _errors_of(self, key: str, lacking: str = "may not read or write") -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if failure_of(error) is None:
                raise
            raise self._as_ours(error, key, lacking) from None  # its message may hold an endpoint or a key

    def _as_ours(self, error: Exception, key: str, lacking: str) -> Exception:
        answer = answer_of(error)
        match failure_of(error):
            case Failure.MISSING:
                return _Missing()
            case Failure.NO_BUCKET:
                message = f"S3 has no bucket {self._bucket!r}."
                cure = "Create it, or correct VLMHB_STORAGE_URL or the endpoint: is the bucket on another server?"
                return InvalidInput(message, cure=cure, code="s3_no_bucket")
            case Failure.DENIED:
                why = "it does not accept the keys" if are_keys_refused(error) else f"its keys {lacking} {key}"
                message = f"S3 refuses {self._url}: {why} ({answer})."
                cure = (
                    "Set VLMHB_STORAGE_S3__ACCESS_KEY_ID and VLMHB_STORAGE_S3__SECRET_ACCESS_KEY to keys that may "
                    "s3:GetObject, s3:PutObject and s3:ListBucket there, and for reporting workers s3:DeleteObject."
                )
                return Denied(message, cure=cure, code="s3_denied")
            case Failure.CLOCK:
                message = f"S3 refuses {self._url}: the clocks of this machine and of S3 differ too much ({answer})."
                return Unavailable(message, cure="Set the clock of this machine (NTP).", code="clock_off")
            case Failure.AWAY | Failure.CHANGED:
                message = f"S3 does not store or return {key}: {answer}, {self._tries} times."
                cure = "Look at the S3 server, the network and VLMHB_STORAGE_S3__ENDPOINT_URL; then try again."
                return Unavailable(message, cure=cure, code="s3_unreachable")
            case _:
                return self._no_server(answer)

    def _no_server(self, answer: str) -> InvalidInput:
        message = f"What answers for {self._url} is no S3 server that this machine can use: {answer}."
        cure = (
            "Correct VLMHB_STORAGE_S3__ENDPOINT_URL and VLMHB_STORAGE_S3__REGION; for a server with a certificate of "
            "its own, set VLMHB_STORAGE_S3__CA_FILE."
        )
        return InvalidInput(message, cure=cure, code="s3_endpoint")


class _Missing(Exception):
    """There is no such object."""


def _md5(data: bytes | Path) -> Any:
    if isinstance(data, bytes):
        return hashlib.md5(data, usedforsecurity=False)
    with data.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
