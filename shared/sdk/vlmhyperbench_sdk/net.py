"""The policy for every URL that a user gives: parse strictly, resolve once, connect to the address that was checked.

Public addresses over https are allowed. Everything else (loopback, private networks, plain http) only where whoever
runs the process says so: `UrlPolicy`. Cloud metadata and addresses that hide another one (NAT64, 6to4, Teredo) never.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Union
from urllib.parse import SplitResult, urlsplit

from vlmhyperbench_sdk.errors import InvalidInput, Unavailable

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

_DENIED = tuple(
    ipaddress.ip_network(text)
    for text in (
        "168.63.129.16/32",  # Azure's wire server: a public address that is not one
        "192.88.99.0/24",  # 6to4 relays
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",
        "2002::/16",  # 6to4
        "2001::/32",  # Teredo
        "::ffff:0:0:0/96",  # IPv4-translated
    )
)
_LINK_LOCAL = (ipaddress.ip_network("169.254.0.0/16"), ipaddress.ip_network("fe80::/10"))
_METADATA = frozenset(ipaddress.ip_address(text) for text in ("169.254.169.254", "100.100.100.200", "fd00:ec2::254"))

_HOST = re.compile(r"^(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$")
_MAX_URL = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlPolicy:
    """What is allowed beyond public addresses over https."""

    allow_loopback: bool = False
    """The embedded stack: endpoints on this machine, by http or https, on any port."""
    allow_hosts: frozenset[str] = frozenset()
    """Private hosts, exact names in lower case, that an administrator allows, by http or https, on any port."""
    ports: frozenset[int] = frozenset({443, 8443})
    """Ports of public hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A URL that was parsed strictly; nothing is resolved yet."""

    scheme: str
    host: str
    port: int
    path: str
    """Without a trailing slash; empty or starting with one."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == (443 if self.scheme == "https" else 80)
        return f"{self.scheme}://{host}{'' if is_default else f':{self.port}'}{self.path}"


def parse_url(text: str) -> Url:
    """Parse `http://host[:port][/path]` or https, and refuse whatever different parsers read differently.

    Raises:
        InvalidInput: user info, query, fragment, control or other odd characters, a host or port that is none.
    """
    if len(text) > _MAX_URL or not text.isascii() or re.search(r"[\x00-\x20\x7f\\<>\"^`{|}]", text):
        raise InvalidInput("A URL has at most 2,000 ASCII characters, without spaces, controls or backslashes.")
    try:
        parts: SplitResult = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"The URL cannot be read: {error}.") from error
    if parts.scheme not in {"http", "https"}:
        raise InvalidInput("A URL begins with https:// or http://.")
    if "@" in parts.netloc:
        raise InvalidInput("A URL holds no user or password.", cure="Give the key as a named secret.")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise InvalidInput("The URL of an endpoint has no query and no fragment.")
    if ".." in parts.path.split("/"):
        raise InvalidInput("The path of a URL has no '..'.")
    host = _check_host(parts.hostname or "")
    if port is not None and not 1 <= port <= 65535:
        raise InvalidInput(f"{port} is no port.")
    default = 443 if parts.scheme == "https" else 80
    return Url(scheme=parts.scheme, host=host, port=port or default, path=parts.path.rstrip("/"))


def resolve(url: Url, policy: UrlPolicy) -> tuple[Address, ...]:
    """Resolve a host once and return its addresses, all of them allowed: connect to these, never to the name again.

    Raises:
        InvalidInput: scheme, port or one of the addresses is not allowed.
        Unavailable: the name does not resolve.
    """
    try:
        found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unavailable(f"The host {url.host} does not resolve: {error}.") from error
    addresses = tuple(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))
    for address in addresses:
        check_address(address, url, policy)
    return addresses


def check_address(address: Address, url: Url, policy: UrlPolicy) -> None:
    """Refuse an address that the policy does not allow.

    Raises:
        InvalidInput: it is not allowed.
    """
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    plain = inner or address
    if plain in _METADATA or any(plain in network for network in (*_DENIED, *_LINK_LOCAL)) or plain.is_multicast:
        raise InvalidInput(f"{url.host} leads to {address}, which is never allowed.")
    if url.host in policy.allow_hosts or (plain.is_loopback and policy.allow_loopback):
        return
    if plain.is_loopback:
        raise InvalidInput(f"{url.host} is this machine, which is allowed in the embedded stack only.")
    if not plain.is_global:
        raise InvalidInput(
            f"{url.host} leads to {address}, which is not public.", cure="Have an administrator allow the host."
        )
    if url.scheme != "https":
        raise InvalidInput(f"{url.host} is public, and {url.scheme} is not encrypted.", cure="Use https.")
    if url.port not in policy.ports:
        allowed = ", ".join(str(port) for port in sorted(policy.ports))
        raise InvalidInput(f"Port {url.port} of a public host is not allowed.", cure=f"Allowed: {allowed}.")


def _check_host(host: str) -> str:
    host = host.lower()
    if ":" in host:
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError as error:
            raise InvalidInput(f"{host!r} is no IPv6 address.") from error
    if not _HOST.match(host):
        raise InvalidInput(f"{host!r} is no host name.")
    if host.rpartition(".")[2].isdigit() or host.rpartition(".")[2].startswith("0x"):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError as error:
            raise InvalidInput(f"{host!r} is no IPv4 address in its usual form.") from error
    return host
