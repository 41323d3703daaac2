"""Resolve the API's URL and key: arguments first, then the environment, then the embedded stack's files."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.local.supervisor.home import Home

_MAX_KEY = 4096
"""Maximum number of characters that are read from a key file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A resolved URL and key; `repr` masks the key."""

    url: str
    api_key: str
    ca_file: str | None = None
    """Certificate authority of the API; None: those of the system."""

    def __repr__(self) -> str:
        return f"Connection(url={self.url!r}, api_key='********')"

    @property
    def live_url(self) -> str:
        """URL of the live feed."""
        parts = urlsplit(self.url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        return f"{scheme}://{parts.netloc}{parts.path}/api/v1/live"

    @property
    def headers(self) -> dict[str, str]:
        return {"X-API-Key": self.api_key}

    @property
    def is_loopback(self) -> bool:
        """Whether the API runs on this machine, so that proxies must be bypassed."""
        return is_loopback_host(urlsplit(self.url).hostname or "")


def is_loopback_host(host: str) -> bool:
    """Return whether a host of a URL is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def resolve(url: str | None = None, api_key: str | None = None, *, home: Home | None = None) -> Connection:
    """Resolve the API's URL and key.

    `VLMHB_API_URL` points to an API elsewhere; its key comes from `VLMHB_API_KEY` or the file `VLMHB_API_KEY_FILE`.

    Raises:
        Unavailable: no stack or no key was found, or the key file cannot be read.
        InvalidInput: the URL is not http or https, or the key contains characters that are not allowed.
    """
    stack = home or Home.default()
    address = url or os.environ.get("VLMHB_API_URL") or stack.api_url()
    if not address:
        raise Unavailable(
            f"No stack is known in {stack.root}.",
            cure="Start one with `vlmhyperbench up`, or set VLMHB_API_URL.",
            code="no_stack",
        )
    if not _is_address(address):
        raise InvalidInput(
            f"{address!r} is not an http or https URL.", cure="Correct VLMHB_API_URL: write http://HOST:PORT."
        )
    key = api_key or os.environ.get("VLMHB_API_KEY") or _read(os.environ.get("VLMHB_API_KEY_FILE")) or stack.api_key()
    if not key:
        raise Unavailable(
            f"No API key is known for {address}.", cure="Set VLMHB_API_KEY_FILE or VLMHB_API_KEY.", code="no_key"
        )
    if not key.isascii() or not key.isprintable():
        message = "The API key contains characters that are not allowed in a key."
        raise InvalidInput(message, cure="Correct VLMHB_API_KEY, or the file that VLMHB_API_KEY_FILE names.")
    return Connection(url=address.rstrip("/"), api_key=key, ca_file=os.environ.get("VLMHB_API_CA_FILE") or None)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _read(path: str | None) -> str | None:
    if not path:
        return None
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(_MAX_KEY).strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(
            f"The key file {path} cannot be read: {error}.", cure="Correct VLMHB_API_KEY_FILE.", code="no_key"
        ) from error
