"""SkyPilot for the tests of rented machines; `python -m tests.engines.rented FOLDER` builds its environment there."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.support.environments import workshop_in
from tests.support.needs import skip_or_fail
from tests.support.rented import may_make_machines, missing_programs
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.skypilot import skypilot_spec

STORE = Path(__file__).parents[2] / ".venvs" / "rented"
"""Environments of these tests, kept because SkyPilot has 400 MB."""


def store_of_skypilot() -> Path:
    """Return it; skip the test where no machine can be made, which is a failure with `VLMHB_NEED_CLIENTS`."""
    if not may_make_machines():
        pytest.skip("only root can make a machine, and not on every machine")
    if programs := missing_programs():
        skip_or_fail(f"a machine needs {', '.join(programs)}")
    if not STORE.is_dir():
        skip_or_fail(f"SkyPilot is not installed: there is no {STORE} (`make clients` installs it)")
    return STORE


def link_skypilot(folder: Path) -> None:
    """Put SkyPilot into a folder of environments, without the records of machines that another run has left."""
    folder.mkdir(exist_ok=True)
    for entry in store_of_skypilot().iterdir():
        if entry.name not in {"machines", "logs"}:
            (folder / entry.name).symlink_to(entry)


async def build(folder: Path) -> None:
    """Build it unless it is there."""
    async with prepared(skypilot_spec("runpod"), workshop_in(folder)) as ready:
        print(f"SkyPilot {ready.packages['skypilot']} is in {ready.python}")


if __name__ == "__main__":
    given = Path(sys.argv[1])
    asyncio.run(build(given))
    given.touch()  # it is a target of make
