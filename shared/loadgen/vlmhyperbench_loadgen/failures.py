"""The errors of the load generator; the parent turns each into the `error` of its end line."""

from __future__ import annotations


class LoadError(Exception):
    """Measuring cannot continue; the text is one sentence that names the thing."""


class PlanError(LoadError):
    """The plan is wrong or incomplete; running it again unchanged would fail again."""


class ChildDied(LoadError):
    """A measuring process ended, or gave up, before its work was done."""


class SealFailed(LoadError):
    """A segment could not be written; the segments before it stay."""
