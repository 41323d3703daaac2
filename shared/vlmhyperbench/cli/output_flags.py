"""The flags that every command has: how its output is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli.groups import OUTPUT


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """How the output is printed."""

    json: bool = False
    """Print JSON instead of text: one object on one line per result."""
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False
    """Print no progress; results and errors are still printed."""

    @property
    def progress(self) -> bool:
        """Whether progress is printed, as bars or lines."""
        return not (self.json or self.quiet)


TEXT = OutputFlags()
