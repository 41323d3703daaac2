"""`python -m vlmhyperbench.environments.docker_run ORDER PATH…`: run an engine in a Docker container, in its place.

The container has a network of its own, by which this machine reaches the engine directly. Without `network` in the
spec, it reaches no other machine through it; it does reach what listens on this machine's addresses other than
loopback. When this process ends, even by SIGKILL, the container's stdin closes, its first process ends, and Docker
removes the container.
"""

from __future__ import annotations

import os
import secrets
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vlmhyperbench.domain.environments import DockerSpec
from vlmhyperbench.environments.docker_daemon import OWNER, docker_client, find_image, remove_orphans
from vlmhyperbench.environments.standing_in import (
    INIT,
    Order,
    gpus,
    pass_stdin,
    run_launcher,
    user,
    write_output,
)
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.processes import owner_of

_GIB = 2**30
_OOM_S = 1.0
"""How long Docker's report of a kill for memory may take after the end of the container."""

_STOPPED = threading.Event()
"""Set once the gateway has asked for the engine's end."""


def launch(order: Order, paths: list[str]) -> int:
    """Run the engine; return its exit status, or 128 and the number of the signal that killed it."""
    spec = DockerSpec(**order.spec)
    with docker_client() as client:
        remove_orphans(client)
        _check_readable(paths)
        image = find_image(client, spec.image)
        with _network(client, spec) as network:
            container = client.containers.create(
                image.id,
                entrypoint=[spec.python, "-I", "-S", str(INIT)],
                command=[],
                network=network.name,
                **_options(spec, [*paths, str(INIT)]),
            )
            return _run(client, container, spec, order, image.id)


def _run(client: Any, container: Any, spec: DockerSpec, order: Order, image: str) -> int:
    from docker.utils.socket import frames_iter

    out_of_memory = threading.Event()
    events = client.events(filters={"container": container.id, "event": "oom"})

    def note_kills() -> None:
        for _ in events:
            out_of_memory.set()

    threading.Thread(target=note_kills, daemon=True).start()
    connection = client.api.attach_socket(container.id, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    ended: list[int] = []
    waiter = threading.Thread(
        target=lambda: ended.append(client.api.wait(container.id, timeout=None, condition="removed")["StatusCode"]),
        daemon=True,
    )
    waiter.start()
    signal.signal(signal.SIGTERM, lambda *_: _stop(client, container.id))
    try:
        container.start()
        container.reload()
        address = next(iter(container.attrs["NetworkSettings"]["Networks"].values()))["IPAddress"]
        environment = {"kind": "docker", "image": image, "named": spec.image, "is_isolated": not spec.network}
        environment["gpus"] = list(gpus())
        order.state(host=address, pid=container.attrs["State"]["Pid"], environment=environment)
        raw = connection._sock  # noqa: SLF001 -- the SDK offers no other way to write to a container
        threading.Thread(target=pass_stdin, args=(raw.sendall, connection.close), daemon=True).start()
        for _, piece in frames_iter(connection, tty=False):
            write_output(piece)
        waiter.join()
    finally:
        with suppress(Exception):  # it has ended and is removed already
            client.api.remove_container(container.id, force=True)
    status = ended[0] if ended else 1
    if status == 128 + signal.SIGKILL and out_of_memory.wait(_OOM_S):
        limit = f" of {spec.memory_gib:g} GiB" if spec.memory_gib is not None else ""
        write_output(f"The container ran out of memory: the kernel killed it at its limit{limit}.\n".encode())
    return status


def _stop(client: Any, container: str) -> None:
    _STOPPED.set()
    with suppress(Exception):  # it has ended meanwhile
        client.api.kill(container, "SIGTERM")


@contextmanager
def _network(client: Any, spec: DockerSpec) -> Iterator[Any]:
    """Make a network for one engine; Docker chooses an address range that is free on this machine.

    It is removed here only when the gateway has asked for the end. After a crash it stays for as long as the gateway,
    because requests to its addresses would leave this machine by its default route; the next launcher removes it.
    """
    labels = {OWNER: owner_of(os.getppid())}
    name = f"vlmhyperbench-{secrets.token_hex(6)}"
    network = client.networks.create(name, driver="bridge", internal=not spec.network, labels=labels)
    has_run = False
    try:
        yield network
        has_run = True
    finally:
        if _STOPPED.is_set() or not has_run:
            with suppress(Exception):  # the next launcher removes it
                network.remove()


def _check_readable(paths: list[str]) -> None:
    """Refuse what the container's user cannot read: where this process is root, that is nobody."""
    for path in map(Path, paths):
        if os.geteuid() == 0 and not path.stat().st_mode & stat.S_IROTH:
            raise InvalidInput(
                f"The engine's container runs as nobody, who may not read {path}.",
                cure=f"Run: chmod o+r {path}, or run the worker as a user who is not root.",
                code="not_readable",
            )


def _device_request(chosen: tuple[str, ...]) -> Any:
    from docker.types import DeviceRequest

    if chosen == ("all",):
        return DeviceRequest(count=-1, capabilities=[["gpu"]])
    return DeviceRequest(device_ids=list(chosen), capabilities=[["gpu"]])


def _options(spec: DockerSpec, paths: list[str]) -> dict[str, Any]:
    from docker.types import LogConfig, Mount, Ulimit

    memory = {} if spec.memory_gib is None else {"mem_limit": int(spec.memory_gib * _GIB)}
    if memory:
        memory["memswap_limit"] = memory["mem_limit"]  # no swap, in which an engine would be slow rather than fail
    return {
        **memory,
        **({} if spec.cpus is None else {"nano_cpus": int(spec.cpus * 1e9)}),
        **({"device_requests": [_device_request(gpus())]} if gpus() else {}),
        "name": f"vlmhyperbench-{secrets.token_hex(6)}",
        "labels": {OWNER: owner_of(os.getpid())},
        "stdin_open": True,
        "auto_remove": True,
        "user": user(),
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "read_only": True,
        "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={int(spec.scratch_gib * _GIB)}"},  # noqa: S108 -- the container's own
        "shm_size": int(spec.shared_memory_gib * _GIB),
        "pids_limit": spec.max_processes,
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],
        "working_dir": "/tmp",  # noqa: S108 -- the container's own
        # Libraries ask for the user's name, and no file of the image has it.
        "environment": {"HOME": "/tmp", "TMPDIR": "/tmp", "USER": "engine", "LOGNAME": "engine"},  # noqa: S108 -- the container's own
        # The engine's output goes to the launcher only, which is where secrets are masked.
        "log_config": LogConfig(type=LogConfig.types.NONE),
        "mounts": [
            Mount(target=path, source=str(Path(path).resolve()), type="bind", read_only=True)
            for path in dict.fromkeys(paths)
        ],
    }


if __name__ == "__main__":
    run_launcher(launch)
