"""A real gateway and a real engine child: loaded, measured at the engine's own URL, missed when it dies, unloaded."""

import asyncio
import hashlib
import json
import os
import signal
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import psutil
import pytest

from tests.support.processes import PATIENCE_S, eventually
from vlmhyperbench.data.load_fitting import FittedLoad
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.domain.execution import Residency
from vlmhyperbench.domain.fallbacks import Fallback
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget, SourceRef
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.bodies import BodyOrder
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.memory_back import unload_measured
from vlmhyperbench_inference_worker.room import Room
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_sdk.errors import Conflict, InvalidInput, Unavailable
from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.net import UrlPolicy

pytestmark = pytest.mark.anyio

BODIES = "vlmhyperbench_gateway.bodies"
MARK = "VLMHB_LABEL_WORKER"


def target(**params):
    return ModelTarget(
        model="simulated", version="1.0.0", backend="simulated", backend_class="simulated", engine_params=params
    )


async def until_missed(serving):
    async with asyncio.timeout(PATIENCE_S):
        while await serving.is_alive():  # noqa: ASYNC110 - a killed process is gone a moment later
            await asyncio.sleep(0.01)


@pytest.fixture
def wanted(tmp_path):
    cache = ModelCache(tmp_path / "models", max_bytes=2**30)

    def want(target, digest="d1", **secrets):
        return WantedTarget(digest=digest, target=target, secrets=secrets, load_timeout_s=PATIENCE_S, cache=cache)

    return want


@pytest.fixture
def options(tmp_path):
    return GatewayOptions(
        environment=EngineEnvironment(variables={MARK: "worker-1"}),
        log=tmp_path / "gateway.log",
        policy=UrlPolicy(allow_loopback=True),
    )


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


async def used(fleet, wanted, options, room=None, **changes):
    """Acquire a target as one job does, which then ends."""
    user = uuid4()
    serving = await fleet.acquire(wanted, options, room or Room(), user, **changes)
    fleet.release(user)
    return serving


@pytest.fixture
async def fleet():
    fleet = Fleet()
    yield fleet
    await fleet.close()


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


def children(module):
    running = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if module in child.cmdline():
                running.append(child)
    return running


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


async def test_a_fleet_keeps_a_healthy_target_and_replaces_any_other(fleet, options, wanted):
    first = await used(fleet, wanted(target(), "d1"), options)
    assert await used(fleet, wanted(target(), "d1"), options) is first
    second = await used(fleet, wanted(target(tokens=2), "d2"), options)
    assert fleet.resident == ["d2"]
    assert not psutil.pid_exists(first.engine.pid)
    os.kill(second.engine.pid, signal.SIGKILL)
    await until_missed(second)
    assert await used(fleet, wanted(target(tokens=2), "d2"), options) is not second
    await fleet.close()
    assert fleet.resident == []


async def test_a_target_that_was_loaded_with_less_than_full_quality_is_only_for_who_allows_that(fleet, options, wanted):
    lossy = await used(fleet, wanted(target(), "d1"), options)
    step = Fallback(rung="smaller KV cache", before="f16", after="q8_0", is_lossy=True)
    lossy.fitted = FittedLoad(engine_params={}, steps=(step,))
    allowing = replace(wanted(target(), "d1"), ladder=SimpleNamespace(allow_lossy=True, holds_task=lambda _: True))
    assert await fleet.loaded(allowing, Room(), uuid4()) is lossy
    assert await fleet.loaded(wanted(target(), "d1"), Room(), uuid4()) is None
    assert await used(fleet, wanted(target(), "d1"), options) is not lossy


GPU = DeviceInfo(no=0, kind="gpu", uuid="GPU-1", name="card", memory_bytes=100)


def part(size_bytes):
    return Room(devices=(GPU,), reserved_bytes={0: size_bytes}, is_alone=False)


async def test_targets_stay_loaded_while_they_fit_the_device(fleet, options, wanted):
    for name, size in (("a", 40), ("b", 40)):
        await used(fleet, wanted(target(), name), options, part(size))
    assert fleet.resident == ["a", "b"]
    await used(fleet, wanted(target(), "c"), options, part(50))
    assert fleet.resident == ["b", "c"]  # the one that was used least recently made room
    await used(fleet, wanted(target(), "d"), options)
    assert fleet.resident == ["d"]  # a job whose speed counts has the worker alone


async def test_what_no_job_waits_for_is_unloaded_before_what_is_due_later(fleet, options, wanted):
    async def waiting(_):
        return ["a", "c"]  # c is due last

    for name in "abc":
        await used(fleet, wanted(target(), name), options, part(30))
    await used(fleet, wanted(target(), "d"), options, part(30), wanted_next=waiting)
    assert fleet.resident == ["a", "c", "d"]
    await used(fleet, wanted(target(), "d"), options, part(30))
    await used(fleet, wanted(target(), "e"), options, part(60), wanted_next=waiting)
    assert fleet.resident == ["a", "e"]


async def test_what_a_persistent_pipeline_keeps_and_what_is_pinned_is_not_unloaded(fleet, options, wanted):
    keeps = Residency(keeps=frozenset({"a", "b"}))
    await used(fleet, wanted(target(), "other"), options, part(30))
    await used(fleet, wanted(target(), "pinned"), options, part(30))
    fleet.pin("pinned", is_pinned=True)
    await used(fleet, replace(wanted(target(), "a"), residency=keeps), options, part(60))
    assert fleet.resident == ["pinned", "a"]
    await used(fleet, replace(wanted(target(), "b"), residency=keeps), options, part(60))
    assert fleet.resident == ["pinned", "a", "b"]
    await used(fleet, wanted(target(), "c"), options, part(60))
    assert fleet.resident == ["pinned", "c"]


async def test_a_sequential_target_is_loaded_after_the_others_are_gone_and_left_after_its_work(fleet, options, wanted):
    one_by_one = Residency(is_sequential=True)
    await used(fleet, wanted(target(), "a"), options, part(10))
    user = uuid4()
    await fleet.acquire(replace(wanted(target(), "b"), residency=one_by_one), options, part(10), user)
    assert fleet.resident == ["b"]
    assert fleet.leave_sequential(user) == ["b"]
    unloaded = await unload_measured(fleet, "b")
    assert unloaded is not None
    assert unloaded.held == 10
    assert fleet.resident == []
    assert await unload_measured(fleet, "b") is None


async def test_a_target_in_use_is_not_unloaded_for_another(fleet, options, wanted):
    first, second = uuid4(), uuid4()
    held = await fleet.acquire(wanted(target(), "a"), options, part(60), first)
    await fleet.acquire(wanted(target(), "b"), options, part(60), second)
    assert fleet.resident == ["a", "b"]
    assert await fleet.loaded(wanted(target(), "a"), part(60), second) is held
    await fleet.discard(first)
    assert psutil.pid_exists(held.engine.pid)  # another claim still uses it
    assert await fleet.loaded(wanted(target(), "a"), part(60), uuid4()) is None
    fleet.release(second)
    await used(fleet, wanted(target(), "c"), options, part(10))
    assert not psutil.pid_exists(held.engine.pid)


def test_an_engine_sees_only_the_devices_that_its_job_has_reserved():
    other = replace(GPU, no=1, uuid="GPU-2")
    assert part(1).visible([GPU, other]) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}
    assert part(1).visible([GPU]) == {}
    assert Room().visible([GPU, other]) == {}


@pytest.mark.parametrize("is_replaced", [False, True], ids=["written over", "replaced"])
async def test_a_fleet_keeps_no_engine_whose_weights_were_changed(fleet, options, wanted, tmp_path, is_replaced):
    path = tmp_path / "w.gguf"
    path.write_bytes(b"first")
    file = ModelFile(role="weights", location=str(path), sha256=hashlib.sha256(b"first").hexdigest())
    loaded = wanted(target().model_copy(update={"files": (file,)}))
    first = await used(fleet, loaded, options)
    assert await used(fleet, loaded, options) is first
    if is_replaced:
        path.rename(tmp_path / "old.gguf")
    path.write_bytes(b"other")
    with pytest.raises(Conflict, match="SHA-256"):
        await used(fleet, loaded, options)


async def test_an_adapter_whose_code_was_edited_since_the_run_was_submitted_is_a_conflict(fleet, options, wanted):
    edited = SourceRef(module="vlmhyperbench_openai.adapter", sha256="0" * 64)
    endpoint = EndpointTarget(
        endpoint="http://127.0.0.1:1", model_name="m", backend_class="vlmhyperbench_openai.adapter:A", adapter=edited
    )
    with pytest.raises(Conflict) as refused:
        await used(fleet, wanted(endpoint), options)
    assert refused.value.code == "plugin_version"


async def test_a_fleet_keeps_a_target_only_with_the_secrets_that_it_was_loaded_with(fleet, options, wanted):
    async def acquire(**secrets):
        return await used(fleet, wanted(target(), "d", **secrets), options)

    first = await acquire(TOKEN="one")
    assert await acquire(TOKEN="one") is first
    others = [await acquire(**values) for values in ({"TOKEN": "two"}, {"OTHER": "two"}, {})]
    assert len({id(serving) for serving in (first, *others)}) == 4
    assert fleet.resident == ["d"]


async def test_a_target_whose_unload_was_cancelled_is_unloaded_for_the_next_target(fleet, options, wanted):
    first = await used(fleet, wanted(target()), options)
    ending = asyncio.create_task(fleet.close())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    second = await used(fleet, wanted(target()), options)
    assert second is not first
    assert not psutil.pid_exists(first.engine.pid)
    assert len(children("vlmhyperbench_gateway")) == 1


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


async def test_a_job_keeps_its_worker_busy_from_its_start_to_its_release(fleet):
    user = uuid4()
    async with fleet.asked:
        entering = asyncio.create_task(fleet.enter(user))
        await asyncio.sleep(0)
        assert fleet.is_busy
        assert not entering.done()
    await entering
    assert fleet.is_busy
    fleet.release(user)
    assert not fleet.is_busy
