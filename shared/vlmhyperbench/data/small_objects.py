"""Read a small object of S3 with little work: a dataset has thousands, and boto3 takes milliseconds for each request.

The URL is signed by boto3, so it goes to where boto3 would ask, and is read by the HTTP library that boto3 uses. What
is not answered at once, and rightly, is left to boto3, with its retries and its errors.
"""

from __future__ import annotations

import os
import urllib.request
from typing import Any, Final

MAX_BYTES: Final = 1024**2
"""Length up to which an object is small: it is held in memory."""
_SIGNED_S: Final = 300
_ANSWER_S: Final = 30.0
_CONNECTIONS: Final = 32


class SmallObjects:
    """Reads small objects by one pool of connections."""

    def __init__(self, client: Any, *, ca_file: str | None = None) -> None:
        """Hold boto3's client; `ca_file` has the authorities that it trusts, if they are not the usual ones."""
        import urllib3
        from botocore.httpsession import get_cert_path

        self._client = client
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS,
            retries=False,
            timeout=_ANSWER_S,
            cert_reqs="CERT_REQUIRED",
            ca_certs=ca_file or os.environ.get("AWS_CA_BUNDLE") or get_cert_path(True),
        )
        self._is_direct = not urllib.request.getproxies()
        """Whether no proxy is set: boto3 knows how to go by one."""

    def read(self, bucket: str, key: str, *, etag: str, size_bytes: int) -> bytes | None:
        """Return the content of the object of this entity tag and length; None if boto3 has to be asked."""
        import urllib3

        if size_bytes > MAX_BYTES or not self._is_direct:
            return None
        wanted = {"Bucket": bucket, "Key": key}
        url = self._client.generate_presigned_url("get_object", Params=wanted, ExpiresIn=_SIGNED_S)
        try:
            response = self._pool.request("GET", url, headers={"If-Match": etag}, redirect=False)
        except (urllib3.exceptions.HTTPError, OSError):
            return None
        content = response.data
        is_same = response.headers.get("ETag", "").strip('"') == etag.strip('"')  # servers list them with or without
        return content if response.status == 200 and len(content) == size_bytes and is_same else None
