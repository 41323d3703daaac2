"""The location of a model's file in a hub, as one text: repository, commit and file name. A commit never changes."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

HUB: Final = "hub:"
REPOSITORY: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
"""`ORG/NAME`."""
REVISION: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
"""A branch, a tag or a commit."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_LOCATION: Final = re.compile(rf"hub:({REPOSITORY})@([0-9a-f]{{40}})/([^/\x00]+)")


class HubFile(NamedTuple):
    """A file of a repository at a commit."""

    repo: str
    commit: str
    name: str

    @property
    def location(self) -> str:
        """The text that `ModelFile.location` holds."""
        return f"{HUB}{self.repo}@{self.commit}/{self.name}"


def parse_hub_location(location: str) -> HubFile | None:
    """Return the parts of a location, or None if it is not the location of a hub's file."""
    match = _LOCATION.fullmatch(location)
    return HubFile(match[1], match[2], match[3]) if match else None


def is_commit(revision: str) -> bool:
    """Return whether a revision is the full hash of a commit, so that it always names the same files."""
    return _COMMIT.fullmatch(revision) is not None
