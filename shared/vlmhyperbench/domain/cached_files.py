"""The location of a model's file in the cache of models, as one text: where it is from, its version and its name.

A version never changes: a commit of a repository, a listing of a prefix in S3, or the inputs of a recipe.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

HUB: Final = "hub:"
S3: Final = "s3://"
MADE: Final = "made"
"""What stands for the repository of a file that a recipe made."""
REPOSITORY: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
"""`ORG/NAME`."""
PREFIX: Final = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()-]+){0,32}"
"""`s3://BUCKET/PREFIX`, without a slash at the end."""
REVISION: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
"""A branch, a tag or a commit."""
LATEST: Final = "latest"
"""The revision of a prefix in S3 of which no version is pinned."""
_VERSION: Final = re.compile(r"[0-9a-f]{40}")
_LOCATION: Final = re.compile(rf"(?:hub:({REPOSITORY})@|({PREFIX})@|(made):)([0-9a-f]{{40}})/([^/\x00]+)")


class CachedFile(NamedTuple):
    """A file of a version of a model."""

    repo: str
    """`ORG/NAME` of a hub, `s3://BUCKET/PREFIX`, or `made`."""
    commit: str
    """The version, 40 digits."""
    name: str

    @property
    def location(self) -> str:
        """The text that `ModelFile.location` holds."""
        if self.repo == MADE:
            return f"{MADE}:{self.commit}/{self.name}"
        return f"{'' if self.repo.startswith(S3) else HUB}{self.repo}@{self.commit}/{self.name}"


def parse_cached_location(location: str) -> CachedFile | None:
    """Return the parts of a location, or None if the file does not lie in the cache of models."""
    match = _LOCATION.fullmatch(location)
    return CachedFile(match[1] or match[2] or match[3], match[4], match[5]) if match else None


def is_version(revision: str) -> bool:
    """Return whether a revision is a version, such as the full hash of a commit, that always names the same files."""
    return _VERSION.fullmatch(revision) is not None
