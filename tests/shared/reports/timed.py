"""Timed runs, and parts of their reports, for tests."""

from __future__ import annotations

from typing import Any

from tests.shared.reports.builders import MS, claim, evidence, fact, run_spec
from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.reports.document import Document, Points, Section, Table, write_cell
from vlmhyperbench.summaries.evidence import RunEvidence

CLIENT = {
    "cpu_s": 2.0,
    "peak_rss_bytes": 3 * 2**20,
    "startup_s": 0.5,
    "processes": 2,
    "loop_busy_share": 0.25,
}


def timed(count: int = 10, *, client: object = CLIENT, spec: RunSpec | None = None, **changes: object) -> RunEvidence:
    """A run whose answers came 100 ms apart, each after 50 ms, the first token after 10."""
    changes = {"latency_ns": 50 * MS, "ttft_user_ns": 10 * MS, **changes}
    rows = [fact(i, "yes", "yes", **{"stream_end_ns": (100 * i + 50) * MS, **changes}) for i in range(count)]
    return evidence(rows, spec=spec, metrics=(), claims=[claim(client=client)])


def scenario(**fields: Any) -> RunSpec:
    """The spec of a run with a scenario of such fields."""
    return run_spec(scenario=ScenarioSpec(**fields))


def chapter_of(document: Document) -> Section:
    return next(section for section in document.sections if section.name == "performance")


def table_of(section: Section, name: str) -> Table:
    return next(block for block in section.blocks if isinstance(block, Table) and block.name == name)


def cells_of(table: Table) -> list[tuple[str, ...]]:
    return [tuple(write_cell(cell).replace("\u00a0", " ") for cell in row) for row in table.rows]


def figures_of(section: Section) -> dict[str, FigureSpec]:
    return {block.name: block for block in section.blocks if isinstance(block, FigureSpec)}


def limits_of(document: Document) -> str:
    """The limitations, one sentence after the other."""
    (section,) = [one for one in document.sections if one.name == "limitations"]
    (points,) = section.blocks
    assert isinstance(points, Points)
    return " ".join(points.items)
