"""Older code of the platform, from the history of this checkout, whose stack is upgraded to this one."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from tests.containers.composed import ROOT

_MIGRATIONS = "shared/vlmhyperbench/db/migrations/versions"


def code_before(folder: Path) -> Path:
    """Return a checkout of older code: the newest whose database this one migrates, else the commit before.

    Only this branch itself counts: nobody has installed what a merged one was before. A commit has an older database if
    its migrations are some of these, to the byte: another may have numbered its own otherwise. A shallow clone has no
    history; it is upgraded to itself, which still replaces every container.
    """
    commits = _git("rev-list", "--first-parent", "HEAD").decode().split()
    ours = _files(commits[0], f"{_MIGRATIONS}/")
    older = (commit for commit in commits[1:] if _files(commit, "compose.yaml"))
    for commit in older:
        if _files(commit, f"{_MIGRATIONS}/") < ours:
            return _unpacked(commit, folder)
    return _unpacked(commits[1], folder) if commits[1:] and _files(commits[1], "compose.yaml") else ROOT


def _unpacked(commit: str, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _files(commit: str, path: str) -> set[str]:
    """Return the files of a commit, each with its hash."""
    return set(_git("ls-tree", commit, path).decode().splitlines())


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, timeout=60).stdout
