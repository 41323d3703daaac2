"""Calls about tasks and other registry entries, figures, loads and exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from vlmhyperbench.client.call import Call, Id, get_call, id_text, page_call, post_call
from vlmhyperbench.client.refusals import checked
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.exports import Export, ExportCreate, ExportFormat
from vlmhyperbench.wire.figures import Figure, Figures
from vlmhyperbench.wire.loads import Load, LoadCreate, LoadDetail
from vlmhyperbench.wire.registry import RegistryEntry, RegistryVersion, TaskSummary

_JSON: TypeAdapter[Mapping[str, JsonValue]] = TypeAdapter(Mapping[str, JsonValue])

Written = str | Mapping[str, JsonValue]
"""An entry as YAML text, or as values."""


def make_entry(kind: str, entry: Written) -> Call[RegistryEntry]:
    """Make a registry entry in the database, given as YAML text or as values; it must have a name."""
    return _write("POST", f"/registry/{kind}", entry, None)


def get_entry(kind: str, name: str) -> Call[RegistryEntry]:
    """Return the entry in use: of a file, or of the database."""
    return get_call(f"/registry/{kind}/{name}", RegistryEntry)


def replace_entry(kind: str, name: str, entry: Written, *, revision: int | None = None) -> Call[RegistryEntry]:
    """Add a version of an entry; with `revision` only if that is still the newest."""
    return _write("PUT", f"/registry/{kind}/{name}", entry, revision)


def patch_entry(
    kind: str, name: str, changes: Mapping[str, JsonValue], *, revision: int | None = None
) -> Call[RegistryEntry]:
    """Add a version with some values changed, None to remove one; with `revision` only if that is still the newest."""
    return _write("PATCH", f"/registry/{kind}/{name}", changes, revision)


def archive_entry(kind: str, name: str, *, revision: int | None = None) -> Call[RegistryEntry]:
    """Archive an entry: it can be read, and new runs cannot use it."""
    return Call(
        method="DELETE",
        path=f"/registry/{kind}/{name}",
        read=RegistryEntry.model_validate_json,
        headers=_match(revision),
    )


def list_versions(kind: str, name: str) -> Call[Page[RegistryVersion]]:
    """List the versions of an entry of the database, newest first."""
    return page_call(f"/registry/{kind}/{name}/versions", Page[RegistryVersion])


def get_version(kind: str, name: str, revision: int) -> Call[RegistryEntry]:
    """Return one version of an entry of the database."""
    return get_call(f"/registry/{kind}/{name}/versions/{revision}", RegistryEntry)


def list_tasks(
    *,
    q: str | None = None,
    category: str | None = None,
    dataset: str | None = None,
    metric: str | None = None,
    archived: bool = False,
) -> Call[Page[TaskSummary]]:
    """List tasks that have all of the given values."""
    return page_call(
        "/tasks",
        Page[TaskSummary],
        q=q,
        category=category,
        dataset=dataset,
        metric=metric,
        archived="true" if archived else None,
    )


def list_run_figures(run_id: Id) -> Call[Figures]:
    """List the figures of a run's report."""
    return get_call(f"/runs/{id_text(run_id)}/figures", Figures)


def get_run_figure(run_id: Id, name: str) -> Call[Figure]:
    """Return a figure of a run's report as Plotly JSON, with its alternative text and its numbers."""
    return get_call(f"/runs/{id_text(run_id)}/figures/{name}", Figure)


def list_experiment_figures(experiment_id: Id) -> Call[Figures]:
    """List the figures of an experiment's comparison."""
    return get_call(f"/experiments/{id_text(experiment_id)}/figures", Figures)


def get_experiment_figure(experiment_id: Id, name: str) -> Call[Figure]:
    """Return a figure of an experiment's comparison as Plotly JSON."""
    return get_call(f"/experiments/{id_text(experiment_id)}/figures/{name}", Figure)


def start_load(load: LoadCreate | Mapping[str, JsonValue], *, idempotency_key: str | None = None) -> Call[LoadDetail]:
    """Start a load against an endpoint.

    Raises:
        RefusedInput: the load contradicts itself; lists every error with its field.
    """
    body = load if isinstance(load, LoadCreate) else checked(LoadCreate, load)
    return post_call("/loads", LoadDetail, body, idempotency_key)


def list_loads(*, limit: int = 50, cursor: str | None = None) -> Call[Page[Load]]:
    """List loads, newest first."""
    return page_call("/loads", Page[Load], limit=limit, cursor=cursor)


def get_load(load_id: Id) -> Call[LoadDetail]:
    """Return a load with its progress, or its result."""
    return get_call(f"/loads/{id_text(load_id)}", LoadDetail)


def cancel_load(load_id: Id) -> Call[LoadDetail]:
    """Cancel a load; what was measured so far is kept."""
    return post_call(f"/loads/{id_text(load_id)}/cancel", LoadDetail)


def ask_for_export(format_: ExportFormat, *, runs: Sequence[Id] = (), experiment: Id | None = None) -> Call[Export]:
    """Ask the platform to export finished runs, or all runs of an experiment; full ids only."""
    given = {"format": format_, "runs": [str(run) for run in runs], "experiment": experiment and str(experiment)}
    return post_call("/exports", Export, checked(ExportCreate, given))


def list_exports(*, limit: int = 50, cursor: str | None = None) -> Call[Page[Export]]:
    """List exports, newest first."""
    return page_call("/exports", Page[Export], limit=limit, cursor=cursor)


def get_export(export_id: Id) -> Call[Export]:
    """Return the state and progress of an export."""
    return get_call(f"/exports/{export_id}", Export)


def cancel_export(export_id: Id) -> Call[Export]:
    """Cancel an export that is not made yet."""
    return post_call(f"/exports/{export_id}/cancel", Export)


def export_content(export_id: Id) -> Call[bytes]:
    """Download the file of an export; several files are an archive."""
    return Call(method="GET", path=f"/exports/{export_id}/content", read=bytes)


def _write(method: str, path: str, entry: Written, revision: int | None) -> Call[RegistryEntry]:
    kind = "application/yaml" if isinstance(entry, str) else "application/json"
    return Call(
        method=method,
        path=path,
        read=RegistryEntry.model_validate_json,
        body=entry.encode() if isinstance(entry, str) else _JSON.dump_json(entry),
        headers={"Content-Type": kind, **_match(revision)},
    )


def _match(revision: int | None) -> dict[str, str]:
    return {} if revision is None else {"If-Match": f'"{revision}-"'}
