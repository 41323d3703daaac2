"""`python -m tests.engines.rented FOLDER`: build SkyPilot's environment, which the tests of rented machines use."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.environments import workshop_in
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.skypilot import skypilot_spec


async def build(folder: Path) -> None:
    """Build it unless it is there."""
    async with prepared(skypilot_spec("runpod"), workshop_in(folder)) as ready:
        print(f"SkyPilot {ready.packages['skypilot']} is in {ready.python}")


if __name__ == "__main__":
    given = Path(sys.argv[1])
    asyncio.run(build(given))
    given.touch()  # it is a target of make
