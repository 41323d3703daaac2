"""How requests are written for a model reaches a real llama.cpp: what its chat template makes of the messages."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.domain.chat_bodies import chat_body
from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.request_styles import Languages, RequestStyle
from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_sdk.types import JsonValue, Prompt
from vlmhyperbench_tiny_doc_vlm import path

TRANSLATING = (
    "{% set names = {'cs': 'Czech', 'de-AT': 'German'} %}{% for m in messages %}{% set c = m.content[0] %}"
    "{% set source_lang_code = c.source_lang_code %}{% set target_lang_code = c.target_lang_code %}"
    "{{ names[source_lang_code] }} to {{ names[target_lang_code] }}: {{ c.text }}{% endfor %}"
)
"""Takes its languages from the parts of a message and looks them up, as that of TranslateGemma."""
WEIGHTS = path("tiny-doc-vlm-f16.gguf")


def body(style: RequestStyle, **changes: Any) -> dict[str, JsonValue]:
    asked: dict[str, Any] = {
        "model": "tiny",
        "prompt": Prompt(user="Which?", system="Be exact."),
        "images": (),
        "decoding": Decoding(max_tokens=4, temperature=0),
        "response_format": None,
    }
    return {**chat_body(**{**asked, **changes}, style=style)}


@contextmanager
def loaded(template: Path | None = None) -> Iterator[tuple[GatewayProcess, str]]:
    """Yield a gateway that has loaded a tiny model, by its own chat template or another, and its engine's URL."""
    params: dict[str, JsonValue] = {"n_ctx": 512, "threads": 1}
    files = {"weights": str(WEIGHTS), **({"chat_template": str(template)} if template is not None else {})}
    request = LoadRequest(model="tiny", backend_class="llamacpp", files=files, engine_params=params)
    with GatewayProcess() as gateway:
        answer = gateway.load(request)
        assert answer.status == 200, answer.body
        yield gateway, answer.json()["engine_url"]


def rendered(engine_url: str, request: dict[str, JsonValue]) -> str:
    """Return the prompt that llama.cpp makes of a request by the chat template of the model."""
    content = json.dumps(LlamaCpp().to_engine(request)).encode()
    asked = urllib.request.Request(f"{engine_url}/apply-template", content, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as response:
        prompt: str = json.loads(response.read())["prompt"]
        return prompt


@pytest.mark.parametrize(
    ("style", "prompt"),
    [("openai_chat", "System: Be exact.<end_of_utterance>\nUser: Which?"), ("instruct", "User: Be exact.\n\nWhich?")],
)
def test_a_system_prompt_stands_before_the_question_for_a_model_without_a_system_role(
    style: RequestStyle, prompt: str
) -> None:
    request = body(style)
    with loaded() as (gateway, engine_url):
        assert f"{prompt}<end_of_utterance>" in rendered(engine_url, request)
        assert gateway.chat({**request, "stream": False, "stream_options": None}).status == 200


def test_a_model_that_translates_is_told_the_codes_of_the_languages_by_its_template(tmp_path: Path) -> None:
    request = body("translategemma", languages=Languages(source="cs", target="de-AT"))
    template = tmp_path / "translating.jinja"
    template.write_text(TRANSLATING)
    with loaded(template) as (gateway, engine_url):
        assert rendered(engine_url, request) == "Czech to German: Which?"
        assert gateway.chat({**request, "stream": False, "stream_options": None}).status == 200
