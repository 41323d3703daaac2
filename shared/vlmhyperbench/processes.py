"""Start a child process that owns its process group, holds no credentials and dies with its parent.

Every process that runs code of models, engines or plugins is started here: by `start_child` for asyncio, or with
`tied` and `child_environment` where a process is spawned by other means. Linux kills the child when its parent dies
(`PR_SET_PDEATHSIG`); on other systems, which lack this call, the child only sees its pipes close.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import time
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Self, TypeVar

from vlmhyperbench_sdk.errors import NotFound

Pipe = TypeVar("Pipe", StreamReader, StreamWriter)

TERM_SECONDS = 10.0
"""Time between SIGTERM and SIGKILL when a child is stopped (protocol.md, timers)."""

LINE_BYTES = 1024 * 1024
"""Longest line that `Child.stdout.readline` accepts."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Where Linux says which boot this is; all containers of a machine share it."""

_EXEC_S = 5.0
"""How long one process is waited for; what takes milliseconds, unless it is not scheduled."""

_NO_PROGRAM = 0x00200000 | 0x4
"""PF_KTHREAD and PF_EXITING of the kernel's flags of a task."""

_CREDENTIALS = re.compile(
    r"^(VLMHB_.*|PG(PASSWORD|PASSFILE|SERVICE.*)|.*(DATABASE|REDIS|BROKER|POSTGRES|VALKEY)_?(URL|DSN|URI)"
    r"|.*(SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_?KEY(_ID)?|PRIVATE_?KEY|_TOKEN))$",
    re.IGNORECASE,
)

# Runs between the fork and the exec of the real program, isolated and without site packages (25 ms). Comparing the
# parent's pid covers the case that the parent died before prctl was called. argv: signal, parent, program, arguments.
_SHIM = """\
import os, sys
signal, parent, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
if sys.platform == "linux":
    import ctypes
    if ctypes.CDLL(None, use_errno=True).prctl(1, signal, 0, 0, 0) != 0:
        sys.exit("prctl(PR_SET_PDEATHSIG) failed: " + os.strerror(ctypes.get_errno()))
if os.getppid() != parent:
    sys.exit("The parent died before this process had started.")
try:
    os.execvp(argv[0], argv)
except OSError as error:
    print(f"Cannot start {argv[0]}: {error}", file=sys.stderr)
    os._exit(127)
"""


def child_environment(
    extra: Mapping[str, str] | None = None, *, inherited: Collection[str] | None = None
) -> dict[str, str]:
    """Return this process's environment without variables that look like credentials, plus `extra`.

    Removed are all `VLMHB_*`, database and broker URLs, keys, tokens and passwords; a child that needs one of them
    gets it in `extra`. `inherited` lists the patterns (`CUDA_*`) of the only names that are kept; None keeps the rest.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not _CREDENTIALS.match(name)
        and (inherited is None or any(fnmatchcase(name, pattern) for pattern in inherited))
    }
    return kept | dict(extra or {})


def environments() -> Iterator[tuple[int, frozenset[bytes]]]:
    """Yield the id of each process and the `name=value` pairs that it was started with.

    Processes of other users are left out; on systems without `/proc`, all are.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield int(folder.name), frozenset(_environment_of(folder).split(b"\0"))


def _environment_of(folder: Path) -> bytes:
    """Return the environment of a process; while it replaces its program it has none, so wait until it has."""
    give_up_at = time.monotonic() + _EXEC_S
    while not (found := (folder / "environ").read_bytes()):
        if _has_no_environment(folder) or time.monotonic() > give_up_at:
            break
    return found


def _has_no_environment(folder: Path) -> bool:
    """Return whether a process is a kernel thread, has ended, or was given no variable; not if it has none for now."""
    fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
    is_dead, is_laid_out = fields[0] in {b"Z", b"X"}, fields[23] != b"0"  # where its code starts is noted last
    return is_dead or bool(int(fields[6]) & _NO_PROGRAM) or (is_laid_out and fields[47] == fields[48])


def boot_id() -> str:
    """Return the id of the kernel's boot, which all containers of a machine share.

    Raises:
        OSError: the system has none.
    """
    return BOOT_ID.read_text(encoding="ascii").strip()


def is_of_a_running_process(owner: str) -> bool:
    """Return whether the process that `owner_of` described still runs, or cannot be judged from here."""
    boot, namespace, pid, started = owner.split("/")
    if (boot, namespace) != (boot_id(), _namespace()):
        return boot == boot_id()  # a process of another namespace cannot be seen; one of an earlier boot has ended
    return started == _started(int(pid))


def owner_of(pid: int) -> str:
    """Return the boot of the machine, the namespace of processes, the id of a process and when it was started."""
    return "/".join((boot_id(), _namespace(), str(pid), _started(pid) or ""))


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _started(pid: int) -> str | None:
    """Return when a process was started, in ticks since the boot; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    return fields[19] if fields[0] != "Z" else None


def tied(argv: Sequence[str], *, death_signal: signal.Signals = signal.SIGKILL) -> list[str]:
    """Wrap a command so that its process gets `death_signal` when the thread that started it ends.

    Start it with `start_new_session=True`. Start a child that must outlive a pool's thread from the main thread.

    Raises:
        NotFound: the program does not exist.
    """
    if shutil.which(argv[0]) is None:
        raise NotFound(f"There is no program {argv[0]!r}.", cure="Install it or correct its path.")
    return [sys.executable, "-I", "-S", "-c", _SHIM, str(int(death_signal)), str(os.getpid()), *argv]


class Child:
    """A running child and its process group; stopped by `stop` or on leaving the `async with` block."""

    def __init__(self, process: Process, argv: Sequence[str]) -> None:
        self._process = process
        self.argv = tuple(argv)
        self.pid = process.pid
        """Also the id of its process group."""

    @property
    def stdin(self) -> StreamWriter:
        """Pipe to the child's stdin.

        Raises:
            ValueError: the child was started without this pipe.
        """
        return _pipe(self._process.stdin, "stdin")

    @property
    def stdout(self) -> StreamReader:
        """Pipe from the child's stdout.

        Raises:
            ValueError: the child was started without this pipe.
        """
        return _pipe(self._process.stdout, "stdout")

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait until the child has ended and return its exit status."""
        return await self._process.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; it is no error if the group has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    async def stop(self, *, term_s: float = TERM_SECONDS) -> int:
        """Stop the child: send SIGTERM to the group, wait up to `term_s` seconds, then send SIGKILL to the group."""
        if self.returncode is None:
            self.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(term_s):
                    await self._process.wait()
        self.send_signal(signal.SIGKILL)
        return await self._process.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def start_child(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    inherited: Collection[str] | None = None,
    cwd: Path | None = None,
    stdin: int | IO[bytes] | None = PIPE,
    stdout: int | IO[bytes] | None = PIPE,
    stderr: int | IO[bytes] | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start a program in its own session and process group; it dies with this process.

    `env` is added to the scrubbed environment, of which `inherited` keeps only some names (`child_environment`);
    streams are as in `asyncio.create_subprocess_exec`.

    Raises:
        NotFound: the program does not exist.
        OSError: the process cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *tied(argv, death_signal=death_signal),
        env=child_environment(env, inherited=inherited),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        limit=LINE_BYTES,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
    )
    return Child(process, argv)


def _pipe(pipe: Pipe | None, name: str) -> Pipe:
    if pipe is None:
        raise ValueError(f"The child was started without a pipe for its {name}.")
    return pipe
