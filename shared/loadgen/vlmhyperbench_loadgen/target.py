"""The endpoint that requests are sent to: addresses, TLS, and the head that all requests share."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vlmhyperbench_loadgen.answers import CUT
from vlmhyperbench_loadgen.failures import LoadError, PlanError
from vlmhyperbench_loadgen.http1 import Framing

if TYPE_CHECKING:
    import ssl

MASK = "********"


@dataclass(frozen=True, slots=True)
class Address:
    """An address to connect to."""

    family: int
    sockaddr: Any
    """What `socket.connect` takes for the family."""


@dataclass(slots=True)
class Target:
    """The endpoint as a measuring process needs it."""

    addresses: list[Address]
    head: bytes
    """Everything before the value of Content-Length."""
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that are masked in error texts."""
    preferred: int = 0
    """Index of the address that accepted the last connection."""
    closes_after: set[Framing] = field(default_factory=set)
    """Framings of the answers after which the server closes the connection without announcing it."""

    def mask(self, text: str) -> str:
        """Hide secret values that a server echoed, and the beginning of a secret where a text was cut."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        *cut, rest = text.split(CUT)
        return CUT.join([*(self._without_beginning(part) for part in cut), rest])

    def _without_beginning(self, text: str) -> str:
        """Remove the longest ending that is the beginning of a secret."""
        sizes = [size for secret in self.secrets for size in range(1, len(secret)) if text.endswith(secret[:size])]
        return text[: len(text) - max(sizes, default=0)]


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a checked http(s) URL."""

    scheme: str
    host: str
    port: int
    authority: str
    path: str


def parse_url(url: str) -> Url:
    """Split and check a URL.

    Raises:
        PlanError: the URL is not an http or https URL that a request line can hold.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise PlanError(f"The URL {url!r} is malformed: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PlanError(f"The URL {url!r} does not begin with http:// or https:// and a host.")
    if parts.username is not None or parts.password is not None:
        raise PlanError("The URL holds a user name or password; give credentials as a secret header.")
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise PlanError(f"The URL {url!r} holds characters that must be percent-encoded.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    standard = 443 if parts.scheme == "https" else 80
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    authority = host if port in (None, standard) else f"{host}:{port}"
    return Url(scheme=parts.scheme, host=parts.hostname, port=port or standard, authority=authority, path=path)


def open_target(url: str, *, headers: Mapping[str, str], unix_socket: str | None, verify: bool) -> Target:
    """Resolve the host, read certificates, write the head; the values of `headers` are the secrets themselves.

    Raises:
        LoadError: the host has no address.
        PlanError: the URL or a header is malformed.
    """
    parts = parse_url(url)
    lines = [
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.authority}",
        "User-Agent: vlmhyperbench-loadgen",
        "Content-Type: application/json",
        "Accept: text/event-stream, application/json",
        "Accept-Encoding: identity",
    ]
    for name, value in headers.items():
        if not name.replace("-", "").isalnum() or not value.isprintable() or not (name + value).isascii():
            raise PlanError(f"The header {name!r} has a name or value that HTTP cannot carry.")
        lines.append(f"{name}: {value}")
    lines.append("Content-Length: ")
    # A server may echo the credential without its scheme ("Bearer"), so the credential is masked by itself too.
    secrets = {part for value in headers.values() for part in (value, value.rpartition(" ")[2]) if len(part) >= 4}
    target = Target(
        addresses=_resolve(parts, unix_socket),
        head="\r\n".join(lines).encode("ascii"),
        secrets=tuple(sorted(secrets, key=len, reverse=True)),
    )
    if parts.scheme == "https":
        target.tls = _make_tls(verify=verify)
        target.server_name = parts.host
    return target


def _resolve(parts: Url, unix_socket: str | None) -> list[Address]:
    if unix_socket is not None:
        return [Address(socket.AF_UNIX, unix_socket)]
    try:
        addresses = socket.getaddrinfo(parts.host, parts.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LoadError(f"connect_failed: the host {parts.host!r} has no address: {error}.") from error
    return [Address(family, sockaddr) for family, _, _, _, sockaddr in addresses]


def _make_tls(*, verify: bool) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
