"""`data preview` and `data check`: a dataset before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import tables
from vlmhyperbench.cli.main import main


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for entries of datasets."""
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "registries" / "datasets"
    folder.mkdir(parents=True)
    return folder


def add(registry: Path, file: Path, **fields: object) -> None:
    entry = {"type": "table", "path": str(file), "params": {"columns": tables.COLUMNS}, **fields}
    (registry / "pages.yaml").write_text(json.dumps(entry))


def output(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_a_preview_shows_samples_as_the_columns_map_them(
    registry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(registry, tables.write_jsonl(tmp_path / "data"))
    assert main(["data", "preview", "pages", "--samples", "2", "--json"]) == 0
    document = output(capsys)
    assert document["kind"] == "samples"
    assert document["data"] == [
        {
            "key": f"q{number}",
            "question": f"What stands in line {number}; and why?",
            "images": [f"{20 + number} × 10 image/png, {len(tables.png(number))} bytes"],
            "references": [f"text {number}", f"Text {number}"],
            "metadata": {"doc_class": kind, "document": "page-0"},
        }
        for number, kind in enumerate(("letter", "form"))
    ]
    assert main(["data", "preview", "pages", "--samples", "1"]) == 0
    assert "What stands in line 0; and why?" in capsys.readouterr().out


def test_a_wrong_mapping_is_said_instead_of_a_preview(
    registry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tables.write_csv(tmp_path / "data")
    add(registry, file, params={"columns": {"question": "qestion"}})
    assert main(["data", "preview", "pages", "--json"]) == 2
    document = output(capsys)
    assert document["kind"] == "error"
    assert "'qestion'" in str(document["data"])


def test_the_exit_code_of_a_check_says_whether_a_run_would_be_spoilt(
    registry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tables.write_jsonl(tmp_path / "data")
    add(registry, file)
    assert main(["data", "check", "pages", "--json"]) == 0
    findings = [{"code": "blank_image", "count": 12}]
    data = output(capsys)["data"]
    assert isinstance(data, dict)
    assert (data["samples"], data["images"]) == (12, 12)
    assert [{name: finding[name] for name in ("code", "count")} for finding in data["findings"]] == findings
    (tmp_path / "data" / "pages" / "3.png").unlink()
    assert main(["data", "check", "pages"]) == 5
    assert "broken_image: 1" in capsys.readouterr().out
    add(registry, file, sha256={".": "0" * 64})
    assert main(["data", "check", "pages", "--json"]) == 3
    error = output(capsys)["data"]
    assert isinstance(error, dict)
    assert error["code"] == "wrong_hash"
