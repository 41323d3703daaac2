"""The table of formats: each name has its files, and an unknown name has none."""

from __future__ import annotations

import pytest

from tests.shared.reports.builders import document_of, evidence
from vlmhyperbench.reports.writers.formats import WRITERS, Pages, write_report
from vlmhyperbench.reports.writers.plots import to_svg

DOCUMENT = document_of(evidence())
PAGES = Pages(document=DOCUMENT, drawings={figure.name: to_svg(figure) for figure in DOCUMENT.figures}, thumbnails={})


@pytest.mark.parametrize(
    ("name", "media_type"), [("html", "text/html"), ("json", "application/json"), ("markdown", "text/markdown")]
)
def test_the_first_file_of_a_format_is_the_report_itself(name: str, media_type: str) -> None:
    first, *others = write_report(PAGES, {name})
    assert (first.name.partition(".")[0], first.media_type) == ("report", media_type)
    assert {file.media_type for file in others} <= {"image/svg+xml", "image/webp"}


def test_formats_are_written_in_the_order_of_the_table_without_csv() -> None:
    names = [file.name for file in write_report(PAGES, ["csv", *WRITERS])]
    assert [name for name in names if name.startswith("report.")] == ["report.html", "report.json", "report.md"]
