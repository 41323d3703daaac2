"""Calls that query over runs: rows, columns, labels, samples, comparisons, leaderboards, logs and resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from vlmhyperbench.client.call import Call, Id, get_call, id_text, page_call, post_call
from vlmhyperbench.client.refusals import checked
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.comparisons import CompareRequest, Leaderboard, RunPoints, RunsComparison
from vlmhyperbench.wire.evidence import LogFile, LogLines, RunResources
from vlmhyperbench.wire.listings import Columns, LabelChange, Labels, RunRow
from vlmhyperbench.wire.samples import SampleDetail, SamplePage

_LOGS: TypeAdapter[list[LogFile]] = TypeAdapter(list[LogFile])


def list_rows(
    *where: str, q: str | None = None, order: str = "-created_at", limit: int = 50, cursor: str | None = None
) -> Call[Page[RunRow]]:
    """List runs that pass all filters, such as `state=SUCCEEDED` and `metrics.anls>=0.8`, in small rows."""
    return page_call("/runs/rows", Page[RunRow], where=list(where), q=q, order=order, limit=limit, cursor=cursor)


def list_columns() -> Call[Columns]:
    """List the columns by which runs are filtered and ordered, and the tags in use."""
    return get_call("/runs/columns", Columns)


def get_labels(run_id: Id) -> Call[Labels]:
    """Return tags and note of a run."""
    return get_call(f"/runs/{id_text(run_id)}/labels", Labels)


def change_labels(
    run_id: Id, *, add_tags: Sequence[str] = (), remove_tags: Sequence[str] = (), note: str | None = None
) -> Call[Labels]:
    """Add and remove tags of a run, or replace its note; what is not given stays."""
    given: dict[str, JsonValue] = {"add_tags": list(add_tags), "remove_tags": list(remove_tags), "note": note}
    return Call(
        method="PATCH",
        path=f"/runs/{id_text(run_id)}/labels",
        read=Labels.model_validate_json,
        body=checked(LabelChange, given).model_dump_json().encode(),
        headers={"Content-Type": "application/json"},
    )


def list_samples(
    run_id: Id,
    *where: str,
    against: Id | None = None,
    q: str | None = None,
    order: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[SamplePage]:
    """List the samples of a run that pass all filters, such as `is_wrong=true`, or `flip=broke` against a baseline."""
    return page_call(
        f"/runs/{id_text(run_id)}/samples",
        SamplePage,
        where=list(where),
        against=None if against is None else id_text(against),
        q=q,
        order=order,
        limit=limit,
        cursor=cursor,
    )


def get_sample(run_id: Id, sample_id: str, *, against: Id | None = None) -> Call[SampleDetail]:
    """Return everything about one request, by `<phase>.<ordinal>`."""
    baseline = None if against is None else id_text(against)
    return page_call(f"/runs/{id_text(run_id)}/samples/{sample_id}", SampleDetail, against=baseline)


def compare_runs(baseline: Id, *others: Id, gate: Mapping[str, JsonValue] | None = None) -> Call[RunsComparison]:
    """Compare runs with a baseline on the server, and check them by a gate."""
    body: dict[str, JsonValue] = {"runs": [id_text(run_id) for run_id in (baseline, *others)]}
    if gate is not None:
        body["gate"] = dict(gate)
    return post_call("/comparisons", RunsComparison, checked(CompareRequest, body))


def leaderboard(task: str, *where: str, metric: str | None = None) -> Call[Leaderboard]:
    """Rank the targets of a task by the newest run of each."""
    return page_call("/leaderboard", Leaderboard, task=task, metric=metric, where=list(where))


def points(columns: Sequence[str], *where: str, limit: int = 1000) -> Call[RunPoints]:
    """Return the values of numeric columns for the newest runs that pass all filters."""
    return page_call("/points", RunPoints, columns=",".join(columns), where=list(where), limit=limit)


def list_logs(run_id: Id) -> Call[list[LogFile]]:
    """List the logs that claims of a run stored."""
    return Call(method="GET", path=f"/runs/{id_text(run_id)}/logs", read=_LOGS.validate_json)


def read_log(
    run_id: Id, log_id: Id, *, q: str | None = None, after: int | None = None, limit: int = 500
) -> Call[LogLines]:
    """Read the last lines of a log, those after a line, or those that contain a text."""
    path = f"/runs/{id_text(run_id)}/logs/{id_text(log_id)}"
    return page_call(path, LogLines, q=q, after=after, limit=limit)


def get_resources(run_id: Id, *, points: int = 300) -> Call[RunResources]:
    """Return memory, utilisation and power of a run over time."""
    return page_call(f"/runs/{id_text(run_id)}/resources", RunResources, points=points)
