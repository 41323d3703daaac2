"""Which GGUF models can be used on this machine, and why others cannot: by their files and the headers of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench_sdk.fitting import shortage
from vlmhyperbench_sdk.free_memory import FreeMemory
from vlmhyperbench_sdk.gguf import GgufHeader, read_weights
from vlmhyperbench_sdk.protocols import MemoryEstimate

Status = Literal["available", "missing", "invalid", "too_large"]
SUFFIX: Final = ".gguf"
MAX_FILES: Final = 10_000

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


def status_of(name: str, files: Mapping[str, Path], *, estimate: Estimate, free: FreeMemory) -> GgufStatus:
    """Return the status of a model with these files by role; `weights` is one of them."""
    weights = files["weights"]
    for path in files.values():
        if not path.is_file():
            return GgufStatus(name=name, path=str(weights), status="missing", reason=f"There is no file {path}.")
    try:
        header = [read_weights(path) for path in files.values()][list(files).index("weights")]
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
        reason=lack,
        size_bytes=sum(path.stat().st_size for path in files.values()),
        quantization=header.quantization,
        context_tokens=header.whole("context_length"),
        architecture=_architecture(header),
        parameter_count=header.parameter_count,
        need_bytes=need.device_bytes + need.host_bytes if need is not None else None,
        estimate_source=need.source if need is not None else None,
        is_projector=header.is_projector,
    )


def scan_folder(folder: Path, *, estimate: Estimate, free: FreeMemory) -> Iterator[GgufStatus]:
    """Yield the status of every GGUF file below a folder, in order of their names; links out of it are not followed.

    Raises:
        OSError: the folder cannot be read.
    """
    root = folder.resolve(strict=True)
    files = (path for path in sorted(root.rglob(f"*{SUFFIX}")) if path.resolve().is_relative_to(root))
    for _, path in zip(range(MAX_FILES), files, strict=False):
        yield status_of(str(path.relative_to(root)), {"weights": path}, estimate=estimate, free=free)


def _architecture(header: GgufHeader) -> str | None:
    architecture = header.values.get("general.architecture")
    return architecture if isinstance(architecture, str) else None
