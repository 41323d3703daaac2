"""Which GGUF models can be used on this machine, and why others cannot: by their files and the headers of these."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench_sdk.fitting import shortage
from vlmhyperbench_sdk.free_memory import FreeMemory
from vlmhyperbench_sdk.gguf import GgufHeader, read_weights
from vlmhyperbench_sdk.protocols import MemoryEstimate

Status = Literal["available", "missing", "invalid", "too_large"]
SUFFIX: Final = ".gguf"
GGUF_ROLES: Final = frozenset({"weights", "mmproj"})
MAX_FILES: Final = 10_000
MAX_FOLDERS: Final = 2_000
"""Folders that are looked into, the nearest first: the folder of a model may be anything, such as a home."""

Estimate = Callable[[Mapping[str, Path]], "MemoryEstimate | None"]
"""Role → file of a model → the memory that it needs; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufStatus:
    """A model, or a file of a folder, and whether it can be used."""

    name: str
    path: str
    """Its weights."""
    status: Status
    reason: str | None = None
    size_bytes: int | None = None
    quantization: str | None = None
    """By the header, whatever the entry of the model states."""
    context_tokens: int | None = None
    architecture: str | None = None
    parameter_count: int | None = None
    need_bytes: int | None = None
    """Memory on accelerators and host together."""
    estimate_source: str | None = None
    is_projector: bool = False
    is_registered: bool = True
    """Whether an entry uses it; other files beside those of entries can be registered, and not asked."""
    required_for_base: bool = False
    """Whether the base pipeline does not start without it, beside the models that it asks."""


def status_of(name: str, files: Mapping[str, Path], *, estimate: Estimate, free: FreeMemory) -> GgufStatus:
    """Return the status of a model with these files by role; `weights` is one of them, others are no GGUF files."""
    weights = files["weights"]
    for path in files.values():
        if not path.is_file():
            return GgufStatus(name=name, path=str(weights), status="missing", reason=f"There is no file {path}.")
    try:
        headers = {role: read_weights(path) for role, path in files.items() if role in GGUF_ROLES}
        header = headers["weights"]
        need = estimate(files) if not header.is_projector else None
    except VlmHyperBenchError as error:
        return GgufStatus(name=name, path=str(weights), status="invalid", reason=f"{error.message} {error.cure}")
    except OSError as error:
        reason = f"{weights} cannot be read: {error.strerror}."
        return GgufStatus(name=name, path=str(weights), status="invalid", reason=reason)
    lack = shortage(need, free) if need is not None else None
    return GgufStatus(
        name=name,
        path=str(weights),
        status="available" if lack is None else "too_large",
        reason=f"{lack[0].upper()}{lack[1:]}. {_cure(need)}" if lack is not None else None,
        size_bytes=sum(path.stat().st_size for path in files.values()),
        quantization=header.quantization,
        context_tokens=header.whole("context_length"),
        architecture=_architecture(header),
        parameter_count=header.parameter_count,
        need_bytes=need.device_bytes + need.host_bytes if need is not None else None,
        estimate_source=need.source if need is not None else None,
        is_projector=header.is_projector,
    )


def _cure(need: MemoryEstimate | None) -> str:
    knobs = (
        f"Change {' or '.join(need.knobs)} in engine_params, choose" if need is not None and need.knobs else "Choose"
    )
    return f"{knobs} a smaller or more quantised model, or free memory."


def scan_folder(folder: Path, *, estimate: Estimate, free: FreeMemory) -> Iterator[GgufStatus]:
    """Yield the status of every GGUF file below a folder, by `gguf_below`.

    Raises:
        OSError: the folder cannot be read.
    """
    root = folder.resolve(strict=True)
    for path in gguf_below(root):
        yield status_of(str(path.relative_to(root)), {"weights": path}, estimate=estimate, free=free)


def gguf_below(folder: Path) -> list[Path]:
    """Return the GGUF files of a folder and of those below it, in order of their paths.

    Links out of it are not followed; hidden folders, and folders below that cannot be read, are left out.

    Raises:
        OSError: the folder cannot be read.
    """
    root = folder.resolve(strict=True)
    waiting, found = deque([root]), list[Path]()
    for _ in range(MAX_FOLDERS):
        if not waiting:
            break
        inner = waiting.popleft()
        try:
            entries = _content(inner)
        except OSError:
            if inner == root:
                raise
            continue
        waiting += [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."]
        files = [Path(entry) for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file()]
        found += [path for path in files if path.resolve().is_relative_to(root)]
    return list(islice(sorted(found), MAX_FILES))


def _content(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _architecture(header: GgufHeader) -> str | None:
    architecture = header.values.get("general.architecture")
    return architecture if isinstance(architecture, str) else None
