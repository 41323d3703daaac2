from __future__ import annotations

import asyncio

import pytest
import redis.asyncio
from pydantic import SecretStr
from sqlalchemy import text

from tests.api.conftest import Served, serving
from tests.support.processes import eventually
from vlmhyperbench.db import events, jobs
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail

pytestmark = pytest.mark.anyio


async def test_a_submitted_run_has_a_pinned_spec_one_index_job_and_its_event(api: Served) -> None:
    answer = await api.http.post("/runs", json={"run": "simulated-instant", "name": "mine"})
    assert answer.status_code == 201
    run = RunDetail.model_validate_json(answer.content)
    assert (run.name, run.state, run.target, run.done) == ("mine", "QUEUED", "simulated-instant", 0)
    assert isinstance(run.spec, RunSpec)
    assert run.spec_digest == digest_of(run.spec)
    assert [job.kind for job in run.jobs] == ["INDEX"]
    async with api.database.transaction() as session:
        result = await events.after(session, run.id, 0)
    assert [(event.seq, event.type) for event in result] == [(1, "run.queued")]


async def test_a_run_can_be_written_out(api: Served) -> None:
    entry = {"target": {"model": "simulated-instant"}, "task": "synthetic-questions", "description": "mine"}
    answer = await api.http.post("/runs", json={"run": entry})
    assert answer.status_code == 201, answer.text


async def test_the_same_key_and_body_answer_the_same_run(api: Served) -> None:
    first = await api.http.post("/runs", json={"run": "simulated-instant"}, headers={"Idempotency-Key": "k1"})
    again = await api.http.post("/runs", json={"run": "simulated-instant"}, headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]


async def test_the_same_key_with_another_body_is_a_conflict(api: Served) -> None:
    await api.http.post("/runs", json={"run": "simulated-instant"}, headers={"Idempotency-Key": "k2"})
    other = await api.http.post("/runs", json={"run": "simulated"}, headers={"Idempotency-Key": "k2"})
    assert other.status_code == 409
    assert other.json()["code"] == "idempotency_conflict"
    experiment = await api.http.post("/experiments", json={"experiment": "demo"}, headers={"Idempotency-Key": "k2"})
    assert experiment.status_code == 409


async def test_a_key_belongs_to_who_sent_it(api: Served) -> None:
    other = await api.add_key(project="other")
    mine = await api.http.post("/runs", json={"run": "simulated-instant"}, headers={"Idempotency-Key": "k3"})
    theirs = await api.http.post(
        "/runs", json={"run": "simulated-instant"}, headers={"Idempotency-Key": "k3", "X-API-Key": other}
    )
    assert mine.json()["id"] != theirs.json()["id"]


async def test_requests_that_race_with_one_key_create_one_run(api: Served) -> None:
    headers = {"Idempotency-Key": "race"}
    answers = await asyncio.gather(
        *(api.http.post("/runs", json={"run": "simulated-instant"}, headers=headers) for _ in range(5))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1


async def test_a_refused_submission_leaves_nothing_and_its_key_is_free(api: Served) -> None:
    headers = {"Idempotency-Key": "k4"}
    assert (await api.http.post("/runs", json={"run": "no-such-run"}, headers=headers)).status_code == 422
    assert (await api.http.post("/runs", json={"run": "simulated-instant"}, headers=headers)).status_code == 201


async def test_an_experiment_shares_the_index_of_its_runs(api: Served) -> None:
    answer = await api.http.post("/experiments", json={"experiment": "demo"})
    assert answer.status_code == 201
    experiment = ExperimentDetail.model_validate_json(answer.content)
    assert [run.name for run in experiment.runs] == ["tiny-doc-vlm · document-qa", "tiny-doc-vlm-q4 · document-qa"]
    assert experiment.run_states == {"QUEUED": 2}
    async with api.database.transaction() as session:
        own = await jobs.of_experiment(session, experiment.id)
        theirs = [await jobs.of_run(session, run.id) for run in experiment.runs]
    assert [job.kind for job in own] == ["INDEX"]
    assert theirs == [[], []]


async def test_a_submission_wakes_the_scheduler(api: Served, redis_url: str) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as client:

        async def is_woken() -> bool:
            await api.http.post("/runs", json={"run": "simulated-instant"})
            return await client.llen("vlmhb:scheduler.wake") >= 1

        await eventually(is_woken, "the scheduler is woken")  # the bus may lose a wake-up on a busy machine


async def test_a_submission_without_redis_is_accepted(settings: Settings, database: Database) -> None:
    nobody = settings.model_copy(update={"redis_url": SecretStr("redis://127.0.0.1:9/0")})
    async with serving(nobody, database) as api:
        assert (await api.http.get("/ready")).json() == {"status": "ready", "checks": {"database": True, "bus": False}}
        answer = await api.http.post("/runs", json={"run": "simulated-instant"})
        assert answer.status_code == 201


async def test_lists_go_page_by_page_from_the_newest(api: Served) -> None:
    key = await api.add_key(project="paged")
    headers = {"X-API-Key": key}
    names = [f"r{number}" for number in range(5)]
    for name in names:
        await api.http.post("/runs", json={"run": "simulated-instant", "name": name}, headers=headers)
    seen, cursor = [], ""
    while cursor is not None:
        page = (await api.http.get(f"/runs?limit=2&cursor={cursor}", headers=headers)).json()
        seen += [run["name"] for run in page["items"]]
        cursor = page["next"]
    assert seen == list(reversed(names))


async def test_a_second_cancellation_has_no_effect(api: Served) -> None:
    run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()
    first = (await api.http.post(f"/runs/{run['id']}/cancel")).json()
    again = (await api.http.post(f"/runs/{run['id']}/cancel")).json()
    assert first["is_cancelling"]
    assert again["event_seq"] == first["event_seq"] == run["event_seq"] + 1


async def test_a_run_is_paused_and_resumed(api: Served) -> None:
    run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()
    assert (await api.http.post(f"/runs/{run['id']}/pause")).json()["is_paused"]
    assert not (await api.http.post(f"/runs/{run['id']}/resume")).json()["is_paused"]


async def test_cancelling_an_experiment_cancels_its_runs(api: Served) -> None:
    experiment = (await api.http.post("/experiments", json={"experiment": "demo"})).json()
    cancelled = (await api.http.post(f"/experiments/{experiment['id']}/cancel")).json()
    assert cancelled["is_cancelling"]
    assert cancelled["runs"]
    assert all(run["is_cancelling"] for run in cancelled["runs"])


async def test_an_uncommitted_submission_is_not_visible(api: Served) -> None:
    async with api.database.transaction() as session:
        before = (await session.execute(text("SELECT count(*) FROM run"))).scalar_one()
    await api.http.post("/runs", json={"run": {"target": {"model": "nope"}, "task": "nope"}})
    async with api.database.transaction() as session:
        assert (await session.execute(text("SELECT count(*) FROM run"))).scalar_one() == before


async def test_a_rerun_that_cannot_be_scored_is_refused_at_submission(api: Served) -> None:
    run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()
    old = '[{"name": "number", "version": 1, "params": {}}]'
    async with api.database.transaction() as session:
        statement = text(
            "UPDATE run SET state = 'SUCCEEDED', finished_at = now(), "
            "spec = jsonb_set(CAST(spec AS jsonb), '{extractors}', CAST(:old AS jsonb)) WHERE id = :id"
        )
        await session.execute(statement, {"old": old, "id": run["id"]})
    answer = await api.http.post(f"/runs/{run['id']}/rerun", json={})
    assert answer.status_code == 422, answer.text
    assert "'number'" in answer.json()["message"]
    assert "number:2" in answer.json()["cure"]


async def test_an_experiment_is_paused_and_resumed(api: Served) -> None:
    created = (await api.http.post("/experiments", json={"experiment": "demo"})).json()
    assert created["is_paused"] is False
    paused = ExperimentDetail.model_validate_json((await api.http.post(f"/experiments/{created['id']}/pause")).content)
    assert paused.is_paused
    assert [run.is_paused for run in paused.runs] == [True, True]
    listed = (await api.http.get("/experiments")).json()["items"]
    assert [listing["is_paused"] for listing in listed if listing["id"] == created["id"]] == [True]
    one_goes_on = await api.http.post(f"/runs/{paused.runs[0].id}/resume")
    assert one_goes_on.json()["is_paused"] is False
    assert (await api.http.get(f"/experiments/{created['id']}")).json()["is_paused"] is False
    resumed = (await api.http.post(f"/experiments/{created['id']}/resume")).json()
    assert [run["is_paused"] for run in resumed["runs"]] == [False, False]


async def test_states_are_asked_for_in_any_case(api: Served) -> None:
    run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()
    await api.http.post(f"/runs/{run['id']}/cancel")
    for state in ("queued", "QUEUED", "Queued"):
        result = (await api.http.get("/runs", params={"state": state})).json()["items"]
        assert run["id"] in {listing["id"] for listing in result}
    assert (await api.http.get("/runs", params={"state": "quued"})).status_code == 422
    assert (await api.http.get("/results", params={"run_id": run["id"], "status": "OK"})).status_code == 200
    assert (await api.http.get("/experiments", params={"state": "open"})).status_code == 200
    assert (await api.http.get("/registry", params={"kind": "Models"})).json()["items"]


async def test_a_run_shows_what_it_waits_for_in_all_responses(api: Served) -> None:
    created = (await api.http.post("/experiments", json={"experiment": "demo"})).json()
    run = created["runs"][0]["id"]
    listed = (await api.http.get("/runs", params={"experiment_id": created["id"]})).json()["items"]
    detail = (await api.http.get(f"/runs/{run}")).json()
    members = (await api.http.get(f"/experiments/{created['id']}")).json()["runs"]
    for result in (*listed, detail, *members):
        assert result["waits_for"]["code"] == "no_worker"
    assert (await api.http.post(f"/runs/{run}/pause")).status_code == 200
    assert (await api.http.get(f"/runs/{run}")).json()["waits_for"]["code"] == "paused"
    await api.http.post(f"/runs/{run}/cancel")
    assert (await api.http.get(f"/runs/{run}")).json()["waits_for"] is None
