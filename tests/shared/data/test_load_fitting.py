"""A load that does not fit is made smaller by the ladder, and each step is recorded; llama.cpp's own parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlmhyperbench.data.load_fitting import LoadLadder, Substitute
from vlmhyperbench.domain.fallbacks import GIB, MachineMemory, TaskTokens
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.errors import DoesNotFit
from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonObject
from vlmhyperbench_tiny_doc_vlm import path

MIB = 2**20
WEIGHTS = str(Path(path("tiny-doc-vlm-f16.gguf", "0.2")))
WANTED: JsonObject = {"n_ctx": 65_536, "parallel": 8, "cache_type_k": "f16", "cache_type_v": "f16"}
"""384 MiB of cache: 48 MiB a slot."""


def ladder(host: float, *, allow_lossy: bool = False) -> LoadLadder:
    request = LoadRequest(model="m", backend_class="llamacpp", files={"weights": WEIGHTS}, engine_params=WANTED)
    machine = MachineMemory(devices=(), host=int(host))
    return LoadLadder(LlamaCpp(), request, lambda: machine, allow_lossy=allow_lossy)


def test_what_fits_is_loaded_as_it_is_wanted() -> None:
    fitted = ladder(8 * GIB).fit()
    assert (fitted.engine_params, fitted.steps) == (WANTED, ())


def test_slots_are_given_up_first_and_recorded() -> None:
    fitted = ladder(650 * MIB).fit()
    assert fitted.engine_params == {**WANTED, "parallel": fitted.settings.parallel if fitted.settings else None}
    assert [(step.rung, step.is_lossy) for step in fitted.steps] == [("fewer parallel slots", False)]
    (recorded,) = fitted.recorded
    assert isinstance(recorded, dict)
    assert recorded["before"] == "parallel=8"


def test_a_smaller_cache_is_only_taken_where_it_is_allowed() -> None:
    narrow = 400 * MIB
    with pytest.raises(DoesNotFit) as refused:
        ladder(10 * MIB).fit()
    assert refused.value.code == "does_not_fit"
    (row,) = refused.value.facts["rows"]
    assert (row["memory"], row["have_bytes"]) == ("machine", 10 * MIB)
    assert row["shortfall_bytes"] == row["need_bytes"] - row["have_bytes"] > 0
    assert {"name": "n_ctx", "to": None, "fixes": False} in refused.value.facts["knobs"]
    lossless = ladder(narrow).fit()
    assert not any(step.is_lossy for step in lossless.steps)
    lossy = ladder(345 * MIB, allow_lossy=True).fit()
    assert lossy.engine_params["cache_type_k"] == lossy.engine_params["cache_type_v"] == "q8_0"
    assert lossy.steps[-1].is_lossy


def test_after_an_out_of_memory_the_next_rung_is_taken_once_more_until_none_is_left() -> None:
    found = ladder(8 * GIB)
    first = found.fit()
    second = found.after_out_of_memory(first)
    assert second is not None
    assert second.steps[-1].rung == "fewer parallel slots"
    assert second.engine_params["parallel"] == 7
    last = second
    for _ in range(50):
        lower = found.after_out_of_memory(last)
        if lower is None:
            break
        last = lower
    assert (last.engine_params["parallel"], last.engine_params["n_ubatch"]) == (1, 64)


def test_the_smallest_load_needs_less_than_the_wanted_one() -> None:
    least = ladder(0).smallest()
    assert least is not None
    assert 35 * MIB < least.host < 48 * MIB


def test_the_context_is_cut_to_what_the_task_needs_and_no_further() -> None:
    task = TaskTokens(text=2000, images=0)
    request = LoadRequest(model="m", backend_class="llamacpp", files={"weights": WEIGHTS}, engine_params=WANTED)
    found = LoadLadder(LlamaCpp(), request, lambda: MachineMemory(devices=(), host=330 * MIB), task=task)
    fitted = found.fit()
    assert fitted.settings is not None
    assert 2048 <= fitted.settings.context_tokens < 65_536
    assert fitted.steps[-1].rung == "context down to what the task needs"
    assert not fitted.is_lossy
    longer = LoadLadder(
        LlamaCpp(), request, lambda: MachineMemory(devices=(), host=GIB), task=TaskTokens(text=60_000, images=0)
    )
    assert found.holds_task(fitted)
    assert not longer.holds_task(fitted)
    assert longer.limits.least_context(fitted.settings) == 60_160


def test_the_context_for_images_of_unknown_size_is_not_cut() -> None:
    request = LoadRequest(model="m", backend_class="llamacpp", files={"weights": WEIGHTS}, engine_params=WANTED)
    unknown = LoadLadder(
        LlamaCpp(), request, lambda: MachineMemory(devices=(), host=0), task=TaskTokens(text=2000, images=1)
    )
    assert unknown.limits.min_context_tokens == 65_536
    files = {"weights": WEIGHTS, "mmproj": str(Path(path("tiny-doc-vlm-mmproj-f16.gguf", "0.2")))}
    request = LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params=WANTED)
    known = LoadLadder(
        LlamaCpp(), request, lambda: MachineMemory(devices=(), host=0), task=TaskTokens(text=2000, images=2)
    )
    assert known.limits.min_context_tokens == 2000
    assert known.limits.images == 2


def test_the_projector_goes_to_the_processor_before_layers_do() -> None:
    files = {"weights": WEIGHTS, "mmproj": str(Path(path("tiny-doc-vlm-mmproj-f16.gguf", "0.2")))}
    params: JsonObject = {"n_ctx": 256, "parallel": 1, "n_ubatch": 64, "n_gpu_layers": -1}
    request = LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params=params)
    whole = LlamaCpp().estimate_whole(request)
    assert whole is not None
    without = whole.parts["vision tower"]
    device = round((whole.device_bytes - without) * 1.1) + 256 * MIB
    found = LoadLadder(LlamaCpp(), request, lambda: MachineMemory(devices=(device,), host=8 * GIB))
    fitted = found.fit()
    assert [step.rung for step in fitted.steps] == ["projector on the CPU"]
    assert fitted.engine_params == {**params, "mmproj_offload": "off"}


def test_a_load_that_needs_both_accelerators_gives_up_nothing_for_them() -> None:
    params: JsonObject = {**WANTED, "n_gpu_layers": -1}
    request = LoadRequest(model="m", backend_class="llamacpp", files={"weights": WEIGHTS}, engine_params=params)
    whole = LlamaCpp().estimate_whole(request)
    assert whole is not None
    each = round(whole.device_bytes / 2 * 1.1) + 257 * MIB
    both = MachineMemory(devices=(each, each), host=8 * GIB)
    assert LoadLadder(LlamaCpp(), request, lambda: both, devices=2).fit().steps == ()
    alone = MachineMemory(devices=(each,), host=8 * GIB)
    assert LoadLadder(LlamaCpp(), request, lambda: alone).fit().steps


def test_a_smaller_quantisation_of_the_model_is_the_last_resort() -> None:
    small = str(Path(path("tiny-doc-vlm-q4_0.gguf", "0.2")))
    target = ModelTarget(model="m-q4", version="1", backend="llamacpp", backend_class="llamacpp", quantization="Q4_0")
    substitute = Substitute(target=target, files={"weights": small})
    params: JsonObject = {"n_ctx": 256, "parallel": 1, "n_ubatch": 64, "cache_type_k": "q4_0", "cache_type_v": "q4_0"}
    request = LoadRequest(model="m", backend_class="llamacpp", files={"weights": WEIGHTS}, engine_params=params)
    whole, quantised = (
        LlamaCpp().estimate_whole(LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params=params))
        for files in ({"weights": WEIGHTS}, {"weights": small})
    )
    assert whole is not None
    assert quantised is not None
    host = round((whole.host_bytes + quantised.host_bytes) / 2 * 1.1) + 256 * MIB
    machine = MachineMemory(devices=(), host=host)
    found = LoadLadder(LlamaCpp(), request, lambda: machine, allow_lossy=True, smaller=[substitute])
    fitted = found.fit()
    assert fitted.substitute == target
    assert (fitted.steps[-1].rung, fitted.steps[-1].after) == ("smaller quantisation", "quantization=Q4_0 (m-q4)")
    assert fitted.is_lossy
