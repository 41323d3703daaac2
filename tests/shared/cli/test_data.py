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


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("quiz.csv", "question,answr\n2+2?,4\n", "answer"),
        ("quiz.csv", "question,answer\n2+2?,4\n3+3?,6,7\n", "quiz.csv:3"),
        ("quiz.jsonl", '{"question": "2+2?", "answer": "4"}\n{"question": ', "quiz.jsonl:2"),
        ("quiz.jsonl", '{"text": "2+2?"}\n', "neither question nor images"),
        ("quiz.jsonl", "", "no row"),
        ("quiz.parquet", "PAR1 and no more", "quiz.parquet"),
        ("quiz.jsonl.zst", "(compressed)", "zstd -d quiz.jsonl.zst"),
        ("quiz.zip", "PK", "quiz.zip"),
        ("quiz.jsonl", '{"id": 1, "question": "?"}\n{"id": 1, "question": "!"}\n', "quiz.jsonl:1 and again at"),
    ],
)
def test_questions_that_cannot_be_read_are_refused_before_anything_is_written(
    registry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, place: str
) -> None:
    (tmp_path / name).write_text(content)
    for command in (["registry", "add", "dataset"], ["run", "--model", "simulated-instant", "--detach", "--data"]):
        assert main([*command, str(tmp_path / name), "--metric", "anls", "--json"]) == 2, command
        error = output(capsys)["data"]
        assert isinstance(error, dict)
        assert place in f"{error['message']} {error['cure']}"
    assert list((tmp_path / "home" / "registries").rglob("*.yaml")) == []


def test_a_task_that_is_refused_leaves_no_dataset_behind(
    registry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "quiz.csv").write_text("question,answer\n2+2?,4\n")
    for flags in (["--metric", "anlss"], ["--metric", "anls", "--prompt", "document-qs"], ["--name", "../evil"]):
        assert main(["registry", "add", "dataset", str(tmp_path / "quiz.csv"), *flags, "--json"]) == 2
        assert {"anlss", "document-qs", "../evil"} & set(str(output(capsys)["data"]).split("'"))
    assert list((tmp_path / "home" / "registries").rglob("*.yaml")) == []


def test_a_folder_with_several_splits_is_registered_by_one_of_them_and_a_mapping_of_the_user_is_kept(
    registry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tables.write_hub(tmp_path / "hub")
    assert main(["registry", "add", "dataset", str(folder), "--json"]) == 2
    capsys.readouterr()
    assert main(["registry", "add", "dataset", str(folder), "--split", "test", "--json"]) == 0
    capsys.readouterr()
    assert main(["data", "preview", "hub", "--samples", "1", "--json"]) == 0
    assert "What stands in line 0" in str(output(capsys))
    (tmp_path / "own.jsonl").write_text('{"text": "2+2?"}\n')
    (registry / "own.yaml").write_text(
        f"type: table\npath: {tmp_path / 'own.jsonl'}\nparams: {{columns: {{question: text}}}}\n"
    )
    assert main(["registry", "add", "dataset", str(tmp_path / "own.jsonl"), "--json"]) == 0
