"""`/pipelines/sessions`: questions to pipelines over REST, by the asynchronous client and by hand."""

from __future__ import annotations

import base64
import io
import json
import secrets
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from PIL import Image
from sqlalchemy import insert, update

from tests.api.conftest import Served
from tests.support import gguf
from tests.support.builders import add_shard, chunk_frame, new_fact, store_chunk
from tests.support.wording import Wording
from vlmhyperbench.client import AsyncClient
from vlmhyperbench.db import jobs, runs
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import ClaimRow, RunRow
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.wire.sessions import SessionCreate, SessionRerun

pytestmark = pytest.mark.anyio

HEADER = {"schema": "vlmhb/answers/v1", "format": "question", "tool": None, "model": None, "task": None, "decoding": {}}
QUESTION = {"key": "question", "question": "Which?", "references": [], "text": None, "error": "it is asked"}
FILE = "".join(json.dumps(line) + "\n" for line in (HEADER, QUESTION)).encode()
READERS: dict[str, Any] = {
    "name": "readers",
    "stages": [
        {
            "id": "read",
            "type": "multi",
            "models": ["simulated-instant", {"model": "simulated-instant", "weight": 2}],
            "aggregation": {"type": "vote"},
        },
        {"id": "write", "type": "single", "model": "simulated-instant", "input_from": "read"},
    ],
}
NAMES = ["simulated-instant #1", "simulated-instant #2", "simulated-instant"]


@pytest.fixture(autouse=True)
async def project(api: Served) -> str:
    """Make the test's requests those of a project of its own, which has the pipeline."""
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    made = await api.http.post("/registry/pipelines", json=READERS)
    assert made.status_code == 201, made.text
    return name


@pytest.fixture
async def client(api: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(api.url, api.http.headers["X-API-Key"]) as opened:
        yield opened


async def ask(client: AsyncClient, pipeline: str = "readers", **changes: Any) -> UUID:
    uploaded = await client.upload_answers(FILE)
    created = await client.sessions.ask(SessionCreate(pipeline=pipeline, question=uploaded.sha256, **changes))
    return created.id


async def test_a_session_is_asked_listed_and_shows_each_step_that_waits(client: AsyncClient) -> None:
    asked = await ask(client, name="mine")
    session = await client.sessions.get(asked)
    assert (session.pipeline, session.name, session.state) == ("readers", "mine", "QUEUED")
    assert [(step.no, step.stage, step.model, step.state) for step in session.steps] == [
        (0, "read", NAMES[0], "waiting"),
        (1, "read", NAMES[1], "waiting"),
        (2, "write", NAMES[2], "waiting"),
    ]
    assert (session.answer, session.loads) == (None, [])
    assert [step.no for step in (await client.sessions.get(asked, without={0, 2})).steps] == [1]
    assert [each.id for each in (await client.sessions.list()).items] == [asked]


def question(*images: bytes, lines: int = 1) -> bytes:
    """Return a file with a question about images, as many times as it has lines."""
    urls = [f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in images]
    rows = [{**QUESTION, "key": f"q{no}", "image_urls": urls} for no in range(lines)]
    return "".join(json.dumps(line) + "\n" for line in (HEADER, *rows)).encode()


def picture(kind: str) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (8, 8), "blue").save(written, kind)
    return written.getvalue()


@pytest.mark.parametrize(
    ("file", "code"),
    [
        *((question(picture("PNG"), picture(kind)), "invalid_image") for kind in ("TIFF", "GIF", "BMP")),
        (question(picture("PNG")[:-20]), "invalid_image"),
        (question(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), "invalid_image"),
        (question(picture("PNG"), lines=2), "one_question"),
    ],
    ids=["TIFF", "GIF", "BMP", "a broken PNG", "SVG", "two questions"],
)
async def test_a_question_that_no_model_can_be_sent_is_refused_before_a_session_is_made(
    client: AsyncClient, file: bytes, code: str, wording: Wording
) -> None:
    uploaded = await client.upload_answers(file)
    with pytest.raises(InvalidInput) as refused:
        await client.sessions.ask(SessionCreate(pipeline="readers", question=uploaded.sha256))
    assert refused.value.code == code
    wording(refused.value)
    assert (await client.sessions.list()).items == []


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_a_question_about_an_image_is_asked(client: AsyncClient, kind: str) -> None:
    uploaded = await client.upload_answers(question(picture(kind)))
    assert await client.sessions.ask(SessionCreate(pipeline="readers", question=uploaded.sha256))


async def test_images_are_refused_where_a_model_without_projector_would_be_asked_about_them(
    api: Served, client: AsyncClient, tmp_path: Path, wording: Wording
) -> None:
    weights = tmp_path / "blind.gguf"
    weights.write_bytes(gguf.whole())
    entry = {
        "name": "blind",
        "backends": ["llamacpp"],
        "path": str(tmp_path),
        "files": {"weights": weights.name},
        "sha256": {"weights": file_sha256(weights)},
    }
    made = await api.http.post("/registry/models", json=entry)
    assert made.status_code == 201, made.text
    stage = {**READERS["stages"][0], "models": ["simulated-instant", "blind"]}
    for name, stages in (("sees", [stage]), ("reads", [{**stage, "images": False}])):
        made = await api.http.post("/registry/pipelines", json={"name": name, "stages": stages})
        assert made.status_code == 201, made.text
    about_image = await client.upload_answers(question(picture("PNG")))
    with pytest.raises(InvalidInput) as refused:
        await client.sessions.ask(SessionCreate(pipeline="sees", question=about_image.sha256))
    wording(refused.value)
    assert await client.sessions.ask(SessionCreate(pipeline="reads", question=about_image.sha256))
    assert await ask(client, "sees")


async def test_pages_of_sessions_are_newest_first(client: AsyncClient) -> None:
    asked = [await ask(client) for _ in range(3)]
    first = await client.sessions.list(limit=2)
    second = await client.sessions.list(limit=2, cursor=first.next)
    assert [each.id for page in (first, second) for each in page.items] == asked[::-1]


async def test_sessions_are_listed_of_one_pipeline_and_in_one_state(api: Served, client: AsyncClient) -> None:
    made = await api.http.post("/registry/pipelines", json={**READERS, "name": "others"})
    assert made.status_code == 201, made.text
    mine, other = await ask(client), await ask(client, "others")
    for given, listed in (
        ({"pipeline": "readers"}, [mine]),
        ({"pipeline": "others"}, [other]),
        ({"state": "queued"}, [other, mine]),
        ({"pipeline": "readers", "state": "QUEUED"}, [mine]),
        ({"state": "failed"}, []),
        ({"pipeline": "nothing"}, []),
    ):
        assert [each.id for each in (await client.sessions.list(**given)).items] == listed, given


async def test_sessions_are_in_a_list_of_runs_unless_it_is_of_one_kind(api: Served, client: AsyncClient) -> None:
    session = await ask(client)
    run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()["id"]
    listed = {kind: {str(each.id) for each in (await client.runs.list(kind=kind)).items} for kind in ("run", "session")}
    assert listed == {"run": {run}, "session": {str(session)}}
    assert {str(each.id) for each in (await client.runs.list()).items} == {run, str(session)}
    assert (await api.http.get("/runs", params={"kind": "judge"})).status_code == 422


async def test_another_project_sees_no_session_and_may_not_ask(api: Served, client: AsyncClient) -> None:
    asked = await ask(client)
    async with AsyncClient(api.url, await api.add_key(project="other")) as stranger:
        with pytest.raises(NotFound):
            await stranger.sessions.get(asked)
        assert (await stranger.sessions.list()).items == []
    reader = {"X-API-Key": await api.add_key("run:read")}
    body = {"pipeline": "readers", "question": "0" * 64}
    assert (await api.http.post("/pipelines/sessions", json=body, headers=reader)).status_code == 403


async def test_what_cannot_be_asked_is_refused(api: Served, client: AsyncClient) -> None:
    with pytest.raises(InvalidInput):
        await ask(client, "no-such")
    never_sent = await api.http.post("/pipelines/sessions", json={"pipeline": "readers", "question": "0" * 64})
    assert never_sent.status_code in {404, 422}, never_sent.text
    for body in ({}, {"pipeline": "readers"}, {"pipeline": "readers", "question": "x"}):
        assert (await api.http.post("/pipelines/sessions", json=body)).status_code == 422
    unknown = await api.http.get(f"/pipelines/sessions/{uuid4()}")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()["id"]
    assert (await api.http.get(f"/pipelines/sessions/{run}")).status_code == 404
    assert (await api.http.get(f"/pipelines/sessions/{run}", params={"without": 5000})).status_code == 422


async def test_a_stage_is_asked_again_only_of_a_session_that_has_ended(client: AsyncClient) -> None:
    asked = await ask(client)
    with pytest.raises(Conflict):
        await client.sessions.ask_again(asked, SessionRerun(stage="read"))


async def test_an_ended_session_is_exported_to_its_project_alone(
    api: Served, client: AsyncClient, wording: Wording
) -> None:
    asked = await ask(client)
    with pytest.raises(Conflict) as refused:
        await client.sessions.export(asked)
    assert refused.value.code == "run_open"
    async with api.database.transaction() as session:
        await session.execute(update(table_of(RunRow)).values(state="CANCELLED").where(table_of(RunRow).c.id == asked))
    answer = await api.http.get(f"/pipelines/sessions/{asked}/export")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(await client.sessions.export(str(asked)[:13]))) as archive:
        files = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    meta = json.loads(files["session_meta.json"])
    assert (meta["status"], meta["sessions"]) == ("CANCELLED", [str(asked)])
    assert json.loads(files["config_snapshot.json"])["target"]["pipeline"] == "readers"
    assert {name for name in files if name.startswith("read_v1/members/")} == {
        f"read_v1/members/{name.replace(' #', '-')}.json" for name in NAMES[:2]
    }
    assert files["final.txt"] == b""
    stranger = {"X-API-Key": await api.add_key(project="other")}
    assert (await api.http.get(f"/pipelines/sessions/{asked}/export", headers=stranger)).status_code == 404
    blind = {"X-API-Key": await api.add_key("worker:read")}
    assert (await api.http.get(f"/pipelines/sessions/{asked}/export", headers=blind)).status_code == 403
    unknown = uuid4()
    with pytest.raises(NotFound) as missing:
        await client.sessions.export(unknown)
    wording(missing.value, SESSION=unknown)


async def test_a_session_shows_what_its_models_answered_and_what_their_loads_gave_up(
    api: Served, client: AsyncClient, tmp_path: Path
) -> None:
    asked = await ask(client)
    params = {"stage": "read", "role": "member", "member": NAMES[0]}
    step = {"rung": "parallel", "is_lossy": False}
    async with api.database.transaction() as session:
        run = await runs.get(session, asked)
        shard = await add_shard(session, run=run, phase=1, kind="member", step=StepKind.MEMBER, params=params, end=1)
        job = await jobs.get(session, shard.job_id)
        assert job is not None
        await session.execute(
            insert(table_of(ClaimRow)).values(
                id=shard.claim_id, job_id=shard.job_id, run_id=asked, attempt_id=job.attempt_id,
                worker_id=job.worker_id, host="h", boot_id=uuid4(), machine={}, packages={},
                environment={"fallbacks": [step]},
            )
        )  # fmt: skip
    running = (await client.sessions.get(asked)).steps
    assert [each.state for each in running] == ["running", "waiting", "waiting"]
    chunk = store_chunk(api.storage, tmp_path, chunk_frame(["blue"]), run_id=asked, claim_id=shard.claim_id, no=0)
    async with api.database.transaction() as session:
        await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=[new_fact(0)])
    found = await client.sessions.get(asked)
    assert [(each.state, each.text) for each in found.steps] == [("done", "blue"), ("waiting", None), ("waiting", None)]
    [load] = found.loads
    assert (load.stage, load.role, load.model, load.fallbacks) == ("read", "member", NAMES[0], [step])


async def test_everything_that_is_wrong_with_a_pipeline_is_said_at_once(api: Served, wording: Wording) -> None:
    stages = [
        {"id": "read", "type": "multi", "models": ["no-such", "simulated-instant"], "aggregation": {"type": "vot"}},
        {"id": "read", "type": "single", "model": {"pipeline": "nowhere"}, "input_from": "later"},
        {"id": "turn", "type": "single", "model": "simulated-instant", "input_from": "turn"},
        {"id": "last", "type": "single", "model": {"endpoint": "ftp://x", "model_name": "m"}, "input_from": "turn"},
    ]
    refused = await api.http.post("/registry/pipelines", json={"name": "wrong", "stages": stages})
    assert refused.status_code == 422, refused.text
    body = refused.json()
    fields = [error["field"] for error in body["errors"]]
    assert sorted(fields) == [
        "stages.0.aggregation.type",
        "stages.0.models.0",
        "stages.1.id",
        "stages.1.input_from",
        "stages.1.model.pipeline",
        "stages.2.input_from",
        "stages.3.model.endpoint",
    ]
    assert (await api.http.get("/registry/pipelines/wrong")).status_code == 404
    for error in sorted(body["errors"], key=lambda error: str(error["field"])):
        wording(error["message"])
