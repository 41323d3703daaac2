"""A second machine: a network namespace with an address of its own, which can be cut off. It needs root."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.needs import skip_or_fail

_NOBODY = "02:00:00:00:00:01"
"""Hardware address that no machine has."""
_NEED = "VLMHB_NEED_MACHINES"
_NETWORKS = 4000
"""Number of machines that can be there at once, those of all tests together."""


def need_machines(*programs: str) -> None:
    """Skip a test where no machine can be made, or a program is missing; in `make ci` that is a failure."""
    missing = [program for program in ("ip", *programs) if shutil.which(program) is None]
    if missing or not _can_make_machines():
        skip_or_fail(f"Network namespaces need root{''.join(f', and {name}' for name in missing)}.", _NEED)


def _can_make_machines() -> bool:
    if os.geteuid() != 0:
        return False
    probe = f"vlmhb-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True)
    subprocess.run(["ip", "netns", "delete", probe], check=False, capture_output=True)
    return made.returncode == 0


@dataclass(frozen=True, slots=True)
class Machine:
    """A namespace and the cable to it."""

    name: str
    cable: str
    near: str
    """Address of this machine on the cable."""
    far: str
    """Address of the other one."""

    def argv(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs on the other machine."""
        return ["ip", "netns", "exec", self.name, *command]

    def add_way_to(self, address: str) -> None:
        """Let the other machine reach another address of this one."""
        _ip("-n", self.name, "route", "add", f"{address}/32", "via", self.near)

    def pids(self) -> list[int]:
        """Return the processes of the other machine."""
        listed = subprocess.run(["ip", "netns", "pids", self.name], check=True, capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def cut_off(self) -> None:
        """Lose every packet in both directions, and tell nobody: each side addresses its packets to no one."""
        _ip("-n", self.name, "neigh", "replace", self.near, "lladdr", _NOBODY, "nud", "permanent", "dev", self._far_end)
        _ip("neigh", "replace", self.far, "lladdr", _NOBODY, "nud", "permanent", "dev", self._near_end)

    def connect(self) -> None:
        """Let packets arrive again."""
        _ip("-n", self.name, "neigh", "del", self.near, "dev", self._far_end)
        _ip("neigh", "del", self.far, "dev", self._near_end)

    @property
    def _near_end(self) -> str:
        return self.cable + "a"

    @property
    def _far_end(self) -> str:
        return self.cable + "b"


@contextmanager
def other_machine() -> Iterator[Machine]:
    """Make a machine and remove it when the block ends; a test that cannot have one is skipped or fails."""
    need_machines()
    machine = _taken()
    near, far = machine._near_end, machine._far_end
    try:
        _ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", machine.name)
        _ip("addr", "add", f"{machine.near}/30", "dev", near)
        _ip("link", "set", near, "up")
        _ip("-n", machine.name, "addr", "add", f"{machine.far}/30", "dev", far)
        _ip("-n", machine.name, "link", "set", far, "up")
        _ip("-n", machine.name, "link", "set", "lo", "up")
        yield machine
    finally:
        subprocess.run(["ip", "link", "delete", near], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "delete", machine.name], check=False, capture_output=True)


def _taken() -> Machine:
    """Make the namespace of a machine whose name and addresses no other has, also none of tests that were killed."""
    own = os.getpid() * 7
    for number in ((own + offset) % _NETWORKS for offset in range(_NETWORKS)):
        network, last = f"10.231.{number // 64}", number % 64 * 4
        machine = Machine(f"vlmhb-{number}", f"vlmhb{number}", f"{network}.{last + 1}", f"{network}.{last + 2}")
        made = subprocess.run(["ip", "netns", "add", machine.name], check=False, capture_output=True, text=True)
        if made.returncode == 0:
            return machine
        assert "File exists" in made.stderr, made.stderr
    raise AssertionError("every name of a machine is taken: ip netns list")


def free_ports(host: str) -> int:
    """Return the first of three ports that are free."""
    for port in range(8770 + os.getpid() % 500 * 3, 12_000, 3):
        try:
            for offset in range(3):
                with socket.create_server((host, port + offset)):
                    pass
        except OSError:
            continue
        return port
    raise AssertionError("no free ports")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
