"""Write the table of metrics into docs/deploy/monitoring.md: `python -m tests.architecture.metric_table`."""

from __future__ import annotations

import re
from pathlib import Path

from vlmhyperbench.monitoring.catalogue import METRICS

PAGE = Path(__file__).parents[2] / "docs/deploy/monitoring.md"
TABLE = re.compile(r"(<!-- metrics: written by make docs -->\n).*?(<!-- end -->\n)", re.DOTALL)


def table() -> str:
    """Return a row for each metric."""
    rows = ["| metric | kind | labels | served by | what it says |", "|---|---|---|---|---|"]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.full_name}` | {metric.kind} | {labels} | {metric.source} | {metric.text} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """Return the page with its table written anew."""
    text = PAGE.read_text(encoding="utf-8")
    return TABLE.sub(lambda marks: marks[1] + table() + marks[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
