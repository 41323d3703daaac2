"""Rules of a firewall for the ports of a stack: who may reach which, and nobody else. Pure.

Only the product's own ports are filtered, so that the rules can be loaded beside those of the site, and lock nobody
out. They come before the translation of addresses, so that they hold for ports that Docker publishes too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, Literal, TypeAlias, get_args

from vlmhyperbench.errors import InvalidInput

Tool = Literal["nft", "iptables", "ip6tables", "ufw"]
TOOLS: Final[tuple[Tool, ...]] = get_args(Tool)
Network: TypeAlias = IPv4Network | IPv6Network

_NAME: Final = "vlmhyperbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Ports and the networks from which they may be reached; everybody else is turned away."""

    ports: range
    networks: tuple[Network, ...]


def doors(
    port: int,
    *,
    workers: Sequence[Network] = (),
    clients: Sequence[Network] = (),
    monitoring: Sequence[Network] = (),
    metrics: range,
) -> list[Door]:
    """Return the doors of a stack: workers reach API, Postgres and Redis, clients the API, Prometheus the metrics.

    Args:
        port: port of the API; Postgres and Redis have the next two.
        workers: networks of the machines whose workers join.
        clients: networks of the people who use the API.
        monitoring: networks of Prometheus.
        metrics: ports at which services serve their metrics.
    """
    return [
        Door(ports=range(port, port + 1), networks=(*workers, *clients)),
        Door(ports=range(port + 1, port + 3), networks=tuple(workers)),
        Door(ports=metrics, networks=tuple(monitoring)),
    ]


def parse_networks(texts: Sequence[str], flag: str) -> list[Network]:
    """Read networks such as `10.0.0.0/24`, or single addresses.

    Raises:
        InvalidInput: one is none.
    """
    return [_network(given, flag) for given in texts]


def _network(given: str, flag: str) -> Network:
    try:
        return ip_network(given)
    except ValueError as error:
        cure = "Write a network as in 10.0.0.0/24 or fd00::/64, or one address."
        raise InvalidInput(f"{flag} {given!r} is no network: {error}.", cure=cure, code="usage") from error


def rules(tool: Tool, passages: Sequence[Door]) -> str:
    """Return the rules in the language of a tool, which loads them again without harm."""
    return "\n".join(_WRITERS[tool](passages)) + "\n"


def _span(ports: range, to: str) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]}{to}{ports[-1]}"


def _nft(passages: Sequence[Door]) -> list[str]:
    body = [
        "    type filter hook prerouting priority mangle; policy accept;",
        '    iifname "lo" accept',
    ]
    for door in passages:
        ports = f"tcp dport {_span(door.ports, '-')}"
        for family, version in (("ip", 4), ("ip6", 6)):
            own = [str(network) for network in door.networks if network.version == version]
            if own:
                body.append(f"    {family} saddr {{ {', '.join(own)} }} {ports} accept")
        body.append(f"    {ports} drop")
    # A table is created before it is deleted, so that the first load finds one.
    table = f"table inet {_NAME}"
    return [table, f"delete {table}", f"{table} {{", "  chain ports {", *body, "  }", "}"]


def _iptables(passages: Sequence[Door], version: Literal[4, 6]) -> list[str]:
    chain = _NAME.upper()
    lines = ["*raw", f":{chain} - [0:0]", f"-A {chain} -i lo -j RETURN"]
    for door in passages:
        ports = f"-p tcp --dport {_span(door.ports, ':')}"
        own = [network for network in door.networks if network.version == version]
        lines += [f"-A {chain} -s {network} {ports} -j RETURN" for network in own]
        lines.append(f"-A {chain} {ports} -j DROP")
    return [*lines, f"-I PREROUTING -j {chain}", "COMMIT"]


def _ufw(passages: Sequence[Door]) -> list[str]:
    lines = []
    for door in passages:
        ports = f"port {_span(door.ports, ':')} proto tcp"
        lines += [f"ufw allow from {network} to any {ports}" for network in door.networks]
        lines.append(f"ufw deny from any to any {ports}")
    return lines


_WRITERS: Final[dict[Tool, Callable[[Sequence[Door]], list[str]]]] = {
    "nft": _nft,
    "iptables": lambda passages: _iptables(passages, 4),
    "ip6tables": lambda passages: _iptables(passages, 6),
    "ufw": _ufw,
}
