"""`models import` registers what is here of a `models.yaml`, names what is not, and refuses a malformed file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shared.registry.test_gguf_files import MODELS, folder
from tests.support.gguf import whole
from vlmhyperbench.cli.main import main

__all__ = ["folder"]


@pytest.fixture(autouse=True)
def _home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLMHB_HOME", str(folder / "home"))
    monkeypatch.delenv("VLMHB_API_URL", raising=False)


def test_models_and_pipelines_are_imported_and_a_missing_file_makes_exit_code_3(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["models", "import", str(folder / "models.yaml"), "--pipelines", str(folder / "pipeline.yaml"), "--json"]
    assert main(command) == 3
    data = json.loads(capsys.readouterr().out)["data"]
    names = [(entry["kind"], entry["name"], entry["is_new"]) for entry in data["entries"]]
    assert names == [("models", "reader", True), ("pipelines", "base", True), ("pipelines", "both", True)]
    assert sorted(data["unusable"]) == ["cut", "gone"]
    assert len(data["warnings"]) == 2


def test_two_models_of_one_name_are_refused_with_file_and_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "models.yaml"
    file.write_text(MODELS + "  reader: {file: reader.gguf}\n")
    assert main(["models", "import", str(file)]) == 2
    assert f"{file}:{len(MODELS.splitlines()) + 1}" in capsys.readouterr().err


def test_files_beside_and_below_those_of_entries_have_a_status_too(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["models", "import", str(folder / "models.yaml"), "--json"])
    (folder / "gguf" / "mmproj.gguf").write_bytes(whole("clip"))
    (folder / "gguf" / "below").mkdir()
    (folder / "gguf" / "below" / "deep.gguf").write_bytes(whole("clip"))
    capsys.readouterr()
    assert main(["models", "status", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["data"]["models"]
    beside = [(Path(each["name"]).name, each["status"]) for each in models if not each["is_registered"]]
    assert beside == [("deep.gguf", "available"), ("cut.gguf", "invalid"), ("mmproj.gguf", "available")]
    assert "reader" in [each["name"] for each in models if each["is_registered"]]
    assert main(["models", "ls", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["data"]
    assert [Path(each["name"]).name for each in listed if not each["is_registered"]] == [name for name, _ in beside]
