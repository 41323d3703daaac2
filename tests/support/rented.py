"""A provider of machines on this machine: RunPod's API on loopback, whose machines are sandboxes with an sshd.

A machine is a mount, process and network namespace with an overlay of this machine's files, so that what is installed,
removed or listened on there leaves ours as it is. Only root can make one.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

from tests.support.http_servers import QuietServer

KEY = "a-key-of-the-provider"
_BOOT = """\
set -e
mkdir -p "$1/upper" "$1/work" "$1/root"
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount --rbind /dev "$1/root/dev"
mount -t proc proc "$1/root/proc"
mount -t tmpfs tmpfs "$1/root/tmp"
mount -t tmpfs tmpfs "$1/root/run"
mkdir -p "$1/root/run/sshd" "$1/root/root/.ssh" "$1/root/root/.local/bin"
cp "$1/authorized_keys" "$1/root/root/.ssh/authorized_keys"
cp "$2" "$1/root/root/.local/bin/uv"
printf '#!/bin/sh\nexec "$@"\n' > "$1/root/usr/local/bin/sudo"
chmod 755 "$1/root/usr/local/bin/sudo"
# SkyPilot wants a Python that uv would download; images of machines that have its environment already need none.
chroot "$1/root" env HOME=/root bash -c '~/.local/bin/uv venv -q --seed --python "$0" ~/skypilot-runtime' "$3"
cp "$1/sshd_config" "$1/root/run/sshd/config"
exec chroot "$1/root" /usr/sbin/sshd -D -e -f /run/sshd/config
"""
_SSHD = """\
PidFile none
PermitRootLogin yes
StrictModes no
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
{variables}
"""


_OFFER = (
    "1x_L4_SECURE,L4,1.0,4.0,24.0,\"{{'Gpus': [{{'Name': 'L4', 'Manufacturer': 'NVIDIA', 'Count': 1.0, "
    "'MemoryInfo': {{'SizeInMiB': 24576}}}}], 'TotalGpuMemoryInMiB': 24576}}\",{region},0.2,{price},{region}-MTL-1\n"
)
_CATALOGUE = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Region,SpotPrice,Price,AvailabilityZone\n"
    + _OFFER.format(region="CA", price=0.43)
    + _OFFER.format(region="US", price=2.43)
)
_PROGRAMS = ("sshd", "rsync", "ip", "iptables")


def missing_programs() -> list[str]:
    """Return what must be installed before a machine can be made."""
    return [name for name in _PROGRAMS if shutil.which(name) is None]


def may_make_machines() -> bool:
    """Return whether this user and this kernel make namespaces."""
    apart = ["unshare", "--mount", "--pid", "--net", "--fork", "true"]
    return os.geteuid() == 0 and subprocess.run(apart, capture_output=True).returncode == 0


@dataclass
class Machine:
    """A machine that was rented."""

    id: str
    name: str
    folder: Path
    asked: str
    """The request by which it was rented."""
    network: int
    """Number of its network, of two addresses: this machine's and its own."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Its address, at which only this machine reaches it."""
        return f"10.213.{self.network}.2"

    @property
    def _link(self) -> str:
        return f"vlmhb{self.network}"

    def _network(self, *, is_up: bool) -> None:
        """Connect its network to this machine, which passes its packets on, or remove it."""
        subnet, ours = f"10.213.{self.network}.0/30", f"10.213.{self.network}.1"
        inside = ("ip", "-n", self._link)
        if is_up:
            _run("ip", "netns", "add", self._link)
            _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self._link)
            _run("ip", "addr", "add", f"{ours}/30", "dev", self._link)
            _run("ip", "link", "set", self._link, "up")
            _run(*inside, "addr", "add", f"{self.address}/30", "dev", "eth0")
            _run(*inside, "link", "set", "eth0", "up")
            _run(*inside, "link", "set", "lo", "up")
            _run(*inside, "route", "add", "default", "via", ours)
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        rule = "-I" if is_up else "-D"
        _run("iptables", rule, "FORWARD", "-i", self._link, "-j", "ACCEPT")
        _run("iptables", rule, "FORWARD", "-o", self._link, "-j", "ACCEPT")
        _run("iptables", "-t", "nat", rule, "POSTROUTING", "-s", subnet, "-j", "MASQUERADE")
        if not is_up:
            _run("ip", "link", "del", self._link)
            _run("ip", "netns", "del", self._link)

    def boot(self, public_key: str, uv: str) -> None:
        """Start its sshd, in namespaces that end with it."""
        self.folder.mkdir(parents=True)
        (self.folder / "authorized_keys").write_text(public_key + "\n")
        # An image of machines knows its index and certificates, as this machine does.
        known = {
            name: value
            for name, value in os.environ.items()
            if re.match(r"SSL_|UV_|PIP_|https?_proxy", name, re.IGNORECASE)
        }
        variables = "SetEnv " + " ".join(f'{name}="{value}"' for name, value in known.items()) if known else ""
        (self.folder / "sshd_config").write_text(_SSHD.format(variables=variables))
        self._network(is_up=True)
        apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts")
        argv = ["ip", "netns", "exec", self._link, *apart, "bash", "-c", _BOOT, "bash"]
        with (self.folder / "sshd.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*argv, str(self.folder), uv, str(Path(sys.executable).resolve())],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def end(self) -> None:
        """End it with everything that runs on it."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self._network(is_up=False)


@dataclass
class Provider:
    """The API of the provider, and its machines."""

    folder: Path
    uv: str
    gpus: tuple[str, ...] = ("NVIDIA L4",)
    never_boots: bool = False
    """Whether machines are rented but never get an address."""
    machines: dict[str, Machine] = field(default_factory=dict)
    rented: list[Machine] = field(default_factory=list)
    """Every machine that was ever rented."""

    def __enter__(self) -> Self:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["query"]
                allowed = self.headers["Authorization"] == f"Bearer {KEY}"
                body = json.dumps(provider.answer(query) if allowed else {}).encode()
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for machine in self.rented:
            machine.end()
            shutil.rmtree(machine.folder, ignore_errors=True)

    @property
    def variables(self) -> dict[str, str]:
        """Variables with which SkyPilot rents here: its home folder has the credentials and the catalogue of prices."""
        return {
            "HOME": str(self.folder.parent / "home"),
            "RUNPOD_API_BASE_URL": f"http://127.0.0.1:{self._server.server_port}",
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        }

    def answer(self, query: str) -> Mapping[str, Any]:
        """Answer one request of GraphQL, told apart by its words."""
        if "podFindAndDeployOnDemand" in query:
            return {"data": {"podFindAndDeployOnDemand": self._rent(query)}}
        if "deployCpuPod" in query:
            return {"data": {"deployCpuPod": self._rent(query)}}
        if "podTerminate" in query:
            machine = self.machines.pop(re.findall(r'podId: "([^"]+)"', query)[0], None)
            if machine is not None:
                machine.end()
            return {"data": {"podTerminate": None}}
        if "gpuTypes" in query:
            wanted = re.findall(r'id: "([^"]+)"', query)
            listed = [{"id": name, "displayName": name, "memoryInGb": 24} for name in self.gpus if name in wanted]
            return {"data": {"gpuTypes": listed}}
        if "updateUserSettings" in query:
            return {"data": {"updateUserSettings": {"id": "user", "pubKey": ""}}}
        if "networkVolumes" in query:
            return {"data": {"myself": {"id": "user", "pubKey": "", "networkVolumes": []}}}
        if "podTemplates" in query:
            return {"data": {"myself": {"podTemplates": []}}}
        if "pods" in query:
            return {"data": {"myself": {"pods": [self._listed(machine) for machine in self.machines.values()]}}}
        return {"errors": [{"message": f"No such request: {query[:200]}"}]}

    def _rent(self, query: str) -> Mapping[str, Any]:
        encoded = re.findall(r"echo (\S+) \| base64", query)[0]
        [key] = re.findall(r'echo "(ssh-[^"]+)"', base64.b64decode(encoded).decode())
        name = re.findall(r'name: "([^"]+)"', query)[0]
        number = f"pod{len(self.rented)}"
        machine = Machine(id=number, name=name, folder=self.folder / number, asked=query, network=_free_network())
        machine.boot(key, self.uv)
        self.machines[number] = machine
        self.rented.append(machine)
        return {"id": number, "imageName": "x", "env": [], "machineId": "m", "machine": {"podHostId": "h"}}

    def _listed(self, machine: Machine) -> Mapping[str, Any]:
        public = {"ip": machine.address, "isIpPublic": True, "privatePort": 22, "publicPort": 22, "type": "tcp"}
        private = {**public, "isIpPublic": False, "privatePort": 6380, "publicPort": 6380}
        ports = None if self.never_boots else [public, private]
        about = {"id": machine.id, "name": machine.name, "desiredStatus": "RUNNING", "vcpuCount": 2}
        return {**about, "runtime": {"ports": ports}, "machine": {"gpuDisplayName": "L4"}}


def serve_provider(folder: Path, *, uv: str) -> Provider:
    """Return a provider whose machines and home folder lie in a folder; `with` starts it."""
    home = folder / "home"
    catalogue = home / ".sky" / "catalogs" / "v8"
    for each in (home / ".runpod", catalogue / "runpod", catalogue / "common"):
        each.mkdir(parents=True)
    (home / ".runpod" / "config.toml").write_text(f'[default]\napi_key = "{KEY}"\n')
    (catalogue / "runpod" / "vms.csv").write_text(_CATALOGUE)
    (catalogue / "common" / "accelerators.csv").write_text("AcceleratorName,Clouds\nL4,\"['RunPod']\"\n")
    (catalogue / "common" / "metadata.csv").write_text("GPU,MemoryGB,Manufacturer\nL4,24,NVIDIA\n")
    return Provider(folder / "machines", uv=uv)


@contextmanager
def address_for_machines() -> Iterator[str]:
    """Yield an address at which machines reach this one, and nobody outside of it does."""
    address = "10.213.255.1"
    _run("ip", "address", "replace", f"{address}/32", "dev", "lo")
    try:
        yield address
    finally:
        _run("ip", "address", "delete", f"{address}/32", "dev", "lo")


def _free_network() -> int:
    """Return the number of a network that nobody on this machine uses."""
    used = {link.name for link in Path("/sys/class/net").iterdir()}
    return next(number for number in range(1, 255) if f"vlmhb{number}" not in used)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
