"""A model that does not fit gives up what costs no quality, in order; what costs quality only where it is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlmhyperbench.domain.fallbacks import (
    GIB,
    Fitted,
    LadderLimits,
    LoadBytes,
    LoadSettings,
    MachineMemory,
    NoFit,
    Shortfall,
    fit,
    usable_device,
    usable_host,
)

MIB = 2**20
BITS = {None: 16, "Q8_0": 8, "Q4_0": 4}
CACHE = {"f16": 4, "q8_0": 2, "q4_0": 1}
LAYERS = 32
WANTED = LoadSettings(
    context_tokens=8192,
    parallel=4,
    gpu_layers=-1,
    projector_on_device=True,
    image_tokens=1024,
)
LIMITS = LadderLimits(
    min_context_tokens=1000,
    layers=LAYERS,
    min_image_tokens=100,
    quantizations=("Q8_0", "Q4_0"),
)
HOST = LoadSettings(context_tokens=2048)


def needs(load: LoadSettings) -> LoadBytes:
    """Need 4 GiB of weights in 16 bits, 128 MiB of cache for 1,024 tokens of a slot, and what else there is."""
    weights = 4 * GIB * BITS[load.quantization] // 16
    cache = load.context_tokens // 8 * load.parallel * CACHE[load.cache_type] // 4 * MIB
    layers = LAYERS + 1 if load.gpu_layers < 0 else min(load.gpu_layers, LAYERS + 1)
    moved = (weights + cache) * layers // (LAYERS + 1)
    compute = (load.ubatch + (load.image_tokens or 0)) * MIB // 2
    projector = GIB
    on_device = moved + compute + projector * load.projector_on_device if layers else 0
    on_host = weights + cache - moved + projector * (not load.projector_on_device)
    return LoadBytes(device=on_device // load.devices, host=on_host + (compute if not layers else 0) + GIB // 8)


def gpu(gib: float, *, host_gib: float = 64) -> MachineMemory:
    return MachineMemory(devices=(int(gib * GIB),), host=int(host_gib * GIB))


def rungs(result: Fitted | NoFit) -> list[str]:
    return [step.rung for step in result.steps]


def test_fewer_image_tokens_make_the_context_shorter_that_images_need() -> None:
    limits = replace(LIMITS, images=2, min_image_tokens=64)
    assert limits.least_context(WANTED) == 3072
    result = fit(replace(WANTED, gpu_layers=0), MachineMemory(devices=(), host=0), limits, needs)
    assert result.settings.context_tokens == limits.least_context(WANTED)
    lossy = fit(replace(WANTED, gpu_layers=0), MachineMemory(devices=(), host=0), limits, needs, allow_lossy=True)
    assert lossy.settings.image_tokens == 64
    assert lossy.settings.context_tokens == 1280


def test_what_fits_is_left_as_it_is() -> None:
    result = fit(WANTED, gpu(80), LIMITS, needs, allow_lossy=True)
    assert isinstance(result, Fitted)
    assert (result.settings, result.steps) == (WANTED, ())
    assert LoadBytes(device=0, host=100).with_margin == LoadBytes(device=0, host=110 + 256 * MIB)


@pytest.mark.parametrize(
    ("gib", "last"),
    [
        (9.6, "fewer parallel slots"),
        (7.6, "smaller ubatch"),
        (7.1, "projector on the CPU"),
        (6.2, "context down to what the task needs"),
        (4.6, "fewer layers on the accelerator"),
        (0.5, "CPU only"),
    ],
)
def test_the_steps_are_taken_in_order_until_it_fits(gib: float, last: str) -> None:
    result = fit(WANTED, gpu(gib), LIMITS, needs)
    assert isinstance(result, Fitted)
    assert rungs(result)[-1] == last
    assert not any(step.is_lossy for step in result.steps)
    assert (result.settings.cache_type, result.settings.quantization) == ("f16", None)


def test_every_step_tells_what_it_changed() -> None:
    result = fit(WANTED, gpu(7.6), LIMITS, needs)
    assert isinstance(result, Fitted)
    assert [(step.before, step.after) for step in result.steps] == [
        ("parallel=4", "parallel=1"),
        (f"ubatch={WANTED.ubatch}", f"ubatch={result.settings.ubatch}"),
    ]


def test_layers_are_spread_over_all_devices_and_the_smallest_counts() -> None:
    two = replace(WANTED, devices=2)
    halves = MachineMemory(devices=(10 * GIB, 10 * GIB), host=64 * GIB)
    assert fit(two, halves, LIMITS, needs) == Fitted(settings=two, steps=())
    lopsided = fit(two, MachineMemory(devices=(10 * GIB, 5 * GIB), host=64 * GIB), LIMITS, needs)
    assert isinstance(lopsided, Fitted)
    assert (rungs(lopsided)[0], lopsided.settings.devices) == ("fewer parallel slots", 2)


def test_what_costs_quality_is_given_up_only_where_it_is_allowed() -> None:
    small = MachineMemory(devices=(), host=int(5.5 * GIB))
    wanted = replace(HOST, image_tokens=1024)
    refused = fit(wanted, small, LIMITS, needs)
    assert isinstance(refused, NoFit)
    assert refused.fits_lossy
    (row,) = refused.rows
    assert (row.memory, row.have, row.missing) == ("machine", small.host, row.need - small.host)
    allowed = fit(wanted, small, LIMITS, needs, allow_lossy=True)
    assert isinstance(allowed, Fitted)
    assert [step.rung for step in allowed.steps if step.is_lossy] == [
        "KV cache in q8_0",
        "KV cache in q4_0",
        "fewer image tokens",
        "smaller quantisation",
    ]


def test_where_nothing_is_left_the_table_says_what_is_missing() -> None:
    result = fit(WANTED, gpu(1, host_gib=1), LIMITS, needs, allow_lossy=True)
    assert isinstance(result, NoFit)
    assert not result.fits_lossy
    assert all(isinstance(row, Shortfall) and row.missing > 0 for row in result.rows)
    text_only = replace(HOST, cache_type="q4_0")
    assert rungs(fit(text_only, gpu(0, host_gib=1), LIMITS, needs, allow_lossy=True)) == [
        "smaller ubatch",
        "context down to what the task needs",
        "smaller quantisation",
    ]
    no_gpu = fit(replace(WANTED, gpu_layers=40), MachineMemory(devices=(), host=GIB), LIMITS, needs)
    assert isinstance(no_gpu, NoFit)
    assert no_gpu.settings.gpu_layers == 0


def test_what_may_be_used_leaves_a_reserve() -> None:
    assert usable_device(10 * GIB, 24 * GIB, 16 * GIB) == 7 * GIB
    assert usable_device(GIB // 2, 24 * GIB, 0) == 0
    assert usable_host(10 * GIB, 16 * GIB) == 9 * GIB
    assert usable_host(100 * GIB, 1000 * GIB) == 50 * GIB
    assert usable_host(10 * GIB, None) == 9 * GIB


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 20), st.integers(1, 20), st.integers(256, 8192), st.booleans())
def test_what_is_returned_fits_and_respects_the_limits(
    device_gib: int, host_gib: int, least: int, allow_lossy: bool
) -> None:
    machine = MachineMemory(devices=(device_gib * GIB,), host=host_gib * GIB)
    limits = replace(LIMITS, min_context_tokens=least)
    result = fit(WANTED, machine, limits, needs, allow_lossy=allow_lossy)
    lossy = [step.is_lossy for step in result.steps]
    assert lossy == sorted(lossy)
    assert allow_lossy or not any(lossy)
    assert result.settings.context_tokens >= least
    if isinstance(result, Fitted):
        assert machine.holds(needs(result.settings).with_margin, result.settings)
    else:
        assert result.rows
