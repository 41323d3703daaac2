"""The groups of options in the help of commands, in the order in which they are printed."""

from __future__ import annotations

from typing import Final

from cyclopts import Group, Parameter

SOURCE: Final = Group.create_ordered("Source")
TARGET: Final = Group.create_ordered("Target")
TASK: Final = Group.create_ordered("Task")
WORKLOAD: Final = Group.create_ordered("Workload")
SCHEDULE: Final = Group.create_ordered("Schedule")
LIMITS: Final = Group.create_ordered("Limits")
DECODING: Final = Group.create_ordered("Decoding")
SCORING: Final = Group.create_ordered("Scoring")
SLO: Final = Group.create_ordered("SLO")
SERIES: Final = Group.create_ordered("Series of measurements")
CLIENT: Final = Group.create_ordered("Client")
REUSE: Final = Group.create_ordered("Reuse")
SELECTION: Final = Group.create_ordered("Selection")
GATE: Final = Group.create_ordered("Gate")
SERVER: Final = Group.create_ordered("Server")
STACK: Final = Group.create_ordered("Stack")
ENTRY: Final = Group.create_ordered("Entry")
SUBMISSION: Final = Group.create_ordered("Submission")
PUBLICATION: Final = Group.create_ordered("Publication")
OUTPUT: Final = Group.create_ordered("Output")


def _show_default(value: object) -> str | None:
    """Return the default as the help prints it; None for a default that stands for "not given"."""
    return None if value is None or value is False or value in ("", ()) else str(value)


COMMON: Final = Parameter(negative=(), show_default=_show_default)
"""Settings of the parameters of every command."""
