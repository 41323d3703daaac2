"""Rows become a chunk and facts that the table takes, whatever a server wrote into them."""

from __future__ import annotations

from pathlib import Path

import polars
import pytest

from tests.support.builders import SHA, open_shard
from vlmhyperbench.db import facts
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import Database
from vlmhyperbench.facts.sealing import blank_row, seal
from vlmhyperbench.storage import open_storage

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("stop", "stop"),
        ("stop\0", "stop\ufffd"),
        ("\ud83d", "\ufffd"),
        ("x" * 100_000, "x" * 64),
        ("", ""),
        (None, None),
    ],
    ids=["plain", "nul", "half-a-pair", "endless", "empty", "none"],
)
async def test_a_word_of_a_server_spoils_no_chunk(
    database: Database, tmp_path: Path, said: str | None, kept: str | None
) -> None:
    shard = await open_shard(database)
    storage = open_storage(str(tmp_path / "storage"))
    rows = [
        blank_row(phase=1, ordinal=no, sample=no, repeat=0, status="ok", error=None, request_sha256=SHA)
        | {"failure": None, "error_code": None, "tries": 1, "finish_reason": word}
        for no, word in enumerate(("stop", said))
    ]
    rows[1] |= {"failure": "infrastructure", "error_code": said}
    chunk, sealed = seal(storage, rows, run_id=shard.run.id, claim_id=shard.claim_id, phase=1, no=0, folder=tmp_path)
    async with database.transaction() as session:
        appended = await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=sealed)
        assert appended is not None
        assert appended.done == 2
        fact = await facts.get(session, shard.run.id, 1, 1)
    assert fact is not None
    assert (fact.finish_reason, fact.error_code) == (kept, kept)
    stored = polars.read_parquet(tmp_path / "storage" / chunk.storage_key)
    assert stored["finish_reason"].to_list() == ["stop", kept]
