"""Policy for URLs given by users: parse strictly, resolve once, and connect to the checked address.

Public addresses over https are allowed. Everything else (loopback, private networks, plain http) must be allowed by the
operator's `UrlPolicy`. Cloud metadata services and addresses that embed another address (NAT64, 6to4, Teredo) are never
allowed.
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

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


# `ipaddress.is_global` is not used: its result depends on the patch version of Python, and it treats addresses as
# public that IANA's registries of special-purpose addresses do not. Both tables name their sources.
_NEVER = _networks(
    "168.63.129.16/32",  # Azure's wire server: not public although its address is in a public range
    "100.100.100.200/32",  # metadata of Alibaba Cloud
    "169.254.0.0/16",  # link-local, RFC 3927; metadata of most clouds
    "192.0.0.0/24",  # IETF protocol assignments, RFC 6890; 192.0.0.192 is metadata of Oracle Cloud
    "192.88.99.0/24",  # 6to4 relays, RFC 7526
    "224.0.0.0/4",  # multicast, RFC 5771
    "::ffff:0:0:0/96",  # IPv4-translated, RFC 2765
    "64:ff9b::/96",  # NAT64, RFC 6052
    "64:ff9b:1::/48",  # NAT64 of one network, RFC 8215
    "2001::/23",  # IETF protocol assignments, RFC 2928: Teredo, benchmarking, ORCHID and others
    "2002::/16",  # 6to4, RFC 3056
    "fd00:ec2::254/128",  # metadata of AWS
    "fd20:ce::254/128",  # metadata of Google Cloud
    "fe80::/10",  # link-local, RFC 4291
    "ff00::/8",  # multicast, RFC 4291
)
"""Cloud metadata, link-local, multicast, and IPv6 addresses that embed an IPv4 address."""
_NOT_PUBLIC = _networks(
    "0.0.0.0/8",  # this network, RFC 791
    "10.0.0.0/8",  # private, RFC 1918
    "100.64.0.0/10",  # shared by carriers, RFC 6598
    "127.0.0.0/8",  # loopback, RFC 1122
    "172.16.0.0/12",  # private, RFC 1918
    "192.0.2.0/24",  # documentation, RFC 5737
    "192.168.0.0/16",  # private, RFC 1918
    "198.18.0.0/15",  # benchmarking, RFC 2544
    "198.51.100.0/24",  # documentation, RFC 5737
    "203.0.113.0/24",  # documentation, RFC 5737
    "240.0.0.0/4",  # reserved, RFC 1112, with the limited broadcast
    "2001:db8::/32",  # documentation, RFC 3849
    "3fff::/20",  # documentation, RFC 9637
)
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
"""Global unicast, RFC 4291 section 2.4: the only public IPv6 range; fec0::/10 and 5f00::/16 are not in it."""
_HIDES_IPV4 = ipaddress.IPv6Network("::/96")
"""IPv4-compatible, RFC 4291 section 2.5.5.1, deprecated; `::` and `::1` are also in this range."""
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
"""Upper half of the interface identifier of an address that embeds an IPv4 address, RFC 5214 section 6.1."""

_HOST = re.compile(r"^(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$")
_MAX_URL = 2000
_WRITE = "Write https://host or http://host:port, with a path where there is one."


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlPolicy:
    """Exceptions to "public addresses over https only"."""

    allow_loopback: bool = False
    """Allow endpoints on this machine, by http or https, on any port; the embedded stack sets it."""
    allow_hosts: frozenset[str] = frozenset()
    """Private hosts that an administrator allows, by http or https, on any port; exact names in lower case."""
    ports: frozenset[int] = frozenset({443, 8443})
    """Allowed ports of public hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A strictly parsed URL, before its host is resolved."""

    scheme: str
    host: str
    port: int
    path: str
    """Path without a trailing slash; empty, or beginning with a slash."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == (443 if self.scheme == "https" else 80)
        return f"{self.scheme}://{host}{'' if is_default else f':{self.port}'}{self.path}"


def parse_url(text: str) -> Url:
    """Parse `http://host[:port][/path]` or https; refuse everything that parsers may interpret differently.

    Raises:
        InvalidInput: it has user info, a query, a fragment, control or other unusual characters, or an invalid host or
            port.
    """
    if len(text) > _MAX_URL or not text.isascii() or re.search(r"[\x00-\x20\x7f\\<>\"^`{|}]", text):
        raise InvalidInput(
            "A URL has at most 2,000 ASCII characters, without spaces, controls or backslashes.", cure=_WRITE
        )
    try:
        parts: SplitResult = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"The URL cannot be read: {error}.", cure=_WRITE) from error
    if parts.scheme not in {"http", "https"}:
        raise InvalidInput("A URL begins with https:// or http://.", cure=_WRITE)
    if "@" in parts.netloc:
        raise InvalidInput("A URL holds no user or password.", cure="Give the key as a named secret.")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise InvalidInput("The URL of an endpoint has no query and no fragment.", cure="Leave out ? and #.")
    if ".." in parts.path.split("/"):
        raise InvalidInput("The path of a URL has no '..'.", cure="Write the path that is meant.")
    host = _check_host(parts.hostname or "")
    if port is not None and not 1 <= port <= 65535:
        raise InvalidInput(f"{port} is no port.", cure="A port is 1 to 65535.")
    default = 443 if parts.scheme == "https" else 80
    return Url(scheme=parts.scheme, host=host, port=port or default, path=parts.path.rstrip("/"))


def resolve(url: Url, policy: UrlPolicy) -> tuple[Address, ...]:
    """Resolve a host once and return its addresses, all allowed. Connect to these, and do not resolve the name again.

    Raises:
        InvalidInput: scheme, port or one of the addresses is not allowed.
        Unavailable: the name does not resolve.
    """
    try:
        resolved = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unavailable(f"The host {url.host} does not resolve: {error}.") from error
    addresses = tuple(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in resolved))
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
    if _is_never_allowed(plain):
        raise InvalidInput(f"{url.host} leads to {address}, which is never allowed.", cure="Name another host.")
    if url.host in policy.allow_hosts or (plain.is_loopback and policy.allow_loopback):
        return
    if plain.is_loopback:
        raise InvalidInput(
            f"{url.host} is this machine, which is allowed in the embedded stack only.",
            cure="Have an administrator set VLMHB_ALLOW_LOOPBACK_TARGETS=true.",
        )
    if not _is_public(plain):
        raise InvalidInput(
            f"{url.host} leads to {address}, which is not public.",
            cure="Have an administrator name the host in VLMHB_ALLOWED_TARGET_HOSTS.",
        )
    if url.scheme != "https":
        raise InvalidInput(f"{url.host} is public, and {url.scheme} is not encrypted.", cure="Use https.")
    if url.port not in policy.ports:
        allowed = ", ".join(str(port) for port in sorted(policy.ports))
        raise InvalidInput(f"Port {url.port} of a public host is not allowed.", cure=f"Allowed: {allowed}.")


def _is_never_allowed(address: Address) -> bool:
    if any(address in network for network in _NEVER):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return False
    hides = address in _HIDES_IPV4 and int(address) > 1
    return hides or int(address) >> 32 & 0xFFFFFFFF in _ISATAP


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_IPV6:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


def _check_host(host: str) -> str:
    host = host.lower()
    if ":" in host:
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError as error:
            raise InvalidInput(f"{host!r} is no IPv6 address.", cure=_WRITE) from error
    if not _HOST.match(host):
        raise InvalidInput(f"{host!r} is no host name.", cure=_WRITE)
    if host.rpartition(".")[2].isdigit() or host.rpartition(".")[2].startswith("0x"):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError as error:
            raise InvalidInput(
                f"{host!r} is no IPv4 address in its usual form.", cure="Write it as 192.0.2.1."
            ) from error
    return host
