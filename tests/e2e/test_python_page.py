"""The Python that README and docs/python.md show, run as it stands there against a stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import execute
from tests.support.stack import ROOT, Stack, running_stack

_FEW = "limit: 8\n"


@pytest.fixture(scope="module")
def stack(registries: Path) -> Iterator[Stack]:
    """A stack whose shipped run and experiment ask a few samples: what is shown is the same, only shorter."""
    run, demo = registries / "runs" / "tiny-doc-vlm.yaml", registries / "experiments" / "demo.yaml"
    run.write_text(run.read_text() + _FEW)
    demo.write_text(demo.read_text().replace("defaults:\n", f"defaults:\n  {_FEW}"))
    with running_stack(registries) as found:
        yield found


def test_the_snippet_of_the_readme_prints_scores_and_answers(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = execute(ROOT / "README.md")
    printed = capsys.readouterr().out
    run = shown["run"]
    assert run.state == "SUCCEEDED"
    assert run.headline.scores
    assert all(score.metric in printed for score in run.headline.scores)
    assert (tmp_path / f"report-{str(run.id)[:8]}" / "report.html").is_file()


def test_the_page_about_python_does_what_it_says(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = execute(ROOT / "docs" / "python.md")
    assert "True" in capsys.readouterr().out
    assert (tmp_path / "report" / "report.html").is_file()
    assert (tmp_path / "comparison" / "report.html").is_file()
    assert {"question_type", "anls"} <= set(shown["table"].columns)
    assert [run.state for run in shown["experiment"].runs] == ["SUCCEEDED", "SUCCEEDED"]
    assert shown["comparison"].metrics["anls"].pairs > 0
