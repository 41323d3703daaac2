"""Read small objects of S3 by a library that is not Python: a dataset has thousands, and boto3 works on each for long.

Requests go where boto3 would send them, with the credentials that boto3 has. What is not answered at once, and rightly,
is left to boto3, with its retries and its errors; so is everything where the library is not installed.
"""

from __future__ import annotations

import os
import threading
import urllib.request
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Credential, S3Store

MAX_BYTES: Final = 1024**2
"""Length up to which an object is small: it is held in memory."""
_CREDENTIALS_S: Final = 60
"""How long credentials are used until boto3 is asked for them again."""
_ANSWER_S: Final = 30


class SmallObjects:
    """Reads small objects by connections that stay open; several threads may read at the same time."""

    def __init__(self, client: Any, *, ca_file: str | None = None) -> None:
        """Hold boto3's client; `ca_file` has the authorities that it trusts, if they are not the usual ones."""
        self._client = client
        self._ca_file = ca_file or os.environ.get("AWS_CA_BUNDLE")
        self._credentials = client._request_signer._credentials  # noqa: SLF001 - boto3 has no other way to them
        self._lock = threading.Lock()
        self._stores: dict[str, S3Store] = {}
        is_here = find_spec("obstore") is not None
        self._is_direct = is_here and self._credentials is not None and not urllib.request.getproxies()
        """Whether no proxy is set, which boto3 knows how to go by, and requests are signed."""

    def read(self, bucket: str, key: str, *, etag: str, size_bytes: int) -> bytes | None:
        """Return the content of the object of this entity tag and length; None if boto3 has to be asked."""
        if size_bytes > MAX_BYTES or not self._is_direct:
            return None
        from obstore.exceptions import BaseError

        try:
            found = self._store(bucket).get(key, options={"if_match": etag})
            content = bytes(found.bytes())
        except (BaseError, OSError, ValueError):
            return None
        is_same = (found.meta["e_tag"] or "").strip('"') == etag.strip('"')  # listed with or without quotes
        return content if len(content) == size_bytes and is_same else None

    def _store(self, bucket: str) -> S3Store:
        from obstore.store import S3Store

        with self._lock:
            if bucket not in self._stores:
                options: ClientConfig = {"allow_http": True, "timeout": timedelta(seconds=_ANSWER_S)}
                if self._ca_file:
                    options["root_certificate"] = Path(self._ca_file).read_bytes()
                self._stores[bucket] = S3Store(
                    bucket,
                    endpoint=self._client.meta.endpoint_url,
                    region=self._client.meta.region_name,
                    credential_provider=self._ask_boto3,
                    client_options=options,
                    retry_config={"max_retries": 0},
                )
            return self._stores[bucket]

    def _ask_boto3(self) -> S3Credential:
        frozen = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_CREDENTIALS_S),
        }
