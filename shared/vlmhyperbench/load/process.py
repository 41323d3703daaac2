"""The load generator as a child process: started ahead, made ready, heard line by line, cancelled, ended."""

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
from vlmhyperbench_sdk.load import EndLine, PhaseLine, ProgressLine, ReadyLine, SegmentLine, StartedLine

Line: TypeAlias = StartedLine | PhaseLine | SegmentLine | ProgressLine | EndLine

_LINES: Mapping[str, type[Line]] = {
    "started": StartedLine,
    "phase": PhaseLine,
    "segment": SegmentLine,
    "progress": ProgressLine,
    "end": EndLine,
}
LOG_NAME = "loadgen.log"
"""What the process wrote on stderr, in the record folder."""

_LOG_TAIL_BYTES = 2000
END_SECONDS = 5.0
"""How long the process may take from its last line, or a cancel, to its end."""


def is_installed() -> bool:
    """Say whether the distribution `vlmhyperbench-loadgen` is there."""
    return importlib.util.find_spec("vlmhyperbench_loadgen") is not None


class LoadProcess:
    """A running load generator. `async with` ends it whatever happens."""

    def __init__(self, child: Child, plan_folder: Path, record_folder: Path) -> None:
        self._child = child
        self.plan_folder = plan_folder
        self.record_folder = record_folder
        self.pid = child.pid
        self._end: EndLine | None = None

    @classmethod
    async def start(cls, plan_folder: Path, record_folder: Path, *, python: str = sys.executable) -> Self:
        """Start the process; the plan's folder may be filled until `ready` is called.

        Raises:
            Unavailable: the load generator is not installed.
            OSError: the process cannot be started or the record's folder not made.
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
        """Whether it has not ended yet."""
        return self._child.returncode is None

    async def ready(self, secrets: Mapping[str, str] | None = None) -> None:
        """Say that the plan is complete; `secrets` maps names of secrets to whole header values."""
        await self._tell(ReadyLine(event="ready", secrets=dict(secrets or {})))

    async def cancel(self) -> None:
        """Ask the process to seal what is done and to end; one that has ended is no error."""
        await self._tell(ReadyLine(event="cancel"))

    async def drain(self) -> None:
        """Ask the process to finish what is under way and to end; one that has ended is no error."""
        await self._tell(ReadyLine(event="drain"))

    def cancel_soon(self) -> None:
        """Ask as `cancel` does, without waiting until the line has left: what a signal's handler may do."""
        assert self._child.stdin is not None  # noqa: S101 -- narrows the type
        if not self._child.stdin.is_closing():
            self._child.stdin.write(_encode(ReadyLine(event="cancel")))

    async def _tell(self, line: ReadyLine) -> None:
        assert self._child.stdin is not None  # noqa: S101 -- narrows the type
        try:
            self._child.stdin.write(_encode(line))
            await self._child.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            # It ended first; `lines` says how.
            return

    async def lines(self) -> AsyncIterator[Line]:
        """Yield what the process says until its end line, that line included.

        Raises:
            Unavailable: it died without an end line.
            PluginFailure: it said something that is no line of the contract.
        """
        assert self._child.stdout is not None  # noqa: S101 -- narrows the type
        while text := await self._child.stdout.readline():
            line = parse_line(text)
            if isinstance(line, EndLine):
                self._end = line
            yield line
            if self._end is not None:
                return
        status = await self._child.wait()
        raise Unavailable(f"The load generator ended with status {status} and no word: {self._log_tail()}")

    async def wait(self) -> EndLine:
        """Hear the rest and wait for the end; return the end line.

        Raises:
            Unavailable: it died without an end line.
            PluginFailure: it said something that is no line of the contract.
        """
        if self._end is None:
            async for _ in self.lines():
                pass
        assert self._end is not None  # noqa: S101 -- narrows the type
        await self.stop()
        return self._end

    async def stop(self, *, term_s: float = END_SECONDS) -> None:
        """End the process: it has `term_s` to go, then SIGTERM and as long again, then SIGKILL to its group."""
        if self._child.stdin is not None:
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

    def _log_tail(self) -> str:
        data = (self.record_folder / LOG_NAME).read_bytes()[-_LOG_TAIL_BYTES:]
        return data.decode("utf-8", "replace").strip() or "it wrote nothing."


def _encode(line: ReadyLine) -> bytes:
    return json.dumps(dataclasses.asdict(line)).encode() + b"\n"


def _open_log(record_folder: Path) -> BinaryIO:
    record_folder.mkdir(parents=True, exist_ok=True)
    return (record_folder / LOG_NAME).open("wb")


def parse_line(text: bytes) -> Line:
    """Make a line's dataclass of its JSON.

    Raises:
        PluginFailure: it is no line of the contract.
    """
    try:
        document = json.loads(text)
        return _LINES[document["event"]](**document)
    except (ValueError, KeyError, TypeError) as error:
        raise PluginFailure(f"The load generator said {text[:200]!r}, which is no line of its contract.") from error
