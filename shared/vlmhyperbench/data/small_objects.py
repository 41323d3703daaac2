"""Read a small object of S3 with little work: a dataset has thousands, and boto3 takes milliseconds for each request.

boto3 signs one URL of a bucket now and then, so that every request goes to where boto3 would send it, with the
credentials that boto3 has; the others differ from it in path and signature only. What is not answered at once, and
rightly, is left to boto3, with its retries and its errors.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import ssl
import time
import urllib.request
import weakref
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

MAX_BYTES: Final = 1024**2
"""Length up to which an object is small: it is held in memory."""
_SIGNED_S: Final = 300
_PATTERN_S: Final = 60.0
"""How long the date and the credentials of a URL that boto3 has signed are used for others."""
_ANSWER_S: Final = 30.0


class SmallObjects:
    """Reads small objects by connections that stay open; several threads may read at the same time."""

    def __init__(self, client: Any, *, ca_file: str | None = None) -> None:
        """Hold boto3's client; `ca_file` has the authorities that it trusts, if they are not the usual ones."""
        from botocore.httpsession import get_cert_path

        self._client = client
        self._trusted = ssl.create_default_context(
            cafile=ca_file or os.environ.get("AWS_CA_BUNDLE") or get_cert_path(True)
        )
        self._idle: defaultdict[tuple[str, str], list[http.client.HTTPConnection]] = defaultdict(list)
        weakref.finalize(self, _close_all, self._idle)
        self._patterns: dict[str, SignedPattern] = {}
        self._is_direct = not urllib.request.getproxies()
        """Whether no proxy is set: boto3 knows how to go by one."""

    def read(self, bucket: str, key: str, *, etag: str, size_bytes: int) -> bytes | None:
        """Return the content of the object of this entity tag and length; None if boto3 has to be asked."""
        if size_bytes > MAX_BYTES or not self._is_direct:
            return None
        url = self._signed(bucket, key)
        idle = self._idle[url.scheme, url.netloc]
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._connect(url)
        is_read = False
        try:
            connection.request("GET", f"{url.path}?{url.query}", headers={"If-Match": etag})
            response = connection.getresponse()
            content = response.read(size_bytes + 1)
            is_read = response.isclosed() or not response.read(1)
        except (http.client.HTTPException, OSError):
            return None
        finally:
            if is_read:
                idle.append(connection)
            else:
                connection.close()  # what is unread would be taken for the next answer
        is_same = (response.getheader("ETag") or "").strip('"') == etag.strip('"')  # listed with or without quotes
        return content if response.status == 200 and len(content) == size_bytes and is_same else None

    def _signed(self, bucket: str, key: str) -> SplitResult:
        """Return a signed URL of the object; boto3 signs those that cannot be made of one that it has signed."""
        pattern = self._patterns.get(bucket)
        if pattern is None or time.monotonic() > pattern.until_s:
            url = urlsplit(self._signed_by_boto3(bucket, key))
            pattern = self._patterns[bucket] = SignedPattern.of(url, key, self._client)
            return url
        return pattern.url_of(key) or urlsplit(self._signed_by_boto3(bucket, key))

    def _signed_by_boto3(self, bucket: str, key: str) -> str:
        wanted = {"Bucket": bucket, "Key": key}
        return str(self._client.generate_presigned_url("get_object", Params=wanted, ExpiresIn=_SIGNED_S))

    def _connect(self, url: SplitResult) -> http.client.HTTPConnection:
        if url.scheme == "https":
            return http.client.HTTPSConnection(url.netloc, timeout=_ANSWER_S, context=self._trusted)
        return http.client.HTTPConnection(url.netloc, timeout=_ANSWER_S)


def _close_all(idle: Mapping[tuple[str, str], Sequence[http.client.HTTPConnection]]) -> None:
    for connections in idle.values():
        for connection in connections:
            connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPattern:
    """A URL that boto3 has signed by version 4 of AWS's signatures, from which those of other keys are made."""

    until_s: float
    url: SplitResult
    folder: str
    """The path before the key."""
    query: str
    """The query without the signature, in the order of its names, as it is signed."""
    date: str
    scope: str
    secret: bytes | None
    """The key of the day that signs; None where boto3 signs in another way."""

    @classmethod
    def of(cls, url: SplitResult, key: str, client: Any) -> SignedPattern:
        """Take a signed URL apart; the same parts must give the same signature."""
        query, _, signature = url.query.rpartition("&X-Amz-Signature=")
        fields = dict(part.partition("=")[::2] for part in query.split("&"))
        scope = unquote(fields.get("X-Amz-Credential", "")).partition("/")[2]
        pattern = cls(
            until_s=time.monotonic() + _PATTERN_S,
            url=url,
            folder=url.path.removesuffix(quote(key)),
            query="&".join(sorted(query.split("&"))),
            date=fields.get("X-Amz-Date", ""),
            scope=scope,
            secret=_secret_of(client, scope),
        )
        is_ours = pattern.folder != url.path and pattern._signature(url.path) == signature
        return pattern if is_ours else replace(pattern, secret=None)

    def url_of(self, key: str) -> SplitResult | None:
        """Return a signed URL of another key; None where only boto3 can sign it."""
        if self.secret is None:
            return None
        path = self.folder + quote(key)
        return self.url._replace(path=path, query=f"{self.query}&X-Amz-Signature={self._signature(path)}")

    def _signature(self, path: str) -> str:
        """Sign a path (AWS Signature Version 4, "Authenticating requests: using query parameters")."""
        request = f"GET\n{path}\n{self.query}\nhost:{self.url.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
        digest = hashlib.sha256(request.encode()).hexdigest()
        signed = f"AWS4-HMAC-SHA256\n{self.date}\n{self.scope}\n{digest}"
        return hmac.digest(self.secret or b"", signed.encode(), "sha256").hex()


def _secret_of(client: Any, scope: str) -> bytes:
    credentials = client._request_signer._credentials  # noqa: SLF001 - boto3 has no other way to a client's credentials
    secret = f"AWS4{credentials.get_frozen_credentials().secret_key if credentials else ''}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    return secret
