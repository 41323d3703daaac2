"""Let plugins write a finished report, each in a bounded child; if a plugin fails, only its own file is missing."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from vlmhyperbench.bounded import TOO_LARGE, ChildBounds, run_bounded
from vlmhyperbench.domain.causes import clean
from vlmhyperbench.domain.specs import ReportWriterSpec
from vlmhyperbench.errors import InvalidInput, PluginFailure, VlmHyperBenchError
from vlmhyperbench.registry.plugins import require_pinned
from vlmhyperbench.reports.bundles import ReportFile
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.checks import MAX_REPORT_BYTES, problem_with_report
from vlmhyperbench_sdk.protocols import ReportWriter, WrittenReport
from vlmhyperbench_sdk.types import JsonObject

BOUNDS = ChildBounds(cpu_s=60, wall_s=120, file_bytes=MAX_REPORT_BYTES)
"""Limits of a single writer."""
_MAX_MESSAGE_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedWriter:
    """A report that could not be written, with the reason."""

    name: str
    code: str
    message: str

    @property
    def in_words(self) -> str:
        """The limitation that the other reports state."""
        return f"the report ‘{self.name}’ could not be written: {self.message}"


async def write_by_plugins(
    report: bytes, writers: Sequence[ReportWriterSpec], *, bounds: ChildBounds = BOUNDS
) -> tuple[list[ReportFile], list[FailedWriter]]:
    """Pass the content of `report.json` to every writer; return the files, and the writers that failed."""
    results = [await _try(report, writer, bounds) for writer in writers]
    return (
        [file for file in results if isinstance(file, ReportFile)],
        [writer for writer in results if isinstance(writer, FailedWriter)],
    )


async def _try(report: bytes, spec: ReportWriterSpec, bounds: ChildBounds) -> ReportFile | FailedWriter:
    try:
        written = await _write(report, spec, bounds)
    except VlmHyperBenchError as error:
        return FailedWriter(name=spec.name, code=error.code, message=clean(str(error), limit=_MAX_MESSAGE_CHARS))
    except OSError as error:
        message = clean(f"its files cannot be written or read: {error}", limit=_MAX_MESSAGE_CHARS)
        return FailedWriter(name=spec.name, code=PluginFailure.code, message=message)
    name = f"report.{spec.name}{written.suffix}"
    return ReportFile(name=name, kind="report", media_type=written.media_type, content=written.content)


async def _write(report: bytes, spec: ReportWriterSpec, bounds: ChildBounds) -> WrittenReport:
    with tempfile.TemporaryDirectory(prefix="vlmhb-report-", ignore_cleanup_errors=True) as folder:
        source, target = Path(folder) / "report.json", Path(folder) / "written"
        await asyncio.to_thread(source.write_bytes, report)
        arguments = (spec.model_dump(mode="json"), str(source), str(target))
        try:
            result = await run_bounded(write_file, *arguments, what=f"the report {spec.name!r}", bounds=bounds)
        except InvalidInput as error:
            if error.code != TOO_LARGE:
                raise
            message = f"The report writer {spec.name!r} exceeds its limit on time, memory or file size."
            raise PluginFailure(message, code=TOO_LARGE) from error
        return await asyncio.to_thread(_read, target, result)


def write_file(spec: JsonObject, source: str, target: str) -> list[str]:
    """Write a report into a file, in a child; return the suffix and the media type.

    Raises:
        NotFound: the plugin is not installed.
        InvalidInput: it refuses its params or the report.
        Conflict: another version of it is installed than the run pins.
        PluginFailure: it fails, or its file cannot be stored.
    """
    wanted = ReportWriterSpec.model_validate(spec)
    require_pinned(wanted.package, f"report {wanted.name!r}")
    writer = cast("ReportWriter", discovery.construct("reports", wanted.class_path, wanted.params, called=wanted.name))
    report = json.loads(Path(source).read_bytes())
    try:
        written = writer.write(report)
    except (VlmHyperBenchError, MemoryError):
        raise
    except Exception as error:  # only code of the plugin runs in this block, and it may raise anything
        message = f"The report writer {wanted.name!r} fails: {type(error).__name__}: {error}."
        raise PluginFailure(message) from error
    _check(written)
    Path(target).write_bytes(written.content)
    return [written.suffix, written.media_type]


def _read(target: Path, result: object) -> WrittenReport:
    """Read the file of the child; the file and the child's result are checked, because a plugin made them."""
    if target.is_symlink() or not target.is_file() or not isinstance(result, list) or len(result) != 2:
        raise PluginFailure("The writer wrote no file.")
    if target.stat().st_size > MAX_REPORT_BYTES:
        raise PluginFailure(f"The writer wrote more than {MAX_REPORT_BYTES} bytes.")
    written = WrittenReport(content=target.read_bytes(), suffix=result[0], media_type=result[1])
    _check(written)
    return written


def _check(written: WrittenReport) -> None:
    problem = problem_with_report(written)
    if problem is not None:
        raise PluginFailure(f"The file of the report writer cannot be stored: {problem}.")
