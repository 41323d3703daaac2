"""`registry show --origin` and `registry diff`: where values are written, and what another mode or revision changes."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import SELECTION
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.environments.git import extract_revision
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.effective import Value, differences, effective_values
from vlmhyperbench.registry.loading import Catalogue, read_catalogue
from vlmhyperbench.registry.roots import registry_roots
from vlmhyperbench.settings import Settings


def show_origins(catalogue: Catalogue, kind: str, name: str, output: OutputFlags) -> int:
    """Print every value of an entry with where it was written."""
    values = effective_values(catalogue, kind, name)
    if output.json:
        emit("registry-origins", {"kind": kind, "name": name, "values": [asdict(value) for value in values]})
    else:
        table(["value", "is", "written at"], [[value.path, _text(value.value), _origin(value)] for value in values])
    return exits.OK


def diff(
    left: Path | None = None,
    right: Path | None = None,
    /,
    *,
    revision: Annotated[str | None, Parameter(group=SELECTION)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Show in which values registries differ: two folders, two run modes, or a folder now and at a git revision.

    Without a folder and without --revision, the run modes prod and dev of the folders that the stack reads are
    compared.

    Args:
        left: Folder of registry files; with no other, its run modes are compared.
        right: Another folder.
        revision: Revision of git, such as HEAD or a tag: the folder as it was is compared with the folder as it is.
        output: How the output is printed.
    """
    settings = Settings.load()
    roots = (left,) if left is not None else registry_roots(settings.registries, settings.home)
    if revision is not None and right is not None:
        raise InvalidInput("--revision compares one folder with itself.", cure="Leave out a folder.", code="usage")
    if right is not None:
        return _print(read_catalogue(roots, settings.run_mode), read_catalogue((right,), settings.run_mode), output)
    if revision is None:
        return _print(read_catalogue(roots, "prod"), read_catalogue(roots, "dev"), output)
    with tempfile.TemporaryDirectory() as folder:
        extract_revision(roots[0], revision, Path(folder))
        before = read_catalogue((Path(folder),), settings.run_mode)
        return _print(before, read_catalogue(roots[:1], settings.run_mode), output)


def _print(left: Catalogue, right: Catalogue, output: OutputFlags) -> int:
    found = differences(left, right)
    warnings = [
        f"{side}: {error}" for side, catalogue in (("left", left), ("right", right)) for error in _unread(catalogue)
    ]
    if output.json:
        emit("registry-differences", [asdict(difference) for difference in found], warnings=warnings)
        return exits.OK
    for warning in warnings:
        note(f"note: {warning}")
    rows = [
        [f"{difference.kind}/{difference.name}", difference.path, _side(difference.left), _side(difference.right)]
        for difference in found
    ]
    if rows:
        table(["entry", "value", "left", "right"], rows)
    say(f"{len(rows)} values differ." if rows else "Nothing differs.")
    return exits.OK


def _unread(catalogue: Catalogue) -> list[str]:
    """Return the errors of entries without any value, which look as if they were missing.

    Raises:
        InvalidInput: there is no entry at all.
    """
    if not catalogue.documents and not catalogue.broken:
        folders = ", ".join(map(str, catalogue.roots))
        message = f"There is no registry entry in {folders}."
        raise InvalidInput(message, cure="Give the folder that holds models/, tasks/ and so on.")
    unread = (errors for key, errors in sorted(catalogue.broken.items()) if key not in catalogue.documents)
    return [str(error) for errors in unread for error in errors]


def _side(value: Value | None) -> str:
    return "(missing)" if value is None else f"{_text(value.value)} ({_origin(value)})"


def _origin(value: Value) -> str:
    return f"{value.origin} (overlay)" if value.is_of_overlay else value.origin


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
