"""`models status`: whether GGUF models can be used on this machine, by their files, headers and estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.groups import ENTRY
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.cli.remembered import remembered_models
from vlmhyperbench.data.gguf_status import GgufStatus, scan_folder
from vlmhyperbench.data.registered_gguf import estimate_files, found_of, registered_status, unregistered_status
from vlmhyperbench.data.usable_memory import usable_memory
from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.pipelines import Found, blocked_by
from vlmhyperbench.wire.models import ModelStatus

_HELD: Final = ("waiting", "loading", "loaded", "error")


def status(*, folder: Annotated[Path | None, Parameter(group=ENTRY)] = None, output: OutputFlags = TEXT) -> int:
    """Say which GGUF models can be used here, and which pipelines are blocked; headers are read, nothing is loaded.

    Args:
        folder: Folder whose GGUF files are looked at instead of the registered models.
        output: How the output is printed.
    """
    rows = list(_registered() if folder is None else _in_folder(folder))
    blocked = _blocked(found_of(rows))
    known = remembered_models() if folder is None else {}
    if output.json:
        models = [
            {**asdict(row), **_held(known.get(row.name)), "measured_bytes": _measured(known.get(row.name))}
            for row in rows
        ]
        emit("model-status", {"models": models, "blocked_pipelines": blocked})
        return exits.OK
    names = ["model", "status", "type", "context", "GiB", "needs GiB", "by", "measured GiB", "reason"]
    table(
        names,
        [_row(row, known.get(row.name)) for row in rows],
        right=["context", "GiB", "needs GiB", *names[7:8]],
    )
    say("needs: without the margin of 10 % and 256 MiB; measured: by the stack, its margin is 5 %")
    for pipeline, reasons in blocked.items():
        say(f"pipeline {pipeline} is blocked: {'; '.join(reasons)}")
    return exits.OK


def _row(row: GgufStatus, known: ModelStatus | None) -> tuple[str | int | None, ...]:
    state = {"status": row.status, "reason": row.reason, **_held(known)}
    kind = f"{row.quantization} projector" if row.is_projector else row.quantization
    need = (_gib(row.need_bytes), row.estimate_source, _gib(_measured(known)))
    return row.name, state["status"], kind, row.context_tokens, _gib(row.size_bytes), *need, state["reason"]


def _held(known: ModelStatus | None) -> dict[str, str | None]:
    """Return what the stack says of a model that a worker loads or has loaded, or has tried to; else nothing."""
    if known is None or known.status not in _HELD:
        return {}
    return {"status": known.status, "reason": known.reason}


def _measured(known: ModelStatus | None) -> int | None:
    return known.measured_bytes if known is not None else None


def _registered() -> Iterator[GgufStatus]:
    catalogue = open_catalogue()
    yield from registered_status(catalogue, open_cache())
    yield from unregistered_status(catalogue)


def _in_folder(folder: Path) -> Iterator[GgufStatus]:
    if not folder.is_dir():
        raise NotFound(f"There is no folder {folder}.", cure="Correct the path.", code="no_folder")
    free = usable_memory()
    yield from scan_folder(folder, estimate=partial(estimate_files, "file", {}), free=free)


def _blocked(found: Found) -> dict[str, list[str]]:
    """Return the pipelines that cannot start, with each reason."""
    pipelines = open_catalogue().pipelines
    reasons = {name: blocked_by(entry, found, pipelines).blocked for name, entry in sorted(pipelines.items())}
    return {name: why for name, why in reasons.items() if why}


def _gib(size_bytes: int | None) -> str | None:
    return f"{size_bytes / 2**30:.2f}" if size_bytes is not None else None
