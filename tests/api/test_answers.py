"""Files of answers: validated before they are stored, and visible only to their own project."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.api.conftest import Served
from vlmhyperbench.errors import Damaged
from vlmhyperbench.wire.answers import Answers
from vlmhyperbench_api.answer_files import AnswerFiles

pytestmark = pytest.mark.anyio

HEADER = {"schema": "vlmhb/answers/v1", "format": "lm-eval", "tool": None, "model": "m", "task": None, "decoding": {}}
LINES = [HEADER, {"key": "a", "text": "4", "references": ["4"]}]
CONTENT = "".join(json.dumps(line) + "\n" for line in LINES).encode()
HALF = 30 * 2**20
NDJSON = {"Content-Type": "application/x-ndjson"}


async def test_a_file_is_stored_by_content_hash_and_described(api: Served) -> None:
    first, again = [await api.http.post("/answers", content=CONTENT, headers=NDJSON) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 201)
    result = Answers.model_validate_json(first.content)
    assert (result.answers, result.samples, result.repeats, result.model) == (1, 1, 1, "m")
    assert again.json() == first.json() == (await api.http.get(f"/answers/{result.sha256}")).json()


async def test_another_project_does_not_see_a_file_and_cannot_use_it(api: Served) -> None:
    sha256 = (await api.http.post("/answers", content=CONTENT, headers=NDJSON)).json()["sha256"]
    stranger = {"X-API-Key": await api.add_key(project="other")}
    seen = await api.http.get(f"/answers/{sha256}", headers=stranger)
    never_sent = await api.http.get(f"/answers/{'0' * 64}", headers=stranger)
    assert (
        (seen.status_code, seen.json()["code"])
        == (never_sent.status_code, never_sent.json()["code"])
        == (404, "not_found")
    )
    body = {"answers": sha256, "metrics": ["anls"]}
    assert (await api.http.post("/runs/import", json=body, headers=stranger)).status_code == 422
    assert (await api.http.post("/runs/import", json=body)).status_code == 201


async def test_a_file_is_described_from_its_content_after_a_restart(api: Served, tmp_path: Path) -> None:
    result = Answers.model_validate_json((await api.http.post("/answers", content=CONTENT, headers=NDJSON)).content)
    fresh = AnswerFiles(api.storage)
    assert await fresh.describe("default", result.sha256) == result
    (path,) = (tmp_path / "storage" / "answers").rglob("*.jsonl")
    path.write_bytes(CONTENT + b"\n")
    with pytest.raises(Damaged):
        await AnswerFiles(api.storage).describe("default", result.sha256)


async def test_an_invalid_upload_is_refused(api: Served) -> None:
    reader = {"X-API-Key": await api.add_key("run:read")}
    assert (await api.http.post("/answers", content=CONTENT, headers={**NDJSON, **reader})).status_code == 403
    assert (await api.http.post("/answers", content=CONTENT, headers={**NDJSON, "X-API-Key": "no"})).status_code == 401
    assert (await api.http.post("/answers", json={})).status_code == 415


@pytest.mark.parametrize(
    "value", ["[" * HALF + "]" * HALF, "[" + "[]," * (2 * HALF // 3) + "[]]", "[" + '"",' * (2 * HALF // 3) + "1]"]
)
async def test_a_line_of_60_mib_of_brackets_costs_the_api_no_memory(api: Served, value: str) -> None:
    line = f'{{"key": "b", "text": "a", "metadata": {{"a": {value}}}}}\n'.encode()
    parts = [CONTENT, *(line[at : at + 2**20] for at in range(0, len(line), 2**20))]

    async def sent() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    peak = asyncio.ensure_future(_peak_bytes())
    before = psutil.Process().memory_info().rss
    answer = await api.http.post("/answers", content=sent(), headers=NDJSON)
    peak.cancel()
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert "line:3" in answer.json()["message"]
    with suppress(asyncio.CancelledError):
        await peak
    assert PEAKS.pop() - before < 64 * 2**20


PEAKS: list[int] = []


async def _peak_bytes() -> None:
    """Track the peak memory of this process until it is cancelled."""
    peak = 0
    try:
        while True:
            peak = max(peak, psutil.Process().memory_info().rss)
            await asyncio.sleep(0.01)
    finally:
        PEAKS.append(peak)


async def test_a_file_of_answers_may_be_larger_than_other_bodies(api: Served) -> None:
    long = {"key": "b", "text": "x" * 2**20, "references": ["4"]}
    content = CONTENT + json.dumps(long).encode() + b"\n"
    assert (await api.http.post("/answers", content=content, headers=NDJSON)).status_code == 201
    assert (await api.http.post("/runs/import", content=content)).status_code == 413
