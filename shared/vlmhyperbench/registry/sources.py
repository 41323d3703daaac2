"""Where packages come from, validated before an installer sees it: git can run programs named in a URL or a ref."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from vlmhyperbench.domain.base import Refused, Sha256
from vlmhyperbench.domain.packages import COMMIT, Commit
from vlmhyperbench.registry.values import RelativePath, SecretName, Slug, Strict

_URL: Final = re.compile(r"(https|ssh|git|file)://[A-Za-z0-9._~:/@%+,=-]+")
_SCP: Final = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[A-Za-z0-9._~/+-]+")
"""`git@host:path`, which is ssh."""
_REF: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}")


def check_git_url(url: str) -> str:
    """Return a URL from which git only fetches.

    Raises:
        Refused: it uses another transport (`ext::` runs a command), looks like an option, or contains a password.
    """
    if len(url) > 2000 or not (_URL.fullmatch(url) or _SCP.fullmatch(url)):
        message = f"{url[:80]!r} is no address of a git repository"
        raise Refused(message, cure="Write https://host/path, ssh://user@host/path or git@host:path.")
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0]
    if host.startswith("-") or "@-" in host or (_SCP.fullmatch(url) and "@-" in url):
        raise Refused(f"the host of {url[:80]!r} reads as an option", cure="Name a host.")
    if scheme in {"https", "git"} and "@" in host:
        raise Refused("the address holds a user or a password", cure="Leave it out; git asks its credential helper.")
    return url


def check_git_ref(ref: str) -> str:
    """Return a branch, a tag or a commit.

    Raises:
        Refused: it looks like an option (`--upload-pack=…` runs a command), or is not a valid git name.
    """
    if not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", "/", ".")):
        raise Refused(f"{ref[:80]!r} is no git ref", cure="Write a commit, a tag or a branch.")
    return ref


def _check_argument(text: str) -> str:
    if text.startswith("-") or not text.isprintable():
        raise Refused(f"{text[:80]!r} reads as an option of an installer", cure="Begin with a letter or a digit.")
    return text


Argument = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_check_argument)]
"""A text that becomes an argument of an installer."""


def _below(path: str) -> str:
    if ".." in path.split("/"):
        raise Refused("it is outside of the repository", cure="Write a path without '..'.")
    return path


class LocalSource(Strict):
    """A folder or a wheel of this machine; one that is not pinned is refused in the run mode `prod`."""

    type: Literal["local"]
    path: Argument
    sha256: Sha256 | None = None
    """Hash of its content, which `vlmhyperbench registry add package` writes."""

    @property
    def is_pinned(self) -> bool:
        """Whether it is one certain content."""
        return self.sha256 is not None


class GitSource(Strict):
    """A git repository; a `ref` that is not a commit, without `commit`, gives a warning."""

    type: Literal["git"]
    url: Annotated[str, AfterValidator(check_git_url)]
    ref: Annotated[str, AfterValidator(check_git_ref)]
    """Branch, tag or commit."""
    commit: Commit | None = None
    """Commit behind `ref`, which `vlmhyperbench registry add package` writes and which alone is used."""
    subdirectory: Annotated[RelativePath, AfterValidator(_below)] | None = None
    """Folder of the package in the repository."""
    token_secret: SecretName | None = None
    """Name of the secret with which a private repository is read."""

    @property
    def is_local(self) -> bool:
        """Whether the repository is a local folder."""
        return self.url.startswith("file://")

    @property
    def pinned_commit(self) -> str | None:
        """The commit that is used; None if the source is not pinned."""
        return self.commit or (self.ref if re.match(COMMIT, self.ref) else None)

    @property
    def is_pinned(self) -> bool:
        """Whether it is one certain commit."""
        return self.pinned_commit is not None


class PypiSource(Strict):
    """A version of a distribution of a package index."""

    type: Literal["pypi"]
    name: Slug
    version: Argument

    @property
    def is_pinned(self) -> bool:
        """A version is one; the hashes of its files are kept when it is resolved."""
        return True


PackageSource = Annotated[LocalSource | GitSource | PypiSource, Field(discriminator="type")]
