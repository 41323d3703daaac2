"""The process of metrics, datasets and prompts that run in an environment of their own.

It is the program `vlmhyperbench_sdk.metric_process`, started with the environment's interpreter. It has no
credentials, dies with this process, and is bounded in memory and in the time of every reply. What it replies is parsed
as untrusted.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import IO, Final

from vlmhyperbench.bounded import kill_marked
from vlmhyperbench.processes import tied
from vlmhyperbench_sdk.errors import Conflict, InvalidInput, NotFound, PluginFailure, VlmHyperBenchError
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject, JsonValue

MARK: Final = "VLMHB_LABEL_METRIC"
"""Environment variable by which the processes of a host are found, including those that a metric started."""
_PROGRAM: Final = ("-I", "-m", "vlmhyperbench_sdk.metric_process")
_MAX_REPLY_BYTES: Final = 256 * 1024**2
_PART_BYTES: Final = 1024**2
_TAIL_BYTES: Final = 500
_END_S: Final = 5.0
_ENDED: Final = (
    "Correct the {kind}; or allow its environment's processes more than {mebibytes} MiB of memory by "
    "VLMHB_METRIC_MEMORY_BYTES, if it needs more."
)
_HANGS: Final = "Correct the {kind}, or allow it more time by VLMHB_TIMERS__METRIC_S."
_NONSENSE: Final = "Correct the {kind}: only the platform's program may write to its pipe."
_MISSING: Final = "Correct its class_path, or add its distribution to its environment."
_KINDS: Final[dict[str, type[VlmHyperBenchError]]] = {
    kind.__name__: kind for kind in (InvalidInput, NotFound, Conflict, PluginFailure)
}


class MetricLost(PluginFailure):
    """The process of a metric ended or hangs, so that nothing more can be measured with it."""

    code = "metric_lost"


class RaisedApart(Exception):
    """What a metric raised in its process, as `TYPE: MESSAGE`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricHost:
    """An environment that is ready for metrics, and the bounds of their processes."""

    python: str
    """Path of the environment's interpreter."""
    packages: Mapping[str, str]
    """Distribution → version of everything in it, and `python`."""
    mark: str
    """Value of `MARK` in all its processes."""
    variables: Mapping[str, str]
    """All variables of its processes."""
    memory_bytes: int
    reply_s: float


class MetricProcess:
    """A running program of metrics; it is asked one thing at a time."""

    def __init__(self, host: MetricHost) -> None:
        self._host = host
        self._process = subprocess.Popen(
            tied([host.python, *_PROGRAM, str(host.memory_bytes)]),
            env={**host.variables, MARK: host.mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._requests, self._replies = _pipe(self._process.stdin), _pipe(self._process.stdout)
        for pipe in (self._requests, self._replies):
            os.set_blocking(pipe.fileno(), False)
        self._tail = bytearray()
        self._reader = Thread(target=_keep_tail, args=(_pipe(self._process.stderr), self._tail), daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, request: JsonObject, what: str, *, within_s: float) -> JsonValue:
        """Send a request and return the result; `what` names the plugin in errors, its kind first.

        Raises:
            InvalidInput, NotFound, Conflict, PluginFailure: the plugin cannot be opened.
            RaisedApart: it raised.
            MetricLost: the process ended, takes too long, or replies nonsense; it is killed then.
        """
        try:
            line = self._exchange(json.dumps(request).encode() + b"\n", within_s)
            reply = parse_object(line, what="The reply", any_text=True)
        except (EOFError, BrokenPipeError) as error:
            raise self._lost(what, f"The process of the {what} {self._ending()}", _ENDED) from error
        except TimeoutError as error:
            raise self._lost(what, f"The {what} did not reply within {within_s:g} s", _HANGS) from error
        except InvalidInput as error:
            raise self._lost(what, f"The process of the {what} gave no valid reply", _NONSENSE) from error
        if "raised" in reply:
            raise RaisedApart(str(reply["raised"]))
        refused = reply.get("error")
        if isinstance(refused, Mapping):
            raise _refusal(refused, what)
        return reply.get("result")

    def close(self) -> None:
        """Kill the process with its group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(_END_S)
        for pipe in (self._requests, self._replies):
            with suppress(OSError):
                pipe.close()

    def _exchange(self, request: bytes, within_s: float) -> bytes:
        """Write a line and read one; the process may read late, so neither blocks.

        Raises:
            EOFError, BrokenPipeError: the process has ended.
            TimeoutError: there is no reply in time.
            InvalidInput: the reply is too long.
        """
        deadline = time.monotonic() + within_s
        unsent, reply = memoryview(request), bytearray()
        with selectors.DefaultSelector() as ready:
            ready.register(self._requests, selectors.EVENT_WRITE)
            ready.register(self._replies, selectors.EVENT_READ)
            while not reply.endswith(b"\n"):
                events = ready.select(max(0.0, deadline - time.monotonic()))
                if not events:
                    raise TimeoutError
                for key, _ in events:
                    if key.fileobj is self._requests:
                        unsent = unsent[os.write(key.fd, unsent[:_PART_BYTES]) :]
                        if not unsent:
                            ready.unregister(self._requests)
                    elif not (part := os.read(key.fd, _PART_BYTES)):
                        raise EOFError
                    else:
                        reply += part
                if len(reply) > _MAX_REPLY_BYTES:
                    raise InvalidInput("it is too long")
        return bytes(reply)

    def _ending(self) -> str:
        """Say how the process ended, after waiting for its end."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def _lost(self, what: str, message: str, cure: str) -> MetricLost:
        self.close()
        text = bytes(self._tail).decode("utf-8", "replace")
        tail = " ".join("".join(character if character.isprintable() else " " for character in text).split())
        ending = f". The end of its output: {tail.removesuffix('.')}." if tail else "."
        return MetricLost(
            f"{message}{ending}", cure=cure.format(kind=what.partition(" ")[0], mebibytes=self._host.memory_bytes >> 20)
        )


def end_processes(mark: str) -> None:
    """End every process of a host, with what its metrics started, in whichever process it was started."""
    kill_marked(MARK, mark)  # first: what a metric started may hold the process's pipes
    if mark in _running:
        _running.pop(mark).close()


def _refusal(refused: Mapping[str, JsonValue], what: str) -> VlmHyperBenchError:
    """Return the error of opening a metric, as it is raised here."""
    kind = _KINDS.get(str(refused.get("kind")), PluginFailure)
    message, cure = str(refused.get("message")), str(refused.get("cure"))
    if kind is NotFound:
        message = f"{message.removesuffix('.')} in the environment of the {what}."
        cure = cure if cure.startswith("Did you mean") else _MISSING
    return kind(message, cure=cure, code=str(refused.get("code")))


def _keep_tail(pipe: IO[bytes], tail: bytearray) -> None:
    """Read what a process prints, and keep the end of it."""
    while part := pipe.read(_PART_BYTES):
        tail += part
        del tail[:-_TAIL_BYTES]
    pipe.close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("The process was started without this pipe.")
    return pipe


_running: dict[str, MetricProcess] = {}
"""Mark of a host → its process in this process, so that a job starts it once, not once per metric and batch."""


def process_of(host: MetricHost) -> MetricProcess:
    """Return the running process of a host, or start one."""
    for mark in [mark for mark, process in _running.items() if not process.is_running]:
        _running.pop(mark).close()
    if host.mark not in _running:
        _running[host.mark] = MetricProcess(host)
    return _running[host.mark]
