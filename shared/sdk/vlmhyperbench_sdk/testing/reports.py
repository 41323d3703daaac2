"""Conformance suite of report writers: a plugin's test is one line, `check_report_writer(MyWriter())`.

Covered: a file that can be stored, the same bytes for the same report, a report that stays as it was, hostile text in
names. Not covered: whether the form that is written is valid; hand real reports over in `reports`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from vlmhyperbench_sdk.checks import problem_with_report
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import ReportWriter, WrittenReport
from vlmhyperbench_sdk.types import JsonObject

_HOSTILE = "<script>alert(1)</script> ]]> \"'& \u202e \x01"


def _report(scope: str, title: str, runs: JsonObject) -> JsonObject:
    return {
        "schema": "vlmhb/report/v1",
        "scope": scope,
        "id": "01a00000-0000-7000-8000-000000000000",
        "title": title,
        "subtitle": "",
        "state": "SUCCEEDED",
        "tone": "good",
        "finished_at": None,
        "verdict": ["Everything was scored.", "", ""],
        "headline": {"rows": [{"run": title, "metrics": {}}]},
        "tiles": [],
        "runs": runs,
        "sections": [],
        "figures": {},
    }


SMALL_REPORTS: tuple[JsonObject, ...] = (
    _report("run", "a run", {}),
    _report("experiment", "a comparison", {}),
    _report("run", _HOSTILE, {_HOSTILE: {}}),
)
"""The outer shape of report.json with hardly anything in it: a writer may rely on these keys, and on no content."""


def check_report_writer(writer: ReportWriter, *, reports: Sequence[JsonObject] = ()) -> None:
    """Check that a report writer fulfils its contract.

    Args:
        writer: an instance, constructed as by the platform.
        reports: what real files report.json hold, checked beside the small ones.

    Raises:
        PluginFailure: it violates the contract; the message lists every violation.
    """
    breaches = [breach for report in (*SMALL_REPORTS, *reports) for breach in _breaches(writer, report)]
    if breaches:
        name = type(writer).__name__
        message = f"The report writer {name} breaks its contract: {'; '.join(breaches)}."
        raise PluginFailure(message, cure="Correct the writer; docs/write-a-report.md states its contract.")


def _breaches(writer: ReportWriter, report: JsonObject) -> Iterator[str]:
    # A writer that changes what it is given must not change the examples of the next one.
    title, given = str(report.get("title"))[:40], copy.deepcopy(report)
    first, again = _write(writer, given), _write(writer, given)
    if isinstance(first, str):
        yield f"{title!r}: {first}"
    elif first != again:
        yield f"{title!r}: written a second time it is another file"
    if given != report:
        yield f"{title!r}: the writer changes the report that it is given"


def _write(writer: ReportWriter, report: JsonObject) -> WrittenReport | str:
    try:
        written = writer.write(report)
    except Exception as error:  # noqa: BLE001 -- the plugin's own code runs here, and may raise anything
        return f"write raises {type(error).__name__} ({error})"
    return problem_with_report(written) or written
