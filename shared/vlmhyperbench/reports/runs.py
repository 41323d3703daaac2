"""A run of a report: its summary, and the evidence for blocks that show single samples."""

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
        """Return the same run under another name."""
        return ReportedRun(summary=replace(self.summary, name=name), evidence=replace(self.evidence, name=name))
