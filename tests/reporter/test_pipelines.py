"""The peak memory of the models of a pipeline, by what claims measured of each alone."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.needs import UNKNOWN, MemoryNeed
from vlmhyperbench.domain.targets import EndpointTarget, ModelTarget
from vlmhyperbench_reporter.pipelines import peak_on
from vlmhyperbench_sdk.types import JsonObject

GPU: JsonObject = {"devices": [{"kind": "gpu", "name": "H100", "memory_bytes": 80}]}
MODEL = ModelTarget(model="m", version="1", backend="simulated", backend_class="simulated")


@pytest.mark.parametrize(
    ("peaks", "params", "peak"),
    [
        ({"H100": 7, "cpu": 9, "A100": 8}, {}, 7),
        ({"H100": 7}, {"tensor_parallel": 2}, 14),
        ({"cpu": 9}, {}, None),  # the memory of the engine's process says nothing about the accelerator
        ({}, {}, None),
    ],
)
def test_the_peak_is_what_was_measured_on_such_a_device(
    peaks: dict[str, int], params: JsonObject, peak: int | None
) -> None:
    target = MODEL.model_copy(update={"engine_params": params})
    assert peak_on([GPU], MemoryNeed(peaks=peaks), target) == peak


def test_the_peak_of_an_endpoint_is_unknown() -> None:
    assert peak_on([GPU], UNKNOWN, EndpointTarget(endpoint="http://a.example/v1", model_name="m")) is None
