"""Parts of a model's entry: where its files come from, and the runs by which it was verified."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from vlmhyperbench.domain.base import Refused, Sha256, written_as
from vlmhyperbench.domain.cached_files import LATEST, PREFIX, REPOSITORY, REVISION, is_version
from vlmhyperbench.domain.recipes import RecipeFields
from vlmhyperbench.registry.values import RelativePath, Slug, Strict

KINDS = ("path", "package", "hub", "s3", "recipe")
"""Fields that say where the files of a model come from; an entry has one of them."""


class HubSource(Strict):
    """A repository of a hub, from which the files are fetched into the cache of models."""

    repo: Annotated[str, Field(pattern=f"^{REPOSITORY}$")]
    """`ORG/NAME`."""
    revision: Annotated[str, Field(pattern=f"^{REVISION}$")] = "main"
    """Branch, tag or commit; `vlmhyperbench models fetch` replaces it by the commit in the user's own entry."""


class BucketSource(Strict):
    """A prefix in S3, from which the files are fetched into the cache of models; the machine has the credentials."""

    prefix: Annotated[
        str,
        Field(max_length=1000),
        written_as(
            PREFIX,
            "it is no prefix in S3",
            cure="Write s3://BUCKET/PREFIX without a slash at the end; the name of a bucket has small letters.",
        ),
    ]
    """`s3://BUCKET/PREFIX`; the objects directly below it are the files."""
    version: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None = None
    """Hash of the listing whose files were pinned; `vlmhyperbench models fetch` writes it into the user's own entry."""


class VerifiedRun(Strict):
    """A backend on which the maintainers of the registry have run the model; no run of a user adds one."""

    backend: Slug
    engine_version: Annotated[str, Field(min_length=1, max_length=100)]
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class RecipeChoice(RecipeFields):
    """How the files are made of those of another model; they are made once, and cached by the hash of the inputs."""

    source: Slug
    """Registered model whose files are used; it is fetched first, and has no recipe itself."""

    @model_validator(mode="after")
    def _does_something(self) -> RecipeChoice:
        if self.convert is None and self.quantize is None:
            raise Refused("the recipe does nothing", cure="Give convert, quantize or both a type, such as Q8_0.")
        if self.convert is None and (self.architecture or self.pre_tokenizer):
            cure = "Add convert, or leave them out."
            raise Refused("architecture and pre_tokenizer are of a conversion", cure=cure)
        if self.convert == "Q8_0" and self.quantize is not None:
            raise Refused("what is quantised is quantised again", cure="Convert to F16, BF16 or F32.")
        return self


class FilesOfModel(Strict):
    """Where the files of a model are, and their hashes."""

    path: str | None = None
    """Folder of the files, absolute or relative to the registries."""
    package: Slug | None = None
    """Distribution that contains the files as package data."""
    hub: HubSource | None = None
    """Repository that contains the files."""
    s3: BucketSource | None = None
    """Prefix in S3 that contains the files."""
    recipe: RecipeChoice | None = None
    """How the files are made."""
    files: dict[Slug, RelativePath] = Field(default_factory=dict)
    """Role → path inside the folder, the package, the repository or the prefix. The roles are `weights`, `mmproj` and
    `chat_template` (a Jinja file) for GGUF; for a model in the format of transformers each file's name is its role.
    Without files, a repository's are all that such a model needs."""
    sha256: dict[Slug, Sha256] = Field(default_factory=dict)
    """Role → hash of the file."""

    @property
    def remote(self) -> tuple[str, str] | None:
        """What is fetched: the repository and its revision, or the prefix in S3 and its version; None for other files.

        A prefix that was never fetched has the version `latest`.
        """
        if self.hub is not None:
            return self.hub.repo, self.hub.revision
        return (self.s3.prefix, self.s3.version or LATEST) if self.s3 is not None else None

    @property
    def is_brought(self) -> bool:
        """Whether its files are fetched or made, and so may not be on this machine yet."""
        return self.remote is not None or self.recipe is not None

    @property
    def is_unpinned(self) -> bool:
        """Whether its files are still to be fetched or made, so that nobody knows their hashes."""
        return self.is_brought and not self.sha256

    @model_validator(mode="after")
    def _files_are_pinned(self) -> FilesOfModel:
        sources = [name for name in KINDS if getattr(self, name) is not None]
        if len(sources) > 1 or (self.files and not sources):
            cure = f"Leave out all but one of {', '.join(sources)}." if sources else f"Add one of {', '.join(KINDS)}."
            raise Refused("files need one of path (the folder that they are in), package, hub, s3 or recipe", cure=cure)
        if not self.is_unpinned and (unpinned := sorted(set(self.files) ^ set(self.sha256))):
            cure = "Give every file its SHA-256, as `sha256sum FILE` prints it."
            raise Refused(f"files and sha256 do not have the same roles: {', '.join(unpinned)}", cure=cure)
        if self.remote is not None and self.sha256 and not is_version(self.remote[1]):
            cure = "Write its 40 digits, or leave sha256 out and run `vlmhyperbench models fetch`."
            raise Refused(f"the hashes are of no certain version: it is {self.remote[1]!r}", cure=cure)
        if escaping := sorted(role for role, file in self.files.items() if ".." in file.split("/")):
            raise Refused(f"files outside of the folder: {', '.join(escaping)}", cure="Write paths without '..'.")
        return self
