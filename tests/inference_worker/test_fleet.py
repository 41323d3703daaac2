"""The targets that an inference worker keeps loaded, and which one leaves for another."""

import asyncio
import hashlib
import os
import signal
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from uuid import uuid4

import psutil
import pytest

from tests.inference_worker.targets import children, target, until_missed
from vlmhyperbench.data.load_fitting import FittedLoad
from vlmhyperbench.domain.execution import Residency
from vlmhyperbench.domain.fallbacks import Fallback
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.specs import EndpointTarget, SourceRef
from vlmhyperbench.serving.memory_back import Unloaded
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.room import Room, usable_of
from vlmhyperbench_sdk.errors import Conflict
from vlmhyperbench_sdk.free_memory import FreeMemory

pytestmark = pytest.mark.anyio


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


async def test_a_load_that_others_made_smaller_is_not_for_who_has_the_room_alone(fleet, options, wanted):
    step = Fallback(rung="fewer parallel slots", before="4", after="1")
    smaller = FittedLoad(engine_params={}, steps=(step,))
    shared, alone = part(10), replace(part(10), is_alone=True)
    kept = replace(wanted(target(), "d1"), residency=Residency(keeps=frozenset({"d1", "d2"})))
    beside = await used(fleet, kept, options, shared)
    beside.fitted = smaller
    assert await used(fleet, kept, options, shared) is beside
    timed = await used(fleet, kept, options, alone)
    assert timed is not beside
    assert not psutil.pid_exists(beside.engine.pid)
    timed.fitted = smaller  # beside d2, which the pipeline keeps
    assert await used(fleet, kept, options, alone) is timed
    by_itself = await used(fleet, wanted(target(), "d1"), options, alone)
    assert by_itself is not timed
    by_itself.fitted = smaller
    assert await used(fleet, wanted(target(), "d1"), options, alone) is by_itself


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


async def test_the_next_target_is_loaded_once_the_memory_of_the_unloaded_one_is_free(options, wanted):
    seen, free = [20, 20, 60, 80], []  # 60 of the 80 bytes that are used are 75 %

    def measured(room):
        assert room == part(80)
        free.append((seen.pop(0), len(children("vlmhyperbench_gateway"))))
        return free[-1][0]

    fleet = Fleet(free=measured)
    await used(fleet, wanted(target(), "a"), options, part(80))
    await used(fleet, wanted(target(), "b"), options, part(70))
    assert fleet.resident == ["b"]
    assert free == [(20, 1), (20, 0), (60, 0), (80, 0)]
    await fleet.close()


async def test_a_load_may_not_use_what_others_have_reserved_whether_or_not_they_use_it_already(fleet, options, wanted):
    card = replace(GPU, memory_bytes=24 * 2**30)
    room = Room(devices=(card,), reserved_bytes={0: 4 * 2**30}, is_alone=False)
    user = uuid4()
    await fleet.acquire(wanted(target(), "a"), options, room, user)
    await used(fleet, wanted(target(), "b"), options, room)
    assert [fleet.reserved_beside({"a"}, 0), fleet.reserved_beside({"c"}, 0)] == [4 * 2**30, 8 * 2**30]
    assert [fleet.reserved_beside({"a"}, 0, in_use=True), fleet.reserved_beside({"a"}, 1)] == [0, 0]
    free = FreeMemory(host_bytes=64 * 2**30, device_bytes=22 * 2**30, devices=1)
    usable = usable_of(room, lambda _: free, reserved=partial(fleet.reserved_beside, {"c"}))
    assert usable.devices == (15 * 2**30,)
    assert usable_of(room, lambda _: free).devices == (21 * 2**30,)
    assert usable_of(room, lambda _: free, held=2**30).devices == (22 * 2**30,)


async def test_memory_that_never_comes_back_is_not_waited_for_where_it_cannot_be_measured(options, wanted):
    fleet = Fleet(free=lambda _: None)
    await used(fleet, wanted(target(), "a"), options, part(80))
    assert await fleet.unload("a") == Unloaded(held=80, back=0)
    await fleet.close()


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
    await used(fleet, wanted(target(), "pinned"), options, part(20))
    fleet.pin("pinned", is_pinned=True)
    await used(fleet, replace(wanted(target(), "a"), residency=keeps), options, part(40))
    await used(fleet, wanted(target(), "other"), options, part(40))
    await used(fleet, replace(wanted(target(), "b"), residency=keeps), options, part(30))
    assert fleet.resident == ["pinned", "a", "b"]  # a was used before the other one, but is kept
    await used(fleet, wanted(target(), "c"), options, part(50))
    assert fleet.resident == ["pinned", "b", "c"]


async def test_a_sequential_target_is_loaded_after_the_others_are_gone_and_left_after_its_work(fleet, options, wanted):
    one_by_one = Residency(is_sequential=True)
    await used(fleet, wanted(target(), "a"), options, part(10))
    user = uuid4()
    await fleet.acquire(replace(wanted(target(), "b"), residency=one_by_one), options, part(10), user)
    assert fleet.resident == ["b"]
    assert fleet.leave_sequential(user) == ["b"]
    unloaded = await fleet.unload("b")
    assert unloaded is not None
    assert unloaded.held == 10
    assert fleet.resident == []
    assert await fleet.unload("b") is None


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


def test_an_engine_sees_only_the_devices_that_its_job_has_reserved():
    other = replace(GPU, no=1, uuid="GPU-2")
    assert part(1).visible([GPU, other]) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}
    assert part(1).visible([GPU]) == {}
    assert Room().visible([GPU, other]) == {}
