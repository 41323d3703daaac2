"""The transformers engine: its answers are those of `generate`, alone and in a batch; who leaves harms nobody.

The tests need the environment that `make clients` installs, and are skipped without it.
"""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.engines.transformers_server import (
    PATIENCE_S,
    PYTHON,
    RunningServer,
    answers_of_generate,
    load_request,
    need_engine,
    serve,
)
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.gateway import ENVIRONMENT_VARIABLE, EngineEnvironment
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.backends import BackendCase, check_backend
from vlmhyperbench_tiny_doc_vlm import path

TINY = path("config.json", "0.2").parent
QUESTIONS = 50
MODELS = ("llama", "sliding", "hybrid")


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """The tiny reader."""
    need_engine()
    with serve(TINY, max_batch=8, max_waiting=8, max_context=1024) as running:
        yield running


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    """Questions about drawn documents, with prompts and answers of different lengths."""
    params = ({}, {"tier": "noisy"}, {"tier": "dense"}, {"answer_style": "reasons"}, {"schemas": ["pairs", "nested"]})
    each = QUESTIONS // len(params)
    sources = [SyntheticDocuments(DatasetSource(seed=1, params={**given, "documents": each})) for given in params]
    samples = [sample for source in sources for sample in islice(iter(source), each)]
    return [
        {
            "model": "m",
            "messages": [{"role": "user", "content": [_image(sample.images[0].read()), _text(sample.question)]}],
            "temperature": 0,
            "max_tokens": 200,
        }
        for sample in samples
    ]


def _image(png: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_answers_are_those_of_generate_alone_and_eight_at_once(
    server: RunningServer, questions: list[dict[str, Any]]
) -> None:
    expected = answers_of_generate(TINY, questions)
    assert len(set(expected)) > QUESTIONS // 2
    assert server.ask_all(questions, 1) == expected
    assert server.ask_all(questions, 8) == expected


def write_model(kind: str, folder: Path) -> None:
    """Write a small text-only model with random weights."""
    script = Path(__file__).with_name("models.py")
    subprocess.run([PYTHON, "-I", script, kind, folder, TINY], check=True, capture_output=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("kind", MODELS)
def test_text_only_models_of_every_kind_of_layer_answer_as_generate_does(kind: str, tmp_path: Path) -> None:
    need_engine()
    write_model(kind, tmp_path)
    requests = [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "word " * length}],
            "temperature": 0,
            "max_tokens": 10 + length,
        }
        for length in (1, 30, 2, 17, 5, 25, 40, 3, 11)
    ]
    expected = answers_of_generate(tmp_path, requests)
    with serve(tmp_path, max_batch=4) as running:
        assert running.ask_all(requests, 1) == expected
        assert running.ask_all(requests, 9) == expected
        image = running.chat([_image(b"x"), _text("Hi")])
        assert (image.status, image.code) == (400, "unsupported")


def test_positions_in_several_dimensions_are_those_of_generate() -> None:
    need_engine()
    script = Path(__file__).with_name("positions.py")
    done = subprocess.run([PYTHON, "-I", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout.splitlines()[-1])
    assert results["batched"] == results["generate"]
    assert results["dimensions"] == 4


@pytest.mark.parametrize(
    ("kind", "points"),
    [("llama", ("layer:4", "layer:150", "growth:8", "growth:26")), ("hybrid", ("layer:20",))],
)
def test_memory_that_runs_out_changes_no_other_answer(kind: str, points: tuple[str, ...], tmp_path: Path) -> None:
    need_engine()
    write_model(kind, tmp_path)
    script = Path(__file__).with_name("memory.py")
    done = subprocess.run(
        [PYTHON, "-I", script, tmp_path, *points], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"refused": 1, "right": 4}] * len(points)


def test_a_stream_is_the_whole_answer(server: RunningServer, questions: list[dict[str, Any]]) -> None:
    messages = questions[-1]["messages"]
    fields = {"max_tokens": 60, "ignore_eos": True}
    whole = server.chat(messages, **fields)
    streamed = server.chat(messages, **fields, stream=True, stream_options={"include_usage": True})
    *chunks, usage = streamed.chunks
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == whole.text
    assert usage["usage"] == whole.json["usage"]
    assert chunks[-1]["choices"][0]["finish_reason"] == whole.json["choices"][0]["finish_reason"]
    assert whole.json["usage"]["completion_tokens"] == 60


def test_several_images_are_read(server: RunningServer, questions: list[dict[str, Any]]) -> None:
    first, second = (question["messages"][0]["content"][0] for question in questions[:2])
    two = server.chat([first, second, _text("kind?")])
    assert two.status == 200
    one = server.chat([first, _text("kind?")])
    assert two.json["usage"]["prompt_tokens"] > 1.5 * one.json["usage"]["prompt_tokens"]


def test_a_transparent_page_is_read_over_white(server: RunningServer, questions: list[dict[str, Any]]) -> None:
    image, question = questions[0]["messages"][0]["content"]
    page = Image.open(io.BytesIO(base64.b64decode(image["image_url"]["url"].partition(",")[2]))).convert("L")
    clear = Image.new("RGBA", page.size, (0, 0, 0, 0))  # black, and visible only where the page is dark
    clear.putalpha(page.point(lambda value: 255 - value))
    written = io.BytesIO()
    clear.save(written, "PNG")
    grey = io.BytesIO()
    page.save(grey, "PNG")
    expected = server.chat([_image(grey.getvalue()), question], max_tokens=60).text
    assert server.chat([_image(written.getvalue()), question], max_tokens=60).text == expected


def test_a_model_s_own_sampling_counts_only_where_it_is_asked_for(tmp_path: Path) -> None:
    need_engine()
    write_model("llama", tmp_path)
    request = {"content": "a word and a word and a word", "max_tokens": 60, "ignore_eos": True}
    with serve(tmp_path) as running:
        plain = running.chat(**request).text
    config = tmp_path / "generation_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "repetition_penalty": 3.0}))
    with serve(tmp_path) as running:
        assert running.chat(**request).text == plain
        asked = running.chat(**request, repetition_penalty=3.0).text
    with serve(tmp_path, sampling_defaults="model") as running:
        assert running.chat(**request).text == asked != plain


def test_fields_have_their_effect(server: RunningServer) -> None:
    plain = server.chat(max_tokens=40, ignore_eos=True)
    assert plain.json["usage"]["completion_tokens"] == 40
    assert plain.json["choices"][0]["finish_reason"] == "length"
    stop = plain.text[3:5]
    stopped = server.chat(max_tokens=40, ignore_eos=True, stop=stop)
    assert stopped.text == plain.text[: plain.text.index(stop)]
    assert stopped.json["choices"][0]["finish_reason"] == "stop"
    drawn = [server.chat(temperature=2, seed=seed, max_tokens=30, ignore_eos=True).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    for narrow in ({"top_k": 1}, {"top_p": 0.0001}, {"min_p": 1}):
        assert server.chat(temperature=2, **narrow, max_tokens=40, ignore_eos=True).text == plain.text
    for penalty in ({"presence_penalty": 2}, {"frequency_penalty": 2}, {"repetition_penalty": 1.5}):
        assert server.chat(**penalty, max_tokens=40, ignore_eos=True).text != plain.text
    assert server.chat(min_tokens=30, max_tokens=40).json["usage"]["completion_tokens"] >= 30
    banned = server.chat(logit_bias={"97": -100}, max_tokens=1).text
    allowed = server.chat(logit_bias={"97": 100}, max_tokens=1).text
    assert banned != allowed


def test_choices_differ_and_are_those_of_their_seeds(server: RunningServer) -> None:
    reply = server.chat(temperature=2, seed=5, n=3, max_tokens=30, ignore_eos=True)
    texts = [choice["message"]["content"] for choice in reply.json["choices"]]
    assert len(set(texts)) == 3
    assert texts[1] == server.chat(temperature=2, seed=6, max_tokens=30, ignore_eos=True).text
    assert reply.json["usage"]["completion_tokens"] == 90
    too_many = server.chat(n=9)
    assert (too_many.status, too_many.code) == (400, "unsupported")


def test_logprobs_are_of_every_token(server: RunningServer) -> None:
    reply = server.chat(max_tokens=5, ignore_eos=True, logprobs=True, top_logprobs=2)
    entries = reply.json["choices"][0]["logprobs"]["content"]
    assert len(entries) == 5
    for entry in entries:
        best, second = entry["top_logprobs"]
        assert (entry["token"], entry["logprob"]) == (best["token"], best["logprob"])
        assert 0 >= best["logprob"] >= second["logprob"]


def test_formats_are_enforced(server: RunningServer) -> None:
    schema = {
        "type": "object",
        "properties": {"total": {"type": "integer", "minimum": 3, "maximum": 7}, "kind": {"enum": ["a", "bc"]}},
        "required": ["total", "kind"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    answer = json.loads(server.chat(response_format=wanted, max_tokens=200, temperature=1, seed=1).text)
    assert 3 <= answer["total"] <= 7
    assert answer["kind"] in {"a", "bc"}
    pattern = "[0-9]{3}-(yes|no)"
    replies = server.ask_all(
        [
            {"messages": [{"role": "user", "content": "Hello"}], "response_format": {"type": "regex", "regex": pattern}}
            for _ in range(4)
        ],
        4,
    )
    assert all(re.fullmatch(pattern, reply) for reply in replies)
    assert server.chat(response_format={"type": "json_object"}, max_tokens=1).text == "{"
    for wrong in ({"type": "regex", "regex": "("}, {**wanted, "json_schema": {"schema": {"type": "sonnet"}}}):
        refused = server.chat(response_format=wrong)
        assert (refused.status, refused.code) == (400, "invalid_response_format"), refused.body


def test_what_does_not_fit_is_refused(server: RunningServer) -> None:
    long = server.chat("word " * 2000)
    assert (long.status, long.code) == (400, "context_length_exceeded")
    much = server.chat(max_tokens=2000)
    assert (much.status, much.code) == (400, "context_length_exceeded")
    for content in ([_image(b"no image")], [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]):
        refused = server.chat(content)
        assert (refused.status, refused.code) == (400, "invalid_image")
    assert server.chat(best_of=3).code == "unknown_field"
    assert server.call("GET", "/v1/unknown").status == 404


def test_the_server_states_what_it_serves(server: RunningServer) -> None:
    props = server.call("GET", "/props").json
    assert (props["architecture"], props["dtype"]) == ("Idefics3ForConditionalGeneration", "float32")
    assert (props["max_context"], props["prefix_cache"]) == (1024, False)
    assert server.call("GET", "/v1/models").json["data"][0]["id"] == "m"
    assert server.call("GET", "/health").status == 200


@pytest.mark.parametrize("stated", ["bfloat16", "float16"])
def test_a_model_computes_in_the_type_of_its_configuration(stated: str, tmp_path: Path) -> None:
    need_engine()
    shutil.copytree(TINY, tmp_path, dirs_exist_ok=True)
    config = json.loads((TINY / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "dtype": stated}))
    with serve(tmp_path) as running:
        assert running.call("GET", "/props").json["dtype"] == stated
        assert running.chat().status == 200


def test_a_stream_that_is_left_frees_its_place(server: RunningServer) -> None:
    for _ in range(20):
        with server.open_stream(max_tokens=900, ignore_eos=True) as stream:
            assert stream.status == 200
            stream.read(10)
    assert server.chat(n=8, temperature=1).status == 200


def test_requests_over_the_limit_are_refused_and_harm_nobody(
    server: RunningServer, questions: list[dict[str, Any]]
) -> None:
    expected = server.chat(questions[0]["messages"]).text
    statuses: list[int] = []
    answers: list[str] = []

    def ask() -> None:
        reply = server.chat(questions[0]["messages"], stop=["\x00"])
        statuses.append(reply.status)
        if reply.status == 200:
            answers.append(reply.text)
        else:
            assert reply.code == "busy"

    with server.open_stream(max_tokens=900, ignore_eos=True) as stream:
        stream.read(10)
        threads = [threading.Thread(target=ask) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert b'"content"' in stream.read(2000)
    assert len(statuses) == 200
    assert set(statuses) <= {200, 429}
    assert answers
    assert set(answers) == {expected}


def test_the_adapter_is_a_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need_engine()
    environment = EngineEnvironment(python=str(PYTHON))
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, environment.to_variables()[ENVIRONMENT_VARIABLE])
    cut, other, bare = tmp_path / "cut", tmp_path / "other", tmp_path / "bare"
    for folder in (cut, other, bare):
        shutil.copytree(TINY, folder)
    (cut / "model.safetensors").write_bytes((TINY / "model.safetensors").read_bytes()[:100_000])
    config = json.loads((TINY / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] = 5
    (other / "config.json").write_text(json.dumps(config))
    (bare / "chat_template.jinja").unlink()
    loads = {
        "truncated weights": load_request(cut),
        "weights of another architecture": load_request(other),
        "no chat template": load_request(bare),
        "a device that is not there": load_request(TINY, device="cuda:99"),
    }
    check_backend(BackendCase(load=load_request(TINY, max_batch=2), bad_loads=loads))
