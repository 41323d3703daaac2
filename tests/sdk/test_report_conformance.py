"""The conformance suite of report writers: a sound one passes, and each way to break the contract is caught."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.checks import MAX_REPORT_BYTES
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import WrittenReport
from vlmhyperbench_sdk.testing.reports import check_report_writer
from vlmhyperbench_sdk.types import JsonObject


class Writer:
    """Writes by the function of a test."""

    def __init__(self, make: Callable[[JsonObject], object]) -> None:
        self._make = make

    def write(self, report: JsonObject) -> WrittenReport:
        return self._make(report)


def _written(content: object = b"x", suffix: object = ".txt", media_type: object = "text/plain") -> WrittenReport:
    return WrittenReport(content=content, suffix=suffix, media_type=media_type)


def test_a_writer_that_keeps_the_contract_passes() -> None:
    check_report_writer(Writer(lambda report: _written(str(report["title"]).encode(), ".tar.gz", "image/svg+xml")))


def test_a_writer_that_changes_the_report_fails(wording: Wording) -> None:
    def make(report: JsonObject) -> WrittenReport:
        report["title"] = "mine"
        return _written()

    with pytest.raises(PluginFailure) as refused:
        check_report_writer(Writer(make))
    wording(refused.value)


def test_a_writer_that_writes_another_file_each_time_fails() -> None:
    numbers = itertools.count()
    with pytest.raises(PluginFailure, match="a second time"):
        check_report_writer(Writer(lambda _: _written(str(next(numbers)).encode())))


@pytest.mark.parametrize(
    "make",
    [
        lambda _: b"x",
        lambda _: _written("x"),
        lambda _: _written(bytes(MAX_REPORT_BYTES + 1)),
        lambda _: _written(suffix="txt"),
        lambda _: _written(suffix="./../x"),
        lambda _: _written(suffix=".x\n"),
        lambda _: _written(suffix=None),
        lambda _: _written(media_type="text"),
        lambda _: _written(media_type="text/plain\r\nX: y"),
        lambda _: _written(media_type=1),
        lambda report: report["no such key"],
    ],
)
def test_every_breach_is_named(make: Callable[[JsonObject], object], wording: Wording) -> None:
    with pytest.raises(PluginFailure) as refused:
        check_report_writer(Writer(make))
    wording(refused.value)
