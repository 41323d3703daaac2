"""`registry push` and `registry pull`: entries that a stack keeps in its database, sent from and written to YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import SELECTION
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench.wire.registry import RegistryEntry


def push(
    file: Path, /, *, kind: Annotated[str | None, Parameter(group=SELECTION)] = None, output: OutputFlags = TEXT
) -> int:
    """Keep the entry of a YAML file in the stack's database, as a new version where it has one.

    Args:
        file: The file; without `name` in it, the entry has the name of the file.
        kind: Kind of the entry, for example tasks; by default the name of the file's folder.
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    chosen = kind or file.absolute().parent.name
    if chosen not in KINDS:
        message = f"The folder {chosen!r} is no kind of registry entry."
        raise InvalidInput(message, cure=f"Give --kind: one of {', '.join(KINDS)}.", code="usage")
    document, errors = read_document(file, str(file))
    if document is None:
        raise RegistryErrors(errors)
    text = file.read_text("utf-8-sig")
    name = str(document.value.get("name") or file.stem)
    if "name" not in document.value:
        text = f"name: {name}\n{text}"
    with Client() as client:
        try:
            known = client.entries.get(chosen, name)
        except NotFound:
            known = None
        if known is not None and known.origin == "database":
            entry = client.entries.replace(chosen, name, text, revision=known.revision)
        else:
            entry = client.entries.make(chosen, text)
    return _print(entry, output, f"{chosen}/{name} is in the database, revision {entry.revision}.")


def pull(
    kind: str,
    name: str,
    file: Path | None = None,
    /,
    *,
    revision: Annotated[int | None, Parameter(group=SELECTION)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Write an entry of the stack's database as YAML, as it was sent, or print it.

    Args:
        kind: Kind of the entry, for example tasks.
        name: Name of the entry.
        file: File to write; it must not exist.
        revision: Version of the entry; by default the newest.
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    if file is not None and file.exists():
        raise InvalidInput(f"{file} exists.", cure="Name another file, or remove it.", code="file_exists")
    with Client() as client:
        entry = client.entries.get(kind, name) if revision is None else client.entries.version(kind, name, revision)
    if entry.text is None or entry.origin == "file":
        message = f"{kind}/{name} is not in the database; it is the file {entry.file}."
        raise NotFound(message, cure="Copy that file, or `vlmhyperbench registry show` it.", code="entry_of_file")
    if file is None:
        return _print(entry, output, entry.text.rstrip())
    file.write_text(entry.text, "utf-8")
    return _print(entry, output, f"{file} is revision {entry.revision} of {kind}/{name}.")


def _print(entry: RegistryEntry, output: OutputFlags, text: str) -> int:
    if output.json:
        emit("registry-entry", entry.model_dump(mode="json"))
    else:
        say(text)
    return exits.OK
