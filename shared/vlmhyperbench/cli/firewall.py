"""`firewall`: print rules that let the right machines reach this stack's ports; nothing is changed."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.local.firewall import Tool, doors, parse_networks, rules
from vlmhyperbench.local.listening import DEFAULT_PORT
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.services import metrics_of
from vlmhyperbench.settings import Settings


def firewall(
    *,
    workers: Annotated[tuple[str, ...], Parameter(group=STACK, consume_multiple=True)] = (),
    clients: Annotated[tuple[str, ...], Parameter(group=STACK, consume_multiple=True)] = (),
    monitoring: Annotated[tuple[str, ...], Parameter(group=STACK, consume_multiple=True)] = (),
    port: Annotated[int | None, Parameter(group=STACK)] = None,
    metrics_port: Annotated[int | None, Parameter(group=STACK)] = None,
    tool: Annotated[Tool, Parameter(group=STACK)] = "nft",
    output: OutputFlags = TEXT,
) -> int:
    """Print firewall rules for the ports of this stack: who may reach the API, Postgres, Redis and the metrics.

    Nothing is changed; pipe them into `nft -f -` or `iptables-restore --noflush`, or run the commands of ufw. Only the
    product's own ports are filtered, and this machine itself is always let through.

    Args:
        workers: Networks of the machines whose workers join, as 10.0.0.0/24: they reach API, Postgres and Redis.
        clients: Networks of the people who use the API.
        monitoring: Networks of Prometheus, which reads the metrics of the services.
        port: Port of the API for other machines; Postgres and Redis have the next two. By default that of this stack,
            or 8770.
        metrics_port: Port at which the services serve their metrics; by default the ports of this stack, or 9464.
        tool: Whose language the rules are in.
        output: How the output is printed.
    """
    settings = Settings.load()
    first = port if port is not None else _port_of_stack(settings)
    metrics = range(metrics_port, metrics_port + 1) if metrics_port is not None else metrics_of(Home(settings.home))
    for name, number, last in (("--port", first, 65533), ("--metrics-port", metrics[0], 65535)):
        if not 1 <= number <= last:
            raise InvalidInput(f"{name} {number} is no port.", cure=f"Give one from 1 to {last}.", code="usage")
    passages = doors(
        first,
        workers=parse_networks(workers, "--workers"),
        clients=parse_networks(clients, "--clients"),
        monitoring=parse_networks(monitoring, "--monitoring"),
        metrics=metrics,
    )
    written = rules(tool, passages)
    if output.json:
        emit("firewall", {"tool": tool, "rules": written})
    else:
        say(written.rstrip("\n"))
    return exits.OK


def _port_of_stack(settings: Settings) -> int:
    """Return the port at which workers reach the API of the stack of this machine."""
    url = settings.worker_database_url.get_secret_value()
    port = urlsplit(url).port
    return port - 1 if port else DEFAULT_PORT
