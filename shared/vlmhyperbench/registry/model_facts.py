"""Parts of a model's entry: the repository of its files, and the runs by which it was verified."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vlmhyperbench.domain.hub_files import REPOSITORY, REVISION
from vlmhyperbench.registry.values import Slug, Strict


class HubSource(Strict):
    """A repository of a hub, from which the files are fetched into the cache of models."""

    repo: Annotated[str, Field(pattern=f"^{REPOSITORY}$")]
    """`ORG/NAME`."""
    revision: Annotated[str, Field(pattern=f"^{REVISION}$")] = "main"
    """Branch, tag or commit; `vlmhyperbench models fetch` replaces it by the commit in the user's own entry."""


class VerifiedRun(Strict):
    """A backend on which the maintainers of the registry have run the model; no run of a user adds one."""

    backend: Slug
    engine_version: Annotated[str, Field(min_length=1, max_length=100)]
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
