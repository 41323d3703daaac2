"""Where the files of a dataset are: on this machine, in S3, or in a repository of a hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from vlmhyperbench.addresses import S3
from vlmhyperbench.errors import InvalidInput

HUB: Final = "hf://datasets/"
"""Beginning of the path of a dataset on the hub, as huggingface_hub writes it."""
ARCHIVES: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
"""Endings of archives that are read like folders."""
_PATH: Final = re.compile(r"hf://datasets/(\w[\w.-]*/\w[\w.-]*)(?:/(.*))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """A repository of a hub, or a folder or file inside of one."""

    repo: str
    inside: str = ""

    def holds(self, name: str) -> bool:
        """Return whether a file of the repository belongs to the dataset."""
        return not self.inside or name == self.inside or name.startswith(f"{self.inside}/")


def is_elsewhere(path: str | None) -> bool:
    """Return whether the files of a dataset have to be fetched."""
    return path is not None and path.startswith((S3, HUB))


def is_archive(path: str | None) -> bool:
    """Return whether the files of a dataset are packed into one."""
    return path is not None and path.lower().endswith(ARCHIVES)


def parse_hub_path(path: str) -> HubDataset:
    """Parse `hf://datasets/ORG/NAME[/FOLDER]`.

    Raises:
        InvalidInput: it has another form, or leads out of the repository.
    """
    match = _PATH.fullmatch(path.rstrip("/"))
    inside = (match[2] or "") if match else ""
    if match is None or ".." in inside.split("/"):
        raise InvalidInput(
            f"{path!r} names no dataset of a hub.", cure="Write hf://datasets/ORG/NAME, and the revision in revision."
        )
    return HubDataset(repo=match[1], inside=inside)
