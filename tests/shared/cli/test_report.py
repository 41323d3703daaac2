"""`report FILE.json` writes a report again, without a stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared.reports.builders import document_of, evidence, fact, thumbnail
from tests.support.wording import Wording
from vlmhyperbench.cli.main import main
from vlmhyperbench.reports.writers.html import to_html
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.reports.writers.markdown import image_name, to_markdown
from vlmhyperbench.reports.writers.plots import to_svg

DOCUMENT = document_of(evidence([fact(i, "no", "yes") for i in range(2)]))


def _file(folder: Path) -> Path:
    """Store a report.json, and the image of its page in the same folder."""
    (folder / image_name(DOCUMENT.images[0])).write_bytes(thumbnail().data)
    path = folder / "report.json"
    path.write_bytes(to_json(DOCUMENT))
    return path


def test_the_html_of_a_file_equals_the_first_report(tmp_path: Path) -> None:
    file = _file(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", "report", str(file)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "report: report-r0000000/report.html\n"), done.stderr
    drawings = {figure.name: to_svg(figure) for figure in DOCUMENT.figures}
    page = to_html(DOCUMENT, drawings=drawings, thumbnails={DOCUMENT.images[0]: thumbnail()})
    assert (tmp_path / "report-r0000000" / "report.html").read_bytes() == page


def test_the_markdown_of_a_file_includes_its_figures_and_page_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["report", str(_file(tmp_path)), "--format", "markdown", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == {"folder": str(out), "open": str(out / "report.md")}
    assert (out / "report.md").read_bytes() == to_markdown(DOCUMENT, images=DOCUMENT.images)
    figures = {f"{figure.name}.svg" for figure in DOCUMENT.figures}
    assert {path.name for path in out.iterdir()} == {"report.md", image_name(DOCUMENT.images[0]), *figures}


def test_a_damaged_image_is_replaced_by_its_name(tmp_path: Path) -> None:
    file = _file(tmp_path)
    file.with_name(image_name(DOCUMENT.images[0])).write_bytes(b"<script>")
    assert main(["report", str(file), "--format", "markdown", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.md").read_bytes() == to_markdown(DOCUMENT, images=())


def test_a_file_that_is_not_a_report_is_refused_with_the_wrong_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(to_json(DOCUMENT).replace(b'"tone": "good"', b'"tone": "loud"').replace(b"neutral", b"loud"))
    assert main(["report", str(file)]) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in (".tone", "good", "bad", "neutral"))


@pytest.mark.parametrize("arguments", [("none.json",), ("r0000000", "--format", "html")], ids=["file", "id"])
def test_a_file_that_does_not_exist_is_named(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    assert main(["report", *arguments]) == 2
    wording(capsys.readouterr().err)


def test_a_folder_that_cannot_be_written_is_an_error_of_setup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _file(tmp_path)
    assert main(["report", str(file), "--out", str(file / "out")]) == 3
    assert str(file / "out") in capsys.readouterr().err
