"""The lock of every device that a worker's process tree uses, and who holds it.

Children inherit the open lock file, so a lock lasts as long as the process tree. A second worker is refused at once,
with the holder's name; only a restarted worker waits, until the process tree of its predecessor has ended.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from vlmhyperbench.errors import Conflict
from vlmhyperbench.logs import get_logger
from vlmhyperbench.processes import is_of_a_running_process, owner_of
from vlmhyperbench.worker.devices import DeviceInfo

_LOG = get_logger(__name__)
_MACHINE = Path("/run/lock")
"""Where the locks of GPUs are, so that the workers of all stacks of this user see them."""
_LOOK_AGAIN_S = 0.2
PREDECESSOR_S = 120.0
"""How long the process tree of a worker that ends or has died may hold a device; longer than a worker drains."""
IN_USE = "device_in_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A worker that holds devices."""

    worker: str
    home: str
    pid: int
    process: str
    """Its process as `owner_of` describes it, because a pid may be used again."""
    since: str
    is_leaving: bool = False
    """Whether it ends its last job and then releases its devices."""

    @classmethod
    def this_process(cls, worker: str, home: Path) -> Holder:
        """Describe a worker in this process."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(worker=worker, home=str(home), pid=os.getpid(), process=owner_of(os.getpid()), since=now)


class DeviceLocks:
    """Held locks; the processes that use the devices inherit their open files."""

    def __init__(self) -> None:
        self._held: dict[int, Holder] = {}

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open files of the locks."""
        return tuple(self._held)

    async def acquire(self, path: Path, device: DeviceInfo, own: Holder) -> None:
        """Lock one device, and write into its file who holds it.

        Raises:
            Conflict: another worker holds it (code `device_in_use`).
        """
        descriptor = _open(path)
        give_up_at: float | None = None
        try:
            while not _try_lock(descriptor):
                holder = _read(descriptor)
                if give_up_at is None:
                    give_up_at = time.monotonic() + PREDECESSOR_S
                    _LOG.info("worker.device_is_held", device=device.uuid, holder=holder and asdict(holder))
                if not _is_ending(holder, own) or time.monotonic() > give_up_at:
                    raise _refusal(device, holder, path)
                await asyncio.sleep(_LOOK_AGAIN_S)
        except BaseException:
            os.close(descriptor)
            raise
        self._held[descriptor] = own
        _write(descriptor, own)

    def leave(self) -> None:
        """Note that this worker ends, so that its successor waits for it."""
        for descriptor, own in self._held.items():
            _write(descriptor, replace(own, is_leaving=True))

    def close(self) -> None:
        """Close the files; a lock is free once the last child that inherited its file has ended."""
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()


async def lock_devices(home: Path, worker: str, devices: Sequence[DeviceInfo]) -> DeviceLocks:
    """Lock every GPU; a CPU slot has no lock, since a CPU can be shared.

    Raises:
        Conflict: another worker holds one of them (code `device_in_use`); no lock is kept.
    """
    locks = DeviceLocks()
    try:
        for device in devices:
            if device.kind == "gpu":
                path = await asyncio.to_thread(_path, home, device)
                await locks.acquire(path, device, Holder.this_process(worker, home))
    except BaseException:
        locks.close()
        raise
    return locks


def check_free(home: Path, worker: str, devices: Sequence[DeviceInfo]) -> None:
    """Refuse devices that another worker holds, before anything is started.

    Raises:
        Conflict: another worker holds one of them (code `device_in_use`).
    """
    for device in devices:
        if device.kind != "gpu" or not (path := _path(home, device)).exists():
            continue
        descriptor = _open(path)
        try:
            if _try_lock(descriptor):
                continue
            holder = _read(descriptor)
            if not _is_ending(holder, Holder.this_process(worker, home)):
                raise _refusal(device, holder, path)
        finally:
            os.close(descriptor)


def lock_folder(home: Path, device: DeviceInfo, *, machine: Path = _MACHINE) -> Path:
    """Return the folder of a device's lock: the machine's for this user, or the home's if there is none.

    A declared device is no part of the machine, so its lock is that of the home.
    """
    own = machine / f"vlmhyperbench-{os.geteuid()}"
    if not device.is_declared:
        with suppress(OSError):
            own.mkdir(mode=0o700, exist_ok=True)
            if own.stat(follow_symlinks=False).st_uid == os.geteuid() and os.access(own, os.W_OK):
                return own
    folder = home / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _path(home: Path, device: DeviceInfo) -> Path:
    return lock_folder(home, device) / f"{re.sub(r'[^A-Za-z0-9.-]', '_', device.uuid)}.lock"


def _is_ending(holder: Holder | None, own: Holder) -> bool:
    if holder is None or not is_of_a_running_process(holder.process):
        return True  # it has just locked and not yet written who it is, or its children are about to end
    return holder.is_leaving and (holder.worker, holder.home) == (own.worker, own.home)


def _refusal(device: DeviceInfo, holder: Holder | None, path: Path) -> Conflict:
    if holder is None:
        who, cure = f"a process that holds {path}", f"End it: `fuser {path}` names it."
    else:
        who = f"the worker {holder.worker!r} (pid {holder.pid}, since {holder.since}, home {holder.home})"
        cure = f"Stop that worker (kill {holder.pid}), or give this one other devices with VLMHB_DEVICES."
    return Conflict(f"The device {device.uuid} ({device.name}) is used by {who}.", cure=cure, code=IN_USE)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(descriptor, 65_536, 0)))
    except (ValueError, TypeError):
        return None


def _write(descriptor: int, holder: Holder) -> None:
    content = json.dumps(asdict(holder)).encode()
    with suppress(OSError):  # a full disk: the lock holds, only the holder is not named
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
