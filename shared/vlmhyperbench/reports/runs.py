"""A run as a report has it: its summary, and the evidence of what shows single samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summary import RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """One run of a report."""

    summary: RunSummary
    evidence: RunEvidence

    @property
    def name(self) -> str:
        return self.summary.name

    def named(self, name: str) -> ReportedRun:
        """Return the same run under the name that it has in a report."""
        return ReportedRun(summary=replace(self.summary, name=name), evidence=replace(self.evidence, name=name))
