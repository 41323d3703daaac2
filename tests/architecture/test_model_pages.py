"""The page of the registered models is what their entries state today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.architecture.model_pages import PAGE, ROOT, page
from vlmhyperbench.cli.main import main
from vlmhyperbench.registry.loading import load_catalogue

MODELS = load_catalogue(ROOT / "registries").models
SHOWN = ("deepseek-ocr", "gemma-3-4b-gguf", "ministral-3-3b", "qwen3-vl-8b")


def test_the_page_is_that_of_the_entries() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(), "run `make docs`"


@pytest.mark.parametrize("name", SHOWN)
def test_an_entry_is_shown_and_estimated_without_a_network(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["models", "show", name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["data"]
    assert shown["fetched"] is None
    assert shown["entry"]["hub"]["repo"] == MODELS[name].hub.repo
    assert main(["models", "estimate", name, "--json"]) == 0
    estimated = json.loads(capsys.readouterr().out)["data"]
    count = MODELS[name].parameter_count or 0
    assert 0.5 * count < estimated["weights_bytes"] <= 2 * count
