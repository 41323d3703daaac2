"""`report`: the comparison table, and the files of a report."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.headline import print_table
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.wire.artifacts import Report

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def report(subject_id: str, /, *, out: Path | None = None, shown: Shown = HUMAN) -> int:
    """Print the comparison table of a run or an experiment and fetch its report.

    Args:
        subject_id: Id of a run or an experiment.
        out: Folder for the files; `./report-<id>` where none is named.
        shown: How the answer is shown.
    """
    with Client() as client:
        subject = find(client, subject_id)
        found = client.report(subject.id)
        folder = out or Path(f"report-{str(subject.id)[:8]}")
        main = fetch(client, found, folder)
    if shown.json:
        emit("report", {"report": found.model_dump(mode="json"), "folder": str(folder), "open": str(main)})
    else:
        print_table(found.headline)
        say(f"report: {main}")
    return exits.OK


def fetch(client: Client, found: Report, folder: Path) -> Path:
    """Download a report's files into a folder, each whole or not at all; return the one to open.

    Raises:
        Unavailable: the folder cannot be written, or a file did not arrive as it was stored.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in found.files:
            if _SLUG.fullmatch(file.name) is None:
                raise Unavailable(f"The report has a file with an odd name: {file.name!r}.")
            content = client.artifact_content(file.id)
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise Unavailable(f"{file.name} did not arrive as it was stored.", cure="Try again.")
            temporary = folder / f".{file.name}.{os.getpid()}.tmp"
            try:
                temporary.write_bytes(content)
                temporary.replace(folder / file.name)
            finally:
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(
            f"The report cannot be written into {folder}: {error.strerror or error}.",
            cure="Free some space, or name another folder with --out.",
        ) from error
    names = [file.name for file in found.files]
    main = next((name for name in ("report.html", "report.md") if name in names), None)
    return folder / main if main else folder
