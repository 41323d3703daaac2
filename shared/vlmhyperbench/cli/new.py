"""`new`: make the package of a metric, a dataset, a prompt, a backend or a report from its template."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import ENTRY
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.templates.making import Made, make_package


def new(
    kind: str,
    name: str,
    /,
    *,
    folder: Annotated[Path | None, Parameter(group=ENTRY)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Make a package of your own: code, tests that pass, a docs page, and registry entries. No stack is needed.

    Args:
        kind: metric, dataset, prompt, backend or report.
        name: Its name: lower-case words, joined by - or _, such as word-overlap.
        folder: Folder for it, which must be empty or new; by default one of this name, here.
        output: How the output is printed.
    """
    made = make_package(kind, name, folder)
    if output.json:
        row = {"kind": made.kind, "name": made.name, "class_path": made.class_path, "distribution": made.distribution}
        emit("package-made", {**row, "folder": str(made.folder), "files": list(made.files)})
    else:
        _print(made)
    return exits.OK


def _print(made: Made) -> None:
    say(f"{made.folder}:")
    for file in made.files:
        say(f"  {file}")
    say("")
    say("Try it:")
    say(f"  cd {made.folder}")
    say("  python -m venv .venv && .venv/bin/pip install -e '.[test]'")
    say("  .venv/bin/ruff check . && .venv/bin/pytest")
    say("Its README.md says how to run it from its git repository.")
