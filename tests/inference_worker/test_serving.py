"""A real gateway and a real engine child: loaded, measured at the engine's own URL, missed when it dies, unloaded."""

import asyncio
import json
import os
import signal

import numpy as np
import psutil
import pytest

from vlmhyperbench.domain.specs import EndpointTarget, ModelFile, ModelTarget
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_sdk.errors import Conflict, InvalidInput, Unavailable

pytestmark = pytest.mark.anyio


def target(**params):
    return ModelTarget(
        model="simulated", version="1.0.0", backend="simulated", backend_class="simulated", engine_params=params
    )


async def until_missed(serving):
    async with asyncio.timeout(10):
        while await serving.is_alive():  # noqa: ASYNC110 - a killed process is gone a moment later
            await asyncio.sleep(0.01)


@pytest.fixture
async def start(tmp_path):
    started = []

    async def start_serving(what, digest="d1", secret_values=None):
        serving = await Serving.start(
            digest,
            what,
            secret_values=secret_values or {},
            load_timeout_s=20,
            label={},
            policy=["--allow-loopback"],
            log_path=tmp_path / "gateway.log",
        )
        started.append(serving)
        return serving

    yield start_serving
    for serving in started:
        await serving.close()


async def test_an_engine_with_a_server_of_its_own_is_measured_there(start):
    serving = await start(target(tokens=3))
    assert serving.measured.through == "engine"
    assert serving.measured.url.startswith("http://127.0.0.1:")
    assert serving.measured.url.endswith("/v1/chat/completions")
    assert serving.measured.secrets == {}
    assert serving.engine.name == "simulated"
    assert psutil.pid_exists(serving.engine.pid)


async def test_closing_ends_the_engine(start):
    serving = await start(target())
    pid = serving.engine.pid
    await serving.close()
    assert not psutil.pid_exists(pid)


async def test_an_engine_that_was_killed_is_missed(start):
    serving = await start(target())
    os.kill(serving.engine.pid, signal.SIGKILL)
    await until_missed(serving)


async def test_an_engine_that_does_not_start_says_why(start):
    with pytest.raises(Unavailable, match="simulated"):
        await start(target(crash_at_start=True))


async def test_a_parameter_that_the_engine_does_not_know_is_the_user_s_mistake(start):
    with pytest.raises(InvalidInput, match="ttft"):
        await start(target(ttft=3))


async def test_a_model_file_that_is_another_one_is_refused_before_anything_starts(start, tmp_path):
    path = tmp_path / "w.gguf"
    path.write_bytes(b"other")
    file = ModelFile(role="weights", location=str(path), sha256="0" * 64)
    with pytest.raises(Conflict, match="SHA-256"):
        await start(target().model_copy(update={"files": (file,)}))


async def test_the_key_of_an_endpoint_goes_over_stdin_only(start):
    engine = await start(target())
    url = engine.measured.url.removesuffix("/v1/chat/completions")
    serving = await start(
        EndpointTarget(endpoint=url, model_name="simulated", engine_params={"api_key_secret": "THEIR_KEY"}),
        secret_values={"THEIR_KEY": "sk-123"},
    )
    assert serving.measured.url == engine.measured.url
    assert serving.measured.headers == {"Authorization": "THEIR_KEY"}
    assert serving.measured.secrets == {"THEIR_KEY": "Bearer sk-123"}
    assert "sk-123" not in str(serving.status)


async def test_bodies_are_written_by_the_adapter_that_serves(start, tmp_path):
    serving = await start(target())
    image = tmp_path / "image.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8))
    content = [{"type": "image_url", "image_url": {"url": "sha256:ab"}}, {"type": "text", "text": "Q"}]
    request = {"model": "simulated", "messages": [{"role": "user", "content": content}], "max_tokens": 3}
    rendered = tmp_path / "rendered.jsonl"
    rendered.write_text("".join(json.dumps({"ordinal": i, "request": request}) + "\n" for i in range(2)))
    out = tmp_path / "bodies.bin"
    await serving.write_bodies("simulated", rendered, out, {"ab": image})
    rows = np.load(f"{out}.npy")
    assert [int(row["ordinal"]) for row in rows] == [0, 1]
    body = json.loads(out.read_bytes()[rows[1]["offset"] :])
    assert body["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")


async def test_a_fleet_keeps_a_healthy_target_and_replaces_any_other(start):
    fleet = Fleet()
    first = await fleet.acquire("d1", lambda: start(target(), "d1"))
    assert await fleet.acquire("d1", lambda: start(target(), "d1")) is first
    second = await fleet.acquire("d2", lambda: start(target(tokens=2), "d2"))
    assert fleet.resident == ["d2"]
    assert not psutil.pid_exists(first.engine.pid)
    os.kill(second.engine.pid, signal.SIGKILL)
    await until_missed(second)
    assert await fleet.acquire("d2", lambda: start(target(tokens=2), "d2")) is not second
    await fleet.discard()
    assert fleet.resident == []
