"""Reports that plugins write: bounded and checked; a plugin that fails does not affect the others."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from vlmhyperbench.bounded import ChildBounds
from vlmhyperbench.domain.specs import PackageRef, ReportWriterSpec
from vlmhyperbench_reporter.plugin_writers import write_by_plugins
from vlmhyperbench_sdk.testing.reports import SMALL_REPORTS

pytestmark = pytest.mark.anyio
SMALL = ChildBounds(memory_bytes=256 * 1024**2, file_bytes=1024**2)
REPORT = json.dumps(SMALL_REPORTS[0]).encode()

PLUGIN = """
import os, sys
from pathlib import Path
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import WrittenReport

def text(content, suffix=".txt", media_type="text/plain"):
    return WrittenReport(content=content, suffix=suffix, media_type=media_type)

class Title:
    def __init__(self, *, mark="!"):
        self._mark = mark
    def write(self, report):
        print("noise")
        return text((report["title"] + self._mark).encode())

class Refuses:
    def write(self, report):
        raise InvalidInput("No experiment.", cure="Ask for a run.")

class Breaks:
    def write(self, report):
        return report["nothing"]

class Shouts:
    def write(self, report):
        raise ValueError("\\ud800\\0\\x1b[31m" + "a" * 10_000)

class Nothing:
    def write(self, report):
        return None

class Escapes:
    def write(self, report):
        return text(b"x", suffix="/../../x")

class Header:
    def write(self, report):
        return text(b"x", media_type="text/html\\r\\nX: y")

class Endless:
    def write(self, report):
        while True:
            pass

class Greedy:
    def write(self, report):
        return text(b"x" * 2**40)

class Long:
    def write(self, report):
        return text(b"x" * 2**22)

class Leaves:
    def write(self, report):
        os._exit(0)

class Replaces:
    def write(self, report):
        folder, = Path(os.environ["TMPDIR"]).glob("vlmhb-report-*")
        folder.rename(folder.parent / "moved")
        folder.symlink_to(folder.parent / "moved")
        return text(b"x")

class Settings:
    def write(self, report):
        return text(repr(sorted(name for name in os.environ if name.startswith("VLMHB_"))).encode())
"""


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "writing.py").write_text(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("VLMHB_DATABASE_URL", "postgresql://user:password@host/db")


def _spec(name: str, *, package: PackageRef | None = None, **params: str) -> ReportWriterSpec:
    return ReportWriterSpec(name=name.lower(), class_path=f"writing:{name}", package=package, params=params)


async def test_a_plugin_writes_what_the_report_holds_into_a_file_of_its_own_name() -> None:
    [file], failed = await write_by_plugins(REPORT, [_spec("Title", mark="?")])
    assert (file.name, file.kind, file.media_type, file.content) == (
        "report.title.txt",
        "report",
        "text/plain",
        b"a run?",
    )
    assert failed == []


async def test_a_writer_that_fails_does_not_affect_the_others() -> None:
    files, failed = await write_by_plugins(REPORT, [_spec("Breaks"), _spec("Title"), _spec("Absent")])
    assert [file.name for file in files] == ["report.title.txt"]
    assert [(writer.name, writer.code) for writer in failed] == [
        ("breaks", "plugin_failure"),
        ("absent", "not_found"),
    ]
    assert "KeyError" in failed[0].in_words


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Refuses", "invalid_input"),
        ("Nothing", "plugin_failure"),
        ("Escapes", "plugin_failure"),
        ("Header", "plugin_failure"),
        ("Endless", "too_large"),
        ("Greedy", "too_large"),
        ("Long", "too_large"),
    ],
)
async def test_only_the_file_of_a_hostile_writer_is_missing(name: str, code: str) -> None:
    # The others may be as slow as a busy machine makes them.
    bounds = replace(SMALL, cpu_s=2) if name == "Endless" else SMALL
    files, [failed] = await write_by_plugins(REPORT, [_spec(name)], bounds=bounds)
    assert (files, failed.code) == ([], code)


async def test_the_message_of_a_failed_writer_can_be_stored_and_shown() -> None:
    _, [failed] = await write_by_plugins(REPORT, [_spec("Shouts")])
    assert failed.message.encode()
    assert len(failed.message) <= 501
    assert failed.message.isprintable()


async def test_a_writer_that_ends_its_process_leaves_no_file() -> None:
    files, failed = await write_by_plugins(REPORT, [_spec("Leaves"), _spec("Title")])
    assert [file.name for file in files] == ["report.title.txt"]
    assert [writer.name for writer in failed] == ["leaves"]


async def test_a_version_that_the_run_does_not_pin_is_not_used() -> None:
    package = PackageRef(distribution="vlmhyperbench-sdk", version="9.9.9")
    files, [failed] = await write_by_plugins(REPORT, [_spec("Title", package=package)])
    assert (files, failed.code) == ([], "plugin_version")


async def test_a_writer_is_given_no_settings_of_the_platform() -> None:
    [file], _ = await write_by_plugins(REPORT, [_spec("Settings")])
    assert file.content == b"[]"


async def test_a_folder_that_cannot_be_removed_does_not_fail_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files, failed = await write_by_plugins(REPORT, [_spec("Replaces")])
    assert ([file.content for file in files], failed) == ([b"x"], [])


async def test_without_a_folder_only_the_file_of_the_writer_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    files, [failed] = await write_by_plugins(REPORT, [_spec("Title")])
    assert (files, failed.name, failed.code) == ([], "title", "plugin_failure")
