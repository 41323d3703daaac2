"""A real gateway and a real engine child: loaded, measured at the engine's own URL, missed when it dies, unloaded."""

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager, suppress

import numpy as np
import psutil
import pytest

from tests.inference_worker.targets import MARK, children, target, until_missed
from tests.support.processes import eventually
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench_inference_worker.bodies import BodyOrder
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_sdk.errors import Conflict, InvalidInput, Unavailable

pytestmark = pytest.mark.anyio

BODIES = "vlmhyperbench_gateway.bodies"


@pytest.fixture
async def start(options, wanted):
    started = []

    async def start_serving(target, **secrets):
        serving = await Serving.start(wanted(target, **secrets), options)
        started.append(serving)
        return serving

    yield start_serving
    for serving in started:
        await serving.close()


async def test_an_engine_with_its_own_server_is_measured_at_that_server(start):
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


async def test_a_killed_engine_is_noticed(start):
    serving = await start(target())
    os.kill(serving.engine.pid, signal.SIGKILL)
    await until_missed(serving)


async def test_the_error_of_an_engine_that_does_not_start_has_the_reason(start):
    with pytest.raises(Unavailable, match="simulated"):
        await start(target(crash_at_start=True))


async def test_a_parameter_that_the_engine_does_not_know_is_invalid_input(start):
    with pytest.raises(InvalidInput, match="ttft"):
        await start(target(ttft=3))


async def test_a_model_file_with_another_hash_is_refused_before_anything_starts(start, tmp_path):
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
        THEIR_KEY="sk-123",
    )
    assert serving.measured.url == engine.measured.url
    [name] = serving.measured.headers.values()
    assert list(serving.measured.headers) == ["Authorization"]
    assert serving.measured.secrets == {name: "Bearer sk-123"}
    assert "sk-123" not in name
    assert "sk-123" not in str(serving.status)


async def test_bodies_are_written_by_the_adapter_that_serves(start, tmp_path):
    serving = await start(target())
    image = tmp_path / "image.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8))
    content = [{"type": "image_url", "image_url": {"url": "sha256:ab"}}, {"type": "text", "text": "Q"}]
    out = tmp_path / "bodies.bin"
    await serving.bodies.write(order_of(rendered(tmp_path, content), out, ab=image))
    rows = np.load(f"{out}.npy")
    assert [int(row["ordinal"]) for row in rows] == [0, 1]
    body = json.loads(out.read_bytes()[rows[1]["offset"] :])
    assert body["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")


def order_of(requests, out, **images):
    return BodyOrder(backend_class="simulated", requests=requests, out=out, images=images)


def rendered(folder, content="Q"):
    request = {"model": "simulated", "messages": [{"role": "user", "content": content}], "max_tokens": 3}
    path = folder / "rendered.jsonl"
    path.write_text("".join(json.dumps({"ordinal": i, "request": request}) + "\n" for i in range(2)))
    return path


@asynccontextmanager
async def an_order_under_way(serving, folder):
    """An order that the child has begun and cannot end: its requests come from a pipe. Yields its task and the pipe."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    order = asyncio.create_task(serving.bodies.write(order_of(pipe, folder / "other.bin")))
    writing = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)  # returns when the child reads
    try:
        yield order, writing
    finally:
        os.close(writing)


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancelled_order_for_bodies_does_not_affect_the_next_one(start, tmp_path, times):
    serving = await start(target())
    async with an_order_under_way(serving, tmp_path) as (order, writing):
        [child] = children(BODIES)
        for _ in range(times):  # the second comes while the first is being obeyed
            order.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await order
        with suppress(BrokenPipeError):
            os.write(writing, b"no request\n")
    out = tmp_path / "bodies.bin"
    await serving.bodies.write(order_of(rendered(tmp_path), out))
    assert len(np.load(f"{out}.npy")) == 2

    async def is_gone():
        return not child.is_running()

    await eventually(is_gone, "the child of the cancelled order is gone")
    assert len(children(BODIES)) == 1


async def test_an_order_whose_child_was_killed_does_not_affect_the_next_one(start, tmp_path):
    serving = await start(target())
    async with an_order_under_way(serving, tmp_path) as (order, _):
        [child] = children(BODIES)
        child.kill()
        with pytest.raises(Unavailable, match="ended"):
            await order
    out = tmp_path / "bodies.bin"
    await serving.bodies.write(order_of(rendered(tmp_path), out))
    assert len(np.load(f"{out}.npy")) == 2


async def test_every_process_of_a_target_has_the_label_by_which_orphan_processes_are_identified(start, tmp_path):
    serving = await start(target())
    await serving.bodies.write(order_of(rendered(tmp_path), tmp_path / "bodies.bin"))
    processes = [psutil.Process(serving.engine.pid), *children("vlmhyperbench_gateway"), *children(BODIES)]
    assert len(processes) == 3
    assert {process.environ().get(MARK) for process in processes} == {"worker-1"}


async def test_a_cancelled_start_leaves_no_process(start):
    async def runs():
        return bool(children("vlmhyperbench_gateway"))

    async def is_gone():
        return not await runs()

    starting = asyncio.create_task(start(target()))
    await eventually(runs, "the gateway starts")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await eventually(is_gone, "the gateway is gone")


async def test_secrets_of_a_local_engine_are_not_sent_as_keys(start):
    serving = await start(target(), TOKEN="hf-123")
    assert (serving.measured.headers, serving.measured.secrets) == ({}, {})
