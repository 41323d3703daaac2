from __future__ import annotations

from uuid import uuid4

import pytest

from tests.api.conftest import Served
from tests.support.builders import add_run, run_spec
from vlmhyperbench.domain.scenarios import ScenarioSpec

pytestmark = pytest.mark.anyio


async def _add(api: Served, **changes: object) -> str:
    async with api.database.transaction() as session:
        return str((await add_run(session, spec=run_spec().model_copy(update=changes))).id)


async def test_the_requests_in_flight_of_a_run_are_changed_with_who_and_when(api: Served) -> None:
    run_id = await _add(api)
    before = (await api.http.get(f"/runs/{run_id}")).json()
    assert (before["in_flight"], before["can_retune"], before["retunes"]) == (4, True, [])
    answer = await api.http.post(f"/runs/{run_id}/retune", json={"in_flight": 32})
    changed = answer.json()
    assert (answer.status_code, changed["in_flight"], changed["event_seq"]) == (200, 32, 2)
    [change] = changed["retunes"]
    assert (change["before"], change["in_flight"], change["by"]) == (4, 32, "tester-default")
    assert (await api.http.get(f"/runs/{run_id}/manifest")).json()["retunes"] == [change]


async def test_a_timed_scenario_is_refused_with_the_reason(api: Served) -> None:
    run_id = await _add(api, scenario=ScenarioSpec(name="single", kind="single_stream", requests=2))
    answer = await api.http.post(f"/runs/{run_id}/retune", json={"in_flight": 32})
    assert (answer.status_code, answer.json()["code"]) == (409, "timed_phase")
    assert (await api.http.get(f"/runs/{run_id}")).json()["can_retune"] is False


@pytest.mark.parametrize("body", [{}, {"in_flight": 0}, {"in_flight": 4097}, {"in_flight": 2.5}, {"in_flight": "4"}])
async def test_a_number_that_no_run_may_have_is_refused(api: Served, body: dict[str, object]) -> None:
    answer = await api.http.post(f"/runs/{await _add(api)}/retune", json=body)
    assert answer.status_code == 422


async def test_an_unknown_run_and_a_key_that_may_only_read_are_refused(api: Served) -> None:
    body = {"in_flight": 8}
    assert (await api.http.post(f"/runs/{uuid4()}/retune", json=body)).status_code == 404
    key = await api.add_key("run:read")
    path = f"/runs/{await _add(api)}/retune"
    assert (await api.http.post(path, json=body, headers={"X-API-Key": key})).status_code == 403
