"""Rules of firewalls: loaded by the tools themselves, and tried between two machines."""

from __future__ import annotations

import socket
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.support.machines import need_machines, other_machine
from tests.support.processes import PATIENCE_S
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.local.firewall import TOOLS, Door, Tool, doors, parse_networks, rules
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.services import (
    inference_service,
    metrics_of,
    metrics_ports,
    stages_of,
    write_targets,
)

WORKERS = parse_networks(["10.0.0.0/24", "fd00::/64"], "--workers")
CLIENTS = parse_networks(["10.1.0.0/16"], "--clients")
SITE = doors(8770, workers=WORKERS, clients=CLIENTS, metrics=range(9464, 9467))
LOADERS = {
    "nft": ["nft", "-c", "-f", "-"],
    "iptables": ["iptables-restore", "--test", "--noflush"],
    "ip6tables": ["ip6tables-restore", "--test", "--noflush"],
}


def test_each_port_is_open_to_those_who_need_it_only() -> None:
    api, stores, metrics = SITE
    assert (api.ports, stores.ports, metrics.ports) == (range(8770, 8771), range(8771, 8773), range(9464, 9467))
    assert set(api.networks) == {*WORKERS, *CLIENTS}
    assert set(stores.networks) == set(WORKERS)
    assert metrics.networks == ()


def test_the_metrics_of_a_stack_have_a_port_for_each_service(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    assert metrics_of(home) == range(9464, 9465)
    stages = stages_of((), [inference_service("inference-1", {}), inference_service("inference-2", {})])
    write_targets(home, "127.0.0.1:8760", metrics_ports(stages, "9500"))
    assert metrics_of(home) == range(9500, 9506)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_lets_each_network_through_and_then_nobody(tool: Tool) -> None:
    lines = rules(tool, SITE).splitlines()
    version = {"iptables": 4, "ip6tables": 6}.get(tool)
    wanted = [network for network in WORKERS if version in (None, network.version)]
    refusals = [no for no, line in enumerate(lines) if "8771" in line and line.split()[-1].lower() in ("drop", "tcp")]
    for network in wanted:
        [no] = [no for no, line in enumerate(lines) if str(network) in line and "8771" in line]
        assert no < refusals[-1]


@pytest.mark.parametrize("given", ["10.0.0.1/24", "nobody", "10.0.0.0/33", "fd00::/200", ""])
def test_what_is_no_network_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_networks([given], "--workers")
    assert refused.value.code == "usage"


@pytest.mark.parametrize("tool", sorted(LOADERS))
def test_the_tool_itself_accepts_the_rules(tool: Tool) -> None:
    loader = LOADERS[tool]
    need_machines(loader[0])
    checked = subprocess.run(
        ["unshare", "--net", *loader], input=rules(tool, SITE), text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("tool", "loader"), [("nft", ["nft", "-f", "-"]), ("iptables", ["iptables-restore", "--noflush"])]
)
def test_rules_that_are_loaded_let_the_right_machine_in_and_no_other(tool: Tool, loader: list[str]) -> None:
    need_machines(loader[0])
    with other_machine() as machine:
        server = (
            "import socket, sys\n"
            "listening = socket.create_server((sys.argv[1], 8771))\n"
            "print('listening', flush=True)\n"
            "while True: listening.accept()[0].close()"
        )
        command = machine.argv([sys.executable, "-c", server, machine.far])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "listening\n"

                def load(network: str) -> None:
                    written = rules(tool, [Door(ports=range(8770, 8772), networks=(ip_network(network),))])
                    subprocess.run(machine.argv(loader), input=written, text=True, check=True)

                load("10.0.0.0/24")
                assert not _reaches(machine.far, patience_s=2)
                load(f"{machine.near}/32")
                assert _reaches(machine.far, patience_s=PATIENCE_S)
            finally:
                process.kill()


def _reaches(host: str, *, patience_s: float) -> bool:
    try:
        with socket.create_connection((host, 8771), timeout=patience_s):
            return True
    except TimeoutError:
        return False
