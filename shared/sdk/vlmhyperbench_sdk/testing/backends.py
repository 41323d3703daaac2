"""Conformance suite of backends: checks of an adapter by itself and behind a real gateway.

A plugin's test is `check_translation(MyAdapter())` and `check_backend(BackendCase(load=…, bad_loads=…))`.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import Backend
from vlmhyperbench_sdk.testing.gateways import GatewayProcess, GatewayResponse
from vlmhyperbench_sdk.types import JsonObject, JsonValue

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
"""An image of one pixel."""

_PERFORMANCE = ("latency_ms", "ttft_ms", "tpot_ms", "queue_ms", "vram_before_mb", "vram_peak_mb", "vram_delta_mb")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCase:
    """An adapter with the inputs of its checks."""

    load: LoadRequest
    """A load request that must become ready."""
    bad_loads: Mapping[str, LoadRequest] = field(default_factory=dict)
    """Description of the error → a load request that must fail and leave no process or state behind."""
    prompt: str = "Hello"
    gateway_arguments: tuple[str, ...] = ()
    """Further arguments of the gateway, such as `--allow-loopback`."""
    passes_on: bool = False
    """Whether the adapter passes unknown fields on to its engine; otherwise it must refuse them by name."""

    def request(self, **more: JsonValue) -> dict[str, JsonValue]:
        """Return a small chat request."""
        messages: JsonValue = [{"role": "user", "content": self.prompt}]
        return {"model": self.load.model, "messages": messages, "max_tokens": 8, "temperature": 0, **more}


def check_backend(case: BackendCase) -> None:
    """Run all checks behind one gateway process.

    Raises:
        PluginFailure: the adapter violates the contract; the message says where.
    """
    with GatewayProcess(*case.gateway_arguments) as gateway:
        for check in (
            _check_before_the_load,
            _check_load,
            _check_keys,
            _check_second_load,
            _check_whole_answer,
            _check_stream,
            _check_bad_requests,
            _check_replace,
            _check_unload,
            _check_failed_loads,
        ):
            check(case, gateway)


def check_translation(backend: Backend) -> None:
    """Check that `to_engine` is pure and total: for any JSON object it returns a body or raises `InvalidInput`.

    Raises:
        PluginFailure: it is not pure or not total.
    """
    message: JsonValue = {"role": "user", "content": [{"type": "text", "text": "Hi"}, _image(PIXEL)]}
    good: dict[str, JsonValue] = {"model": "m", "messages": [message], "max_tokens": 8}
    for request in (good, {**good, "stream": True, "stream_options": {"include_usage": True}}):
        body = _translate(backend, request)
        _expect(body is not None, f"to_engine refuses a plain request: {request}")
        _expect(body == _translate(backend, request), "to_engine gives another body the second time")
        _expect((body or {}).get("messages") is not None, "to_engine loses the messages")
    for hostile in _hostile_requests(good):
        _translate(backend, hostile)


def _translate(backend: Backend, request: JsonObject) -> dict[str, JsonValue] | None:
    before = copy.deepcopy(request)
    try:
        body = backend.to_engine(request)
    except InvalidInput:
        body = None
    except Exception as error:  # the adapter's own code runs here, and may raise anything
        raise _failure(
            f"to_engine raises {type(error).__name__} ({error}) for the request {str(request)[:200]}."
        ) from error
    _expect(request == before, "to_engine changes the request that it was given")
    if body is not None:
        try:
            json.dumps(body, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise _failure(f"to_engine returns a body that is not JSON: {error}.") from error
    return body


def _hostile_requests(good: JsonObject) -> list[dict[str, JsonValue]]:
    odd: tuple[JsonValue, ...] = (None, True, -1, 10**30, 1e308, "", "\0", "\ud800", [], [[]], {}, {"type": 3}, [None])
    fields = (
        *("model", "messages", "max_tokens", "temperature", "stream", "stream_options", "stop", "seed", "n"),
        *("ignore_eos", "min_tokens", "response_format", "model_params", "tools", "unheard_of"),
    )
    requests = [{**good, name: value} for name in fields for value in odd]
    requests += [{name: value for name, value in good.items() if name != missing} for missing in good]
    for content in odd:
        requests.append({**good, "messages": [{"role": "user", "content": content}]})
        requests.append(
            {**good, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": content}]}]}
        )
    for kind in ("text", "json_object", "json_schema", "regex", "grammar"):
        requests.append({**good, "response_format": {"type": kind}})
    return [{}, *requests]


def _check_before_the_load(case: BackendCase, gateway: GatewayProcess) -> None:
    _expect(gateway.status()["state"] == "unloaded", "a fresh gateway is not unloaded")
    _expect_error(gateway.chat(case.request()), 409, "a chat before the load")
    _expect(gateway.unload().status == 200, "unloading nothing is an error")


def _check_load(case: BackendCase, gateway: GatewayProcess) -> None:
    answer = gateway.load(case.load)
    _expect(answer.status == 200, f"the load fails: {answer.status} {answer.body[:2000].decode('utf-8', 'replace')}")
    status = gateway.status()
    _expect(status == answer.json(), "load and status disagree")
    _expect(status["state"] == "ready", f"after the load the state is {status['state']}")
    _expect(status["model"] == case.load.model, "the status names another model")
    _expect(isinstance(status["engine_url"], str), "the status has no engine_url")
    engine = status["engine"]
    _expect(isinstance(engine, dict) and bool(engine["name"]), "the engine has no name")
    for role in case.load.files:
        hashes = engine["weights_sha256"] if isinstance(engine, dict) else None
        _expect(isinstance(hashes, dict) and len(str(hashes.get(role))) == 64, f"the file {role} has no hash")
    shown = json.dumps(status)
    for secret in case.load.env.values():
        _expect(secret not in shown, "the status shows a secret")


def _check_keys(case: BackendCase, gateway: GatewayProcess) -> None:
    for headers in ({}, {"X-API-Key": "wrong"}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
        answer = gateway.call("POST", "/v1/chat/completions", case.request(), headers=headers)
        _expect_error(answer, 401, f"a chat with {headers or 'no key'}")
    _expect(gateway.call("GET", "/health", headers={}).status == 200, "/health asks for a key")


def _check_second_load(case: BackendCase, gateway: GatewayProcess) -> None:
    _expect_error(gateway.load(case.load), 409, "a second load")
    _expect(gateway.status()["state"] == "ready", "a second load disturbs the first")


def _check_whole_answer(case: BackendCase, gateway: GatewayProcess) -> None:
    answer = gateway.chat(case.request())
    _expect(answer.status == 200, f"a chat is answered {answer.status}: {answer.body[:500]!r}")
    body = answer.json()
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    _expect(isinstance(first, dict) and isinstance(first.get("message"), dict), "an answer has no choices[0].message")
    _expect(isinstance(body.get("usage"), dict), "an answer has no usage")
    _check_performance(body.get("performance"))
    _expect(float(answer.headers.get("x-latency-ms", "-1")) >= 0, "an answer has no X-Latency-Ms")


def _check_stream(case: BackendCase, gateway: GatewayProcess) -> None:
    answer = gateway.chat(case.request(stream=True, stream_options={"include_usage": True}))
    _expect(answer.headers.get("content-type", "").startswith("text/event-stream"), "a stream is no event stream")
    *chunks, last = answer.events()
    _expect(last == "[DONE]", "a stream does not end with [DONE]")
    parsed = [json.loads(chunk) for chunk in chunks]
    _check_performance(parsed[-1].get("performance"))
    usages = [chunk["usage"] for chunk in parsed if chunk.get("usage")]
    _expect(
        bool(usages) and usages[-1].get("completion_tokens", 0) >= 1, "a stream has no usage, though it was asked for"
    )
    deltas = [choice["delta"] for chunk in parsed for choice in chunk["choices"]]
    keys = ("content", "reasoning_content", "reasoning")
    _expect(any(delta.get(key) for delta in deltas for key in keys), "a stream bears no token")


def _check_bad_requests(case: BackendCase, gateway: GatewayProcess) -> None:
    remote: JsonValue = [{"role": "user", "content": [_image("http://169.254.169.254/x.png")]}]
    outside: JsonValue = [{"role": "user", "content": [_image("file:///etc/passwd")]}]
    unheard = gateway.call("POST", "/v1/chat/completions", json.dumps(case.request(unheard_of=1)).encode())
    if case.passes_on:
        _expect(unheard.status == 200, f"a field that is passed on is answered {unheard.status}")
    else:
        _expect_error(unheard, 400, "a chat with an unknown field")
        _expect(b"unheard_of" in unheard.body, "an unknown field is refused without its name")
    for name, body in {
        "no JSON": b"{",
        "a duplicate key": b'{"model": "a", "model": "b"}',
        "no messages": json.dumps({"model": case.load.model}).encode(),
        "a negative max_tokens": json.dumps(case.request(max_tokens=-1)).encode(),
        "an unknown format": json.dumps(case.request(response_format={"type": "xml"})).encode(),
        "a remote image": json.dumps(case.request(messages=remote)).encode(),
        "a file outside of the data root": json.dumps(case.request(messages=outside)).encode(),
    }.items():
        _expect_error(gateway.call("POST", "/v1/chat/completions", body), 400, f"a chat with {name}")
    _expect_error(gateway.chat({**case.request(), "model": "another"}), 404, "a chat with another model")
    unknown = replace(case.load, engine_params={**case.load.engine_params, "unheard_of": 1}, replace=True)
    _expect_error(gateway.load(unknown), 400, "a load with an unknown parameter")
    _expect(gateway.status()["state"] == "ready", "a refused load disturbs the model that is ready")


def _check_replace(case: BackendCase, gateway: GatewayProcess) -> None:
    before = gateway.status()["engine"]
    _expect(gateway.load(replace(case.load, replace=True)).status == 200, "a load that replaces fails")
    _expect_gone(before, "replaced")


def _check_unload(case: BackendCase, gateway: GatewayProcess) -> None:
    before = gateway.status()["engine"]
    answer = gateway.unload()
    _expect(answer.status == 200 and answer.json()["state"] == "unloaded", "an unload does not end in unloaded")
    _expect_gone(before, "unloaded")
    _expect_error(gateway.chat(case.request()), 409, "a chat after the unload")


def _check_failed_loads(case: BackendCase, gateway: GatewayProcess) -> None:
    for reason, load in case.bad_loads.items():
        answer = gateway.load(load)
        _expect(
            answer.status >= 400 and answer.error_code() is not None,
            f"a load with {reason} is answered {answer.status}",
        )
        status = gateway.status()
        _expect(status["state"] in {"error", "unloaded"}, f"after a load with {reason} the state is {status['state']}")
        _expect(status["engine"] is None, f"after a load with {reason} there is an engine")
        for secret in load.env.values():
            _expect(secret not in answer.body.decode() + json.dumps(status), f"a load with {reason} shows a secret")
    _expect(gateway.load(case.load).status == 200, "after failed loads a good one fails")
    _expect(gateway.unload().status == 200, "the last unload fails")


def _check_performance(block: JsonValue) -> None:
    _expect(isinstance(block, dict) and set(block) == set(_PERFORMANCE), f"the performance block is {block}")


def _expect_error(response: GatewayResponse, status: int, what: str) -> None:
    _expect(response.status == status, f"{what} is answered {response.status}, not {status}: {response.body[:300]!r}")
    _expect(response.error_code() is not None, f"{what} is refused without error.code")


def _expect_gone(engine: JsonValue, how: str) -> None:
    pid = engine.get("pid") if isinstance(engine, dict) else None
    if isinstance(pid, int):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        raise _failure(f"The engine's process {pid} still runs after it was {how}.")


def _image(url: str) -> dict[str, JsonValue]:
    return {"type": "image_url", "image_url": {"url": url}}


def _expect(is_so: bool, problem: str) -> None:
    if not is_so:
        raise _failure(f"The backend breaks its contract: {problem}.")


def _failure(message: str) -> PluginFailure:
    return PluginFailure(message, cure="Correct the adapter; docs/write-an-adapter.md states its contract.")
