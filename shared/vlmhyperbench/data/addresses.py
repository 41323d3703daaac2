"""Fetch images that a dataset names by URL: once, within bounds, from hosts that the URL policy allows.

A name is resolved once, and the connection goes to the address that was checked, also after each redirect. What was
fetched is kept by its URL with the hash of its content, so that later runs see the same image.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

from vlmhyperbench.data.images import MEDIA_TYPES, InvalidImage
from vlmhyperbench.data.room import image_room
from vlmhyperbench.domain.specs import Limits
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.files import write_whole
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk.net import Address, Url, UrlPolicy, parse_url, resolve

MAX_REDIRECTS: Final = 5
CONNECT_S: Final = 10.0
MAX_FETCH_S: Final = 60.0
"""How long an image may take, with its redirects."""
_PIECE_BYTES: Final = 64 * 1024
_PLAIN: Final = "application/octet-stream"
"""Type that storage states for files whose type it does not know; the content is checked in any case."""
_QUERY: Final = re.compile(r"[!$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]*")
_OTHER: Final = "Name a file in the dataset's folder, or another URL."
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses by which a server says that it would answer another time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAddresses:
    """What may be fetched, and where it is kept."""

    policy: UrlPolicy
    folder: Path
    max_bytes: int
    """Bound of the folder; the least recently used images are evicted for new ones."""

    @classmethod
    def of(cls, settings: Settings) -> ImageAddresses | None:
        """Return what a machine's settings allow; None: nothing is fetched."""
        if not settings.fetch_images or settings.offline:
            return None
        return cls(policy=settings.url_policy, folder=settings.home / "images", max_bytes=settings.images_max_bytes)

    def read(self, url: str, limits: Limits) -> bytes:
        """Return the image at a URL, as it was when it was first fetched here.

        Raises:
            InvalidImage: the policy does not allow it, or there is no image of an allowed size.
            Unavailable: the server cannot be reached, is busy, or is too slow: the same request may succeed later.
        """
        name = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
        known = self._known(name)
        if known is not None:
            return known
        try:
            data = _fetched(url, self.policy, limits.max_image_bytes)
        except InvalidInput as error:
            raise InvalidImage(f"The image {url[:200]!r} is not fetched: {error.message}", cure=error.cure) from error
        file = self.folder / name[:2] / f"{name}-{hashlib.sha256(data).hexdigest()}"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, data)
        image_room(self.folder, self.max_bytes).add(len(data))
        return data

    def _known(self, name: str) -> bytes | None:
        """Return what was fetched before; a copy whose content is not that of its hash is removed."""
        for file in sorted((self.folder / name[:2]).glob(f"{name}-*")):
            with suppress(FileNotFoundError):  # another process has just evicted it
                data = file.read_bytes()
                if file.name == f"{name}-{hashlib.sha256(data).hexdigest()}":
                    os.utime(file)
                    return data
            file.unlink(missing_ok=True)
        return None


class _Connection(http.client.HTTPConnection):
    """A connection to an address that was checked, whatever the name resolves to now."""

    def __init__(self, url: Url, address: Address) -> None:
        super().__init__(url.host, url.port, timeout=CONNECT_S)
        self._address = str(address)
        self._context = ssl.create_default_context() if url.scheme == "https" else None

    def connect(self) -> None:
        """Connect to the address; a certificate has to be that of the name."""
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)


def _fetched(text: str, policy: UrlPolicy, max_bytes: int) -> bytes:
    """Return the content behind a URL.

    Raises:
        InvalidInput: the policy does not allow it, or there is no image of this size.
        Unavailable: the server does not answer in time.
    """
    ends_at = time.monotonic() + MAX_FETCH_S
    for _ in range(MAX_REDIRECTS + 1):
        url, target = _parsed(text)
        connection = _Connection(url, resolve(url, policy)[0])
        try:
            connection.request("GET", target, headers={"Accept": "image/*", "User-Agent": "vlmhyperbench"})
            response = connection.getresponse()
            if response.status not in {301, 302, 303, 307, 308}:
                return _content(response, url, max_bytes, ends_at)
            text = urljoin(text, response.headers.get("Location", ""))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"{url.host} does not send {text[:200]!r}: {error}.") from error
        finally:
            connection.close()
    raise InvalidInput(f"It is redirected more than {MAX_REDIRECTS} times.", cure=_OTHER)


def _parsed(text: str) -> tuple[Url, str]:
    """Return a URL without its query, as the policy checks it, and what is asked for."""
    base, mark, query = text.partition("?")
    url = parse_url(base)
    if len(text) > 8000 or _QUERY.fullmatch(query) is None:
        raise InvalidInput("The query of the URL has other than plain ASCII characters.", cure="Escape them with %.")
    return url, (urlsplit(base).path or "/") + mark + query


def _content(response: http.client.HTTPResponse, url: Url, max_bytes: int, ends_at: float) -> bytes:
    if response.status in _BUSY:
        raise Unavailable(f"{url.host} answers with the status {response.status}.")
    if response.status != 200:
        raise InvalidInput(f"{url.host} answers with the status {response.status}.", cure=_OTHER)
    media_type = response.headers.get_content_type() if "Content-Type" in response.headers else _PLAIN
    if media_type not in {*MEDIA_TYPES.values(), _PLAIN}:
        message = f"{url.host} sends {media_type}, not {', '.join(MEDIA_TYPES.values())}."
        raise InvalidInput(message, cure=_OTHER)
    content = bytearray()
    while piece := response.read1(_PIECE_BYTES):
        content += piece
        if len(content) > max_bytes:
            raise InvalidInput(
                f"It has more than {max_bytes:,} bytes.", cure="Raise limits.max_image_bytes of the run."
            )
        if time.monotonic() > ends_at:
            raise Unavailable(f"{url.host} takes more than {MAX_FETCH_S:.0f} s for an image.")
    if response.length:
        raise Unavailable(f"{url.host} ends {response.length:,} bytes too early.")
    return bytes(content)
