"""How an answer is shown: flags that every command has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli.groups import OUTPUT


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How the answer is shown."""

    json: bool = False
    """Print one JSON envelope instead of text."""
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False
    """Print no progress."""

    @property
    def progress(self) -> bool:
        """Whether bars or lines of progress are shown."""
        return not (self.json or self.quiet)


HUMAN = Shown()
