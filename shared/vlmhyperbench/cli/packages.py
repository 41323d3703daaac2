"""`registry add package`: register a package of others, pinned by commit, by content or by version."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.adding import open_shelf
from vlmhyperbench.cli.groups import ENTRY
from vlmhyperbench.cli.output import emit, note, say, teller
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.run_flags import Repeatable
from vlmhyperbench.domain.packages import GitPackage
from vlmhyperbench.environments.base import Tell
from vlmhyperbench.environments.pinning import PinnedSource, pin_source
from vlmhyperbench.environments.testing import run_tests
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.adding import add_package
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.schemas import PackageEntry
from vlmhyperbench.registry.shelf import Added, Shelf
from vlmhyperbench.registry.sources import GitSource
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.settings import Settings

_HEAD = "HEAD"


def package(
    name: str,
    /,
    *,
    git: Annotated[str | None, Parameter(group=ENTRY)] = None,
    ref: Annotated[str | None, Parameter(group=ENTRY)] = None,
    subdirectory: Annotated[str | None, Parameter(group=ENTRY)] = None,
    token: Annotated[str | None, Parameter(group=ENTRY)] = None,
    path: Annotated[Path | None, Parameter(group=ENTRY)] = None,
    pypi: Annotated[str | None, Parameter(group=ENTRY)] = None,
    extra: Annotated[Repeatable, Parameter(group=ENTRY)] = (),
    test: Annotated[bool, Parameter(group=ENTRY, negative=())] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Register a package of others, such as an adapter, from a git repository, a folder, a wheel or an index.

    It is pinned: a branch or a tag by the commit that it is now, a folder or a wheel by its content. Without a source,
    the registered one is pinned anew.

    Args:
        name: Name of the distribution.
        git: Address of its git repository: https://, ssh:// or file://.
        ref: Branch, tag or commit of the repository; by default its default branch.
        subdirectory: Folder of the package in the repository.
        token: Name of the secret with which a private repository is read; never the token itself.
        path: Folder of the package on this machine, or its wheel.
        pypi: Version that a package index has.
        extra: Extra of the package that is installed too; may be given several times.
        test: Run its own tests first, in an environment of its own that has its extra `test`; nothing is registered
            where they fail.
        output: How the output is printed.
    """
    shelf = open_shelf()
    location = str(path.absolute()) if path is not None else None
    sources = {"git": git, "path": location, "pypi": pypi}
    given = [flag for flag, value in sources.items() if value is not None]
    if len(given) > 1 or ((ref or subdirectory or token) and given != ["git"]):
        message = "A package has one source, and --ref, --subdirectory and --token belong to --git."
        raise InvalidInput(message, cure="Give one of --git, --path and --pypi.", code="usage")
    written: dict[str, JsonValue]
    if git is not None:
        fields = {"type": "git", "url": git, "ref": ref or _HEAD, "subdirectory": subdirectory, "token_secret": token}
        written = {key: value for key, value in fields.items() if value is not None}
    elif location is not None:
        written = {"type": "local", "path": location}
    elif pypi is not None:
        written = {"type": "pypi", "name": name, "version": pypi}
    else:
        written = _registered(shelf, name)
    entry, problems = validate(PackageEntry, {"source": written, **({"extras": list(extra)} if extra else {})})
    if entry is None:
        raise RegistryErrors.of(problems)
    base = shelf.catalogue.folder_of("packages", name)
    before = _pin_of(shelf, name)
    workshop = Workshop.of(Settings.load())
    tell = teller(output, name)
    pinned = asyncio.run(pin_source(name, entry.source, base, workshop, tell=tell, extras=entry.extras))
    if test:
        asyncio.run(_tested(pinned, workshop, tell))
    source = pinned.source.model_dump(mode="json", exclude_none=True)
    added = add_package(shelf, name, source, plugins=pinned.plugins, extras=extra)
    _print(added, pinned, before if before not in (None, pinned.origin) else None, output)
    return exits.OK


async def _tested(pinned: PinnedSource, workshop: Workshop, tell: Tell) -> None:
    """Run the tests of a package.

    Raises:
        InvalidInput: they fail, or there are none, as of a version of an index.
    """
    if pinned.package is None:
        cure = "Name its repository or its folder, or register it without --test."
        raise InvalidInput(f"{pinned.origin} comes from an index, without its tests.", cure=cure, code="no_tests")
    known, plugins = pinned.known_extras, pinned.plugins or {}
    await run_tests(pinned.package, workshop, extras=known, plugins=plugins, tell=tell)


def _pin_of(shelf: Shelf, name: str) -> str | None:
    """Return what a registered package is pinned to, in one line; None if it is not registered, or not pinned."""
    entry = shelf.catalogue.packages.get(name)
    if entry is None or not isinstance(entry.source, GitSource) or entry.source.pinned_commit is None:
        return None
    source = entry.source
    commit = source.pinned_commit
    return GitPackage(name=name, url=source.url, commit=str(commit), subdirectory=source.subdirectory).origin


def _registered(shelf: Shelf, name: str) -> dict[str, JsonValue]:
    """Return the source of a registered package without what pins it.

    Raises:
        NotFound: there is no such package.
    """
    document = shelf.catalogue.documents.get(("packages", name))
    if document is None:
        shelf.catalogue.look_up(shelf.catalogue.packages, "packages", name)
        return {}
    source = document.value.get("source")
    pins = {"commit", "sha256"}
    return {key: value for key, value in source.items() if key not in pins} if isinstance(source, dict) else {}


def _print(added: Added, pinned: PinnedSource, moved_from: str | None, output: OutputFlags) -> None:
    plugins = {kind: list(names) for kind, names in (pinned.plugins or {}).items()}
    if output.json:
        row = {"kind": added.kind, "name": added.name, "file": str(added.file), "is_new": added.is_new}
        emit("registry-added", [{**row, "origin": pinned.origin, "moved_from": moved_from, "plugins": plugins}])
        return
    say(f"{added.kind}/{added.name}: {added.file}{'' if added.is_new else ' (unchanged)'}")
    say(f"pinned: {pinned.origin}")
    if moved_from is not None:
        say(f"before: {moved_from}; runs that were submitted before keep it")
    for kind, names in plugins.items():
        say(f"{kind}: {', '.join(names)}")
    if pinned.plugins is not None and not plugins:
        note("It registers no plugin: a backend needs an entry point in the group vlmhyperbench.backends.", output)
