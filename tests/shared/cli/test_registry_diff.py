"""`registry diff`: a file that cannot be read is named, and a folder without entries is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shared.registry.writing import write
from vlmhyperbench.cli.main import main


def test_an_entry_that_cannot_be_read_is_named_with_its_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right = write(tmp_path / "a"), write(tmp_path / "b", {"prompts/p.yaml": "user_prompt: [\n"})
    assert main(["registry", "diff", str(left), str(right), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {difference["name"] for difference in printed["data"]} == {"p"}
    [warning] = printed["warnings"]
    assert warning.startswith("right: prompts/p.yaml:")
    assert main(["registry", "diff", str(left), str(right)]) == 0
    assert "right: prompts/p.yaml:" in capsys.readouterr().err


def test_a_folder_without_entries_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["registry", "diff", str(write(tmp_path / "a")), str(tmp_path / "empty")]) == 2
    assert str(tmp_path / "empty") in capsys.readouterr().err
