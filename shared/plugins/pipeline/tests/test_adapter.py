"""The adapter of a served pipeline: how its process is started, and what of a request it hands on."""

from __future__ import annotations

import pytest

from vlmhyperbench_pipeline.adapter import ServedPipeline
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.types import JsonValue

ASKED: dict[str, JsonValue] = {"model": "p", "messages": [{"role": "user", "content": "?"}], "top_k": 3}


def load(**changes: JsonValue) -> LoadRequest:
    return LoadRequest(model="p", backend_class="pipeline", files={"pipeline": "/plan.json"}, engine_params=changes)


def test_its_process_gets_the_plan_and_listens_where_it_should() -> None:
    launch = ServedPipeline().plan_engine(load(), port=7, python="python", host="127.0.0.2")
    assert isinstance(launch, EngineLaunch)
    assert launch.argv[3:] == ("/plan.json", "--host", "127.0.0.2", "--port", "7")
    assert launch.url == "http://127.0.0.2:7"


def test_a_load_without_a_plan_or_with_parameters_is_refused() -> None:
    with pytest.raises(NotFound):
        ServedPipeline().plan_engine(LoadRequest(model="p", backend_class="pipeline"), port=7, python="python")
    with pytest.raises(InvalidInput, match="n_ctx"):
        ServedPipeline().plan_engine(load(n_ctx=1), port=7, python="python")


@pytest.mark.parametrize("field", ["logprobs", "ignore_eos", "frequency_penalty", "tools"])
def test_what_no_model_would_be_told_is_refused_by_name(field: str) -> None:
    values: dict[str, JsonValue] = {"frequency_penalty": 1, "tools": []}
    value = values.get(field, True)
    with pytest.raises(InvalidInput, match=field) as refused:
        ServedPipeline().to_engine({**ASKED, field: value})
    assert refused.value.code == "unsupported"


def test_the_rest_is_handed_on_as_it_is() -> None:
    assert ServedPipeline().to_engine(ASKED) == ASKED
    estimate = ServedPipeline().estimate_memory(load())
    assert estimate is not None
    assert (estimate.device_bytes, estimate.source) == (0, "measured")
