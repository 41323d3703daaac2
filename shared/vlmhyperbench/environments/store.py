"""The folder of environments: where each lies, which are whole, who holds which.

<folder>/<key>/            an environment; whole only if it has `ready.json`, which is written last
                           (of a container: only its marker, and the SIF that was built for it)
<folder>/<key>.lock        held shared by users of the environment, exclusively for building and removing it
<folder>/<spec>.resolved   the pinned packages, with hashes, to which a spec was resolved on this machine
<folder>/wheels/<key>/     a wheel that was built of a repository or a folder
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from vlmhyperbench.environments.base import Tell
from vlmhyperbench.errors import Conflict
from vlmhyperbench.files import write_whole

_POLL_S = 0.05
_MARKER = "ready.json"
_KEY = re.compile(r"[0-9a-f]{16}")
_WHEELS = "*.whl"
_WHEEL = re.compile(r"/wheels/([0-9a-f]{16})/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The marker of an environment that is whole."""

    python_version: str
    packages: dict[str, str]
    """Distribution → version."""
    manager: str
    """What installed the packages: uv or pip; or the kind of a container."""
    size_bytes: int
    build_s: float
    image: str | None = None
    """Digest of a container's image: the id of a Docker image, the SHA-256 of a SIF."""
    image_file: str | None = None
    """Path of a SIF."""
    image_stamp: tuple[int, ...] = ()
    """Device, inode, size and time of that file when its hash was taken."""


class EnvironmentStore:
    """The environments of one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def wheels_folder(self) -> Path:
        """Return the folder of wheels that were built here."""
        return self.folder / "wheels"

    def folder_of(self, key: str) -> Path:
        """Return the folder of an environment, which may not exist."""
        return self.folder / key

    def python_of(self, key: str) -> Path:
        """Return the path of an environment's interpreter."""
        return self.folder / key / "bin" / "python"

    def packages_file(self, key: str) -> Path:
        """Return the file of the packages that an environment was built from, with hashes."""
        return self.folder / key / "packages.txt"

    def resolved_file(self, spec_key: str) -> Path:
        """Return the file of the packages to which a spec was resolved; it may not exist."""
        return self.folder / f"{spec_key}.resolved"

    def ready(self, key: str) -> Ready | None:
        """Return the marker of an environment; None if it is not whole, or its interpreter is gone."""
        try:
            values = json.loads(self.marker_file(key).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        ready = Ready(**{**values, "image_stamp": tuple(values.get("image_stamp", ()))})
        return ready if ready.image is not None or self.python_of(key).exists() else None

    def marker_file(self, key: str) -> Path:
        """Return the file that an environment has if it is whole."""
        return self.folder / key / _MARKER

    def list_keys(self) -> Iterator[str]:
        """Yield the keys of all environments, whole or not."""
        if self.folder.is_dir():
            yield from sorted(path.name for path in self.folder.iterdir() if _KEY.fullmatch(path.name))

    async def hold_built(
        self, key: str, build: Callable[[], Awaitable[Ready]], held: AsyncExitStack, tell: Tell
    ) -> tuple[Ready, int]:
        """Hold an environment shared until `held` ends, once it is whole, and return its marker and its open lock.

        Args:
            key: The environment.
            build: Makes its folder, which does not exist, and returns its marker; called while it is held exclusively.
                What is left of a build that fails is removed, now or by the next one.
            held: Ends the use.
            tell: Is told that another process builds it.
        """
        if self.is_busy(key) and self.ready(key) is None:
            await tell("waiting", None)
        while True:
            async with AsyncExitStack() as used:
                lock_fd = await used.enter_async_context(self.held(key, is_shared=True))
                ready = self.ready(key)
                if ready is not None:
                    held.push_async_exit(used.pop_all())
                    return ready, lock_fd
            async with self.held(key):
                if self.ready(key) is None:
                    await self._build(key, build)

    async def _build(self, key: str, build: Callable[[], Awaitable[Ready]]) -> None:
        await self.clear(key)
        try:
            marker = await build()
            write_whole(self.marker_file(key), json.dumps(asdict(marker)).encode(), is_durable=True)
        except BaseException:
            shutil.rmtree(self.folder_of(key), ignore_errors=True)  # at once; nothing is awaited, in case of a cancel
            raise

    @asynccontextmanager
    async def held(self, name: str, *, is_shared: bool = False, waits: bool = True) -> AsyncIterator[int]:
        """Hold a lock and yield its open file.

        Raises:
            Conflict: another process holds it, and `waits` is False.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not try_lock(descriptor, is_shared=is_shared):
                if not waits:
                    raise Conflict(
                        f"The environment {name} is in use.",
                        cure="End the run, the worker or the command that uses it, and try again.",
                        code="in_use",
                    )
                await asyncio.sleep(_POLL_S)
            yield descriptor
        finally:
            os.close(descriptor)

    def is_busy(self, name: str) -> bool:
        """Return whether somebody builds or uses an environment."""
        try:
            descriptor = os.open(self.folder / f"{name}.lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not try_lock(descriptor, is_shared=False)
        finally:
            os.close(descriptor)

    async def clear(self, key: str) -> None:
        """Remove the folder of an environment, its marker first; the caller holds it exclusively."""
        with suppress(FileNotFoundError, NotADirectoryError):
            self.marker_file(key).unlink()
        with suppress(FileNotFoundError):
            await asyncio.to_thread(shutil.rmtree, self.folder / key)

    async def remove(self, key: str) -> None:
        """Remove an environment and what specs were resolved to it, so that a spec is resolved anew.

        Raises:
            Conflict: it is in use.
        """
        async with self.held(key, waits=False):
            with suppress(FileNotFoundError):
                packages = self.packages_file(key).read_bytes()
                for file in [file for file in self.folder.glob("*.resolved") if file.read_bytes() == packages]:
                    file.unlink(missing_ok=True)
                for wheel in set(_WHEEL.findall(packages.decode())):
                    await self._remove_wheel(wheel)
            await self.clear(key)

    @asynccontextmanager
    async def held_wheel(self, key: str, build: Callable[[Path], Awaitable[Path]]) -> AsyncIterator[Path]:
        """Hold a wheel while the block runs, so that it is not removed, and yield its file.

        Args:
            key: The wheel.
            build: Gets an empty folder and returns the one below it that holds the wheel; called only if the wheel is
                not there, while it is held exclusively.
        """
        kept = self.wheels_folder / key
        while True:
            async with self.held(_wheel_lock(key), is_shared=True):
                for wheel in kept.glob(_WHEELS):
                    yield wheel
                    return
            async with self.held(_wheel_lock(key)):
                if not list(kept.glob(_WHEELS)):
                    self.wheels_folder.mkdir(mode=0o700, exist_ok=True)
                    with tempfile.TemporaryDirectory(dir=self.folder, prefix=".building-") as made:
                        built = await build(Path(made))
                        shutil.rmtree(kept, ignore_errors=True)  # what a removal that was killed has left
                        built.rename(kept)

    async def _remove_wheel(self, key: str) -> None:
        """Remove a wheel that no resolution needs any more, unless it is in use."""
        with suppress(Conflict, FileNotFoundError):
            async with self.held(_wheel_lock(key), waits=False):
                lists = self.folder.glob("*.resolved")  # under the lock: a user of the wheel writes one before it ends
                if not any(f"/wheels/{key}/" in file.read_text(encoding="utf-8") for file in lists):
                    await asyncio.to_thread(shutil.rmtree, self.wheels_folder / key)


def _wheel_lock(key: str) -> str:
    """Return the name of the lock of a wheel: shared by users, exclusive for building and removing it."""
    return f"{key}.wheel"


def try_lock(descriptor: int, *, is_shared: bool) -> bool:
    """Take a lock of an open file unless another process holds it, and return whether it is taken."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
