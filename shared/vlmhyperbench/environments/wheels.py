"""Wheels of packages that come from a repository or a folder: built once from what is pinned, and kept.

An environment is built from files whose hashes are known, and neither a repository nor a folder has one. So it becomes
a wheel first: `<folder>/wheels/<key>/<wheel>`, where the key is the hash of the commit or the content.
"""

from __future__ import annotations

import asyncio
import configparser
import shutil
import sysconfig
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import TypeAlias

from vlmhyperbench.domain.digests import short_key
from vlmhyperbench.domain.packages import GROUPS, GitPackage, LocalPackage, identity_of
from vlmhyperbench.environments import installer_commands
from vlmhyperbench.environments.base import Tell
from vlmhyperbench.environments.git import Repository
from vlmhyperbench.environments.installer import run_installer
from vlmhyperbench.environments.interpreters import Interpreter
from vlmhyperbench.environments.programs import Step
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.errors import Conflict, InvalidInput
from vlmhyperbench.folders import content_sha256, copy_content
from vlmhyperbench.logs import hide
from vlmhyperbench.secret_files import read_secret
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk.discovery import normalise

SourcePackage: TypeAlias = GitPackage | LocalPackage
"""A package that no index has."""

_SUFFIX = ".whl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel, and what it says of itself."""

    path: Path
    name: str
    version: str
    plugins: Mapping[str, tuple[str, ...]]
    """Kind (`backends`) → names that it registers."""
    extras: tuple[str, ...] = ()
    """Names of its extras in their normal form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where environments and their wheels are built and kept, and what that needs of this machine."""

    store: EnvironmentStore
    logs: Path
    """Folder of the installers' logs."""
    secrets_dir: Path
    """Folder of the secrets with which private repositories are read."""

    @classmethod
    def of(cls, settings: Settings) -> Workshop:
        """Return that of this machine."""
        store = EnvironmentStore(settings.environments_dir)
        return cls(store=store, logs=settings.logs_dir, secrets_dir=settings.secrets_dir)

    def repository(self, url: str, token_secret: str | None) -> Repository:
        """Open a git repository with the token that the secret holds.

        Raises:
            NotFound: the secret does not exist.
            InvalidInput: others may read the secret's file.
        """
        token = read_secret(self.secrets_dir, token_secret) if token_secret is not None else None
        hide([token] if token is not None else [])
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Repository(url, self.logs / "packages.log", token=token)

    @asynccontextmanager
    async def held_wheel(self, package: SourcePackage, interpreter: Interpreter, *, tell: Tell) -> AsyncIterator[Wheel]:
        """Build the wheel of a package unless it is kept already, and keep it while the block runs.

        Raises:
            NotFound: repository, commit, folder or secret does not exist, or git is not installed.
            Denied: the repository wants credentials.
            Conflict: the folder or the wheel has changed since it was pinned.
            InvalidInput: it cannot be built, or is another distribution than the entry says.
            Unavailable: a server or an index does not answer, uv is missing, or the disk is full.
        """
        about = [dict(identity_of(package)), interpreter.version, sysconfig.get_platform()]
        key = short_key(about)

        async def build(made: Path) -> Path:
            await tell("fetching", None)
            built = await self._build(package, interpreter.path, made)
            if normalise(built.name) != normalise(package.name):
                raise InvalidInput(
                    f"The package {package.name} ({package.origin}) is the distribution {built.name}.",
                    cure=f"Name it {built.name}: `vlmhyperbench registry add package {built.name} …`.",
                    code="wrong_package",
                )
            return built.path.parent

        async with self.store.held_wheel(key, build) as path:
            yield read_wheel(path)

    async def _build(self, package: SourcePackage, python: str, made: Path) -> Wheel:
        """Build a wheel, or copy the one that is pinned, into a folder of its own below `made`."""
        source, out = made / "source", made / "wheel"
        out.mkdir()
        if isinstance(package, GitPackage):
            await self.repository(package.url, package.token_secret).check_out(package.commit, source)
            source = source / package.subdirectory if package.subdirectory is not None else source
        else:
            await asyncio.to_thread(_copy, package, source, out)
        if not list(out.iterdir()):
            await run_installer(
                Step(
                    argv=installer_commands.build_wheel(source, python=python, out=out),
                    log=self.logs / "packages.log",
                    cwd=made,
                    what=f"The package {package.name} ({package.origin}) cannot be built",
                    code="package_unbuildable",
                    cure="Correct its pyproject.toml, and pin it again: `vlmhyperbench registry add package`.",
                )
            )
        for path in out.iterdir():
            if path.suffix != _SUFFIX:
                path.unlink()
        [path] = out.glob(f"*{_SUFFIX}")
        return read_wheel(path)


def read_wheel(path: Path) -> Wheel:
    """Read what a wheel says of itself.

    Raises:
        InvalidInput: it is no wheel.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            files = {name.rpartition("/")[2]: name for name in archive.namelist() if _is_about(name)}
            metadata = message_from_bytes(archive.read(files["METADATA"]))
            points = archive.read(files["entry_points.txt"]).decode() if "entry_points.txt" in files else ""
        return Wheel(
            path=path,
            name=_of(metadata, "Name"),
            version=_of(metadata, "Version"),
            plugins=_plugins(points),
            extras=tuple(sorted(normalise(str(extra)) for extra in metadata.get_all("Provides-Extra", []))),
        )
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, configparser.Error) as error:
        cure = "Build it again, for example with `uv build --wheel`."
        raise InvalidInput(f"{path} is no wheel: {error}.", cure=cure, code="no_wheel") from error


def _is_about(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return folder.endswith(".dist-info") and "/" not in folder and file in {"METADATA", "entry_points.txt"}


def _of(metadata: Message, field: str) -> str:
    value = metadata[field]
    if value is None:
        raise ValueError(f"its metadata has no {field}")
    return str(value)


def _plugins(text: str) -> dict[str, tuple[str, ...]]:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their letters as they are
    parser.read_string(text)
    registered = {group: f"vlmhyperbench.{group}" for group in GROUPS}
    return {group: tuple(sorted(parser[name])) for group, name in registered.items() if parser.has_section(name)}


def _copy(package: LocalPackage, source: Path, out: Path) -> None:
    """Copy a folder or a wheel, and check that the copy is what was pinned."""
    path = Path(package.path)
    copied = out / path.name if path.suffix == _SUFFIX else source
    if path.suffix == _SUFFIX and path.is_file():
        shutil.copy2(path, copied)
    else:
        copied.mkdir()
        copy_content(path, copied)
    if content_sha256(copied) != package.sha256:
        raise changed(package.name, path)


def changed(name: str, path: Path) -> Conflict:
    """Return the error of a folder or a wheel that is not as it was pinned."""
    return Conflict(
        f"{path} has changed since the package {name} was pinned.",
        cure=f"Run `vlmhyperbench registry add package {name}`, which pins it as it is now, or undo the change.",
        code="package_changed",
    )
