"""Words after `pipeline` that no stack can answer are refused before one is asked."""

from __future__ import annotations

import json

import pytest

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main


@pytest.mark.parametrize("stage", ["", "x" * 3000], ids=["no name", "a name too long"])
def test_a_stage_that_none_can_be_called_is_refused(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "rerun", "0" * 32, stage, "--json"]) == exits.USAGE
    assert json.loads(capsys.readouterr().out)["data"]["code"] == "usage"


@pytest.mark.parametrize("pipeline", ["", "two\nlines"], ids=["no name", "a name of two lines"])
def test_a_pipeline_that_none_can_be_called_is_refused(pipeline: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "ask", pipeline, "Why?", "--json"]) == exits.USAGE
    assert json.loads(capsys.readouterr().out)["data"]["code"] == "usage"
