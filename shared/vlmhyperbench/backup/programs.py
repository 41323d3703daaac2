"""Run pg_dump and pg_restore: those of the embedded PostgreSQL, or else of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vlmhyperbench.db.backup import program_environment
from vlmhyperbench.errors import NotFound, Unavailable
from vlmhyperbench.local.postgres import server_programs
from vlmhyperbench.processes import child_environment

_LAST_CHARACTERS = 400


def dump(database_url: str, target: Path, *, snapshot_id: str) -> None:
    """Write the database as of a snapshot, compressed, without owners and rights of the old server.

    Raises:
        NotFound: pg_dump is not installed.
        Unavailable: it failed; the message quotes it.
    """
    options = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot_id}"]
    _run("pg_dump", database_url, [*options, f"--file={target}"])


def load(database_url: str, source: Path) -> None:
    """Write a dump into an empty database, in one transaction: wholly or not at all.

    Raises:
        NotFound: pg_restore is not installed.
        Unavailable: it failed; the message quotes it.
    """
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    database = program_environment(database_url).get("PGDATABASE", "")
    _run("pg_restore", database_url, [*options, f"--dbname={database}", str(source)])


def _run(program: str, database_url: str, options: Sequence[str]) -> None:
    done = subprocess.run(
        [_path(program), *options],
        env=child_environment(program_environment(database_url)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip()[-_LAST_CHARACTERS:]
        raise Unavailable(f"{program} failed: {said}", cure="Check the database and the space of both disks.")


def _path(program: str) -> str:
    try:
        bundled = server_programs() / program
    except NotFound:
        bundled = None
    if bundled is not None and bundled.is_file():
        return str(bundled)
    found = shutil.which(program)
    if found is None:
        raise NotFound(f"{program} is not installed.", cure="Install vlmhyperbench[embedded], or PostgreSQL's client.")
    return found
