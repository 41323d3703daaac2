"""`backup` and `restore`: a platform in a folder, and back."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings


def backup(folder: Path, /, *, output: OutputFlags = TEXT) -> int:
    """Write the database and all stored files of the platform into a new folder, also while runs go on.

    Secrets, passwords and the pepper of API keys are not in it, nor are models and environments.

    Args:
        folder: The new folder.
        output: How the output is printed.
    """
    from vlmhyperbench.backup.database import open_database
    from vlmhyperbench.backup.taking import take
    from vlmhyperbench.runtime import storage_location
    from vlmhyperbench.storage import open_storage

    settings = Settings.load()
    home, folder = Home(settings.home), folder.expanduser().absolute()
    with open_database(home, settings) as url:
        storage = open_storage(storage_location(settings))
        tell = partial(_tell, output=output)
        taken = asyncio.run(take(folder, home=home, database_url=url, storage=storage, tell=tell))
    if output.json:
        emit("backup", {"folder": str(folder), **taken.model_dump(mode="json", exclude={"home"})})
    else:
        size = f"{taken.objects} stored files, {taken.objects_bytes / 2**20:.1f} MiB"
        say(f"The backup is in {folder}: the database at {taken.taken_at}, {size}.")
        say(f"Not in it: {'; '.join(taken.excluded)}.")
    return exits.OK


def restore(
    folder: Path, /, *, replace: Annotated[bool, Parameter(group=STACK)] = False, output: OutputFlags = TEXT
) -> int:
    """Restore a backup into an empty VLMHB_HOME, or into the empty database that VLMHB_DATABASE_URL names.

    It is verified first, and restored wholly or not at all. Runs that had not ended continue with the next `up`.

    Args:
        folder: The folder that `backup` wrote.
        replace: Move what the home has aside, instead of refusing a home that is not empty.
        output: How the output is printed.
    """
    from vlmhyperbench.backup import restoring

    settings = Settings.load()
    home, folder = Home(settings.home), folder.expanduser().absolute()
    tell = partial(_tell, output=output)
    restored = restoring.restore(folder, home=home, settings=settings, replaces=replace, tell=tell)
    if output.json:
        emit("restore", {"home": str(home.root), **restored.model_dump(mode="json", exclude={"home"})})
    else:
        say(f"The backup of {restored.taken_at} is restored. Start the platform with `vlmhyperbench up`.")
        say(f"Set these again: {restored.excluded[0]}.")
    return exits.OK


def _tell(step: str, *, output: OutputFlags) -> None:
    note(f"  {step} …", output)
