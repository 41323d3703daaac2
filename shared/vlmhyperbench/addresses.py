"""Addresses of Postgres, Redis and S3: which are valid, and how each names the certificate authority that it trusts."""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr

from vlmhyperbench.errors import InvalidInput

S3: Final = "s3://"
"""Beginning of the URL of a bucket, or of a prefix in one."""
KEEP_ALIVE: Final = {
    getattr(socket, option): value
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, option)  # not every system has them
}
"""Options of sockets by which a peer that has vanished is noticed within half a minute, and not after two hours."""
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_VERIFIED: Final = ("verify-ca", "verify-full")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DRIVER: Final = "postgresql+psycopg"


class S3Access(BaseModel):
    """How an S3 server is reached; what is empty is found by boto3 itself (variables, `~/.aws`, the machine's role)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint_url: str = ""
    """URL of another server than AWS's."""
    region: str = ""
    access_key_id: SecretStr = SecretStr("")
    secret_access_key: SecretStr = SecretStr("")
    session_token: SecretStr = SecretStr("")
    ca_file: Path | None = None
    """Certificate authorities by which the server is verified; None: those of the system."""

    def revealed(self) -> dict[str, str]:
        """Return what is set, with the values of the secrets, by the names of the fields."""
        values = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else str(value or "") for name, value in self
        }
        return {name: value for name, value in values.items() if value}


def split_bucket(url: str) -> tuple[str, str]:
    """Return the bucket of an `s3://` URL, and the beginning of its objects' keys.

    Raises:
        InvalidInput: the URL names no bucket.
    """
    bucket, _, prefix = url.removeprefix(S3).partition("/")
    prefix = prefix.removesuffix("/")
    is_plain = not any(part in {"", ".", ".."} for part in prefix.split("/")) if prefix else True
    if not url.startswith(S3) or not _BUCKET.fullmatch(bucket) or not is_plain or "?" in prefix or "#" in prefix:
        cure = "Write s3://BUCKET or s3://BUCKET/PREFIX."
        raise InvalidInput(f"{url!r} names no bucket of S3.", cure=cure, code="s3_url")
    return bucket, f"{prefix}/" if prefix else ""


def postgres_url(url: str, ca_file: Path | None, *, is_ours: bool = True) -> str:
    """Return the URL of a database for psycopg, which trusts this authority unless the URL names another.

    A URL that is not ours is used on another machine, whose authorities are not known here.

    Raises:
        InvalidInput: the URL is not valid; the message names what is wrong, without the password.
    """
    parts = _split(url, "the database")
    if parts.scheme not in {_DRIVER, "postgresql", "postgres"}:
        raise InvalidInput(
            f"The database has the scheme {parts.scheme!r}.", cure=f"Write {_DRIVER}://USER:PASSWORD@HOST/NAME."
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    mode = query.get("sslmode")
    if mode is not None and mode not in _SSL_MODES:
        raise InvalidInput(f"The database has sslmode={mode}.", cure=f"Write one of {', '.join(_SSL_MODES)}.")
    if is_ours and mode in _VERIFIED:
        # The library of Postgres may look for the system's authorities where this machine has none.
        query.setdefault("sslrootcert", str(ca_file or ssl.get_default_verify_paths().cafile or "system"))
    if is_ours:
        _check_ca(query.get("sslrootcert"), "the database")
    return _joined(parts, _DRIVER, query)


def redis_url(url: str, ca_file: Path | None, *, is_ours: bool = True) -> str:
    """Return the URL of a Redis or Valkey server; with `rediss://` it trusts this authority unless the URL names one.

    Raises:
        InvalidInput: the URL is not valid; the message names what is wrong, without the password.
    """
    parts = _split(url, "Redis")
    if parts.scheme not in {"redis", "rediss"}:
        cure = "Write redis://:PASSWORD@HOST:PORT/0, or rediss:// for TLS."
        raise InvalidInput(f"Redis has the scheme {parts.scheme!r}.", cure=cure)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "rediss":
        query.setdefault("ssl_cert_reqs", "required")
        if is_ours and ca_file is not None:
            query.setdefault("ssl_ca_certs", str(ca_file))
        if is_ours:
            _check_ca(query.get("ssl_ca_certs"), "Redis")
    return _joined(parts, parts.scheme, query)


def storage_folder(url: str) -> Path | None:
    """Return the folder that a storage URL names; None: it names a bucket of S3.

    Raises:
        InvalidInput: it is neither a folder, as an absolute path or a `file://` URL, nor `s3://BUCKET/PREFIX`.
    """
    if url.startswith(S3):
        split_bucket(url)
        return None
    parts = _split(url, "the storage")
    if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
        cure = "Give the path of a folder, a file:// URL, or s3://BUCKET/PREFIX."
        raise InvalidInput(f"Storage cannot be at {url!r}.", cure=cure)
    root = Path(unquote(parts.path) if parts.scheme else url)
    if not root.is_absolute():
        raise InvalidInput(f"The storage folder {url!r} is relative.", cure="Give an absolute path.")
    return root


def with_account(url: str, name: str, password: str) -> str:
    """Return the URL of a server with another account."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{quote(name, safe='')}:{quote(password, safe='')}@{place}").geturl()


def is_local(url: str) -> bool:
    """Return whether only processes of this machine can use the URL of a server: a socket, or a loopback address."""
    parts = urlsplit(url)
    host = parts.hostname or dict(parse_qsl(parts.query)).get("host", "")
    return not host or host.startswith(("/", "127.")) or host in {"localhost", "::1"}


def _split(url: str, what: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidInput(f"The URL of {what} is not valid: {error}.", cure="Correct it.") from None
    return parts


def _joined(parts: SplitResult, scheme: str, query: dict[str, str]) -> str:
    written = urlencode(query, quote_via=quote, safe="/")
    return f"{scheme}://{parts.netloc}{parts.path}" + (f"?{written}" if written else "")


def _check_ca(path: str | None, what: str) -> None:
    if path is None or path == "system":
        return
    try:
        is_pem = "-----BEGIN CERTIFICATE-----" in Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        message = f"The certificate authority of {what}, {path}, cannot be read: {error.strerror or error}."
        raise InvalidInput(message, cure="Correct its path or permissions.", code="ca_file") from error
    if not is_pem:
        message = f"The certificate authority of {what}, {path}, contains no certificate in PEM."
        raise InvalidInput(message, cure="Name the file ca.pem of the server.", code="ca_file")
