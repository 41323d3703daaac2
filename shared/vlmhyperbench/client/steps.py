"""Operations of several calls, written once for both clients: a generator yields calls and is sent their results."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from vlmhyperbench.client import calls
from vlmhyperbench.client.call import Call
from vlmhyperbench.client.tables import MetricRow, Rows, SampleRows
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.errors import InvalidInput, NotFound, NotReady, Unavailable
from vlmhyperbench.extras import needed_for
from vlmhyperbench.files import write_whole
from vlmhyperbench.wire.artifacts import Artifact, Report
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.runs import ExperimentDetail, Run, RunDetail

if TYPE_CHECKING:
    from vlmhyperbench.client.comparing import RunComparison
    from vlmhyperbench.reports.samples import Samples

T = TypeVar("T")
Steps = Generator[Call[Any], Any, T]
Where = Mapping[str, object] | Callable[[Result], bool] | None

PAGE_ROWS = 500
_SERVER_FILTERS = ("status", "outcome", "doc_class", "question_type")
"""Filters that the API applies; the client applies all others."""
_SAMPLES = "samples.parquet"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def whole_id(given: UUID | str) -> Steps[UUID]:
    """Return the full id; only an abbreviated id is looked up by a call."""
    try:
        return UUID(str(given))
    except ValueError:
        identified = yield calls.identify(given)
        return UUID(str(identified.id))


def metrics(subject: RunDetail | ExperimentDetail, by: str | None = None) -> Steps[Rows[MetricRow]]:
    """Return the scores as in the reports: over all answers, or `by` a group column such as `doc_class`.

    Raises:
        NotReady: a run has no report yet.
        NotFound: a run ended without a report, or its report has no such groups.
    """
    rows: list[MetricRow] = []
    for run in subject.runs if isinstance(subject, ExperimentDetail) else [subject]:
        fresh: RunDetail = yield calls.get_run(run.id)
        if fresh.headline is None:
            raise _unscored(fresh)
        if by is not None:
            rows += _by_group(fresh, by)
            continue
        rows += [
            _row(
                fresh, score.metric, **score.model_dump(include={"value", "ci_low", "ci_high", "n", "n_without_value"})
            )
            for score in fresh.headline.scores
        ]
    return Rows(rows)


def samples(run: RunDetail, where: Where = None, limit: int | None = None) -> Steps[SampleRows]:
    """Return the results of a run: request records with answers and scores.

    Args:
        run: The run.
        where: Required values of fields or groups, such as `{"outcome": "model_failure"}`; or a predicate function.
        limit: Maximum number of samples.

    Raises:
        InvalidInput: the filter names a field or group that samples do not have.
    """
    wanted = dict(where) if isinstance(where, Mapping) else {}
    filters: dict[str, Any] = {name: wanted.pop(name) for name in _SERVER_FILTERS if name in wanted}
    matches = (
        where if callable(where) else lambda row: all(_value(row, name) == value for name, value in wanted.items())
    )
    results: list[Result] = []
    known: set[str] = {*Result.model_fields}
    cursor: str | None = None
    while limit is None or len(results) < limit:
        page: Page[Result] = yield calls.list_results(run.id, **filters, limit=PAGE_ROWS, cursor=cursor)
        for row in page.items:
            known |= set(row.group)
        if page.items and (unknown := sorted(set(wanted) - known)):
            cure = f"Filter by one of {', '.join(sorted(known))}, or give a function that takes a sample."
            raise InvalidInput(f"Samples have no {', '.join(unknown)}.", cure=cure)
        results += [row for row in page.items if matches(row)]
        if page.next is None:
            break
        cursor = page.next
    return SampleRows(results[:limit])


def compare(run: RunDetail, other: Run | UUID | str) -> Steps[RunComparison]:
    """Compare a run with its baseline `other`, paired by sample.

    Raises:
        NotReady: a run has no report yet.
        NotFound: a run ended without a report.
        Unavailable: a library is missing, or a downloaded file does not match its hash.
    """
    with needed_for("compare()", extra="reports"):
        from vlmhyperbench.client.comparing import RunComparison
        from vlmhyperbench.client.comparing import compare as compare_samples
    baseline = other if isinstance(other, Run) else (yield calls.get_run(other))
    first = yield from measures(baseline)
    second = yield from measures(run)
    return RunComparison(compare_samples(first, second))


def measures(run: Run) -> Steps[Samples]:
    """Download the per-sample scores of a run's report.

    Raises:
        NotReady: the report has no such file.
        Unavailable: the downloaded file does not match its hash.
    """
    with needed_for("A comparison", extra="reports"):
        from vlmhyperbench.reports.samples import read_samples
    report: Report = yield calls.get_report(run.id)
    file = _file_of(report, _SAMPLES)
    if file is None:
        cure = f"Write the report again with this version: vlmhyperbench rerun {run.id} --force report"
        raise NotReady(f"The report of {run.name} has no file {_SAMPLES}.", cure=cure)
    content = yield from _content(file, f"{_SAMPLES} of {run.name}")
    return read_samples(content, what=f"{_SAMPLES} of {run.name}")


def save_report(subject: RunDetail | ExperimentDetail, folder: Path | str | None = None) -> Steps[Path]:
    """Download the newest report into a folder (default `./report-<id>`); return the path of the file to open.

    Raises:
        NotReady: there is no report yet.
        NotFound: the run or experiment ended without a report.
        Unavailable: the folder cannot be written, or a downloaded file does not match its hash.
    """
    report: Report = yield calls.get_report(subject.id)
    destination = Path(folder) if folder is not None else Path(f"report-{short(report.id)}")
    return (yield from save_files(report, destination))


def save_files(report: Report, folder: Path) -> Steps[Path]:
    """Download the files of a report into a folder, each written atomically; return the path of the file to open.

    Raises:
        Unavailable: the folder cannot be written, or a downloaded file does not match its hash.
    """
    for file in report.files:
        if _FILE_NAME.fullmatch(file.name) is None:
            message = f"The report has a file whose name is not allowed: {file.name!r}."
            raise Unavailable(message, cure="Check that VLMHB_API_URL names the right stack.")
        content = yield from _content(file, file.name)
        store(folder, {file.name: content})
    main = main_file(report)
    return folder / main.name if main else folder


def main_file(report: Report) -> Artifact | None:
    """Return the report's main file, which a person opens."""
    return _file_of(report, "report.html") or _file_of(report, "report.md")


def store(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder.

    Raises:
        Unavailable: the folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_whole(folder / name, content)
    except OSError as error:
        raise Unavailable(
            f"The report cannot be written into {folder}: {error.strerror or error}.",
            cure="Free some space, or name another folder with --out.",
        ) from error


def _file_of(report: Report, name: str) -> Artifact | None:
    return next((file for file in report.files if file.name == name), None)


def _content(file: Artifact, what: str) -> Steps[bytes]:
    content: bytes = yield calls.artifact_content(file.id)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise Unavailable(f"The downloaded {what} does not match its hash.", cure="Try again.")
    return content


def _by_group(run: RunDetail, by: str) -> list[MetricRow]:
    known = sorted({column for score in run.quality for column in score.groups})
    if by not in known:
        cure = f"Group by one of: {', '.join(known) or '(there are none)'}."
        if not run.quality:
            cure = f"Write the report again with this version: vlmhyperbench rerun {run.id} --force report"
        raise NotFound(f"The report of {run.name} has no groups by {by!r}.", cure=cure)
    columns = {"value", "ci_low", "ci_high", "n", "n_without_value"}
    return [
        _row(run, score.metric, group=group.group[0], **group.model_dump(include=columns))
        for score in run.quality
        for group in score.groups[by]
    ]


def _row(run: Run, metric: str, **values: Any) -> MetricRow:
    return MetricRow(run_id=str(run.id), run=run.name, target=run.target, task=run.task, metric=metric, **values)


def _unscored(run: Run) -> NotReady | NotFound:
    if not run.state.is_terminal:
        return NotReady(f"{run.name} has no scores yet.", cure="Wait for it: run.wait().", code="no_report")
    why = f": {run.reason}" if run.reason else ""
    return NotFound(
        f"{run.name} has ended without scores ({run.state.lower()}{why}).",
        cure=f"Read its errors: vlmhyperbench show {run.id}",
    )


def _value(row: Result, name: str) -> object:
    return getattr(row, name) if name in Result.model_fields else row.group.get(name)
