"""A load that does not fit is made smaller by the ladder, and each step is recorded; llama.cpp's own parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlmhyperbench.data.load_fitting import LoadLadder
from vlmhyperbench.domain.fallbacks import GIB, MachineMemory
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonObject
from vlmhyperbench_tiny_doc_vlm import path

MIB = 2**20
WANTED: JsonObject = {"n_ctx": 65_536, "parallel": 8, "cache_type_k": "f16", "cache_type_v": "f16"}
"""384 MiB of cache: 48 MiB a slot."""


def ladder(host: float, *, allow_lossy: bool = False) -> LoadLadder:
    weights = str(Path(path("tiny-doc-vlm-f16.gguf", "0.2")))
    request = LoadRequest(model="m", backend_class="llamacpp", files={"weights": weights}, engine_params=WANTED)
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
    with pytest.raises(InvalidInput) as refused:
        ladder(10 * MIB).fit()
    assert refused.value.code == "does_not_fit"
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
    assert 48 * MIB < least.host < 200 * MIB
