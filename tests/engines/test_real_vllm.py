"""vLLM itself behind the gateway, with the tiny document reader: every kind of request that the adapter promises.

`make clients` installs vLLM and runs these tests. Without it they are skipped, with the place where it is looked for;
with `VLMHB_NEED_CLIENTS` that is a failure.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from tests.engines.transformers_server import PATIENCE_S, serve
from tests.engines.transformers_server import need_engine as need_transformers
from tests.engines.vllm import PYTHON, UNENFORCEABLE, VERSION, question, text_of, tiny_load, vllm_gateway
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_tiny_doc_vlm import path

pytestmark = pytest.mark.timeout(900)  # an engine starts in it

TYPED = {
    "type": "object",
    "properties": {"total": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["total"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def load() -> LoadRequest:
    return tiny_load("vllm")


@pytest.fixture(scope="module")
def gateway(load: LoadRequest) -> Iterator[GatewayProcess]:
    with vllm_gateway() as process:
        answer = process.load(load)
        assert answer.status == 200, answer.body[-2000:]
        yield process


def _page(*colours: str) -> JsonValue:
    """Return a question about small images, each of one colour."""
    images = [_png(colour) for colour in colours]
    return [*({"type": "image_url", "image_url": {"url": url}} for url in images), {"type": "text", "text": "total"}]


def _png(colour: str) -> str:
    buffer = BytesIO()
    Image.new("RGB", (96, 96), colour).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def test_its_identity_states_version_arguments_and_hashes_without_a_warning(gateway: GatewayProcess) -> None:
    engine = gateway.status()["engine"]
    assert isinstance(engine, dict)
    assert engine["name"] == "vllm"
    assert str(engine["version"]).startswith("0.32.")
    assert engine["warnings"] == []
    assert len(str(dict(engine["weights_sha256"])["model.safetensors"])) == 64
    assert {"--no-enable-prefix-caching", "--mm-processor-cache-gb"} <= set(engine["argv"])


def test_weights_in_32_bits_are_computed_in_32_bits_as_by_transformers(gateway: GatewayProcess) -> None:
    """Neither load states a type: in 16 bits the logarithms would differ by hundredths."""
    need_transformers()
    with serve(path("config.json", VERSION).parent) as transformers:
        for content in ("Hello there", _page("white")):
            asked = question(content, logprobs=True, top_logprobs=5, ignore_eos=True)
            body = json.dumps({**asked, "model": "m"}).encode()
            expected = transformers.call("POST", "/v1/chat/completions", body).json
            assert _logprobs(gateway.chat(asked).json()) == pytest.approx(_logprobs(expected), abs=1e-3)


def _logprobs(answer: Any) -> list[float]:
    entries = answer["choices"][0]["logprobs"]["content"]
    return [best["logprob"] for entry in entries for best in entry["top_logprobs"]]


def test_a_stream_has_the_text_of_the_whole_answer(gateway: GatewayProcess) -> None:
    for content in ("Hello there", _page("white")):
        whole = text_of(gateway, question(content))
        *chunks, last = gateway.chat(question(content, stream=True)).events()
        pieces = [choice["delta"].get("content") or "" for chunk in chunks for choice in json.loads(chunk)["choices"]]
        assert last == "[DONE]"
        assert "".join(pieces) == whole != ""


def test_each_image_of_a_message_adds_its_tokens_and_one_too_many_is_refused(gateway: GatewayProcess) -> None:
    tokens = [
        gateway.chat(question(_page(*colours))).json()["usage"]["prompt_tokens"]
        for colours in ((), ("white",), ("white", "black"))
    ]
    assert tokens[2] - tokens[1] == tokens[1] - tokens[0] > 0
    refused = gateway.chat(question(_page("white", "black", "white")))
    assert (refused.status, "image" in refused.body.decode()) == (400, True)


def test_a_stop_text_ends_the_answer_before_it(gateway: GatewayProcess) -> None:
    whole = text_of(gateway, question())
    assert text_of(gateway, question(stop=[whole[2]])) == whole[: whole.index(whole[2])]


def test_a_seed_gives_the_same_drawn_answer_again(gateway: GatewayProcess) -> None:
    drawn = [text_of(gateway, question(temperature=1.5, seed=seed, ignore_eos=True)) for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("pattern", [r"[0-9]{3}-[ab]{2}", r"(yes|no), [A-Z]{4}"])
def test_an_answer_matches_its_regular_expression(gateway: GatewayProcess, pattern: str) -> None:
    answer = text_of(gateway, question(response_format={"type": "regex", "regex": pattern}))
    assert re.fullmatch(pattern, answer)


def test_an_answer_has_the_form_of_its_schema(gateway: GatewayProcess) -> None:
    wanted: JsonValue = {"type": "json_schema", "json_schema": {"schema": TYPED}}
    answer = json.loads(text_of(gateway, question(_page("white"), response_format=wanted, max_tokens=60)))
    assert list(answer) == ["total"]
    assert 0 <= answer["total"] <= 99


@pytest.mark.parametrize("wanted", UNENFORCEABLE)
def test_what_cannot_constrain_is_refused_and_harms_nobody(gateway: GatewayProcess, wanted: JsonValue) -> None:
    assert gateway.chat(question(response_format=wanted)).status == 400
    assert text_of(gateway, question())


def test_several_choices_log_probabilities_and_sampling_fields_reach_the_engine(gateway: GatewayProcess) -> None:
    sampling: JsonObject = {"temperature": 1, "top_p": 0.9, "top_k": 5, "min_p": 0.01, "seed": 1}
    penalties: JsonObject = {"presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 1.1}
    answer = gateway.chat(question(n=2, logprobs=True, top_logprobs=3, **sampling, **penalties)).json()
    choices = answer["choices"]
    assert isinstance(choices, list)
    assert [choice["index"] for choice in choices] == [0, 1]
    assert all(len(choice["logprobs"]["content"][0]["top_logprobs"]) == 3 for choice in choices)


def test_a_prompt_beyond_the_context_is_refused(gateway: GatewayProcess) -> None:
    refused = gateway.chat(question("x" * 5000))
    assert (refused.status, "1024" in refused.body.decode()) == (400, True)


def test_an_unload_ends_every_process_and_a_model_of_texts_loads_then_the_first_one_again(
    gateway: GatewayProcess, load: LoadRequest, tmp_path: Path
) -> None:
    engine = gateway.status()["engine"]
    assert isinstance(engine, dict)
    family = [psutil.Process(int(str(engine["pid"])))]
    family += family[0].children(recursive=True)
    assert gateway.unload().status == 200
    assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == []
    script = Path(__file__).with_name("models.py")
    reader = path("config.json", VERSION).parent
    subprocess.run([PYTHON, "-I", script, "wide", tmp_path, reader], check=True, capture_output=True, timeout=300)
    try:
        answer = gateway.load(replace(load, files={file.name: str(file) for file in tmp_path.iterdir()}))
        assert answer.status == 200, answer.body[-2000:]
        assert text_of(gateway, question())
        assert gateway.chat(question(_page("white"))).status == 400
    finally:
        assert gateway.load(replace(load, replace=True)).status == 200
    assert text_of(gateway, question(_page("white")))
