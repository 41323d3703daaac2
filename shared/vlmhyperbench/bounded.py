"""Call a function on untrusted input in a child process with bounded memory, time and files.

The child holds no credentials, is killed with everything that it started and dies with its parent. What it started is
found by its process group and by a mark in its environment; only a process that leaves both survives.
Arguments and result are JSON, and the result is parsed as untrusted. Larger data goes through files that the caller
names, also untrusted.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import json
import os
import resource
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypedDict
from uuid import uuid4

from vlmhyperbench.errors import (
    STORAGE_FULL,
    Conflict,
    InvalidInput,
    NotFound,
    PluginFailure,
    Unavailable,
    VlmHyperBenchError,
    is_disk_full,
)
from vlmhyperbench.processes import Child, environments, start_child
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject, JsonValue

TOO_LARGE: Final = "too_large"
"""Error code of work that exceeds a limit."""
_MAX_REPLY_BYTES: Final = 16 * 1024**2
_KINDS: Final[dict[str, type[VlmHyperBenchError]]] = {
    kind.__name__: kind for kind in (InvalidInput, NotFound, Conflict, Unavailable, PluginFailure)
}
_MARK: Final = "BOUNDED_CALL"
"""Environment variable that the processes of one call share."""
_MAX_ROUNDS: Final = 100
"""Maximum number of searches for marked processes; each may have started another since the last search."""
_PAGE_BYTES: Final = resource.getpagesize()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildBounds:
    """Resource limits of a child."""

    memory_bytes: int = 1024**3
    """Address space beyond what its libraries occupy when its work begins."""
    cpu_s: int = 600
    wall_s: float = 900
    file_bytes: int = 1024**3
    """Maximum size of each file that it writes."""


async def run_bounded(
    function: Callable[..., object], *args: JsonValue, what: str, bounds: ChildBounds | None = None
) -> JsonValue:
    """Call a module's function in a child process and return its result; arguments and result are JSON.

    Args:
        function: The function; the child imports it by module and name.
        args: Its arguments.
        what: Name of the input, for error messages.
        bounds: Resource limits of the child.

    Raises:
        InvalidInput: the work exceeded a limit (code `too_large`), or the function raised it.
        NotFound, Conflict, PluginFailure: the function raised it.
        Unavailable: the function raised it, or the child failed in another way.
    """
    bounds = bounds or ChildBounds()
    request = _Request(
        function=f"{function.__module__}:{function.__qualname__}", args=list(args), bounds=asdict(bounds)
    )
    environment = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    mark = uuid4().hex
    child = await start_child([sys.executable, "-P", "-m", __name__], env={**environment, _MARK: mark}, stderr=DEVNULL)
    try:
        async with asyncio.timeout(bounds.wall_s):
            reply = await _exchange(child, json.dumps(request).encode())
            status = await child.wait()
    except TimeoutError:
        raise _exceeded(what, f"{bounds.wall_s:g} s") from None
    finally:
        child.send_signal(signal.SIGKILL)  # the whole group, including processes that the work started
        await child.wait()
        await asyncio.to_thread(kill_marked, _MARK, mark)
    if status == -signal.SIGXCPU:
        raise _exceeded(what, f"{bounds.cpu_s} s of a processor")
    if status != 0:
        raise _exceeded(what, f"{bounds.memory_bytes >> 20} MiB of memory")
    return _result(parse_object(reply, what=f"The reader's reply on {what}", any_text=True), what, bounds)


def kill_marked(variable: str, mark: str) -> None:
    """Kill the processes that have this value of a variable, in whatever session they are, until none is left."""
    wanted = f"{variable}={mark}".encode()
    for _ in range(_MAX_ROUNDS):
        pids = [pid for pid, variables in environments() if wanted in variables]
        if not pids:
            return
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


async def _exchange(child: Child, request: bytes) -> bytes:
    with suppress(ConnectionError):  # the child has died; its exit status says why
        child.stdin.write(request)
        await child.stdin.drain()
        child.stdin.close()
    reply = b""
    while part := await child.stdout.read(2**16):
        reply += part
        if len(reply) > _MAX_REPLY_BYTES:
            raise Unavailable("The reading process wrote a reply that is too long.")
    return reply


def _result(reply: JsonObject, what: str, bounds: ChildBounds) -> JsonValue:
    error = reply.get("error")
    if error is None:
        return reply.get("result")
    if error == TOO_LARGE:
        raise _exceeded(what, f"{bounds.memory_bytes >> 20} MiB of memory")
    body = error if isinstance(error, dict) else {}
    kind = _KINDS.get(str(body.get("kind")), Unavailable)
    cure, code = body.get("cure"), body.get("code")
    raise kind(
        str(body.get("message")),
        cure=cure if isinstance(cure, str) else "",
        code=code if isinstance(code, str) else None,
    )


def _exceeded(what: str, bound: str) -> InvalidInput:
    return InvalidInput(
        f"Reading {what} takes more than {bound}.",
        cure="Split it, or remove what is not an answer; a line or a sample in it is too large.",
        code=TOO_LARGE,
    )


def _limit(bounds: ChildBounds) -> None:
    """Set the limits of this process; the processes that it starts inherit them and cannot raise them."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE_BYTES if sys.platform == "linux" else 0
    limits = {
        resource.RLIMIT_AS: mapped + bounds.memory_bytes,
        resource.RLIMIT_CPU: bounds.cpu_s,
        resource.RLIMIT_FSIZE: bounds.file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        hard = resource.getrlimit(kind)[1]
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        # The soft limit comes first: SIGXCPU tells the reason, while SIGKILL at the hard limit does not.
        spare = 5 if kind == resource.RLIMIT_CPU else 0
        resource.setrlimit(kind, (allowed, allowed + spare if hard == resource.RLIM_INFINITY else hard))


class _Request(TypedDict):
    """The request that the child reads from stdin."""

    function: str
    args: list[JsonValue]
    bounds: dict[str, Any]


def _answer(request: _Request) -> dict[str, object]:
    module, _, name = request["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    _limit(ChildBounds(**request["bounds"]))
    try:
        return {"result": function(*request["args"])}
    except MemoryError:
        return {"error": TOO_LARGE}
    except VlmHyperBenchError as error:
        kind = next((name for name, kind in _KINDS.items() if isinstance(error, kind)), "Unavailable")
        return {"error": {"kind": kind, "code": error.code, "message": error.message, "cure": error.cure}}
    except OSError as error:
        if error.errno == errno.EFBIG:  # the limit on the size of files
            return {"error": TOO_LARGE}
        code = STORAGE_FULL if is_disk_full(error) else None
        return {"error": {"kind": "Unavailable", "code": code, "message": f"A file cannot be used: {error}."}}
    except Exception as error:  # noqa: BLE001 - every failure must reach the parent over the pipe
        return {"error": {"kind": "PluginFailure", "message": f"Reading failed: {type(error).__name__}: {error}."}}


def main() -> int:
    """Handle the one request on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as replies:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of the function must not get into the reply
        replies.write(json.dumps(_answer(json.load(sys.stdin))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
