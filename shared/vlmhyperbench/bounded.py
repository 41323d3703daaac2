"""Call a function on untrusted input in a child process with bounded memory, time and files.

The child holds no credentials, is killed as a group and dies with its parent. It is given JSON and gives JSON back,
which is parsed as untrusted; what is larger lies in files that the caller names, and reads as untrusted too.
"""

from __future__ import annotations

import asyncio
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

from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, PluginFailure, Unavailable, VlmHyperBenchError
from vlmhyperbench.processes import Child, start_child
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject, JsonValue

TOO_MUCH: Final = "too_large"
"""Error code of work that exceeds a limit."""
_MAX_REPLY_BYTES: Final = 16 * 1024**2
_KINDS: Final[dict[str, type[VlmHyperBenchError]]] = {
    kind.__name__: kind for kind in (InvalidInput, NotFound, Conflict, Unavailable, PluginFailure)
}
_PAGE_BYTES: Final = resource.getpagesize()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildBounds:
    """What a child may use."""

    memory_bytes: int = 1024**3
    """Address space beyond what its libraries hold when its work begins."""
    cpu_s: int = 600
    wall_s: float = 900
    file_bytes: int = 1024**3
    """Maximum size of a file that it writes."""


async def run_bounded(
    function: Callable[..., object], *args: JsonValue, what: str, bounds: ChildBounds | None = None
) -> JsonValue:
    """Call a module's function in a child and return what it returns, which is JSON as its arguments are.

    Args:
        function: Found again in the child by its module and name.
        args: What it is called with.
        what: What is read, for complaints.
        bounds: What it may use.

    Raises:
        InvalidInput: what is read needs more than the child may use (code `too_large`); or as the function raises.
        NotFound, Conflict, Unavailable, PluginFailure: as the function raises; the child failed otherwise.
    """
    bounds = bounds or ChildBounds()
    asked = _Asked(function=f"{function.__module__}:{function.__qualname__}", args=list(args), bounds=asdict(bounds))
    environment = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    child = await start_child([sys.executable, "-P", "-m", __name__], env=environment, stderr=DEVNULL)
    try:
        async with asyncio.timeout(bounds.wall_s):
            reply = await _exchange(child, json.dumps(asked).encode())
            status = await child.wait()
    except TimeoutError:
        raise _over(what, f"{bounds.wall_s:g} s") from None
    finally:
        child.send_signal(signal.SIGKILL)  # the whole group, whatever the work started
        await child.wait()
    if status == -signal.SIGXCPU:
        raise _over(what, f"{bounds.cpu_s} s of a processor")
    if status != 0:
        raise _over(what, f"{bounds.memory_bytes >> 20} MiB of memory")
    return _result(parse_object(reply, what=f"The reader's reply on {what}", any_text=True), what, bounds)


async def _exchange(child: Child, asked: bytes) -> bytes:
    if child.stdin is None or child.stdout is None:
        raise Unavailable("The reading process has no pipes.")
    with suppress(ConnectionError):  # it has died: its status says of what
        child.stdin.write(asked)
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
    if error == TOO_MUCH:
        raise _over(what, f"{bounds.memory_bytes >> 20} MiB of memory")
    body = error if isinstance(error, dict) else {}
    kind = _KINDS.get(str(body.get("kind")), Unavailable)
    cure, code = body.get("cure"), body.get("code")
    raise kind(
        str(body.get("message")),
        cure=cure if isinstance(cure, str) else "",
        code=code if isinstance(code, str) else None,
    )


def _over(what: str, bound: str) -> InvalidInput:
    return InvalidInput(
        f"Reading {what} takes more than {bound}.",
        cure="Split it, or take out what is no answer; one line or one sample holds more than is needed.",
        code=TOO_MUCH,
    )


def _limit(bounds: ChildBounds) -> None:
    """Bound this process from here on; nothing that it starts can undo it."""
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
        spare = 5 if kind == resource.RLIMIT_CPU else 0  # what reaches the hard limit is killed and says no reason
        resource.setrlimit(kind, (allowed, allowed + spare if hard == resource.RLIM_INFINITY else hard))


class _Asked(TypedDict):
    """What the child reads on stdin."""

    function: str
    args: list[JsonValue]
    bounds: dict[str, Any]


def _answer(asked: _Asked) -> dict[str, object]:
    module, _, name = asked["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    _limit(ChildBounds(**asked["bounds"]))
    try:
        return {"result": function(*asked["args"])}
    except MemoryError:
        return {"error": TOO_MUCH}
    except VlmHyperBenchError as error:
        kind = next((name for name, kind in _KINDS.items() if isinstance(error, kind)), "Unavailable")
        return {"error": {"kind": kind, "code": error.code, "message": error.message, "cure": error.cure}}
    except Exception as error:  # noqa: BLE001 - the one guard at the door: what came out is told over the pipe
        return {"error": {"kind": "PluginFailure", "message": f"Reading failed: {type(error).__name__}: {error}."}}


def main() -> int:
    """Answer the one question on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as replies:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the function prints is no part of the reply
        replies.write(json.dumps(_answer(json.load(sys.stdin))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
