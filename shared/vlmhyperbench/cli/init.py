"""`init`: make a project folder of one's own, with a run that works."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path
from typing import Final

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.registry.projects import RUN, make_project
from vlmhyperbench_sdk.discovery import load
from vlmhyperbench_sdk.protocols import DatasetSource

_DRAWN: Final = "synthetic_documents"
_QUESTIONS: Final = 12


def init(folder: Path = Path(), /, *, output: OutputFlags = TEXT) -> int:
    """Make a project folder: a dataset of drawn pages, a task, a run that works, schemas for editors, a .gitignore.

    The folder is the home (VLMHB_HOME) of its own stack, so its registries lie over those of the product. Nothing that
    is there is overwritten.

    Args:
        folder: Folder of the project; by default the current one.
        output: How the output is printed.
    """
    drawn = load("datasets", _DRAWN)(DatasetSource(seed=7, params={"documents": _QUESTIONS}))
    files = make_project(folder.absolute(), list(itertools.islice(drawn, _QUESTIONS)))
    commands = _next(folder)
    if output.json:
        emit("project", {"folder": str(folder.absolute()), "files": list(map(str, files)), "next": commands})
        return exits.OK
    for file in files:
        say(f"  {file}")
    say("Next:")
    for command in commands:
        say(f"  {command}")
    return exits.OK


def _next(folder: Path) -> list[str]:
    home = f"cd {shlex.quote(str(folder))} && " if folder != Path() else ""
    return [f'{home}export VLMHB_HOME="$PWD"', "vlmhyperbench up", f"vlmhyperbench run {RUN}"]
