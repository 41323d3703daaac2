"""A recipe converts the tiny reader with llama.cpp's own converter, and the result answers like the shipped F16 file.

The converter's environment has torch for a processor, from PIP_FIND_LINKS, and takes a gigabyte. The tests run with the
other tests of engines (LOADGEN_PEERS names their folder), and are skipped without that torch; with `VLMHB_NEED_CLIENTS`
that is a failure.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.engines.pins import need_pins
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.resolving import load_request, resolve_model
from vlmhyperbench.domain.cached_files import MADE
from vlmhyperbench.domain.recipes import CONVERTER
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.gateway import FIRST_PARTY_ADAPTERS
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.gateways import GatewayProcess

SOURCE = "tiny-doc-vlm-0.2-hf"
ENTRY = f"""\
description: The reader, converted.
backends: [llamacpp]
recipe: {{source: {SOURCE}, convert: F16, architecture: LlamaForCausalLM, pre_tokenizer: gpt-2}}
"""
QUESTIONS = 24
BUILD_S = 600
pytestmark = pytest.mark.timeout(BUILD_S)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the entry, whose files one command has made."""
    need_pins()
    home = tmp_path_factory.mktemp("home")
    models = home / "registries" / "models"
    models.mkdir(parents=True)
    (models / "converted.yaml").write_text(ENTRY)
    done = _command(home, "models", "fetch", "converted")
    assert done.returncode == 0, done.stderr
    return home


def _command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    return subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", *words, "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        env={**environment, "VLMHB_HOME": str(home)},
    )


def _target(model: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> ModelTarget:
    monkeypatch.setenv("VLMHB_HOME", str(home))
    return resolve_model(model, "llamacpp", {"n_ctx": 1024, "parallel": 1, "threads": 1}, adapters=FIRST_PARTY_ADAPTERS)


def _answers(target: ModelTarget) -> list[str]:
    samples = islice(iter(SyntheticDocuments(DatasetSource(seed=1, params={"documents": QUESTIONS}))), QUESTIONS)
    with GatewayProcess() as gateway:
        load = load_request(target, open_cache())
        loaded = gateway.load(load)
        assert loaded.status == 200, loaded.body
        return [_answer(gateway, load.model, sample.images[0].read(), sample.question) for sample in samples]


def _answer(gateway: GatewayProcess, model: str, png: bytes, question: str) -> str:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()}}
    content = [image, {"type": "text", "text": question}]
    request = {"model": model, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 60}
    answer = gateway.chat(request)
    assert answer.status == 200, answer.body
    body: dict[str, Any] = json.loads(answer.body)
    return str(body["choices"][0]["message"]["content"])


def test_the_converted_reader_answers_like_the_shipped_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converted, shipped = (_target(model, home, monkeypatch) for model in ("converted", "tiny-doc-vlm-0.2"))
    assert converted.recipe is not None
    assert converted.recipe.converter == CONVERTER
    assert [file.role for file in converted.files] == ["mmproj", "weights"]
    assert {file.sha256 for file in converted.files}.isdisjoint(file.sha256 for file in shipped.files)
    expected = _answers(shipped)
    assert len(set(expected)) > QUESTIONS / 2
    assert _answers(converted) == expected


def test_it_is_made_once_and_has_the_licence_of_its_source(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _target("converted", home, monkeypatch).license == "Apache-2.0"
    [made] = open_cache().models()
    assert made.repo == MADE
    again = _command(home, "models", "fetch", "converted")
    assert again.returncode == 0, again.stderr
    assert [fetched.fetched_at for fetched in open_cache().models()] == [made.fetched_at]
