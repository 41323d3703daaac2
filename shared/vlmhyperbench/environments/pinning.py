"""Pin the source of a package: a branch or tag by its commit, a folder by its content; and see what it registers."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench.domain.packages import GitPackage, IndexPackage, LocalPackage
from vlmhyperbench.environments import installer_commands
from vlmhyperbench.environments.base import Tell
from vlmhyperbench.environments.installer import run_installer
from vlmhyperbench.environments.interpreters import OWN_INTERPRETER
from vlmhyperbench.environments.programs import Step
from vlmhyperbench.environments.wheels import SourcePackage, Workshop
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.files import write_whole
from vlmhyperbench.folders import content_sha256
from vlmhyperbench.registry.sources import GitSource, LocalSource, PypiSource
from vlmhyperbench_sdk.discovery import normalise


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedSource:
    """A source that is one certain commit, content or version."""

    source: LocalSource | GitSource | PypiSource
    origin: str
    """The same in one line."""
    plugins: Mapping[str, tuple[str, ...]] | None
    """Kind → names that the package registers; None if that is known only once it is installed."""
    package: SourcePackage | None = None
    """The package itself; None if it comes from an index."""
    known_extras: tuple[str, ...] = ()
    """Extras that it has, in their normal form."""


async def pin_source(
    name: str,
    source: LocalSource | GitSource | PypiSource,
    folder: Path,
    workshop: Workshop,
    *,
    tell: Tell,
    extras: Collection[str] = (),
) -> PinnedSource:
    """Pin the source of a package, and build its wheel, which is kept for the environments that will need it.

    Args:
        name: Name of the distribution.
        source: Where it comes from.
        folder: Folder at which a relative path begins.
        workshop: Where wheels are built and kept.
        tell: Is told what takes time.
        extras: Extras that are wanted. Whether a version of an index has them is known only once it is installed.

    Raises:
        NotFound: repository, ref, folder, version or secret does not exist, or git is not installed.
        Denied: the repository wants credentials.
        InvalidInput: it cannot be built, is another distribution, or lacks an extra.
        Unavailable: a server or an index does not answer, uv is missing, or the disk is full.
    """
    if isinstance(source, PypiSource):
        await _look_up(source, workshop)
        origin = IndexPackage(name=source.name, version=source.version).origin
        return PinnedSource(source=source, origin=origin, plugins=None)
    package: SourcePackage
    if isinstance(source, GitSource):
        commit = await workshop.repository(source.url, source.token_secret).commit_of(source.ref)
        source = source.model_copy(update={"commit": commit})
        fields = source.model_dump(include={"url", "subdirectory", "token_secret"})
        package = GitPackage(name=name, commit=commit, **fields)
    else:
        path = (folder / source.path).absolute()
        source = source.model_copy(update={"path": str(path), "sha256": content_sha256(path)})
        package = LocalPackage(name=name, path=str(path), sha256=source.sha256 or "")
    async with workshop.held_wheel(package, OWN_INTERPRETER, tell=tell) as wheel:
        for extra in extras:
            if normalise(extra) not in wheel.extras:
                cure = f"Choose one of {', '.join(wheel.extras)}." if wheel.extras else "It has none: leave extras out."
                message = f"The package {name} ({package.origin}) has no extra {extra!r}."
                raise InvalidInput(message, cure=cure, code="no_extra")
        return PinnedSource(
            source=source,
            origin=package.origin,
            plugins=wheel.plugins,
            package=package.model_copy(update={"extras": tuple(extras)}),
            known_extras=wheel.extras,
        )


async def _look_up(source: PypiSource, workshop: Workshop) -> None:
    """Check that an index has the version.

    Raises:
        NotFound: none has it.
    """
    workshop.store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=workshop.store.folder, prefix=".resolving-") as made:
        requirements, out = Path(made, "requirements.txt"), Path(made, "resolved.txt")
        write_whole(requirements, f"{source.name}=={source.version}\n".encode())
        step = Step(
            argv=[*installer_commands.resolve(requirements, None, python=OWN_INTERPRETER.path, out=out), "--no-deps"],
            log=workshop.logs / "packages.log",
            cwd=Path(made),
            what=f"No index has {source.name} {source.version}",
            code="no_package",
            cure="Correct name and version.",
        )
        try:
            await run_installer(step)
        except InvalidInput as error:
            raise NotFound(error.message, cure=error.cure, code=error.code) from error
