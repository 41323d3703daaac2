"""Run the tests of a package in an environment of its own, before it is registered."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final

from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import GitPackage, LocalPackage
from vlmhyperbench.environments.base import Tell
from vlmhyperbench.environments.metric_hosts import OWN
from vlmhyperbench.environments.own_wheels import GATEWAY
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.programs import Step, run_step
from vlmhyperbench.environments.wheels import SourcePackage, Workshop
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.folders import copy_content

EXTRA: Final = "test"
"""Extra of a package that has what its tests need, pytest among it."""
TIMEOUT_S: Final = 1800.0


async def run_tests(
    package: SourcePackage, workshop: Workshop, *, extras: Collection[str], plugins: Collection[str], tell: Tell
) -> None:
    """Install a package with its extra `test`, and run pytest in its folder.

    Args:
        package: Where it comes from; a wheel has no tests.
        workshop: Where environments are built and kept.
        extras: Extras that it has.
        plugins: Kinds of plugins that it registers; the tests of backends need the platform's gateway.
        tell: Is told what takes time.

    Raises:
        InvalidInput: its tests fail, there are none, or it has no extra `test`.
        NotFound, Denied, Conflict, Unavailable: as `preparing.prepared`.
    """
    if EXTRA not in extras:
        cure = f"Add the extra {EXTRA!r} with pytest to its pyproject.toml, or register it without --test."
        raise InvalidInput(f"The package {package.name} has no extra {EXTRA!r}.", cure=cure, code="no_extra")
    wanted = package.model_copy(update={"extras": (*package.extras, EXTRA)})
    own = GATEWAY if "backends" in plugins else OWN
    async with prepared(VirtualenvSpec(packages=(wanted,)), workshop, tell=tell, own=own) as ready:
        with tempfile.TemporaryDirectory(prefix="vlmhb-tests-") as made:
            source = await _source(package, workshop, Path(made) / "source")
            await tell("testing", None)
            await run_step(
                Step(
                    argv=[ready.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
                    log=workshop.logs / "packages.log",
                    cwd=source,
                    what=f"The tests of the package {package.name} ({package.origin}) fail",
                    code="package_tests_failed",
                    cure="Correct the package, or register another commit of it.",
                    program="tests",
                    timeout_s=TIMEOUT_S,
                )
            )


async def _source(package: GitPackage | LocalPackage, workshop: Workshop, folder: Path) -> Path:
    """Write the package's folder, and return it."""
    if isinstance(package, GitPackage):
        await workshop.repository(package.url, package.token_secret).check_out(package.commit, folder)
        return folder / package.subdirectory if package.subdirectory is not None else folder
    await asyncio.to_thread(_copy, Path(package.path), folder)
    return folder


def _copy(path: Path, folder: Path) -> None:
    if path.is_file():
        cure = "Name its folder or its repository, or register it without --test."
        raise InvalidInput(f"{path} is a wheel, which has no tests.", cure=cure, code="no_tests")
    folder.mkdir()
    copy_content(path, folder)
