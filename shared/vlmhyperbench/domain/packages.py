"""Pinned packages of others: where a distribution comes from, by commit, by content, or by version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from vlmhyperbench.domain.base import Name, Sha256, Spec

COMMIT: Final = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
EXTRA: Final = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$"
Commit = Annotated[str, Field(pattern=COMMIT)]
Extra = Annotated[str, Field(pattern=EXTRA)]

GROUPS: Final = ("backends", "datasets", "metrics", "prompts", "reports")
"""Kinds of plugins that a package may register."""


class _Package(Spec):
    name: Name
    """Name of the distribution."""
    extras: tuple[Extra, ...] = Field(default=(), exclude_if=lambda extras: not extras)

    @property
    def requirement(self) -> str:
        """The distribution with its extras, as a requirement begins."""
        return f"{self.name}[{','.join(self.extras)}]" if self.extras else self.name


class GitPackage(_Package):
    """A commit of a git repository."""

    kind: Literal["git"] = "git"
    url: Annotated[str, Field(max_length=2000)]
    commit: Commit
    subdirectory: str | None = Field(default=None, exclude_if=lambda folder: folder is None)
    """Folder of the package in the repository; None is the repository itself."""
    token_secret: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Name of the secret with which the repository is read."""

    @property
    def origin(self) -> str:
        """Where it comes from, in one line."""
        folder = f"#subdirectory={self.subdirectory}" if self.subdirectory is not None else ""
        return f"git+{self.url}@{self.commit}{folder}"


class LocalPackage(_Package):
    """A folder or a wheel of this machine, by its content."""

    kind: Literal["local"] = "local"
    path: Annotated[str, Field(max_length=1000)]
    sha256: Sha256

    @property
    def origin(self) -> str:
        """Where it comes from, in one line."""
        return f"{self.path} sha256:{self.sha256}"


class IndexPackage(_Package):
    """A version of a distribution of a package index; its hashes are those of the resolution."""

    kind: Literal["pypi"] = "pypi"
    version: Annotated[str, Field(max_length=100)]

    @property
    def origin(self) -> str:
        """Where it comes from, in one line."""
        return f"{self.name}=={self.version}"


PackageSpec = Annotated[GitPackage | LocalPackage | IndexPackage, Field(discriminator="kind")]


def identity_of(package: GitPackage | LocalPackage | IndexPackage) -> Mapping[str, JsonValue]:
    """Return what determines the code of a package; how it is reached, and which extras are wanted, does not."""
    not_code = {"extras", "token_secret"} | ({"path"} if package.kind == "local" else set())
    return package.model_dump(mode="json", exclude=not_code)
