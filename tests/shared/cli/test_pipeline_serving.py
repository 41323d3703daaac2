"""`vlmhyperbench pipeline serve`: a pipeline at an OpenAI-compatible URL without a stack; no process is left."""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
from PIL import Image

from tests.shared.cli.test_serve import serving
from tests.shared.serving.members import Member
from tests.support.processes import PATIENCE_S, wait_until_ended
from tests.support.stack import until
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.pipeline_serving import serve
from vlmhyperbench.errors import InvalidInput, VlmHyperBenchError

SCHEMA = {"type": "object", "properties": {"total": {"type": "integer", "maximum": 99}}, "required": ["total"]}
MODEL = {"description": "No model.", "backends": ["simulated"], "engine_params": {"answer": "It is blue", "ttft_ms": 1}}


def home(folder: Path, stages: list[object], **models: object) -> Path:
    """Write a pipeline and its simulated models into the registries of a home."""
    entries: dict[str, object] = {"pipelines/p": {"description": "For tests.", "stages": stages}}
    entries |= {f"models/{name}": entry for name, entry in models.items()}
    for name, entry in entries.items():
        path = folder / "registries" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(entry))
    return folder


def page() -> str:
    written = io.BytesIO()
    Image.new("RGB", (64, 64), "white").save(written, "PNG")
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"


def test_real_readers_vote_on_an_image_under_the_schema_of_the_request(tmp_path: Path) -> None:
    with serving(tmp_path, "readers-vote-fields", command=("pipeline", "serve")) as served:
        key = served.data["key"]
        assert (served.data["model"], served.data["engine"]) == ("readers-vote-fields", "pipeline")
        assert served.ask("GET", "/models", None)[0] == 401
        content = [{"type": "image_url", "image_url": {"url": page()}}, {"type": "text", "text": "total?"}]
        wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
        body = {
            "model": "readers-vote-fields",
            "messages": [{"role": "user", "content": content}],
            "response_format": wanted,
            "max_tokens": 60,
        }
        status, answer = served.ask("POST", "/chat/completions", key, body)
        assert status == 200, answer
        jsonschema.validate(json.loads(answer["choices"][0]["message"]["content"]), SCHEMA)
        parts = answer["usage"]["members"]
        assert [part["name"] for part in parts] == [
            "tiny-doc-vlm-0.2",
            "tiny-doc-vlm-0.2-q8",
            "tiny-doc-vlm-0.2-q4",
        ]
        assert answer["usage"]["completion_tokens"] == sum(part["completion_tokens"] for part in parts)
        status, refused = served.ask("POST", "/chat/completions", key, {**body, "logprobs": True})
        assert (status, refused["error"]["code"]) == (400, "unsupported")
        pids = served.data["pid"], served.engine_pid(key)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
        wait_until_ended(*pids)


def test_an_optional_model_that_cannot_be_loaded_is_left_out(tmp_path: Path) -> None:
    broken = {**MODEL, "engine_params": {"crash_at_start": True}}
    stage = {
        "id": "read",
        "type": "multi",
        "models": ["right", {"model": "broken", "optional": True}],
        "aggregation": {"type": "vote"},
    }
    with serving(home(tmp_path, [stage], right=MODEL, broken=broken), "p", command=("pipeline", "serve")) as served:
        body = {"model": "p", "messages": [{"role": "user", "content": "?"}]}
        status, answer = served.ask("POST", "/chat/completions", served.data["key"], body)
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "It is blue")
    models = answer["vlmhyperbench"]["stages"][0]["models"]
    assert [each.get("is_dropped", False) for each in models] == [False, True]


def test_a_model_that_cannot_be_loaded_ends_the_command_unless_it_is_optional(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {**MODEL, "engine_params": {"crash_at_start": True}}
    stage = {"id": "read", "type": "multi", "models": ["right", "broken"], "aggregation": {"type": "vote"}}
    monkeypatch.setenv("VLMHB_HOME", str(home(tmp_path, [stage], right=MODEL, broken=broken)))
    with pytest.raises(VlmHyperBenchError) as failed:
        serve("p")
    assert failed.value.code == "load_failed"
    assert "broken" in failed.value.message


@pytest.mark.parametrize("is_optional", [False, True])
def test_a_model_whose_engine_was_killed_is_loaded_again_while_the_pipeline_is_served(
    tmp_path: Path, is_optional: bool
) -> None:
    killed = {"model": "killed", "optional": is_optional}
    stage = {"id": "read", "type": "multi", "models": ["right", killed], "aggregation": {"type": "vote"}}
    body = {"model": "p", "messages": [{"role": "user", "content": "?"}]}
    with serving(home(tmp_path, [stage], right=MODEL, killed=MODEL), "p", command=("pipeline", "serve")) as served:

        def asked() -> tuple[int, dict[str, Any]]:
            return served.ask("POST", "/chat/completions", served.data["key"], body)

        def lost(answer: dict[str, Any]) -> str | None:
            return answer["vlmhyperbench"]["stages"][0]["models"][1].get("error")

        assert asked()[0] == 200
        os.kill(engine_of(served.process.pid, "killed"), signal.SIGKILL)
        status, told = asked()
        if is_optional:
            assert (status, told["choices"][0]["message"]["content"]) == (200, "It is blue")
            assert (lost(told) or "").startswith("model_lost: "), told
        else:
            assert (status, told["error"]["code"]) == (503, "pipeline_model_lost")
            assert "read/killed" in told["error"]["message"]

        def is_whole() -> bool:
            status, told = asked()
            return status == 200 and not lost(told)

        until(is_whole, "an answer of both models", PATIENCE_S)
        assert engine_of(served.process.pid, "killed")
        assert served.process.poll() is None
        os.kill(served.data["pid"], signal.SIGKILL)

        def is_back() -> bool:
            """Whether the pipeline's own gateway is back at its URL, with its key."""
            with suppress(OSError, http.client.HTTPException):
                return asked()[0] == 200
            return False

        until(is_back, "the gateway of the pipeline", PATIENCE_S)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == exits.OK


def engine_of(pid: int, model: str) -> int:
    """Return the process of the simulated engine of a model, below a process."""
    lines = {child.pid: child.cmdline() for child in psutil.Process(pid).children(recursive=True)}
    (found,) = (child for child, line in lines.items() if "--params" in line and json.loads(line[-1])["model"] == model)
    return found


def test_an_endpoint_is_asked_and_a_client_that_leaves_ends_its_request(tmp_path: Path) -> None:
    elsewhere = Member("It is ", "blue")
    silent = Member(is_silent=True)
    with elsewhere.serving() as first, silent.serving() as second, ExitStack() as served_there:
        read = {
            "id": "read",
            "type": "multi",
            "models": ["right", {"endpoint": first, "model_name": "elsewhere", "engine_params": {"omit": ["seed"]}}],
            "aggregation": {"type": "vote", "rule": "unanimous"},
        }
        wait = {"id": "wait", "type": "single", "model": {"endpoint": second, "model_name": "silent"}}
        folder = home(tmp_path, [read], right=MODEL)
        (folder / "registries" / "pipelines" / "q.yaml").write_text(json.dumps({"stages": [wait]}))
        served = served_there.enter_context(serving(folder, "p", command=("pipeline", "serve")))
        body = {"model": "p", "messages": [{"role": "user", "content": "?"}], "seed": 3}
        status, answer = served.ask("POST", "/chat/completions", served.data["key"], body)
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "It is blue")
        assert (elsewhere.asked[0]["model"], "seed" in elsewhere.asked[0]) == ("elsewhere", False)

        hanging = served_there.enter_context(serving(folder, "q", command=("pipeline", "serve")))
        connection = http.client.HTTPConnection(hanging.url.hostname or "", hanging.url.port, timeout=PATIENCE_S)
        key = {"authorization": f"Bearer {hanging.data['key']}"}
        connection.request("POST", "/v1/chat/completions", json.dumps({**body, "model": "q"}), key)
        assert silent.was_asked.wait(PATIENCE_S)
        connection.close()
        assert silent.was_left.wait(PATIENCE_S)


def test_a_hostile_client_is_refused_and_the_next_question_is_answered(tmp_path: Path) -> None:
    stage = {"id": "read", "type": "single", "model": "right"}
    question = {"model": "p", "messages": [{"role": "user", "content": "?"}]}
    with serving(home(tmp_path, [stage], right=MODEL), "p", command=("pipeline", "serve")) as served:
        key = served.data["key"]

        def asked(**fields: object) -> tuple[int, object]:
            status, answer = served.ask("POST", "/chat/completions", key, {**question, **fields})
            return status, answer.get("error", {}).get("code")

        assert served.ask("POST", "/chat/completions", f"{key}x", question)[0] == 401
        assert served.ask("POST", "/chat/completions", "", question)[0] == 401
        assert asked(n=2) == (400, "unsupported")
        assert asked(model="q") == (404, "model_not_found")
        assert asked(messages=[{"role": "user", "content": "x" * 100_000_000}])[0] == 200
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 100_000_000}"}}
        assert asked(messages=[{"role": "user", "content": [image]}])[0] == 400
        assert asked(messages=[{"role": "user", "content": "x" * 300_000_000}])[0] == 413
        status, answer = served.ask("POST", "/chat/completions", key, {**question, "stop": ["is"]})
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "It ")
        assert asked() == (200, None)


def test_a_pipeline_that_is_not_registered_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidInput, match="readers-vote"):
        serve("readers-vot")
