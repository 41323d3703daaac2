"""Options of a run: fewer samples, another dataset, how an endpoint is asked."""

from __future__ import annotations

import pytest

from tests.api.conftest import Served

pytestmark = pytest.mark.anyio


async def test_a_limit_gives_no_warning_and_another_dataset_does(api: Served) -> None:
    run = {"target": {"model": "simulated-instant"}, "task": "document-qa"}
    limited = (await api.http.post("/runs", json={"run": {**run, "limit": 3}})).json()
    assert (limited["spec"]["dataset"]["name"], limited["spec"]["dataset"]["limit"]) == ("synthetic-documents", 3)
    assert limited["warnings"] == []
    swapped = (await api.http.post("/runs", json={"run": {**run, "dataset": "digits"}})).json()
    assert [name in swapped["warnings"][0] for name in ("'digits'", "'synthetic-documents'")] == [True, True]
    matrix = {"matrix": {"targets": [run["target"]], "tasks": ["document-qa"]}, "defaults": {"dataset": "digits"}}
    experiment = (await api.http.post("/experiments", json={"experiment": matrix})).json()
    assert experiment["warnings"] == swapped["warnings"]


async def test_wrong_options_of_an_endpoint_are_refused_at_submission(api: Served) -> None:
    target = {"endpoint": "http://127.0.0.1:9/v1", "model_name": "Qwen/Qwen2.5-VL-7B-Instruct"}
    wrong = {"headers": {"Authorization": "Bearer sk-1"}, "extra_body": {"model": "other"}, "omit": ["messages"]}
    run = {"target": {**target, "engine_params": wrong}, "task": "document-qa"}
    answer = await api.http.post("/runs", json={"run": run})
    assert answer.status_code == 422
    assert {error["field"] for error in answer.json()["errors"]} == {
        "target.engine_params.headers.Authorization",
        "target.engine_params.extra_body.model",
        "target.engine_params.omit",
    }
    assert "sk-1" not in answer.text
    right = {"headers": {"X-Title": "a bench"}, "max_tokens_field": "max_completion_tokens"}
    answer = await api.http.post("/runs", json={"run": {**run, "target": {**target, "engine_params": right}}})
    assert answer.json()["spec"]["target"]["engine_params"] == right


async def test_the_axes_of_an_experiment_are_the_numbers_in_which_its_runs_differ(api: Served) -> None:
    scenarios = [{"name": "server", "arrivals": {"rate_per_s": rate}, "requests": 4} for rate in (4, 1)]
    matrix = {"targets": [{"model": "simulated-instant"}], "tasks": ["document-qa"], "scenarios": scenarios}
    experiment = (await api.http.post("/experiments", json={"experiment": {"matrix": matrix}})).json()
    axes = (await api.http.get(f"/experiments/{experiment['id']}/axes")).json()["axes"]
    assert axes == [{"column": "spec.scenario.arrivals.rate_per_s", "values": [1.0, 4.0]}]
    points = {"columns": axes[0]["column"], "where": f"experiment_id={experiment['id']}"}
    found = (await api.http.get("/points", params=points)).json()["points"]
    assert sorted(point["values"][0] for point in found) == [1.0, 4.0]
    assert (await api.http.get(f"/experiments/{experiment['id'][:-4]}0000/axes")).status_code == 404
