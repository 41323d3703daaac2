"""The result of a check, and what is checked of any machine that is part of a platform."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench.registry.loading import Catalogue

COMFORTABLE_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check."""

    name: str
    is_ok: bool
    detail: str
    cure: str = ""


def python_check() -> Check:
    """Check the version of Python."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(
        name="python",
        is_ok=sys.version_info >= (3, 11),
        detail=f"{version} at {sys.executable}",
        cure="Use Python 3.11 or newer.",
    )


def space_check(name: str, folder: Path, *, needed_bytes: int) -> Check:
    """Check the free space of the file system that holds a folder, which need not exist yet."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    cure = f"Free some space: {needed_bytes // 2**20} MiB are needed to start, and more to run."
    return Check(name=name, is_ok=free >= COMFORTABLE_BYTES, detail=f"{folder}, {free / 2**30:.1f} GiB free", cure=cure)


def registries_check(catalogue: Catalogue) -> Check:
    """Name the entries that cannot be used."""
    folders = " and ".join(map(str, catalogue.roots))
    if not catalogue.errors:
        return Check(name="registries", is_ok=True, detail=folders)
    return Check(
        name="registries",
        is_ok=False,
        detail=f"{folders}: {'; '.join(map(str, catalogue.errors))}",
        cure="Correct these entries, or remove them; all others can be used.",
    )
