"""The load generator as a child process: start it early, send it the plan, read its lines, cancel it, stop it."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import BinaryIO, Self, TypeAlias

from vlmhyperbench.processes import Child, start_child
from vlmhyperbench_sdk.errors import PluginFailure, Unavailable
from vlmhyperbench_sdk.load import EndLine, PhaseLine, ProgressLine, ReadyLine, RetuneLine, SegmentLine, StartedLine

Line: TypeAlias = StartedLine | PhaseLine | SegmentLine | ProgressLine | EndLine

_LINES: Mapping[str, type[Line]] = {
    "started": StartedLine,
    "phase": PhaseLine,
    "segment": SegmentLine,
    "progress": ProgressLine,
    "end": EndLine,
}
LOG_NAME = "loadgen.log"
"""File in the record folder that holds the stderr of the process."""

_LOG_TAIL_BYTES = 2000
END_SECONDS = 5.0
"""How long the process may take to end after its last line or after a cancel."""


def is_installed() -> bool:
    """Return whether the distribution `vlmhyperbench-loadgen` is installed."""
    return importlib.util.find_spec("vlmhyperbench_loadgen") is not None


class LoadProcess:
    """A running load generator, which is stopped on leaving the `async with` block."""

    def __init__(self, child: Child, plan_folder: Path, record_folder: Path) -> None:
        self._child = child
        self.plan_folder = plan_folder
        self.record_folder = record_folder
        self.pid = child.pid
        self._end: EndLine | None = None

    @classmethod
    async def start(cls, plan_folder: Path, record_folder: Path, *, python: str = sys.executable) -> Self:
        """Start the process. The plan may be written into its folder until `ready` is called.

        Raises:
            Unavailable: the load generator is not installed.
            OSError: the process cannot be started, or the record's folder cannot be created.
        """
        if python == sys.executable and not is_installed():
            raise Unavailable(
                "The load generator is not installed.", cure="Install it: pip install 'vlmhyperbench[load]'."
            )
        argv = [python, "-m", "vlmhyperbench_loadgen", str(plan_folder), str(record_folder)]
        with _open_log(record_folder) as log:
            return cls(await start_child(argv, stderr=log), plan_folder, record_folder)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._child.returncode is None

    async def ready(self, secrets: Mapping[str, str] | None = None) -> None:
        """Tell the process that the plan is complete; `secrets` maps names of secrets to whole header values."""
        await self._send(ReadyLine(event="ready", secrets=dict(secrets or {})))

    async def cancel(self) -> None:
        """Ask the process to seal the finished requests and to end; does nothing if it has ended."""
        await self._send(ReadyLine(event="cancel"))

    async def drain(self) -> None:
        """Ask the process to finish the requests in flight and to end; does nothing if it has ended."""
        await self._send(ReadyLine(event="drain"))

    async def retune(self, in_flight: int) -> None:
        """Change the number of requests in flight of a closed loop; does nothing if the process has ended."""
        await self._send(RetuneLine(event="retune", in_flight=in_flight))

    def cancel_soon(self) -> None:
        """Ask as `cancel` does, without waiting until the line is sent, so that a signal handler may call it."""
        if not self._child.stdin.is_closing():
            self._child.stdin.write(_encode(ReadyLine(event="cancel")))

    async def _send(self, line: ReadyLine | RetuneLine) -> None:
        try:
            self._child.stdin.write(_encode(line))
            await self._child.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return  # the process has ended; `lines` raises the reason

    async def lines(self) -> AsyncIterator[Line]:
        """Yield the lines of the process up to and including its end line.

        Raises:
            Unavailable: the process ended without an end line.
            PluginFailure: a line breaks the contract.
        """
        while self._end is None:
            yield await self._read_line()

    async def wait(self) -> EndLine:
        """Read the remaining lines, wait until the process has ended, and return its end line.

        Raises:
            Unavailable: the process ended without an end line.
            PluginFailure: a line breaks the contract.
        """
        end = self._end
        while end is None:
            line = await self._read_line()
            end = line if isinstance(line, EndLine) else None
        await self.stop()
        return end

    async def stop(self, *, term_s: float = END_SECONDS) -> None:
        """Stop the process: after its end line wait `term_s` seconds; then send SIGTERM, wait again, send SIGKILL."""
        self._child.stdin.close()
        if self._end is not None:
            try:
                async with asyncio.timeout(term_s):
                    await self._child.wait()
            except TimeoutError:
                await self._child.stop(term_s=term_s)
        await self._child.stop(term_s=term_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _read_line(self) -> Line:
        text = await self._child.stdout.readline()
        if not text:
            status = await self._child.wait()
            raise Unavailable(
                f"The process of the load generator ended with status {status} before it had finished. "
                f"Its log ends with {self._log_tail()!r}.",
                cure="Repeat the measurement; if that ends in the same way, report this message.",
            )
        line = parse_line(text)
        if isinstance(line, EndLine):
            self._end = line
        return line

    def _log_tail(self) -> str:
        data = (self.record_folder / LOG_NAME).read_bytes()[-_LOG_TAIL_BYTES:]
        return data.decode("utf-8", "replace").strip()


def _encode(line: ReadyLine | RetuneLine) -> bytes:
    return json.dumps(dataclasses.asdict(line)).encode() + b"\n"


def _open_log(record_folder: Path) -> BinaryIO:
    record_folder.mkdir(parents=True, exist_ok=True)
    return (record_folder / LOG_NAME).open("wb")


def parse_line(text: bytes) -> Line:
    """Parse a JSON line of the process into its dataclass.

    Raises:
        PluginFailure: the line breaks the contract.
    """
    try:
        document = json.loads(text)
        return _LINES[document["event"]](**document)
    except (ValueError, KeyError, TypeError) as error:
        raise PluginFailure(f"The load generator wrote {text[:200]!r}, which is not a line of its contract.") from error
